"""functad: functional, transform-based automatic differentiation for plain NumPy code."""

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

__version__ = "0.1.0"

_keep_freed_memory()

__all__ = [
    "ArraySpec",
    "Expressions",
    "Tensor",
    "coverage",
    "debug_nans",
    "errors",
    "eval_shape",
    "explain",
    "grad",
    "jacobian",
    "jvp",
    "make_expressions",
    "register_tree",
    "stop_gradient",
    "strict_derivatives",
    "tree_map",
    "value_and_grad",
    "vjp",
]
