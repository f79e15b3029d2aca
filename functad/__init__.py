"""functad: functional, transform-based automatic differentiation for plain NumPy code."""

import typing as _typing
from importlib import import_module as _import_module

from functad import errors
from functad.eager.custom import custom_gradient, grad_pass_through, recompute_grad
from functad.eager.forward_accumulator import ForwardAccumulator
from functad.eager.gradient_functions import (
    gradients_function,
    implicit_gradients,
    implicit_value_and_gradients,
    make_vjp,
    value_and_gradients_function,
)
from functad.eager.graph import AggregationMethod, gradients, graph, hessians
from functad.eager.recording import constant
from functad.eager.tape import GradientTape, UnconnectedGradients
from functad.eager.variable import Variable
from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.coverage import coverage
from functad.tracing.allocation import keep_freed_memory as _keep_freed_memory
from functad.tracing.tensor import Tensor
from functad.transforms.abstract import eval_shape, make_expressions
from functad.transforms.explain import explain
from functad.transforms.forward import jvp
from functad.transforms.gradient import grad, value_and_grad, vjp
from functad.transforms.jacobian import jacobian
from functad.transforms.nans import debug_nans
from functad.transforms.stop import stop_gradient
from functad.transforms.strict import strict_derivatives
from functad.trees import register_tree, tree_map

if _typing.TYPE_CHECKING:
    from functad import optimizers as optimizers
else:

    def __getattr__(name: str) -> object:
        """Import what is public but not needed by every program, when it is first asked for."""
        if name == "optimizers":
            return _import_module("functad.optimizers")
        raise AttributeError(f"module 'functad' has no attribute {name!r}")


__version__ = "0.1.0"

_keep_freed_memory()

__all__ = [
    "AggregationMethod",
    "ArraySpec",
    "Expressions",
    "ForwardAccumulator",
    "GradientTape",
    "Tensor",
    "UnconnectedGradients",
    "Variable",
    "constant",
    "coverage",
    "custom_gradient",
    "debug_nans",
    "errors",
    "eval_shape",
    "explain",
    "grad",
    "grad_pass_through",
    "gradients",
    "gradients_function",
    "graph",
    "hessians",
    "implicit_gradients",
    "implicit_value_and_gradients",
    "jacobian",
    "jvp",
    "make_expressions",
    "make_vjp",
    "recompute_grad",
    "register_tree",
    "stop_gradient",
    "strict_derivatives",
    "tree_map",
    "value_and_grad",
    "value_and_gradients_function",
    "vjp",
]
