"""functad: functional, transform-based automatic differentiation for plain NumPy code."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from functad import errors
from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec
from functad.tracing.tensor import Tensor
from functad.transforms.grad import grad, stop_gradient, value_and_grad, vjp
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
    from functad import debug, nn, optimize, optimizers
    from functad.adoption.adopt import adopt, adopted
    from functad.backends.native.disk import compilation_cache
    from functad.backends.native.threads import get_num_threads, set_num_threads
    from functad.bridges.jax import from_jax, to_jax
    from functad.bridges.torch import from_torch, to_torch
    from functad.checkup.doctor import doctor
    from functad.chunks.compute import compute
    from functad.chunks.map_blocks import map_blocks
    from functad.compilation.jit import disable_jit, jit
    from functad.compilation.programs import clear_cache, set_program_limit
    from functad.compilation.to_source import to_source
    from functad.control.branches import cond, switch
    from functad.control.loops import fori_loop, while_loop
    from functad.control.scan import associative_scan, scan
    from functad.control.scan import map as map  # noqa: A004 - not in `__all__`, where it would shadow the builtin
    from functad.diagnostics.explain import explain
    from functad.diagnostics.nans import debug_nans, strict_derivatives
    from functad.drawing.draw import draw
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
    from functad.eager.module import Module, functional_call, values_of
    from functad.eager.save import restore, save
    from functad.eager.tape.recorder import constant
    from functad.eager.tape.request import UnconnectedGradients
    from functad.eager.tape.tape import GradientTape
    from functad.eager.variable import Variable
    from functad.export.save import load_expressions, save_expressions
    from functad.expressions.digest import digest
    from functad.implicit.linear_solve import custom_linear_solve
    from functad.implicit.odeint import odeint
    from functad.implicit.root import argmin, custom_fixed_point, custom_root
    from functad.primitives.coverage import coverage
    from functad.process import keep_freed_memory
    from functad.profiling.profile import profile
    from functad.rules.checkpoint import checkpoint, checkpoint_name, checkpoint_sequence
    from functad.rules.custom import custom_jvp, custom_vjp
    from functad.rules.register import numerical_primitive, primitive
    from functad.sparse.derivatives import sparse_hessian, sparse_jacobian
    from functad.sparse.pattern import SparsityPattern
    from functad.sparse.patterns import hessian_sparsity, jacobian_sparsity
    from functad.tracing.ownership import trust_constants
    from functad.transforms.jacobian import elementwise_grad, jacfwd, jacobian, jacrev, value_and_jacobian
    from functad.transforms.linear import jvp, linear_transpose, linearize
    from functad.transforms.lists import eval_shape, make_expressions
    from functad.transforms.ravel import ravel
    from functad.transforms.row_slices import RowSlices
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
    from functad.transforms.vmap import vmap

__version__ = "0.1.0"

_HOLDERS = {
    "adoption.adopt": "adopt adopted",
    "backends.native.disk": "compilation_cache",
    "backends.native.threads": "get_num_threads set_num_threads",
    "bridges.jax": "from_jax to_jax",
    "bridges.torch": "from_torch to_torch",
    "checkup.doctor": "doctor",
    "chunks.compute": "compute",
    "chunks.map_blocks": "map_blocks",
    "compilation.jit": "disable_jit jit",
    "compilation.programs": "clear_cache set_program_limit",
    "compilation.to_source": "to_source",
    "control.branches": "cond switch",
    "control.loops": "fori_loop while_loop",
    "control.scan": "associative_scan map scan",
    "diagnostics.explain": "explain",
    "diagnostics.nans": "debug_nans strict_derivatives",
    "drawing.draw": "draw",
    "eager.custom": "custom_gradient grad_pass_through recompute_grad",
    "eager.forward_accumulator": "ForwardAccumulator",
    "eager.gradient_functions": "gradients_function implicit_gradients implicit_value_and_gradients make_vjp "
    "value_and_gradients_function",
    "eager.graph": "AggregationMethod gradients graph hessians",
    "eager.module": "Module functional_call values_of",
    "eager.save": "restore save",
    "eager.variable": "Variable",
    "eager.tape.recorder": "constant",
    "eager.tape.request": "UnconnectedGradients",
    "eager.tape.tape": "GradientTape",
    "export.save": "load_expressions save_expressions",
    "expressions.digest": "digest",
    "implicit.linear_solve": "custom_linear_solve",
    "implicit.odeint": "odeint",
    "implicit.root": "argmin custom_fixed_point custom_root",
    "primitives.coverage": "coverage",
    "process": "keep_freed_memory",
    "profiling.profile": "profile",
    "rules.checkpoint": "checkpoint checkpoint_name checkpoint_sequence",
    "rules.custom": "custom_jvp custom_vjp",
    "rules.register": "numerical_primitive primitive",
    "sparse.derivatives": "sparse_hessian sparse_jacobian",
    "sparse.pattern": "SparsityPattern",
    "sparse.patterns": "hessian_sparsity jacobian_sparsity",
    "tracing.ownership": "trust_constants",
    "transforms.jacobian": "elementwise_grad jacfwd jacobian jacrev value_and_jacobian",
    "transforms.linear": "jvp linear_transpose linearize",
    "transforms.lists": "eval_shape make_expressions",
    "transforms.ravel": "ravel",
    "transforms.second_order": "divergence gauss_newton_product hessian hessian_diagonal hvp laplacian value_grad_and_hessian",
    "transforms.taylor": "deriv taylor",
    "transforms.vmap": "vmap",
    "transforms.row_slices": "RowSlices",
}
"""By module, the names that are imported on first access, to keep `import functad` fast."""

_LATER = {_name: _module for _module, _names in _HOLDERS.items() for _name in _names.split()}
_LATER |= {_name: _name for _name in ("compat", "debug", "math", "nn", "numpy", "optimize", "optimizers", "scipy", "testing")}


def __getattr__(name: str) -> _Any:
    if name not in _LATER:
        raise AttributeError(f"module 'functad' has no attribute {name!r}")
    module = _import_module(f"functad.{_LATER[name]}")
    found = globals()[name] = module if _LATER[name] == name else getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# A literal, because type checkers read it.
# fmt: off
__all__ = [
    "AggregationMethod", "ArraySpec", "Expressions", "ForwardAccumulator", "GradientTape", "Module", "RowSlices",
    "SparsityPattern", "Tensor", "UnconnectedGradients", "Variable", "adopt", "adopted", "argmin", "associative_scan",
    "checkpoint", "checkpoint_name", "checkpoint_sequence", "clear_cache", "compat", "compilation_cache", "compute", "cond",
    "constant", "coverage", "custom_fixed_point", "custom_gradient", "custom_jvp", "custom_linear_solve", "custom_root",
    "custom_vjp", "debug", "debug_nans", "deriv", "digest", "disable_jit", "divergence", "doctor", "draw", "elementwise_grad",
    "errors", "eval_shape", "explain", "fori_loop", "from_jax", "from_torch", "functional_call", "gauss_newton_product",
    "get_num_threads", "grad", "grad_pass_through", "gradients", "gradients_function", "graph", "hessian", "hessian_diagonal",
    "hessian_sparsity", "hessians", "hvp", "implicit_gradients", "implicit_value_and_gradients", "jacfwd", "jacobian",
    "jacobian_sparsity", "jacrev", "jit", "jvp", "keep_freed_memory", "laplacian", "linear_transpose", "linearize",
    "load_expressions", "make_expressions", "make_vjp", "map_blocks", "nn", "numerical_primitive", "odeint", "optimize",
    "optimizers", "primitive", "profile", "ravel", "recompute_grad", "register_tree", "restore", "save", "save_expressions",
    "scan", "set_num_threads", "set_program_limit", "sparse_hessian", "sparse_jacobian", "static_field", "stop_gradient",
    "strict_derivatives", "switch", "taylor", "to_jax", "to_source", "to_torch", "tree_flatten", "tree_leaves", "tree_map",
    "tree_structure", "tree_unflatten", "trust_constants", "value_and_grad", "value_and_gradients_function",
    "value_and_jacobian", "value_grad_and_hessian", "values_of", "vjp", "vmap", "while_loop",
]
