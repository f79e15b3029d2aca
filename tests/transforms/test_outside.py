"""Tensors that a compiled function finds outside of its arguments, in a place that held a plain value when it was traced."""

from __future__ import annotations

import builtins
import contextvars
import functools
import gc
import importlib
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import functad
from functad import trees as structure
from functad.compilation.jit import Compiler
from functad.tracing.trace import LIVE
from functad.transforms.outside import Outside

ZEROS = np.zeros(3)
ONES = np.ones(3)
W = np.array([1.0, 2.0, 3.0])
GLOBAL: Any = ZEROS
SPACE: Any = types.ModuleType("module_of_a_user")
CURRENT: contextvars.ContextVar[Any] = contextvars.ContextVar("CURRENT")


class Holder:
    shared: ClassVar[Any] = ZEROS

    def __init__(self) -> None:
        self.w: Any = ZEROS

    @property
    def read(self) -> Any:
        return self.w

    def loss(self, x: Any) -> Any:
        return np.sum(np.sin(self.read) * x)

    def shared_loss(self, x: Any) -> Any:
        return np.sum(np.sin(type(self).shared) * x)


class Slotted:
    __slots__ = ("__weakref__", "w")


def read_global() -> Any:
    def inner() -> Any:
        return GLOBAL

    return inner()


def set_global(w: Any) -> None:
    global GLOBAL  # noqa: PLW0603 - the test is about globals
    GLOBAL = w


def with_default(x: Any, cell: Any = [ZEROS]) -> Any:  # noqa: B006 - the test is about defaults
    return np.sum(np.sin(cell[0]) * x)


def loss_of(read: Callable[[], Any]) -> Callable[[Any], Any]:
    return lambda x: np.sum(np.sin(read()) * x)


Place = tuple[Callable[[Any], Any], Callable[[Any], None]]


def attribute() -> Place:
    holder = Holder()
    return loss_of(lambda: holder.w), lambda w: setattr(holder, "w", w)


def nested_items() -> Place:
    tree: Any = {"a": [{"b": ZEROS}]}
    return loss_of(lambda: tree["a"][0]["b"]), lambda w: tree["a"][0].update(b=w)


def appended() -> Place:
    values: list[Any] = []
    return loss_of(lambda: values[-1]), values.append


def nested_function() -> Place:
    return loss_of(read_global), set_global


def dynamic_global() -> Place:
    return loss_of(lambda: globals()["LABOLG"[::-1]]), set_global


def cell() -> Place:
    held = ZEROS

    def assign(w: Any) -> None:
        nonlocal held
        held = w

    def read() -> Any:
        def inner() -> Any:
            return held

        return inner()

    return loss_of(read), assign


def method() -> Place:
    holder = Holder()
    return holder.loss, lambda w: setattr(holder, "w", w)


def class_attribute() -> Place:
    return Holder().shared_loss, lambda w: setattr(Holder, "shared", w)


def module_attribute() -> Place:
    return loss_of(lambda: SPACE.w), lambda w: setattr(SPACE, "w", w)


def dynamic_attribute() -> Place:
    name = SPACE.__name__[0].replace("m", "w")
    return loss_of(lambda: getattr(SPACE, name)), lambda w: setattr(SPACE, "w", w)


def builtin_name() -> Place:
    return loss_of(lambda: value_of_a_user), lambda w: setattr(builtins, "value_of_a_user", w)  # type: ignore[name-defined]  # noqa: F821


def builtin_attribute() -> Place:
    return loss_of(lambda: builtins.value_of_a_user), lambda w: setattr(builtins, "value_of_a_user", w)  # type: ignore[attr-defined]


def attribute_of_numpy() -> Place:
    def assign(w: Any) -> None:
        np.random.value_of_a_user = {"w": w}  # type: ignore[attr-defined]

    return loss_of(lambda: np.random.value_of_a_user["w"]), assign  # type: ignore[attr-defined]


def module_by_name() -> Place:
    return loss_of(lambda: sys.modules["module_of_a_user"].w), lambda w: setattr(SPACE, "w", w)


def module_by_computed_name() -> Place:
    name = ".module_of_a_user"
    return loss_of(lambda: sys.modules.get(name.strip(".")).w), lambda w: setattr(SPACE, "w", w)


def imported_module() -> Place:
    return loss_of(lambda: importlib.import_module("module_of_a_user").w), lambda w: setattr(SPACE, "w", w)


def imported_by_another_name() -> Place:
    find = importlib.import_module
    return loss_of(lambda: find("module_of_a_user").w), lambda w: setattr(SPACE, "w", w)


def annotation() -> Place:
    def f(x: Any) -> Any:
        return np.sum(np.sin(f.__annotations__["w"]) * x)

    return f, lambda w: f.__annotations__.update(w=w)


def object_array() -> Place:
    array = np.empty((1, 1), object)

    def assign(w: Any) -> None:
        array[0, 0] = w

    return loss_of(lambda: array[0, 0]), assign


def function_attribute() -> Place:
    def f(x: Any) -> Any:
        return np.sum(np.sin(f.w) * x)  # type: ignore[attr-defined]

    return f, lambda w: setattr(f, "w", w)


def default() -> Place:
    def assign(w: Any) -> None:
        with_default.__defaults__[0][0] = w  # type: ignore[index]

    return with_default, assign


def thread_local() -> Place:
    local = threading.local()
    return loss_of(lambda: local.w), lambda w: setattr(local, "w", w)


def context_variable() -> Place:
    return loss_of(CURRENT.get), lambda w: (CURRENT.set(w), None)[1]


def weak_reference() -> Place:
    held = Slotted()
    find = weakref.ref(held)
    return loss_of(lambda: find().w), lambda w: setattr(held, "w", w)  # type: ignore[union-attr]


def partial() -> Place:
    holder = Holder()
    return functools.partial(lambda own, x: np.sum(np.sin(own.w) * x), holder), lambda w: setattr(holder, "w", w)


def compiled_inside() -> Place:
    holder = Holder()
    inner = functad.jit(holder.loss)
    return lambda x: inner(x) * 2, lambda w: setattr(holder, "w", w)


def generator() -> Place:
    holder = Holder()

    def endless() -> Iterator[Any]:
        while True:
            yield holder.w

    values = endless()
    return loss_of(lambda: next(values)), lambda w: setattr(holder, "w", w)


def static_argument() -> Place:
    holder = Holder()
    compiled = functad.jit(lambda x, own: np.sum(np.sin(own.w) * x))
    compiled(ONES, holder)
    return lambda x: compiled(x, holder), lambda w: setattr(holder, "w", w)


PLACES = (
    attribute,
    nested_items,
    appended,
    nested_function,
    dynamic_global,
    cell,
    method,
    class_attribute,
    module_attribute,
    dynamic_attribute,
    builtin_name,
    builtin_attribute,
    attribute_of_numpy,
    module_by_name,
    module_by_computed_name,
    imported_module,
    imported_by_another_name,
    annotation,
    object_array,
    function_attribute,
    default,
    thread_local,
    context_variable,
    weak_reference,
    partial,
    compiled_inside,
    generator,
    static_argument,
)


@pytest.fixture(params=PLACES, ids=lambda make: make.__name__)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any, Any]]:
    """Yield a compiled function that has run, the function that fills the place, and the loss as a function of the value."""
    monkeypatch.setitem(sys.modules, SPACE.__name__, SPACE)
    monkeypatch.setattr(builtins, "value_of_a_user", ZEROS, raising=False)
    monkeypatch.setattr(np.random, "value_of_a_user", ZEROS, raising=False)
    f, assign = request.param()
    assign(ZEROS)
    compiled = functad.jit(f)
    compiled(ONES)
    compiled(ONES)
    factor = 2.0 if request.param is compiled_inside else 1.0
    yield compiled, assign, lambda w: factor * float(np.sum(np.sin(w)))
    assign(ZEROS)


def differences_of(value: Any) -> list[float]:
    return [(value(W + step) - value(W - step)) / 2e-6 for step in 1e-6 * np.eye(3)]


def test_gradients_arrive(place: Any) -> None:
    compiled, assign, value = place

    def outer(w: Any) -> Any:
        assign(w)
        return compiled(ONES)

    differences = differences_of(value)
    for _ in range(2):
        np.testing.assert_allclose(functad.grad(outer)(W), differences, rtol=1e-6)
        assign(ZEROS)
    np.testing.assert_allclose(functad.jvp(outer, (W,), (ONES,))[1], np.sum(differences), rtol=1e-6)
    assign(ZEROS)
    np.testing.assert_allclose(functad.vmap(outer)(np.stack([W, 2 * W])), [value(W), value(2 * W)])
    assign(ZEROS)
    np.testing.assert_allclose(functad.grad(lambda w: functad.checkpoint(outer)(w))(W), differences, rtol=1e-6)


def test_an_attribute_that_is_added_to_a_module_is_a_change() -> None:
    module: Any = types.ModuleType("another_module_of_a_user")
    search = Outside([lambda: module.w if hasattr(module, "w") else ZEROS])
    assert search.is_known
    assert not search.changed()
    module.w = ONES
    assert search.changed()


def test_a_function_that_reads_local_variables_of_callers_counts_as_one_that_may_read_a_tensor() -> None:
    def read() -> Any:
        return sys._getframe(1).f_locals["w"]

    def f(x: Any, own: Any) -> Any:
        w = own.w  # noqa: F841 - the frame has it
        return np.sum(np.sin(read()) * x)

    search = Outside([f])
    assert (search.is_known, search.holds_tensor) == (False, False)


def test_tapes_are_followed(place: Any) -> None:
    compiled, assign, value = place
    w = functad.constant(W)
    with functad.GradientTape() as tape:
        tape.watch(w)
        assign(w)
        loss = compiled(ONES)
    np.testing.assert_allclose(tape.gradient(loss, w), differences_of(value), rtol=1e-6)


def test_a_constant_that_is_watched_later_is_followed() -> None:
    w = functad.constant(W)
    compiled = functad.jit(lambda x: np.sum(np.sin(w) * x))
    compiled(ONES)
    for _ in range(2):
        with functad.GradientTape() as tape:
            compiled(ONES)
            tape.watch(w)
            loss = compiled(ONES)
        np.testing.assert_allclose(tape.gradient(loss, w), np.cos(W))


def test_bodies_of_loops_that_call_compiled_functions_are_followed() -> None:
    holder = Holder()
    compiled = functad.jit(holder.loss)
    compiled(ONES)

    def outer(w: Any) -> Any:
        holder.w = w
        return functad.scan(lambda carry, x: (carry + compiled(x), carry), 0.0, np.ones((4, 3)))[0]

    np.testing.assert_allclose(functad.grad(outer)(W), 4 * np.cos(W))
    np.testing.assert_allclose(functad.jit(functad.grad(outer))(W), 4 * np.cos(W))


def test_a_thread_that_is_started_under_a_transform_finds_the_tensor() -> None:
    holder = Holder()
    compiled = functad.jit(holder.loss)
    compiled(ONES)

    def outer(w: Any) -> Any:
        holder.w, found = w, []
        thread = threading.Thread(target=lambda: found.append(compiled(ONES)))
        thread.start()
        thread.join()
        return found[0]

    np.testing.assert_allclose(functad.grad(outer)(W), np.cos(W))


def test_nothing_is_traced_again_where_no_tensor_is_in_reach() -> None:
    holder, traced = Holder(), []

    @functad.jit
    def loss(x: Any) -> Any:
        traced.append(1)
        return holder.loss(x)

    for _ in range(3):
        functad.grad(loss)(ONES)
        functad.grad(lambda x: loss(x) + loss(2 * x))(ONES)
    assert len(traced) == 1
    assert loss.cache_info().misses == 1


def test_a_plain_value_stays_the_one_that_was_traced() -> None:
    holder = Holder()
    compiled = functad.jit(lambda x: x + holder.w)
    assert compiled(1.0).tolist() == [1.0, 1.0, 1.0]
    holder.w = ONES
    assert compiled(1.0).tolist() == [1.0, 1.0, 1.0]
    assert functad.jvp(compiled, (1.0,), (1.0,))[0].tolist() == [1.0, 1.0, 1.0]


def test_a_list_that_differs_is_used_for_this_call() -> None:
    """`jit` cannot tell whether a plain value depends on the Tensor that the function reads."""
    holder = Holder()
    other: list[Any] = []

    def f(x: Any) -> Any:
        return np.sum(holder.w * x) + len(other) * 0.0

    compiled = functad.jit(f)
    compiled(ONES)
    holder.w = ONES

    def outer(x: Any) -> Any:
        other.append(x * 2)
        return compiled(x)

    for _ in range(2):
        assert functad.value_and_grad(outer)(ONES)[0] == 3.0
    assert compiled.cache_info()[1:] == (3, 1)
    assert compiled(ONES) == 0.0
    holder.w = ZEROS
    assert functad.value_and_grad(outer)(ONES)[0] == 0.0
    assert compiled.cache_info()[1:] == (3, 1)


def test_no_trace_is_live_after_it_ended() -> None:
    def fails(x: Any) -> Any:
        raise KeyError(x.shape)

    with pytest.raises(KeyError):
        functad.grad(fails)(ONES)
    tape = functad.GradientTape()
    tape.__enter__()
    assert LIVE
    del tape
    gc.collect()
    assert not LIVE


def test_what_was_looked_at_keeps_no_trace_alive() -> None:
    holder = Holder()
    compiled = functad.jit(holder.loss)
    compiled(ONES)
    alive: list[Any] = []

    def outer(w: Any) -> Any:
        holder.w = w * 1.0
        alive.append(weakref.ref(holder.w))
        return compiled(ONES)

    functad.grad(outer)(W)
    holder.w = ZEROS
    gc.collect()
    assert alive[0]() is None


def test_a_search_that_is_too_long_counts_as_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.transforms.outside.MOST", 10)
    outside = Outside([[[n, [n]] for n in range(20)]])
    assert not outside.is_known
    assert not outside.changed()
    holder = Holder()
    compiled = functad.jit(holder.loss)
    compiled(ONES)

    def outer(w: Any) -> Any:
        holder.w = w
        return compiled(ONES)

    np.testing.assert_allclose(functad.grad(outer)(W), np.cos(W))


def test_a_known_program_under_a_trace_makes_no_keys_and_searches_nothing(monkeypatch):
    compiled = functad.jit(lambda x, y: np.sum(np.sin(x) * y))
    gradient = functad.grad(compiled)
    x = np.linspace(0.1, 1.0, 3)
    for _ in range(2):
        gradient(x, 2.0)

    def refuse(*args):
        raise AssertionError("work of a first call is repeated")

    monkeypatch.setattr(structure.Structure, "exact_key", refuse)
    monkeypatch.setitem(Compiler.__call__.__globals__, "Outside", refuse)
    monkeypatch.setitem(Compiler.__call__.__globals__, "flatten", refuse)
    assert np.allclose(gradient(x, 2.0), 2.0 * np.cos(x), rtol=1e-12)


@pytest.mark.parametrize("args", [(), (1.0,), (np.ones(2), "a", True), ((1.0,),), (None,), tuple(range(9)), ([],)])
def test_structures_of_usual_calls_are_those_that_flatten_returns(args):
    usual = structure.structure_of_call(args)
    leaves, found = structure.flatten((args, {}))
    assert usual is None or (usual == found and usual.exact_key() == found.exact_key() and leaves == list(args))
    assert (usual is None) == any(type(a) in (tuple, list, type(None)) for a in args) or len(args) == 9


def test_assertions_that_pytest_rewrites_lead_nowhere() -> None:
    """A rewritten assertion reads a module of pytest, from which its session and all tests can be reached."""

    def checked(x: Any) -> Any:
        assert np.ndim(x) == 1
        return np.sum(x * x)

    assert any(name.startswith("@") for name in checked.__code__.co_names)
    outside = Outside([checked])
    assert outside.is_known
    assert not any(name.startswith("@") for _, name in outside.reach.globals)
