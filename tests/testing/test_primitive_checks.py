"""The checks of entries: entries with one mistake each, which must be found, and every rule with a small error."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functad
from functad.primitives.entry import ENTRIES, INTERNAL, PULL_READ, Primitive
from functad.primitives.kinds import constant, general
from functad.testing import calls, check_primitive, every_entry
from functad.testing.primitive_checks import check_linear
from functad.tracing.operators import BINARY, UNARY
from tests.entries import is_constant, is_unknown, label


@pytest.fixture
def registry() -> Iterator[None]:
    """Forget the entries that a test makes."""
    entries, internal = dict(ENTRIES), list(INTERNAL)
    yield
    ENTRIES.clear()
    ENTRIES.update(entries)
    INTERNAL[:] = internal


def _cubed(*rules: Callable[..., Any], **changes: Any) -> Primitive:
    """Return an entry for `x^3` with the right rule, or others."""

    def cubed(x: Any) -> Any:
        if isinstance(x, functad.Tensor):
            return entry(x)
        return changes.get("compute", lambda x: x * x * x)(x)

    entry = general(
        cubed,
        *(rules or (lambda g, x: g * (3 * x * x),)),
        compute=lambda x: x * x * x,
        jvps=changes.get("jvps", (lambda t, x: t * (3 * x * x),)),
        spec=changes.get("spec"),
        complex=changes.get("complex", True),
        doc=changes.get("doc", "d x^3 = 3 x^2 dx"),
        samples=changes.get("samples", lambda array: [((array(),), {}), ((array(3),), {})]),
        batch=changes.get("batch", lambda primitive, size, values, batched, params: primitive(values[0])),
    )
    return entry


@pytest.mark.usefixtures("registry")
def test_right_entry_passes() -> None:
    check_primitive(_cubed())


WRONG: list[tuple[str, str, Callable[[], Any]]] = [
    ("no doc", "no doc", lambda: _cubed(doc=" ")),
    ("no samples", "no samples", lambda: _cubed(samples=None)),
    ("empty samples", "empty list of samples", lambda: _cubed(samples=lambda array: [])),
    ("no rule", "VJP rule", lambda: _cubed(None)),  # type: ignore[arg-type]
    ("value", "under a trace", lambda: _cubed(compute=lambda x: x**3 + 1e-9)),
    ("dtype of the value", "under a trace", lambda: _cubed(compute=lambda x: (x * x * x).astype(np.complex128))),
    ("factor of a jvp", "tangent of result", lambda: _cubed(jvps=(lambda t, x: t * (2.99999 * x * x),))),
    ("sign of a vjp", "paired with a tangent", lambda: _cubed(lambda g, x: g * (-3 * x * x))),
    ("small error of a vjp", "paired with a tangent", lambda: _cubed(lambda g, x: g * (3 * x * x + 1e-8))),
    ("both rules", "tangent of result", lambda: _cubed(lambda g, x: g * x, jvps=(lambda t, x: t * x,))),
    ("conjugation", "paired with a tangent", lambda: _cubed(lambda g, x: g * np.conjugate(3 * x * x))),
    (
        "right derivative with a wrong derivative",
        "second order",
        lambda: _cubed(
            lambda g, x: g * (3 * functad.stop_gradient(x) * x), jvps=(lambda t, x: t * (3 * functad.stop_gradient(x) * x),)
        ),
    ),
    ("shape rule", "shape rule gives", lambda: _cubed(spec=lambda x: functad.ArraySpec((1,), np.dtype(float)))),
    (
        "single precision",
        "in single precision|paired with",
        lambda: _cubed(lambda g, x: g * ((3.001 if getattr(x, "dtype", None) == np.float32 else 3) * x * x)),
    ),
    ("complex accepted", "accepts complex numbers", lambda: _cubed(complex=False)),
    ("no batching rule", "no batching rule", lambda: _cubed(batch=None)),
    ("batch in another order", "of a batch", lambda: _cubed(batch=lambda p, size, values, batched, params: p(values[0][::-1]))),
    ("axes mixed up", "no batch axis in front", lambda: _cubed(batch=lambda p, size, values, batched, params: p(values[0].T))),
    (
        "the same for all examples",
        "of a batch",
        lambda: _cubed(batch=lambda p, size, values, *_: np.broadcast_to(p(values[0][0]), values[0].shape)),
    ),
]


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(("message", "make"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_wrong_entry_fails(message: str, make: Callable[[], Any]) -> None:
    with pytest.raises(AssertionError, match=message):
        check_primitive(make())


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda g, x: g * (3 * x * x) + 1e-9, "cotangent 0 of a sum"),
        (lambda g, x: abs(g) * (3 * x * x), "cotangent 0 of a sum"),
        (lambda g, x: (g + 1e-30 * (g == 0)) * (3 * x * x), "cotangent 0 of zero"),
    ],
    ids=["affine", "homogeneous", "not zero at zero"],
)
def test_rule_that_is_not_linear_fails(rule: Callable[..., Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_linear(calls(_cubed(rule), np.float64)[1], np.random.default_rng(0))


@pytest.mark.usefixtures("registry")
def test_recorded_constant_fails() -> None:
    def doubled(x: Any) -> Any:
        return 2 * x

    entry = constant(doubled, samples=lambda array: [((array(3),), {})], doc="wrongly said to be constant")
    with pytest.raises(AssertionError, match="recorded"):
        check_primitive(entry)


@pytest.mark.usefixtures("registry")
def test_constant_with_a_derivative_fails() -> None:
    def halved(x: Any) -> Any:
        return entry(x) if isinstance(x, functad.Tensor) else x / 2

    entry = constant(halved, compute=lambda x: x / 2, samples=lambda array: [((array(3),), {})], doc="wrongly constant")
    with pytest.raises(AssertionError, match="tangent of result 0"):
        check_primitive(entry)


RULES = [
    (entry, i)
    for entry in every_entry()
    if isinstance(entry, Primitive) and not is_constant(entry)
    for i, rule in enumerate(entry.vjps)
    # The backward walk adds the cotangent of something read by index where it belongs, without calling the rule.
    if rule is not None and not is_unknown(rule) and entry.special != PULL_READ
]


def _scaled(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule whose result is wrong by a hundred-thousandth, and that reads the same values."""

    def wrong(*args: Any) -> Any:
        ct = rule(*args)
        if isinstance(ct, (list, tuple)):
            return [None if part is None else part * 1.00001 for part in ct]
        return ct * 1.00001

    wrong.__signature__ = inspect.signature(rule)  # type: ignore[attr-defined]
    return wrong


@pytest.mark.parametrize(("entry", "position"), RULES, ids=[f"{label(entry)}-{i}" for entry, i in RULES])
def test_every_rule_is_noticed(entry: Primitive, position: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [_scaled(rule) if i == position and rule is not None else rule for i, rule in enumerate(entry.vjps)]
    known = list(entry.reverse_plans)
    monkeypatch.setitem(vars(entry), "vjps", tuple(rules))
    monkeypatch.setitem(vars(entry), "reverse_plans", {})
    monkeypatch.setitem(vars(entry), "forward_plans", {})
    short_ways: list[tuple[dict[Any, Any], Any]] = [
        (BINARY, entry.function),
        (UNARY, entry.function),
        (entry.__dict__, "unary_plan"),
    ]
    for kept, key in short_ways:  # they hold the right rules; what the test makes holds wrong ones, and is forgotten again
        monkeypatch.setitem(kept, key, None)
        del kept[key]
    for active in known:  # some fast paths look them up without making them
        entry.reverse_plan(active)
    with pytest.raises(AssertionError, match="off by"):
        check_primitive(entry)
