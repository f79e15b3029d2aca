"""functad: functional, transform-based automatic differentiation for plain NumPy code."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from functad import errors
from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec
from functad.tracing.tensor import Tensor
from functad.transforms.abstract import eval_shape, make_expressions
from functad.transforms.forward import jvp
from functad.transforms.gradient import grad, value_and_grad, vjp
from functad.transforms.stop import stop_gradient
from functad.tree_functions import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten
from functad.trees import register_tree, static_field

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
    from functad.primitives.coverage import coverage
    from functad.transforms.batch import vmap
    from functad.transforms.checkpoint import checkpoint, checkpoint_name
    from functad.transforms.checkpoint_sequence import checkpoint_sequence
    from functad.transforms.control_associative import associative_scan
    from functad.transforms.control_branches import cond, switch
    from functad.transforms.control_loops import fori_loop, while_loop
    from functad.transforms.control_map import map as map  # noqa: A004 - not in `__all__`, where it would shadow Python's
    from functad.transforms.control_scan import scan
    from functad.transforms.custom import custom_jvp, custom_vjp
    from functad.transforms.explain import explain
    from functad.transforms.implicit import argmin, custom_fixed_point, custom_root
    from functad.transforms.jacobian import jacfwd, jacobian, jacrev, value_and_jacobian
    from functad.transforms.linear import linear_transpose, linearize
    from functad.transforms.linear_solve import custom_linear_solve
    from functad.transforms.nans import debug_nans
    from functad.transforms.ode import odeint
    from functad.transforms.pointwise import elementwise_grad
    from functad.transforms.promises import trust_rules
    from functad.transforms.ravel import ravel
    from functad.transforms.registering import numerical_primitive, primitive
    from functad.transforms.rows import RowSlices
    from functad.transforms.second_order import (
        divergence,
        gauss_newton_product,
        hessian,
        hessian_diagonal,
        hvp,
        laplacian,
        value_grad_and_hessian,
    )
    from functad.transforms.sparse import sparse_hessian, sparse_jacobian
    from functad.transforms.sparse_patterns import hessian_sparsity, jacobian_sparsity
    from functad.transforms.sparsity import SparsityPattern
    from functad.transforms.strict import strict_derivatives
    from functad.transforms.taylor import deriv, taylor
    from functad.transforms.trust import trust_constants

__version__ = "0.1.0"

_LATER = {
    "AggregationMethod": "functad.eager.graph",
    "argmin": "functad.transforms.implicit",
    "associative_scan": "functad.transforms.control_associative",
    "checkpoint": "functad.transforms.checkpoint",
    "checkpoint_name": "functad.transforms.checkpoint",
    "checkpoint_sequence": "functad.transforms.checkpoint_sequence",
    "compat": "functad.compat",
    "cond": "functad.transforms.control_branches",
    "constant": "functad.eager.recording",
    "coverage": "functad.primitives.coverage",
    "custom_fixed_point": "functad.transforms.implicit",
    "custom_gradient": "functad.eager.custom",
    "custom_jvp": "functad.transforms.custom",
    "custom_linear_solve": "functad.transforms.linear_solve",
    "custom_root": "functad.transforms.implicit",
    "custom_vjp": "functad.transforms.custom",
    "debug_nans": "functad.transforms.nans",
    "deriv": "functad.transforms.taylor",
    "divergence": "functad.transforms.second_order",
    "elementwise_grad": "functad.transforms.pointwise",
    "explain": "functad.transforms.explain",
    "fori_loop": "functad.transforms.control_loops",
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
    "hessian_sparsity": "functad.transforms.sparse_patterns",
    "hessians": "functad.eager.graph",
    "hvp": "functad.transforms.second_order",
    "implicit_gradients": "functad.eager.gradient_functions",
    "implicit_value_and_gradients": "functad.eager.gradient_functions",
    "jacfwd": "functad.transforms.jacobian",
    "jacobian": "functad.transforms.jacobian",
    "jacobian_sparsity": "functad.transforms.sparse_patterns",
    "jacrev": "functad.transforms.jacobian",
    "laplacian": "functad.transforms.second_order",
    "linear_transpose": "functad.transforms.linear",
    "linearize": "functad.transforms.linear",
    "make_vjp": "functad.eager.gradient_functions",
    "map": "functad.transforms.control_map",
    "Module": "functad.eager.module",
    "nn": "functad.nn",
    "numerical_primitive": "functad.transforms.registering",
    "numpy": "functad.numpy",
    "odeint": "functad.transforms.ode",
    "optimize": "functad.optimize",
    "optimizers": "functad.optimizers",
    "primitive": "functad.transforms.registering",
    "ravel": "functad.transforms.ravel",
    "recompute_grad": "functad.eager.custom",
    "restore": "functad.eager.saving",
    "RowSlices": "functad.transforms.rows",
    "save": "functad.eager.saving",
    "scan": "functad.transforms.control_scan",
    "sparse_hessian": "functad.transforms.sparse",
    "sparse_jacobian": "functad.transforms.sparse",
    "SparsityPattern": "functad.transforms.sparsity",
    "strict_derivatives": "functad.transforms.strict",
    "switch": "functad.transforms.control_branches",
    "taylor": "functad.transforms.taylor",
    "testing": "functad.testing",
    "trust_constants": "functad.transforms.trust",
    "trust_rules": "functad.transforms.promises",
    "UnconnectedGradients": "functad.eager.requests",
    "value_and_gradients_function": "functad.eager.gradient_functions",
    "value_and_jacobian": "functad.transforms.jacobian",
    "value_grad_and_hessian": "functad.transforms.second_order",
    "values_of": "functad.eager.functional_call",
    "Variable": "functad.eager.variable",
    "vmap": "functad.transforms.batch",
    "while_loop": "functad.transforms.control_loops",
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
    "RowSlices",
    "SparsityPattern",
    "Tensor",
    "UnconnectedGradients",
    "Variable",
    "argmin",
    "associative_scan",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_sequence",
    "compat",
    "cond",
    "constant",
    "coverage",
    "custom_fixed_point",
    "custom_gradient",
    "custom_jvp",
    "custom_linear_solve",
    "custom_root",
    "custom_vjp",
    "debug_nans",
    "deriv",
    "divergence",
    "elementwise_grad",
    "errors",
    "eval_shape",
    "explain",
    "fori_loop",
    "functional_call",
    "gauss_newton_product",
    "grad",
    "grad_pass_through",
    "gradients",
    "gradients_function",
    "graph",
    "hessian",
    "hessian_diagonal",
    "hessian_sparsity",
    "hessians",
    "hvp",
    "implicit_gradients",
    "implicit_value_and_gradients",
    "jacfwd",
    "jacobian",
    "jacobian_sparsity",
    "jacrev",
    "jvp",
    "laplacian",
    "linear_transpose",
    "linearize",
    "make_expressions",
    "make_vjp",
    "nn",
    "numerical_primitive",
    "odeint",
    "optimize",
    "optimizers",
    "primitive",
    "ravel",
    "recompute_grad",
    "register_tree",
    "restore",
    "save",
    "scan",
    "sparse_hessian",
    "sparse_jacobian",
    "static_field",
    "stop_gradient",
    "strict_derivatives",
    "switch",
    "taylor",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_structure",
    "tree_unflatten",
    "trust_constants",
    "trust_rules",
    "value_and_grad",
    "value_and_gradients_function",
    "value_and_jacobian",
    "value_grad_and_hessian",
    "values_of",
    "vjp",
    "vmap",
    "while_loop",
]
