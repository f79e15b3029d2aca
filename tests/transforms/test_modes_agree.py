"""Both modes agree at singular points: where the forward derivative along an input is finite, the reverse derivative equals it.

The tests are generated from the samples of every entry of the registry, with zeros, ones and infinities in the inputs. Two
compositions give zero and infinite cotangents: a mask that selects some results, and the root of a sum of squares.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import functad
from functad import tree_flatten
from functad.testing import Call, calls, draw_program, every_entry
from tests.entries import is_constant, is_public, label

pytestmark = pytest.mark.filterwarnings("ignore")

ENTRIES = [entry for entry in every_entry() if is_public(entry) and not is_constant(entry) and entry.status != "refused"]
SPECIAL = (0.0, 0.0, 1.0, np.inf, -np.inf)
FINITE = (0.0, 0.0, 1.0)


def special_values(call: Call) -> Sequence[float]:
    """Return the special values for a call: no infinities where LAPACK or SciPy would get them, which may never return."""
    try:
        expressions = functad.make_expressions(call.smooth)(*call.primals)
    except functad.errors.FunctadError:
        return FINITE
    outside = ("functad.primitives.linalg", "functad.primitives.scipy_special")
    for primitive in [e.primitive for e in expressions.equations if e.primitive.kind != "multilinear"]:
        if "." in label(primitive) or getattr(primitive.compute, "__module__", "").startswith(outside):
            return FINITE
    return SPECIAL


MOST = 4
"""Directions for one input."""

Loss = Callable[..., Any]


def losses(f: Callable[..., Sequence[Any]]) -> dict[str, Loss]:
    """Return the compositions, functions with one real result."""

    def masked(*xs: Any) -> Any:
        return sum([np.sum(np.where(np.arange(np.size(y)).reshape(np.shape(y)) % 2 == 1, y, 0.0)) for y in f(*xs)])

    def root(*xs: Any) -> Any:
        return np.sqrt(sum([np.sum(y * y) for y in f(*xs)]))

    return {"masked": masked, "root": root}


def points(xs: Sequence[Any], seed: int, values: Sequence[float]) -> Iterator[tuple[Any, ...]]:
    """Yield inputs in which some elements are special, and inputs that are zero."""
    generator = np.random.default_rng(seed)
    yield tuple([x * 0 for x in xs])
    for _ in range(2):
        point = []
        for x in xs:
            special = generator.choice(values, np.shape(x)).astype(x.dtype)
            point.append(np.where(generator.random(np.shape(x)) < 0.4, special, x).astype(x.dtype)[()])
        yield tuple(point)


def directions(xs: Sequence[Any], generator: np.random.Generator) -> Iterator[tuple[int, Any]]:
    """Yield input and element of some unit directions."""
    for i, x in enumerate(xs):
        places = list(np.ndindex(np.shape(x)))
        for k in generator.permutation(len(places))[:MOST]:
            yield i, places[k]


def disagreements(f: Loss, xs: tuple[Any, ...], gradient: Sequence[Any], seed: int) -> list[str]:
    """Return the unit directions along which the forward derivative is finite, and the gradient has another element."""
    found = []
    for i, place in directions(xs, np.random.default_rng(seed)):
        tangents = [np.zeros_like(x) for x in xs]
        if np.ndim(xs[i]):
            tangents[i][place] = 1
        else:
            tangents[i] = np.ones_like(xs[i])[()]
        forward = functad.jvp(f, xs, tuple(tangents))[1]
        reverse = gradient[i][place] if np.ndim(xs[i]) else gradient[i]
        if np.isfinite(forward) and not np.allclose(reverse, forward, rtol=1e-6, atol=1e-9):
            found.append(f"input {i} at {place}: forward {forward}, reverse {reverse}")
    return found


def gradient_of(f: Loss, xs: tuple[Any, ...], transform: str) -> Sequence[Any]:
    """Return the gradient by all inputs, computed in one of the ways."""
    every = functad.grad(f, argnums=tuple(range(len(xs))))
    if transform == "eager":
        return every(*xs)
    if transform == "tape":
        sources = [functad.constant(x) for x in xs]
        with functad.GradientTape() as tape:
            for source in sources:
                tape.watch(source)
            target = f(*sources)
        return [
            np.zeros_like(x) if g is None else np.asarray(g) for g, x in zip(tape.gradient(target, sources), xs, strict=True)
        ]
    return functad.jit(every, backend=transform)(*xs)


def known(f: Loss, xs: tuple[Any, ...]) -> bool:
    """Return `True` if a function with one real result takes the inputs: some functions refuse infinite or singular ones."""
    try:
        value = f(*xs)
    except (ValueError, ArithmeticError, TypeError, IndexError, np.linalg.LinAlgError):
        return False
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind == "f"


def underflows(call: Call, xs: tuple[Any, ...]) -> bool:
    """Return `True` if a result is so small that its square is zero: then a zero is no exact zero."""
    sizes = [np.abs(np.asarray(y)) for y in call.smooth(*xs)]
    return any(np.any((size > 0) & (size < 1e-100)) for size in sizes)


REFUSED = (
    functad.errors.DegenerateError,
    np.linalg.LinAlgError,
    functad.errors.AbstractValueError,
    functad.errors.SourceError,
)
"""The derivative does not exist, or is not to be had in this way: the trace has no values, or the result no Tensor in it."""


def check(call: Call, transform: str, seed: int) -> int:
    """Check all compositions of a call; return the number of points."""
    checked = 0
    if any(np.asarray(x).dtype.kind != "f" for x in call.primals) or not call.primals:
        return 0
    for name, f in losses(call.smooth).items():
        for number, xs in enumerate(points(call.primals, seed, special_values(call))):
            if not known(f, xs) or underflows(call, xs):
                continue
            try:
                gradient = gradient_of(f, xs, transform)
            except REFUSED:
                continue
            found = disagreements(f, xs, gradient, seed)
            assert not found, f"{call}, {name}, {transform}, point {number}: {found}; inputs {xs}"
            checked += 1
    return checked


@pytest.mark.parametrize("entry", ENTRIES, ids=label)
def test_of_every_entry(entry: Any) -> None:
    for number, call in enumerate(calls(entry, np.float64)[:3]):
        check(call, "eager", number)


SOME = [entry for entry in ENTRIES if zlib.crc32(label(entry).encode()) % 12 == 0]
"""A twelfth of the entries, for the ways that take longer."""


@pytest.mark.parametrize("transform", ["tape", "numpy", "llvm"])
@pytest.mark.parametrize("entry", SOME, ids=label)
def test_of_some_entries_in_other_ways(entry: Any, transform: str) -> None:
    for call in calls(entry, np.float64)[:1]:
        check(call, transform, 0)


@pytest.mark.parametrize("seed", range(60))
def test_of_random_programs(seed: int) -> None:
    generator = np.random.default_rng(seed)
    families = ["elementwise", "reductions", "selection", "contractions"]
    program = draw_program(lambda n: int(generator.integers(n)), families=families)
    inputs = tuple([np.asarray(x, float)[()] for x in program.inputs])

    def results(*xs: Any) -> list[Any]:
        return [y for y in tree_flatten(program(*xs))[0] if hasattr(y, "dtype") and y.dtype.kind == "f"]

    for name, f in losses(results).items():
        for number, xs in enumerate(points(inputs, seed, FINITE)):
            if known(f, xs):
                gradient = gradient_of(f, xs, "eager")
                found = disagreements(f, xs, gradient, seed)
                assert not found, f"{name}, point {number}: {found}; inputs {xs} of\n{program}"
                if seed % 6 == 0 and name == "root":  # the compiled gradient is the gradient
                    for a, b in zip(gradient_of(f, xs, "llvm"), gradient, strict=True):
                        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


CONTRACTIONS: dict[str, Callable[..., Any]] = {
    "einsum": lambda w, z: np.einsum("i,i->i", w, z),
    "batched matmul": lambda w, z: (w[:, None, None] @ z[:, None, None])[:, 0, 0],
    "dot": lambda w, z: np.stack([np.dot(w[:1], z[:1]), np.dot(w[1:], z[1:])]),
    "convolve": lambda w, z: np.convolve(w, z)[1:][::-1],
    "prod": lambda w, z: np.prod(np.stack([w, z]), axis=0),
    "cumprod": lambda w, z: np.cumprod(np.stack([w, z]), axis=0)[1],
    "vecdot": lambda w, z: np.vecdot(w[:, None], z[:, None]),
}


def list_of(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: functad.make_expressions(f)(*xs)(*xs)


def itself(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


WAYS: dict[str, Any] = {
    "eager": itself,
    "numpy": functools.partial(functad.jit, backend="numpy"),
    "llvm": functools.partial(functad.jit, backend="llvm"),
    "xla": functools.partial(functad.jit, backend="xla"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CONTRACTIONS)
def test_a_branch_that_is_not_taken(name: str, way: str) -> None:
    z = np.array([np.inf, 1.0]) if name != "convolve" else np.array([1.0, np.inf])

    def f(w: Any) -> Any:
        return np.sum(np.where(np.array([False, True]), CONTRACTIONS[name](w, z), 0.0))

    w = np.array([2.0, 3.0])
    reverse = WAYS[way](functad.grad(f))(w)
    for k in range(2):
        forward = WAYS[way](lambda w, k=k: functad.jvp(f, (w,), (np.eye(2)[k],))[1])(w)
        assert np.isfinite(forward) <= (forward == reverse[k])
    assert np.isfinite(reverse).any()


@pytest.mark.parametrize("way", WAYS)
def test_roots_of_squares(way: str) -> None:
    assert np.array_equal(WAYS[way](functad.grad(lambda x: ((x - x) @ (x - x)) ** 0.5 + x[0]))(np.ones(2)), [1.0, 0.0])
    assert np.array_equal(WAYS[way](functad.grad(lambda x: np.sqrt(np.sum(x * x))))(np.zeros(2)), [0.0, 0.0])
    assert np.array_equal(WAYS[way](functad.jacrev(lambda x: np.sqrt(x * x)))(np.array([0.0, 3.0])), [[0.0, 0.0], [0.0, 1.0]])
    second = functad.grad(lambda x: functad.grad(lambda y: np.sqrt(np.var(y) + x * x))(np.ones(2))[0] + x)
    assert WAYS[way](second)(np.float64(0.0)) == 1.0


@pytest.mark.parametrize("backend", ["numpy", "llvm", "xla"])
def test_the_gradient_of_a_compiled_function(backend: str) -> None:
    if backend != "numpy":
        pytest.importorskip({"llvm": "llvmlite", "xla": "jax"}[backend], reason="the backend needs the package")

    def root(x: Any) -> Any:
        return np.sqrt(np.sum(x * x)) + x[0]

    def masked(x: Any) -> Any:
        return np.sum(np.where(np.array([True, False, False]), np.prod(np.stack([x, x]), axis=0), 0.0))

    def product(x: Any) -> Any:
        return np.prod(x)

    points = [np.zeros(3), np.array([0.0, 1.0, np.inf]), np.array([-0.0, -np.inf, -np.inf])]
    for f in (root, masked, product):
        compiled = functad.jit(f, backend=backend)
        for x in points:
            assert np.array_equal(functad.grad(compiled)(x), functad.grad(f)(x), equal_nan=True)
            for t in np.eye(3):
                found, expected = (functad.jvp(each, (x,), (t,))[1] for each in (compiled, f))
                assert np.array_equal(found, expected, equal_nan=True)
        assert np.array_equal(functad.hessian(compiled)(points[0]), functad.hessian(f)(points[0]), equal_nan=True)


@pytest.mark.parametrize("way", [*WAYS, "list"])
def test_results_that_are_not_used(way: str) -> None:
    def branch(w: Any, x: Any) -> Any:
        return functad.cond(x > 0, lambda h: (h, h), lambda h: (0 * x, 0 * x), w * (1 / x))[0]

    def carry(w: Any, x: Any) -> Any:
        return functad.scan(lambda c, _: (np.where(x > 0, c * (1 / x), 0.0 * x), c), w, length=2)[0]

    made = list_of if way == "list" else WAYS[way]
    for f in (branch, carry):
        assert made(functad.grad(f))(np.float64(2.0), np.float64(0.0)) == 0.0


def test_a_sum_of_infinities_of_both_signs_is_nan_in_both_modes() -> None:
    def f(x: Any) -> Any:
        return np.sqrt(x) - np.sqrt(x)

    assert np.isnan(functad.grad(f)(0.0))
    assert np.isnan(functad.jvp(f, (0.0,), (1.0,))[1])
