"""Every Python operator of an array and its reflection, on Tensors in every mode: value, derivative, dtype."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import UnsupportedError
from functad.testing import central_difference
from functad.tracing.operators import SHORT
from tests.differences import error

ARITHMETIC = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod, operator.floordiv,
]  # fmt: skip
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
BITWISE = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow, operator.imod]

X = np.array([[1.3, 0.7, 2.1]])

OPERANDS: list[Any] = [
    2, 2.5, True, np.float64(2.5), np.float32(2.5), np.int64(3), np.array(2.5), np.array([0.9, 1.7, 1.1]),
    np.array([[0.9], [1.7]]), np.array([1, 2, 3]), [0.9, 1.7, 1.1], (0.9, 1.7, 1.1), np.float32([0.9, 1.7, 1.1]),
]  # fmt: skip


def _name(value: Any) -> str:
    if callable(value):
        return value.__name__
    return f"{type(value).__name__}-{getattr(value, 'dtype', '')}-{getattr(value, 'shape', '')}"


@pytest.mark.parametrize("other", OPERANDS, ids=_name)
@pytest.mark.parametrize("op", ARITHMETIC, ids=_name)
@pytest.mark.parametrize("reflected", [False, True], ids=["t op a", "a op t"])
def test_arithmetic_with_every_operand(op: Callable[..., Any], other: Any, reflected: bool) -> None:
    def f(x: Any) -> Any:
        return op(other, x) if reflected else op(x, other)

    expected = f(X)
    value, pullback = functad.vjp(f, X)
    assert value.dtype == expected.dtype
    assert np.array_equal(value, expected)
    weights = np.linspace(0.5, 1.5, expected.size).reshape(expected.shape).astype(expected.dtype)
    (ct,) = pullback(weights)
    direction = np.array([[0.3, -1.0, 0.6]])
    (fd,) = central_difference(lambda x: [f(x)], [X], [direction])
    tolerance = 1e-7 if value.dtype == np.float64 else 0.1
    assert ct.dtype == X.dtype
    assert error(np.sum(ct * direction), np.sum(weights * fd)) < tolerance
    tangent = functad.jvp(f, (X,), (direction,))[1]
    assert error(tangent, fd) < tolerance
    expressions = functad.make_expressions(f)(X).check()
    assert np.array_equal(expressions(X), expected)
    assert functad.eval_shape(f, X) == functad.ArraySpec(expected.shape, expected.dtype)


@pytest.mark.parametrize("op", ARITHMETIC, ids=_name)
@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X, np.array([0.9, 1.7, 1.1])),
        (np.float64(1.3), np.float64(0.9)),
        (1.3, 0.9),
        (1.3, np.array([0.9, 1.7])),
        (np.array([0.9, 1.7], np.float32), 1.3),
        (np.float32(1.3), np.array([0.9, 1.7])),
    ],
    ids=["arrays", "scalars", "floats", "float and array", "float32 and float", "float32 and float64"],
)
def test_arithmetic_of_two_tensors(op: Callable[..., Any], x: Any, y: Any) -> None:
    expected = op(x, y)
    value, pullback = functad.vjp(op, x, y)
    assert np.array_equal(value, expected)
    assert np.asarray(value).dtype == np.asarray(expected).dtype
    direction = (np.asarray(x) * 0 + 0.3, np.asarray(y) * 0 - 0.7)
    tangent = functad.jvp(op, (x, y), direction)[1]
    cts = pullback(np.asarray(expected) * 0 + 1)
    for ct, primal in zip(cts, (x, y), strict=True):
        assert np.shape(ct) == np.shape(primal)
        assert np.asarray(ct).dtype == np.asarray(primal).dtype
    left = sum(np.sum(ct * d) for ct, d in zip(cts, direction, strict=True))
    assert left == pytest.approx(np.sum(tangent), rel=1e-5)
    as_float64 = [np.asarray(v, np.float64) for v in (x, y)]
    (fd,) = central_difference(lambda a, b: [op(a, b)], as_float64, [np.asarray(d, np.float64) for d in direction])
    assert error(tangent, fd) < (1e-7 if np.asarray(expected).dtype == np.float64 else 1e-5)


def test_same_tensor_twice() -> None:
    assert functad.grad(lambda x: x * x)(3.0) == 6.0
    assert functad.grad(lambda x: x - x)(3.0) == 0.0
    assert functad.grad(lambda x: x / x)(3.0) == 0.0
    assert functad.grad(lambda x: x**x)(2.0) == pytest.approx(4 * (np.log(2) + 1))


@pytest.mark.parametrize("op", [*ARITHMETIC[:5], np.arctan2, np.hypot, np.logaddexp, np.copysign], ids=_name)
def test_array_as_both_arguments_and_elsewhere(op: Callable[..., Any]) -> None:
    """The cotangents of both arguments go to one place, where others have arrived or will, and are not those of the caller."""
    x, w, g = np.array([1.3, 0.7, 2.1]), np.array([0.4, -1.1, 0.8]), np.array([0.3, 1.0, -0.6])
    for f in (lambda t: op(t, t) * w + t * t, lambda t: t * w - op(t, t), lambda t: op(t, 1.5 - t) - op(t, t) / op(t, t + 1)):
        value, pullback = functad.vjp(f, x)
        handed_in = g.copy()
        (ct,) = pullback(handed_in)
        assert np.array_equal(handed_in, g)
        assert np.array_equal(ct, pullback(g)[0])
        direction = np.array([0.2, -0.5, 0.9])
        (fd,) = central_difference(lambda t, f=f: [f(t)], [x], [direction])
        assert np.sum(ct * direction) == pytest.approx(np.sum(g * fd), rel=1e-7)
        assert np.allclose(functad.jvp(f, (x,), (direction,))[1], fd, rtol=1e-7)
        assert np.array_equal(value, f(x))


@pytest.mark.parametrize("shapes", [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 2))])
def test_matmul_and_its_reflection(shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape) for shape in shapes)
    w = rng.standard_normal((a @ b).shape)
    both = functad.grad(lambda a, b: np.sum(w * (a @ b)), argnums=(0, 1))(a, b)
    left = functad.grad(lambda a: np.sum(w * (a @ b)))(a)
    right = functad.grad(lambda b: np.sum(w * (a @ b)))(b)
    assert np.allclose(both[0], left)
    assert np.allclose(both[1], right)
    direction = rng.standard_normal(a.shape)
    assert np.sum(left * direction) == pytest.approx(np.sum(w * (direction @ b)))


@pytest.mark.parametrize("op", [operator.neg, operator.pos, operator.abs], ids=_name)
def test_unary(op: Callable[..., Any]) -> None:
    x = np.array([-1.5, 0.5, 2.0])
    value, pullback = functad.vjp(op, x)
    assert np.array_equal(value, op(x))
    assert np.array_equal(pullback(np.ones(3))[0], {"neg": [-1, -1, -1], "pos": [1, 1, 1], "abs": [-1, 1, 1]}[op.__name__])


@pytest.mark.parametrize("op", COMPARISONS, ids=_name)
@pytest.mark.parametrize("other", [1.0, 1, np.float64(1.0), np.array([1.0, 0.5, 2.0]), [1.0, 0.5, 2.0]], ids=_name)
def test_comparisons_are_plain(op: Callable[..., Any], other: Any) -> None:
    x = np.array([0.5, 1.0, 2.0])
    seen = []

    def f(t: Any) -> Any:
        seen.extend([op(t, other), op(other, t), op(t, t)])
        return t.sum()

    functad.grad(f)(x)
    for found, expected in zip(seen, [op(x, other), op(other, x), op(x, x)], strict=True):
        assert type(found) is np.ndarray
        assert np.array_equal(found, expected)
    compared = functad.make_expressions(lambda t: op(t, other))(x).check()
    assert np.array_equal(compared(x), op(x, other))


@pytest.mark.parametrize("op", COMPARISONS, ids=_name)
def test_comparison_of_tensors_of_different_levels(op: Callable[..., Any]) -> None:
    def outer(x: Any) -> Any:
        return functad.grad(lambda y: y * 2.0 if op(y, x) else y * 3.0)(1.0) * x

    expected = 2.0 if op(1.0, 1.5) else 3.0
    assert functad.grad(outer)(1.5) == expected


@pytest.mark.parametrize("op", BITWISE, ids=_name)
def test_bitwise_operators_of_integers(op: Callable[..., Any]) -> None:
    """Integers that come out of a trace are plain; those of an abstract one are recorded."""
    a, b = np.array([1, 2, 6]), np.array([3, 1, 2])
    for f in (lambda t: op(t, b), lambda t: op(b, t), lambda t: op(t, t)):
        assert np.array_equal(functad.make_expressions(f)(a).check()(a), f(a))
    assert np.array_equal(functad.make_expressions(operator.invert)(a)(a), ~a)


def test_masks_combine() -> None:
    def f(x: Any) -> Any:
        return np.sum(x[(x > 0) & (x < 2) | ~(x > -2)])

    assert functad.grad(f)(np.array([-3.0, -1.0, 1.0, 3.0])).tolist() == [1.0, 0.0, 1.0, 0.0]


def test_divmod() -> None:
    x = np.array([5.3, -5.3])
    for f in (lambda t: divmod(t, 2.0), lambda t: divmod(2.0, t)):
        (quotient, rest), pullback = functad.vjp(f, x)
        assert np.array_equal(quotient, f(x)[0])
        assert np.array_equal(rest, f(x)[1])
        (fd,) = central_difference(lambda t, f=f: [f(t)[1]], [x], [np.ones(2)])
        assert np.allclose(pullback((np.ones(2), np.ones(2)))[0], fd)


@pytest.mark.parametrize("op", IN_PLACE, ids=_name)
def test_in_place_operators_rebind(op: Callable[..., Any]) -> None:
    """`t += v` gives a new Tensor: the argument of the caller is not written to."""
    x = np.array([1.5, 2.5])

    def f(t: Any) -> Any:
        t = op(t, 2.0)
        return np.sum(op(t, 3.0))

    gradient = functad.grad(f)(x)
    assert x.tolist() == [1.5, 2.5]
    (fd,) = central_difference(lambda t: [f(t.copy())], [x], [np.array([1.0, 0.0])])
    assert gradient[0] == pytest.approx(float(fd), rel=1e-6)


def test_foreign_operands() -> None:
    class Wrapper:
        __array_ufunc__ = None

        def __radd__(self, other: Any) -> str:
            return "radd"

        def __add__(self, other: Any) -> str:
            return "add"

    def f(x: Any) -> Any:
        assert x + Wrapper() == "radd"
        assert Wrapper() + x == "add"
        with pytest.raises(TypeError):
            x + "text"
        with pytest.raises(TypeError):
            x * None
        with pytest.raises(TypeError):
            operator.sub({}, x)
        return x * 1.0

    assert functad.grad(f)(2.0) == 1.0


def test_tensors_are_not_hashable() -> None:
    def f(x: Any) -> Any:
        with pytest.raises(UnsupportedError, match=r"unhashable type: 'Tensor', at .*test_operators.py.*index of t as the key"):
            hash(x)
        with pytest.raises(TypeError, match="unhashable"):
            dict.fromkeys([x])
        return x * 1.0

    functad.grad(f)(1.0)


def test_operators_and_ufuncs_record_the_same() -> None:
    x = np.array([1.5, 2.5])
    for op, ufunc in [
        (operator.add, np.add), (operator.mul, np.multiply), (operator.truediv, np.divide), (operator.pow, np.power),
        (operator.mod, np.remainder), (operator.sub, np.subtract), (operator.matmul, np.matmul),
    ]:  # fmt: skip
        for other in (2.0, np.array([0.5, 0.7])):
            if op is operator.matmul and other == 2.0 if isinstance(other, float) else False:
                continue
            a, b = (str(functad.make_expressions(lambda t, f=f, o=other: f(t, o))(x)) for f in (op, ufunc))
            assert a == b


@pytest.mark.parametrize("mode", ["reverse", "forward", "nested"])
def test_python_scalars_do_not_widen(mode: str) -> None:
    x = np.array([0.5, 1.5], np.float32)

    def f(t: Any) -> Any:
        return (2 * t + 1.5) ** 2 / 3 - 0.25 * t % 2

    if mode == "reverse":
        assert functad.grad(lambda t: f(t).sum())(x).dtype == np.float32
    elif mode == "forward":
        assert functad.jvp(f, (x,), (x,))[1].dtype == np.float32
    else:
        assert functad.grad(lambda t: functad.grad(lambda s: f(s).sum())(t).sum())(x).dtype == np.float32


def test_python_number_as_argument() -> None:
    gradient = functad.grad(lambda x: x * x)(3.0)
    assert isinstance(gradient, float)
    assert gradient == 6.0
    assert functad.grad(lambda x: np.sum(x * np.ones(3, np.float32)))(2.0) == 3.0


MASKED = [
    lambda t, m: np.clip(t, m, 9.0),
    lambda t, m: t.clip(m),
    lambda t, m: np.arctan2(t, m),
    lambda t, m: np.copysign(m, t),
    lambda t, m: np.multiply(t, m, dtype=float),
    lambda t, m: np.multiply(m, t, where=t > 1, out=np.zeros(2, like=t)),
    lambda t, m: np.add(t, m),
    lambda t, m: t * m,
    lambda t, m: np.ldexp(t, np.ma.array([1, 2], mask=[True, False])),
    lambda t, m: np.divmod(t, m)[1],
]


@pytest.mark.parametrize("call", MASKED)
def test_masked_arrays_are_refused_by_every_ufunc(call):
    """NumPy leaves the masked elements out, and a record of its operations would not."""
    mask = np.ma.array([1.0, 2.0], mask=[True, False])
    with pytest.raises(UnsupportedError, match=r"of a Tensor and a MaskedArray, at .*operators.py:\d+. Sums over a"):
        functad.grad(lambda t: np.sum(call(t, mask)))(np.array([0.5, 1.5]))


def test_short_ways_are_those_that_other_tests_compare_with_the_long_ones():
    """See `test_short_calls.py`."""
    assert {function.__name__ for function in SHORT} == {"sum", "mean", "max", "amax", "min", "amin", "concatenate", "stack"}
