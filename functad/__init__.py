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
from functad.transforms.nans import debug_nans
from functad.transforms.stop import stop_gradient
from functad.transforms.strict import strict_derivatives
from functad.trees import (
    register_tree,
    static_field,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

if _TYPE_CHECKING:
    from functad import nn, optimize, optimizers
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
    from functad.transforms.jacobian import jacfwd, jacobian, jacrev, value_and_jacobian
    from functad.transforms.linear import linear_transpose, linearize
    from functad.transforms.pointwise import elementwise_grad
    from functad.transforms.ravel import ravel
    from functad.transforms.second_order import (
        divergence,
        gauss_newton_product,
        hessian,
        hessian_diagonal,
        hvp,
        laplacian,
        value_grad_and_hessian,
    )
    from functad.transforms.taylor import deriv, taylor

__version__ = "0.1.0"

_keep_freed_memory()

_LATER = {
    "AggregationMethod": "functad.eager.graph",
    "compat": "functad.compat",
    "constant": "functad.eager.recording",
    "custom_gradient": "functad.eager.custom",
    "deriv": "functad.transforms.taylor",
    "divergence": "functad.transforms.second_order",
    "elementwise_grad": "functad.transforms.pointwise",
    "ForwardAccumulator": "functad.eager.forward_accumulator",
    "functional_call": "functad.eager.functional_call",
    "gauss_newton_product": "functad.transforms.second_order",
    "grad_pass_through": "functad.eager.custom",
    "gradients": "functad.eager.graph",
    "gradients_function": "functad.eager.gradient_functions",
    "GradientTape": "functad.eager.tape",
    "graph": "functad.eager.graph",
    "hessian": "functad.transforms.second_order",
    "hessian_diagonal": "functad.transforms.second_order",
    "hessians": "functad.eager.graph",
    "hvp": "functad.transforms.second_order",
    "implicit_gradients": "functad.eager.gradient_functions",
    "implicit_value_and_gradients": "functad.eager.gradient_functions",
    "jacfwd": "functad.transforms.jacobian",
    "jacobian": "functad.transforms.jacobian",
    "jacrev": "functad.transforms.jacobian",
    "laplacian": "functad.transforms.second_order",
    "linear_transpose": "functad.transforms.linear",
    "linearize": "functad.transforms.linear",
    "make_vjp": "functad.eager.gradient_functions",
    "Module": "functad.eager.module",
    "nn": "functad.nn",
    "optimize": "functad.optimize",
    "optimizers": "functad.optimizers",
    "ravel": "functad.transforms.ravel",
    "recompute_grad": "functad.eager.custom",
    "restore": "functad.eager.saving",
    "save": "functad.eager.saving",
    "taylor": "functad.transforms.taylor",
    "UnconnectedGradients": "functad.eager.requests",
    "value_and_gradients_function": "functad.eager.gradient_functions",
    "value_and_jacobian": "functad.transforms.jacobian",
    "value_grad_and_hessian": "functad.transforms.second_order",
    "values_of": "functad.eager.functional_call",
    "Variable": "functad.eager.variable",
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
    "deriv",
    "divergence",
    "elementwise_grad",
    "errors",
    "eval_shape",
    "explain",
    "functional_call",
    "gauss_newton_product",
    "grad",
    "grad_pass_through",
    "gradients",
    "gradients_function",
    "graph",
    "hessian",
    "hessian_diagonal",
    "hessians",
    "hvp",
    "implicit_gradients",
    "implicit_value_and_gradients",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "laplacian",
    "linear_transpose",
    "linearize",
    "make_expressions",
    "make_vjp",
    "nn",
    "optimize",
    "optimizers",
    "ravel",
    "recompute_grad",
    "register_tree",
    "restore",
    "save",
    "static_field",
    "stop_gradient",
    "strict_derivatives",
    "taylor",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_structure",
    "tree_unflatten",
    "value_and_grad",
    "value_and_gradients_function",
    "value_and_jacobian",
    "value_grad_and_hessian",
    "values_of",
    "vjp",
    "vmap",
]
