"""What is promised about arrays that the user owns: no transform changes them or their flags, or hands them out as its own."""

from __future__ import annotations

import ast
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import ConstantError

LARGE = 20_000


def _read_only(a: Any) -> Any:
    a.flags.writeable = False
    return a


def _fortran(shape: tuple[int, int]) -> Any:
    return np.asfortranarray(np.ones(shape))


LAYOUTS: dict[str, Callable[[int], Any]] = {
    "C": lambda n: np.ones((n, 4)),
    "Fortran": lambda n: _fortran((n, 4)),
    "strided": lambda n: np.ones((n, 8))[:, ::2],
    "backwards": lambda n: np.ones((n, 4))[::-1, ::-1],
    "part": lambda n: np.ones((2, n, 4))[1],
    "broadcast": lambda n: np.broadcast_to(np.ones(4), (n, 4)),
    "broadcast along rows": lambda n: np.broadcast_to(np.ones((n, 1)), (n, 4)),
    "read-only": lambda n: _read_only(np.ones((n, 4))),
    "view of a read-only one": lambda n: _read_only(np.ones((n, 8)))[:, ::2],
    "bytes": lambda n: np.frombuffer(np.ones((n, 4)).tobytes()).reshape(n, 4),
    "dlpack": lambda n: np.from_dlpack(np.ones((n, 4))),
    "as_strided": lambda n: np.lib.stride_tricks.as_strided(np.ones((n, 4)), (n, 4), (32, 8)),
}
SIZES = [1, 3, LARGE // 4]


def _writes(x: Any) -> Any:
    """Return a number that depends on an argument before and after it was written into, directly and through a view."""
    view = x[0]
    y = np.sum(x**3)
    x[0] = 2.0 * x[0]
    view[1] = 5.0
    x[0, 2] += 1.0
    return y + np.sum(x * x)


def _tape(f: Any, x: Any) -> Any:
    y = functad.constant(x)
    with functad.GradientTape() as tape:
        tape.watch(y)
        z = f(y * 1.0)
    return tape.gradient(z, y)


ROUTES: dict[str, Callable[[Any, Any], Any]] = {
    "value_and_grad": lambda f, x: functad.value_and_grad(f)(x),
    "in a tree": lambda f, x: functad.value_and_grad(lambda p: f(p["x"]))({"x": x})[1]["x"],
    "jvp": lambda f, x: functad.jvp(f, (x,), (x,)),
    "vjp": lambda f, x: functad.vjp(f, x)[1](np.float64(1.0)),
    "linearize": lambda f, x: functad.linearize(f, x)[1](x),
    "jacobian": lambda f, x: functad.jacobian(f)(x),
    "hvp": lambda f, x: functad.hvp(f, (x,), (x,)),
    "vmap": lambda f, x: functad.vmap(f)(x[None]),
    "vmap of grad": lambda f, x: functad.vmap(functad.grad(f))(x[None]),
    "taylor": lambda f, x: functad.taylor(f, (x,), ([x],)),
    "list": lambda f, x: functad.make_expressions(f)(x)(x),
    "checkpoint": lambda f, x: functad.grad(lambda x: functad.checkpoint(f)(x * 1.0))(x),
    "tape": _tape,
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", SIZES)
def test_an_argument_may_be_written_into(layout: str, rows: int, route: str) -> None:
    x = LAYOUTS[layout](rows)
    kept, flags = x.copy(), str(x.flags)
    expected = ROUTES[route](_writes, np.ones((rows, 4)))
    found = ROUTES[route](_writes, x)
    for one, other in zip(*map(functad.tree_leaves, (found, expected)), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    np.testing.assert_array_equal(x, kept)
    assert str(x.flags) == flags


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", SIZES)
def test_no_flags_are_changed_not_even_while_the_function_runs(layout: str, rows: int, route: str) -> None:
    x, constant, other = (LAYOUTS[layout](rows) for _ in range(3))
    index, mask = np.zeros(rows, int), np.ones(x.shape, bool)
    arrays = [x, constant, other, index, mask]
    before = [str(a.flags) for a in arrays]

    def f(t: Any) -> Any:
        y = np.sum(t * constant) + np.sum(t[index] * other) + np.sum(np.where(mask, t, constant))
        y = y + np.sum(np.maximum(t, other)) + np.sum(np.stack([t, other]))
        assert [str(a.flags) for a in arrays] == before
        return y

    ROUTES[route](f, x)
    assert [str(a.flags) for a in arrays] == before


OWN_FLAGS = {
    "tracing/operators.py": 1,  # numbers as arrays
    "tracing/concrete.py": 1,  # what `functad.constant` made, and what was computed from it
    "tracing/views.py": 1,  # a copy of a view
    "tracing/ownership.py": 1,  # a new view, for the rules of the user
    "sparse/pattern.py": 1,
    "primitives/arranging/reshape.py": 1,
    "primitives/elementwise/conversion.py": 1,  # a copy
    "primitives/reductions/over_axes.py": 1,
    "eager/variable.py": 1,
    "compilation/guards.py": 1,  # a copy of a guarded value
    "chunks/block_calls.py": 1,  # a new view, for the function of blocks
}
"""Where flags of arrays are set that functad itself has just made."""


def test_flags_are_set_of_new_arrays_only() -> None:
    folder, found = Path(functad.__file__).parent, dict[str, int]()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "setflags" not in text and "writeable" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setflags"
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if called or (
                isinstance(target, ast.Attribute) and target.attr == "writeable" and "flags" in ast.dump(target.value)
            ):
                name = path.relative_to(folder).as_posix()
                found[name] = found.get(name, 0) + 1
    assert found == OWN_FLAGS


@pytest.mark.parametrize("size", [3, LARGE])
def test_what_functions_return_is_never_an_array_of_the_user(size: int) -> None:
    x, c, t = np.ones(size), np.full(size, 2.0), np.full(size, 3.0)

    def both(x: Any) -> Any:
        return np.sum(x * c), {"argument": x, "part": x[1:], "twice": x, "captured": c, "other": c[::-1]}

    def field(x: Any) -> Any:
        return x * c, (x, c)

    results = {
        "grad": functad.grad(both, has_aux=True)(x),
        "value_and_grad": functad.value_and_grad(both, has_aux=True)(x),
        "vjp": functad.vjp(both, x, has_aux=True)[::2],
        "linearize": functad.linearize(both, x, has_aux=True)[::2],
        "jvp": functad.jvp(both, (x,), (t,), has_aux=True),
        "jvp of the argument": functad.jvp(lambda x: (x, c), (x,), (t,)),
        "hvp": functad.hvp(both, (x,), (t,), has_aux=True),
        "taylor": functad.taylor(both, (x,), ([t],), has_aux=True),
        "vmap": functad.vmap(lambda x: (x, c), out_axes=(0, None))(x),
        "pullback": functad.vjp(lambda x: x, x)[1](t),
        "sum of the matrix": functad.grad(lambda x: np.sum(c * x))(x),
        "constant": functad.value_and_grad(lambda x: np.sum(c[:1]) * x[0])(x),
    }
    if size < LARGE:
        results |= {
            "jacobian": functad.jacobian(field, has_aux=True)(x),
            "value_and_jacobian": functad.value_and_jacobian(field, has_aux=True)(x),
            "value_and_jacobian of the argument": functad.value_and_jacobian(lambda x: (x, c))(x),
            "hessian": functad.hessian(both, has_aux=True)(x),
            "jacobian of a product": functad.jacobian(lambda x: np.outer(c, c) @ x)(x),
        }
    for name, result in results.items():
        arrays = [leaf for leaf in functad.tree_leaves(result) if issubclass(type(leaf), np.ndarray)]
        for i, a in enumerate(arrays):
            assert a.flags.writeable, name
            assert not any(np.shares_memory(a, b) for b in (x, c, t, *arrays[:i])), name
            a[...] = 7.0
    assert [a[0] for a in (x, c, t)] == [1.0, 2.0, 3.0]


def test_values_of_shape_zero_are_no_arrays_of_the_user() -> None:
    x, c = np.array(2.0), np.array(3.0)
    for f in (lambda x: x, lambda x: c, lambda x: x + 0 * c):
        value, gradient = functad.value_and_grad(f)(x)
        assert not any(np.shares_memory(value, a) for a in (x, c, gradient))
        assert not any(np.shares_memory(gradient, a) for a in (x, c))


def test_trust_constants() -> None:
    constant, x = np.ones(LARGE), np.ones(LARGE)

    def f(x: Any) -> Any:
        y = np.sum(x * constant)
        constant[:] = 1.0 + constant
        return y

    with pytest.raises(ConstantError):
        functad.grad(f)(x)
    with functad.trust_constants():
        assert functad.grad(f)(x)[0] == 3.0  # wrong, as was asked for
        with functad.trust_constants(False), pytest.raises(ConstantError):
            functad.grad(f)(x)
        small = np.ones(3)

        def g(t: Any) -> Any:
            y = np.sum(t * small) + np.sum(t**2)
            small[:] = 7.0
            return y

        assert functad.grad(g)(np.ones(3)).tolist() == [3.0] * 3  # copied all the same
        assert functad.grad(lambda t: (x.fill(5.0), np.sum(t))[1])(x)[0] == 1.0
    with pytest.raises(ConstantError):
        functad.grad(f)(x)


def test_large_indices_and_masks_may_not_be_overwritten() -> None:
    index, mask, x = np.arange(LARGE), np.ones(10 * LARGE, bool), np.ones(LARGE)
    long = np.ones(10 * LARGE)

    def read(t: Any) -> Any:
        y = np.sum(t[index])
        index[:] = 0
        return y

    def taken(t: Any) -> Any:
        y = np.sum(np.take(t, index))
        index[:] = 0
        return y

    def written(t: Any) -> Any:
        t[index] = 2.0
        index[:] = 0
        return np.sum(t)

    def chosen(t: Any) -> Any:
        y = np.sum(np.where(mask, t, 0.0))
        mask[0] = False
        return y

    def masked(t: Any) -> Any:
        y = np.sum(t[mask])
        mask[0] = False
        return y

    for f, given in ((read, x), (taken, x), (written, x), (chosen, long), (masked, long)):
        for derive in (functad.grad(f), functad.grad(lambda t, f=f: functad.checkpoint(f)(t * 1.0))):
            with pytest.raises(ConstantError, match=rf"was used at {__file__}:"):
                derive(given)
            index[:], mask[:] = np.arange(LARGE), True


def test_what_a_custom_rule_keeps_may_be_overwritten() -> None:
    buffer = np.zeros(3)
    rule = functad.custom_vjp(lambda x: np.sin(x))

    def forward(x: Any) -> Any:
        buffer[:] = np.cos(x)
        return np.sin(x), buffer

    rule.defvjp(forward, lambda kept, g: (g * kept,))
    x = np.array([0.1, 0.2, 0.3])
    expected = functad.grad(lambda x: np.sum(np.sin(x) * np.sin(2 * x)))(x)
    np.testing.assert_allclose(functad.grad(lambda x: np.sum(rule(x) * rule(2 * x)))(x), expected)


def test_what_a_custom_rule_gives_is_handed_out_as_a_copy() -> None:
    own, x = np.ones(3), np.ones(3)
    backwards = functad.custom_vjp(lambda x: x * 1.0)
    backwards.defvjp(lambda x: (x * 1.0, None), lambda _, g: (own,))
    forwards = functad.custom_jvp(lambda x: x * 1.0)
    forwards.defjvp(lambda primals, tangents: (primals[0] * 1.0, own))
    for found in (functad.grad(lambda x: np.sum(backwards(x)))(x), functad.jvp(forwards, (x,), (x,))[1]):
        assert found.flags.writeable
        assert not np.shares_memory(found, own)


def test_a_tangent_of_an_accumulator_may_be_overwritten() -> None:
    x, t = functad.constant([1.0, 2.0]), np.array([1.0, 10.0])
    with functad.ForwardAccumulator(x, t) as accumulator:
        t[:] = 0.0
        y = x * x
    assert accumulator.jvp(y).numpy().tolist() == [2.0, 40.0]


def test_what_functad_numpy_takes_over_may_be_overwritten() -> None:
    a = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        y = np.sum(x * functad.numpy.asarray(a))
        a[:] = 0.0
        return y

    assert functad.grad(f)(np.ones(2)).tolist() == [1.0, 2.0]


def test_a_tangent_may_not_be_overwritten() -> None:
    for size in (3, LARGE):
        x, t = np.ones(size), np.ones(size)
        with pytest.raises(ConstantError):
            functad.jvp(lambda x, t=t: (t.fill(0.0), np.sum(x))[1], (x,), (t,))


@pytest.fixture
def _fast_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_fast_switches")
def test_threads_share_arrays() -> None:
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(4, LARGE // 4)), "b": rng.normal(size=4)}
    data, index, own = rng.normal(size=(LARGE // 4, 3)), rng.integers(0, 4, 2_000), np.zeros(LARGE)
    arrays = [*params.values(), data, index, own]
    stop = threading.Event()
    errors: list[BaseException] = []

    def loss(p: Any) -> Any:
        return np.sum(np.tanh(p["w"] @ data)[index]) + np.sum(p["b"][index] ** 2)

    def gradient() -> Any:
        return functad.value_and_grad(loss)(params)[1]["b"]

    def tape() -> Any:
        b = functad.constant(params["b"])
        with functad.GradientTape() as tape:
            tape.watch(b)
            y = loss({"w": params["w"], "b": b})
        return tape.gradient(y, b).numpy()

    def pushed() -> Any:
        return functad.jvp(loss, (params,), (params,))[1]

    def batched() -> Any:
        return functad.vmap(functad.grad(lambda b: loss({"w": params["w"], "b": b})))(np.stack([params["b"]] * 2))[1]

    steps = [gradient, tape, pushed, batched]
    expected = [step() for step in steps]

    def run(number: int) -> None:
        try:
            for turn in range(50):
                k = (number + turn) % len(steps)
                np.testing.assert_allclose(steps[k](), expected[k])
                assert all(a.flags.writeable for a in arrays)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test fails by it
            errors.append(error)

    def write() -> None:
        try:
            while not stop.is_set():
                own[5] += 1.0
                own[:] = 0.0
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    writer = threading.Thread(target=write)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    writer.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    writer.join()
    assert errors == []


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Let no garbage of other tests be finalized, where Python would swallow an interrupt."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_an_interrupt_at_any_line_leaves_every_array_as_it_was() -> None:
    w, c, index = np.ones(LARGE), np.ones(LARGE), np.arange(LARGE)
    arrays = [w, c, index]

    def f(p: Any) -> Any:
        return np.sum(p["w"][index] * c)

    def interrupted(at: int) -> bool:
        """Run, raise at one of the lines inside functad, and say whether there are as many."""
        count = 0

        def trace(frame: Any, event: str, arg: Any) -> Any:
            nonlocal count
            if event == "line" and "functad" in frame.f_code.co_filename:
                count += 1
                if count == at:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            functad.value_and_grad(f)({"w": w})
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    at = 1
    while copy_context().run(interrupted, at):
        assert all(a.flags.writeable for a in arrays)
        at += 1
    assert at > 100
    for a in arrays:
        a[0] = 1
    assert functad.grad(f)({"w": w})["w"][:3].tolist() == [0.0, 2.0, 1.0]
