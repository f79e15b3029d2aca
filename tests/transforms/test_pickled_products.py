"""Pickling and copying of the functions that transforms return. Pullbacks are copied; their expression lists are pickled."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from tests.transforms.test_decorators import OPTIONS, OTHERS

cloudpickle = pytest.importorskip("cloudpickle", reason="Dask, which is an extra, brings it")

X = np.array([0.5, 1.5])
G = np.array([1.0, -2.0])


def curve(x: Any) -> Any:
    """Return as many numbers as are given."""
    return np.sin(x) * x


def written(x: Any) -> Any:
    """Write into an array."""
    out = np.zeros(2, like=x)
    out[0], out[1] = x[1] * 2, x[0]
    return out


def scanned(x: Any) -> Any:
    """Run a loop."""
    return functad.scan(lambda c, r: (c * r, c * r), 1.0, x)[1]


def branched(x: Any) -> Any:
    """Choose a branch."""
    return functad.cond(np.sum(x) > 0, np.sin, np.cos, x)


def solved(x: Any) -> Any:
    """Solve a system."""
    return np.linalg.solve(np.eye(2) + np.outer(x, x), x)


def decay(y: Any, t: Any, rate: Any) -> Any:
    """Return the slope of a state."""
    return -y * rate


def swung(x: Any) -> Any:
    """Solve an equation of motion."""
    return functad.odeint(decay, x, np.array([0.0, 0.5]), x)[-1]


def equation(y: Any, a: Any) -> Any:
    """Return zero where `y` is the cube root of `a`."""
    return y**3 - a


def cubic_root(y: Any, a: Any) -> Any:
    """Solve the equation."""
    return np.cbrt(a)


def objective(y: Any, a: Any) -> Any:
    """Return a number that is least where `y` is `a`."""
    return np.sum((y - a) ** 2)


def nearest(y: Any, a: Any) -> Any:
    """Minimise the objective."""
    return a * 1.0


def halfway(y: Any, a: Any) -> Any:
    """Return a point between two."""
    return (y + a) / 2


def rooted(x: Any) -> Any:
    """Find a root."""
    return functad.custom_root(equation)(cubic_root)(x, x)


@functad.custom_root(equation)
def decorated_root(y: Any, a: Any) -> Any:
    """Solve the equation."""
    return np.cbrt(a)


@functad.custom_vjp
def ruled(x: Any) -> Any:
    """Compute a sine with a rule of its own."""
    return np.sin(x)


ruled.defvjp(lambda x: (np.sin(x), x), lambda x, g: (g * np.cos(x),))


@functad.custom_jvp
def pushed(x: Any) -> Any:
    """Compute a sine with a rule of its own."""
    return np.sin(x)


pushed.defjvp(lambda primals, tangents: (np.sin(primals[0]), np.cos(primals[0]) * tangents[0]))


@functad.custom_gradient
def doubled(x: Any) -> Any:
    """Double a value, with a rule as TensorFlow has them."""
    return x * 2.0, lambda dy: dy * 2.0


def linear(x: Any) -> Any:
    """Return a linear function of an array."""
    return np.cumsum(3 * x)


def euler(i: int, y: Any) -> Any:
    """Make a step."""
    return y + 0.1 * np.sin(y)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "operations": curve,
    "writes": written,
    "indices": lambda x: x[np.array([0, 0])] + x[::-1],
    "scan": scanned,
    "cond": branched,
    "solve": solved,
    "odeint": swung,
    "root": rooted,
    "custom_vjp": ruled,
    "custom_jvp": pushed,
    "custom_gradient": doubled,
    "checkpoint": functad.checkpoint(curve),
    "checkpoint_sequence": functad.checkpoint_sequence(euler, 3),
    "jit": functad.jit(curve),
    "jit by NumPy": functad.jit(curve, backend="numpy"),
    "lambda": lambda x: curve(x) * 2.0,
    "no path": lambda x: (np.ones(2), x * 2)[0],
    "vmap": functad.vmap(np.sin),
    "gradient": lambda x: functad.grad(lambda y: np.sum(curve(y)))(x),
}

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "cloudpickle": lambda value: pickle.loads(cloudpickle.dumps(value)),
    "twice": lambda value: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(value)))),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_expression_lists_of_pullbacks_and_linear_functions(name: str, way: str) -> None:
    made = COPIES[way]
    pull = functad.vjp(FUNCTIONS[name], X)[1]
    pulled = made(functad.make_expressions(pull)(G))
    np.testing.assert_allclose(pulled(G)[0], pull(G)[0], rtol=1e-13)
    if name != "odeint":  # its tangent is the solution of an equation that no module holds
        slope = functad.linearize(FUNCTIONS[name], X)[1]
        np.testing.assert_allclose(made(functad.make_expressions(slope)(G))(G), slope(G), rtol=1e-13)
    np.testing.assert_allclose(functad.vmap(pulled)(np.stack([G, X]))[0], [pull(G)[0], pull(X)[0]], rtol=1e-13)


POINTS: dict[str, Callable[[], Any]] = {
    "vjp": lambda: functad.vjp(curve, X)[1],
    "linearize": lambda: functad.linearize(curve, X)[1],
    "linear_transpose": lambda: functad.linear_transpose(linear, X),
}
"""Functions that hold a trace, by the transform that makes them."""


@pytest.mark.parametrize("name", POINTS)
def test_functions_that_hold_a_trace_are_copied_and_not_pickled(name: str) -> None:
    function = POINTS[name]()
    assert copy.copy(function) is copy.deepcopy(function) is function
    again = rf"cannot be pickled, at .*{__name__.rpartition('.')[2]}.*make_expressions.* call {name} again"
    for dumps in (pickle.dumps, cloudpickle.dumps):
        with pytest.raises(functad.errors.UnsupportedError, match=again):
            dumps(function)
    if name == "linearize":
        function(G)  # which makes its second trace
        with pytest.raises(functad.errors.UnsupportedError, match=again):
            pickle.dumps(function.transpose)


PRODUCTS: dict[str, Callable[[], Callable[..., Any]]] = {
    "checkpoint_sequence": lambda: functad.checkpoint_sequence(euler, 3),
    "custom_root": lambda: functad.custom_root(equation)(cubic_root),
    "custom_fixed_point": lambda: functad.custom_fixed_point(halfway, check=None)(nearest),
    "argmin": lambda: functad.argmin(objective)(nearest),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_functions_of_other_decorators(name: str, way: str) -> None:
    function = PRODUCTS[name]()
    found = COPIES[way](function)
    slopes = [functad.jacobian(lambda x, f=f: f(x) if name == "checkpoint_sequence" else f(x, x))(X) for f in (found, function)]
    np.testing.assert_array_equal(*slopes)
    assert np.any(slopes[0])
    assert COPIES["pickle"](decorated_root) is decorated_root
    assert repr(function).startswith(f"<{name} of ")


@pytest.mark.parametrize("way", COPIES)
def test_what_takes_flat_arrays_apart(way: str) -> None:
    flat, unravel = functad.ravel({"a": X, "b": 2.0})
    np.testing.assert_equal(COPIES[way](unravel)(flat), {"a": X, "b": np.float64(2.0)})


@pytest.mark.parametrize("make", [lambda f: f, functad.grad], ids=["values", "gradient"])
def test_lists_with_equations_of_motion(make: Any) -> None:
    expressions = functad.make_expressions(make(lambda x: np.sum(swung(x))))(X)
    np.testing.assert_array_equal(COPIES["pickle"](expressions)(X), expressions(X))


def arguments_of(name: str) -> tuple[Any, ...]:
    """Return arguments that a transform of `total` takes."""
    return (1.5,) if name in ("deriv", "elementwise_grad") else (X,)


def total(x: Any) -> Any:
    """Return a number, by a function that a module holds."""
    return np.sum(np.sin(x) * x)


def plain(result: Any) -> list[Any]:
    """Return the leaves of a result as arrays, and a list as its text."""
    if isinstance(result, functad.Expressions):
        return [repr(result)]
    leaves = functad.tree_leaves(result.toarray() if hasattr(result, "toarray") else result)
    return [np.asarray(getattr(leaf, "numpy", lambda leaf=leaf: leaf)()) for leaf in leaves]


SKIPPED = {
    "custom_gradient": "its functions return a pair",
    "implicit_gradients": "its functions read Variables",
    "implicit_value_and_gradients": "its functions read Variables",
    "make_vjp": "it returns a function of a tape, which belongs to the thread that recorded it",
}
OF_ARRAYS = {"vmap", "jacobian", "jacfwd", "jacrev", "sparse_jacobian", "value_and_jacobian", "divergence"}
CALLED = [name for name in OPTIONS if name not in SKIPPED]


@pytest.mark.parametrize("name", CALLED)
def test_transforms_of_lambdas_by_cloudpickle(name: str) -> None:
    f: Any = curve if name in OF_ARRAYS else total
    args = arguments_of(name)
    for function in (getattr(functad, name)(f), getattr(functad, name)(lambda x: f(x) * 2.0)):
        expected = plain(function(*args))
        for way in ("cloudpickle", "deepcopy"):
            for ours, theirs in zip(plain(COPIES[way](function)(*args)), expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("backend", ["numpy", "llvm", "xla"])
def test_compiled_functions_that_have_run(backend: str) -> None:
    pytest.importorskip({"numpy": "numpy", "llvm": "llvmlite", "xla": "jax"}[backend], reason="it is in an extra")
    for f, way in ((total, "pickle"), (lambda x: total(x) * 2.0, "cloudpickle"), (functad.grad(total), "deepcopy")):
        function = functad.jit(f, backend=backend)
        expected = np.asarray(function(X))
        found = COPIES[way](function)
        np.testing.assert_array_equal(np.asarray(found(X)), expected)
        assert found.lower(X).source() == function.lower(X).source()


def test_every_transform_is_asked() -> None:
    here = {*CALLED, *SKIPPED, *PRODUCTS, "linear_transpose", "linearize", "vjp"}
    assert here >= {*OPTIONS, *OTHERS} - {"to_jax", "to_torch"}
