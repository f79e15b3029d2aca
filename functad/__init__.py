"""functad: functional, transform-based automatic differentiation for plain NumPy code."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from functad import errors
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

if _TYPE_CHECKING:
    from functad import nn, optimizers
    from functad.eager.custom import custom_gradient, grad_pass_through, recompute_grad
    from functad.eager.forward_accumulator import ForwardAccumulator
    from functad.eager.functional_call import functional_call, values_of
    from functad.eager.gradient_functions import (
        gradients_function,
        implicit_gradients,
        implicit_value_and_gradients,
        make_vjp,
        value_and_gradients_function,
    )
    from functad.eager.graph import AggregationMethod, gradients, graph, hessians
    from functad.eager.module import Module
    from functad.eager.recording import constant
    from functad.eager.requests import UnconnectedGradients
    from functad.eager.saving import restore, save
    from functad.eager.tape import GradientTape
    from functad.eager.variable import Variable
    from functad.transforms.batch import vmap

__version__ = "0.1.0"

_keep_freed_memory()

_LATER = {
    "AggregationMethod": "functad.eager.graph",
    "ForwardAccumulator": "functad.eager.forward_accumulator",
    "GradientTape": "functad.eager.tape",
    "Module": "functad.eager.module",
    "UnconnectedGradients": "functad.eager.requests",
    "Variable": "functad.eager.variable",
    "compat": "functad.compat",
    "constant": "functad.eager.recording",
    "custom_gradient": "functad.eager.custom",
    "functional_call": "functad.eager.functional_call",
    "grad_pass_through": "functad.eager.custom",
    "gradients": "functad.eager.graph",
    "gradients_function": "functad.eager.gradient_functions",
    "graph": "functad.eager.graph",
    "hessians": "functad.eager.graph",
    "implicit_gradients": "functad.eager.gradient_functions",
    "implicit_value_and_gradients": "functad.eager.gradient_functions",
    "make_vjp": "functad.eager.gradient_functions",
    "nn": "functad.nn",
    "optimizers": "functad.optimizers",
    "recompute_grad": "functad.eager.custom",
    "restore": "functad.eager.saving",
    "save": "functad.eager.saving",
    "value_and_gradients_function": "functad.eager.gradient_functions",
    "values_of": "functad.eager.functional_call",
    "vmap": "functad.transforms.batch",
}
"""Where names are that are imported when they are first asked for, so that `import functad` stays quick."""


def __getattr__(name: str) -> _Any:
    if name not in _LATER:
        raise AttributeError(f"module 'functad' has no attribute {name!r}")
    module = _import_module(_LATER[name])
    found = globals()[name] = module if module.__name__ == f"functad.{name}" else getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "AggregationMethod",
    "ArraySpec",
    "Expressions",
    "ForwardAccumulator",
    "GradientTape",
    "Module",
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
    "functional_call",
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
    "nn",
    "optimizers",
    "recompute_grad",
    "register_tree",
    "restore",
    "save",
    "stop_gradient",
    "strict_derivatives",
    "tree_map",
    "value_and_grad",
    "value_and_gradients_function",
    "values_of",
    "vjp",
    "vmap",
]
