"""What a trace keeps (D7): the values that its rules name, nothing else; no cycles; cost linear in operations."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functad
from functad import Tensor
from functad.errors import EscapedTensorError
from tests.work import Work, work

N = 1000


def _arrays(held: Any) -> Iterator[np.ndarray]:
    """Yield the arrays that a record holds."""
    if isinstance(held, np.ndarray):
        yield held
    elif isinstance(held, (tuple, list)):
        for part in held:
            yield from _arrays(part)
    elif isinstance(held, dict):
        for part in held.values():
            yield from _arrays(part)


def _bytes_kept(operation: Callable[[Any], Any], *, size: int = N) -> int:
    """Return how many bytes of arrays the record holds after `operation` of an intermediate array of `size` float64."""
    kept = []

    def f(x: Any) -> Any:
        y = x + 0.1
        before = sum(a.nbytes for a in _arrays(x.recorder.records))
        operation(y)
        kept.append(sum(a.nbytes for a in _arrays(x.recorder.records)) - before)
        return x.sum()

    functad.grad(f)(np.linspace(-1.0, 1.0, size))
    return kept[0]


def _survives(operation: Callable[[Any], Any]) -> tuple[bool, bool]:
    """Say whether the array that goes into an operation, and the one that comes out, live on when their Tensors are gone."""
    found = []

    def f(x: Any) -> Any:
        y = x * 2.0 + 2.5
        z = operation(y)
        given, made = weakref.ref(y.below), weakref.ref(z.below)
        del y, z
        found.append((given() is not None, made() is not None))
        return x.sum()

    functad.grad(f)(np.linspace(-1.0, 1.0, N))
    return found[0]


KEEP_NOTHING: list[tuple[str, Callable[[Any], Any]]] = [
    ("y + 1.0", lambda y: y + 1.0),
    ("1.0 - y", lambda y: 1.0 - y),
    ("y + y", lambda y: y + y),
    ("y + array", lambda y: y + np.ones(N)),
    ("-y", lambda y: -y),
    ("y * 3.0", lambda y: y * 3.0),
    ("y / 3.0", lambda y: y / 3.0),
    ("np.add", lambda y: np.add(y, 1.0)),
    ("np.negative", np.negative),
    ("y.reshape", lambda y: y.reshape(-1, 10)),
    ("np.reshape", lambda y: np.reshape(y, (10, -1))),
    ("y.T", lambda y: y.T),
    ("transpose", lambda y: np.transpose(y)),
    ("y[None]", lambda y: y[None]),
    ("y[2:5]", lambda y: y[2:5]),
    ("concatenate", lambda y: np.concatenate([y, y])),
    ("broadcast_to", lambda y: np.broadcast_to(y, (2, N))),
    ("cumsum", np.cumsum),
    ("mean over an axis", lambda y: y.reshape(10, -1).mean(0)),
    ("flip", np.flip),
]


@pytest.mark.parametrize("operation", [row[1] for row in KEEP_NOTHING], ids=[row[0] for row in KEEP_NOTHING])
def test_linear_operations_keep_no_array(operation: Callable[[Any], Any]) -> None:
    assert _survives(operation) == (False, False)
    assert _bytes_kept(operation) <= 16  # a Python float that meets an array is held as an array of 8 bytes


RELUS: list[tuple[str, Callable[[Any], Any]]] = [
    ("where(y > 0, y, 0)", lambda y: np.where(y > 0, y, 0)),
    ("where(y > 0, y, 0.0)", lambda y: np.where(y > 0, y, 0.0)),
    ("maximum(y, 0)", lambda y: np.maximum(y, 0)),
    ("maximum(0.0, y)", lambda y: np.maximum(0.0, y)),
    ("minimum(y, 0)", lambda y: np.minimum(y, 0)),
]


@pytest.mark.parametrize("operation", [row[1] for row in RELUS], ids=[row[0] for row in RELUS])
def test_a_relu_keeps_at_most_a_mask(operation: Callable[[Any], Any]) -> None:
    assert _survives(operation) == (False, False)
    assert _bytes_kept(operation) <= N + 16


@pytest.mark.parametrize(
    ("operation", "given", "made"),
    [
        (np.sin, True, False),
        (np.exp, False, True),
        (np.tanh, False, True),
        (lambda y: y**2, True, False),
        (np.sqrt, False, True),
        (lambda y: y * np.ones(N), False, False),
        (lambda y: np.ones(N) / y, True, True),
        (np.sum, False, False),
    ],
    ids=["sin", "exp", "tanh", "square", "sqrt", "constant factor", "divisor", "sum"],
)
def test_a_rule_keeps_what_it_names(operation: Callable[[Any], Any], given: bool, made: bool) -> None:
    found = _survives(lambda y: np.atleast_1d(operation(y)))
    assert found[0] == given
    if operation is not np.sum:

        def plain(x: Any) -> Any:
            y = x * 2.0 + 2.5
            z = operation(y)
            ref = weakref.ref(z.below)
            del z
            assert (ref() is not None) == made
            return y.sum()

        functad.grad(plain)(np.linspace(0.5, 1.0, N))


def test_small_constant_operands_are_copied_and_large_ones_are_not():
    for size, same in ((100, False), (1_000_000, True)):
        a = np.ones(size)
        kept = []

        def f(x: Any, a: Any = a, kept: list[Any] = kept, size: int = size) -> Any:
            y = x * a
            kept.extend(held for held in _arrays(x.recorder.records) if held.size == size)
            return y.sum()

        functad.grad(f)(np.ones(size))
        assert len(kept) == 1
        assert (kept[0] is a) == same
        assert a.flags.writeable


def test_values_are_freed_as_the_walk_passes() -> None:
    """Peak of a chain of 60 `sin` and its gradient: the 60 inputs that the rules read, and a few buffers of the walk."""
    x = np.ones(20_000)

    def f(x: Any) -> Any:
        for _ in range(60):
            x = np.sin(x)
        return x.sum()

    functad.grad(f)(x)
    tracemalloc.start()
    functad.grad(f)(x)
    peak = tracemalloc.get_traced_memory()[1]
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert peak < 65 * x.nbytes
    assert left < 2 * x.nbytes


def _everything(x: Any) -> Any:
    """Use every route of the recorder: operators, ufuncs, functions, indexing, several results, broadcasting."""
    total = np.sum(x[::2]) * x[0]
    for part in np.split(x, 2):
        total = total + np.sum(np.sin(part) * part[:, None])
    total = total + np.where(x > 0, x, 0.0).max() + np.concatenate([x, x]).reshape(2, -1).T.mean()
    return total + (x @ x) ** 2 / 3.0 + np.prod(x)


@pytest.mark.parametrize(
    "run",
    [
        lambda x: functad.grad(_everything)(x),
        lambda x: functad.grad(lambda x: functad.grad(_everything)(x).sum())(x),
        lambda x: functad.jvp(_everything, (x,), (x,)),
        lambda x: functad.vjp(_everything, x)[1](1.0),
        lambda x: functad.jacobian(lambda x: x * np.sin(x))(x),
        lambda x: functad.make_expressions(_everything)(x),
        lambda x: functad.make_expressions(_everything)(x)(x),
    ],
    ids=["grad", "grad of grad", "jvp", "vjp", "jacobian", "make_expressions", "evaluate"],
)
@pytest.mark.usefixtures("small_heap")
def test_no_reference_cycles(run: Callable[[Any], Any]) -> None:
    x = np.linspace(-1.0, 2.0, 6)
    run(x)  # fills caches
    while gc.collect():  # finalisers of other tests may leave more behind
        pass
    gc.disable()
    try:
        run(x)
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.usefixtures("small_heap")
def test_no_reference_cycles_after_an_error() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        raise KeyError(y.shape)

    gc.collect()
    gc.disable()
    try:
        refs = []

        def run() -> None:
            x = np.ones(3)
            refs.append(weakref.ref(x))
            with pytest.raises(KeyError):
                functad.grad(f)(x)

        run()
        gc.collect()
        assert refs[0]() is None
    finally:
        gc.enable()


def test_memory_per_operation() -> None:
    """A record of a scalar operation takes at most 400 bytes beyond the numbers that its rules read."""
    count = 5_000

    def f(x: Any) -> Any:
        tracemalloc.start()
        for _ in range(count):
            x = np.sin(x) * 0.9
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        return x

    sizes: list[int] = []
    functad.grad(f)(np.float64(1.0))
    assert sizes[0] / (2 * count) < 400


def test_no_recursion() -> None:
    def f(x: Any) -> Any:
        for _ in range(50_000):
            x = x + 1.0
        return x

    assert functad.grad(f)(0.0) == 1.0
    assert functad.jvp(f, (0.0,), (1.0,))[1] == 1.0


def test_reading_one_element_at_a_time_is_linear() -> None:
    """Eight times the elements take about eight times the work, not sixty-four times."""

    def f(x: Any) -> Any:
        return sum(x[i] * x[i - 1] for i in range(1, len(x)))

    def cost(n: int) -> Work:
        x = np.linspace(0.0, 1.0, n)
        return work(lambda: functad.grad(f)(x))

    x = np.array([1.0, 2.0, 4.0])
    assert np.array_equal(functad.grad(f)(x), [2.0, 5.0, 2.0])
    few, many = cost(500), cost(4_000)
    assert many.calls < 9 * few.calls
    assert many.allocated < 12 * few.allocated


def test_newest_recorder_records() -> None:
    """A Tensor of an inner trace holds one of the outer; an operation with either goes to the newest one concerned."""
    levels = []

    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            assert isinstance(y.below, Tensor)
            assert y.below.recorder is x.recorder
            assert y.recorder.serial > x.recorder.serial
            product, own = x * y, x * 2.0
            assert product.recorder is y.recorder
            assert own.recorder is x.recorder
            levels.append(len(x.recorder.records))
            return product * own

        return functad.grad(inner)(x)

    assert functad.grad(outer)(3.0) == pytest.approx(4 * 3.0)  # inner: 2 x^2 y; by y: 2 x^2; by x: 4 x
    assert levels


def test_no_perturbation_confusion() -> None:
    grad = functad.grad
    assert grad(lambda x: x * grad(lambda y: x + y)(2.0))(1.0) == 1.0
    assert functad.jvp(lambda x: x * functad.jvp(lambda y: x + y, (2.0,), (1.0,))[1], (1.0,), (1.0,))[1] == 1.0
    assert grad(lambda x: x * functad.jvp(lambda y: x * y, (2.0,), (1.0,))[1])(3.0) == 6.0


def test_an_escaped_example_is_named_as_an_argument() -> None:
    kept: list[Any] = []
    functad.vmap(lambda x: (kept.append(x), kept.append(x * 3.0), x)[2])(np.ones((3, 2)))
    with pytest.raises(EscapedTensorError, match="stands for an argument"):
        kept[0] + 1.0
    with pytest.raises(EscapedTensorError, match=r"was made at .*test_recorder\.py"):
        kept[1] + 1.0


def test_escaped_tensor_is_named() -> None:
    stolen = []

    def thief(x: Any) -> Any:
        stolen.append(np.sin(x))
        return x * 1.0

    functad.grad(thief)(1.0)
    line = thief.__code__.co_firstlineno + 1
    for use in (lambda t: t + 1, lambda t: np.cos(t), lambda t: 2.0 * t, lambda t: np.sum(t), bool, lambda t: t[None]):
        with pytest.raises(EscapedTensorError, match=rf"escaped from grad of .*thief.*test_recorder\.py:{line}"):
            use(stolen[0])


def test_trace_is_closed_after_an_error() -> None:
    stolen = []

    def fails(x: Any) -> Any:
        stolen.append(x)
        raise KeyError

    with pytest.raises(KeyError):
        functad.grad(fails)(1.0)
    with pytest.raises(EscapedTensorError):
        stolen[0] + 1.0


def test_gradients_do_not_share_memory() -> None:
    """Cotangents of a sum are one buffer inside; the user gets arrays of his own."""
    a, b = functad.grad(lambda a, b: np.sum(a + b), argnums=(0, 1))(np.ones(3), np.ones(3))
    a[0] = 7.0
    assert b[0] == 1.0
    g = np.ones(3)
    (ct,) = functad.vjp(lambda x: x + 0.0, np.ones(3))[1](g)
    ct[0] = 7.0
    assert g[0] == 1.0


def test_cotangents_are_not_changed_in_place_by_the_walk() -> None:
    """A buffer that two rules hand back must not be added into."""

    def f(x: Any, y: Any) -> Any:
        s = x + y
        return np.sum(s * s) + np.sum(x * 3.0) + np.sum(y[:2]) + np.sum(s) + y[0]

    x, y = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, 0.125])
    gx, gy = functad.grad(f, argnums=(0, 1))(x, y)
    assert np.allclose(gx, 2 * (x + y) + 4)
    assert np.allclose(gy, 2 * (x + y) + 1 + np.array([2.0, 1.0, 0.0]))


def test_pullback_may_be_called_again() -> None:
    _, pullback = functad.vjp(lambda x: np.sin(x) * x[0] + x[::-1], np.arange(3.0))
    first, again = pullback(np.ones(3))[0], pullback(np.ones(3))[0]
    assert np.array_equal(first, again)
