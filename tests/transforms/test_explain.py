"""`explain` tells why a gradient is zero or missing, and where."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import ConversionError, InputError, OutputError
from functad.testing import calls, every_entry
from tests.entries import label

FILE = re.escape(Path(__file__).name)
X = np.array([1.0, -2.0, 3.0])
TABLE = np.arange(12.0).reshape(4, 3)


def only(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    (finding,) = functad.explain(f, *args, **kwargs).findings
    return finding


def line(f: Callable[..., Any], text: str) -> int:
    """Return the line of a function on which a text stands."""
    lines, first = inspect.getsourcelines(f)
    (found,) = [first + i for i, source in enumerate(lines) if text in source]
    return found


def test_connected():
    finding = only(lambda x: np.sum(np.sin(x)), X)
    assert (finding.path, finding.status, finding.connected, finding.reasons) == ("args[0]", "connected", True, ())


def test_not_used():
    report = functad.explain(lambda x, y: np.sum(x), X, {"a": [X, 1.0]}, argnums=(0, 1))
    assert [(f.path, f.status) for f in report.findings] == [
        ("args[0]", "connected"),
        ("args[1]['a'][0]", "missing"),
        ("args[1]['a'][1]", "missing"),
    ]
    assert str(report).splitlines()[2] == "  args[1]['a'][0]: missing, it is not used"


CUTS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("integer cast", lambda x: np.sum(x.astype(int)) * 1.0, "cut by astype(int64)"),
    ("boolean cast", lambda x: np.sum(x.astype(bool)), "cut by astype(bool)"),
    ("operator >", lambda x: np.sum((x > 0) * 2.0), "cut by np.greater"),
    ("operator < on the right", lambda x: np.sum((X < x) * 2.0), "cut by np.less"),  # noqa: SIM300
    ("np.less", lambda x: np.sum(np.less(x, 0.0)), "cut by np.less"),
    ("operator //", lambda x: np.sum(x // 2), "cut by np.floor_divide"),
    ("np.argmax", lambda x: np.argmax(x) * 2.0, "cut by np.argmax"),
    ("t.argsort", lambda x: np.sum(x.argsort() * X), "cut by np.argsort"),
    ("np.nonzero", lambda x: np.nonzero(x)[0].sum(), "cut by np.nonzero"),
    ("np.searchsorted", lambda x: np.sum(np.searchsorted(np.arange(3.0), x)), "cut by np.searchsorted"),
    ("stop_gradient", lambda x: np.sum(functad.stop_gradient(x)), "cut by stop_gradient"),
    ("np.floor", lambda x: np.sum(np.exp(np.floor(x))), "cut by np.floor"),
    ("np.round", lambda x: np.sum(np.round(x, 1)), "cut by np.round"),
    ("np.sign", lambda x: np.sum(np.sign(x) + 1), "cut by np.sign"),
    ("np.where by condition", lambda x: np.sum(np.where(x, 1.0, 2.0)), "cut by np.where"),
    ("np.isnan", lambda x: np.sum(~np.isnan(x)), "cut by np.isnan"),
]


@pytest.mark.parametrize(("f", "reason"), [row[1:] for row in CUTS], ids=[row[0] for row in CUTS])
def test_cut(f, reason):
    finding = only(f, X)
    assert (finding.status, finding.connected) == ("zero", False)
    assert len(finding.reasons) == 1
    assert re.fullmatch(rf"{re.escape(reason)} at .*{FILE}:{f.__code__.co_firstlineno}", finding.reasons[0])
    assert not np.any(functad.grad(lambda x: f(x) * 1.0)(X))


def test_every_cut_is_named_with_its_line():
    def f(x: Any) -> Any:
        steps = np.floor(x)
        mask = x > 0
        return np.sum(steps * mask)

    finding = only(f, X)
    floor, greater = line(f, "np.floor"), line(f, "x > 0")
    assert [re.search(r":(\d+)$", reason)[1] for reason in finding.reasons] == [str(floor), str(greater)]


def test_a_cut_whose_result_is_not_used_is_none():
    def f(x: Any) -> Any:
        np.floor(x)
        return np.sum(np.sign(x))

    assert [reason.split(" at ")[0] for reason in only(f, X).reasons] == ["cut by np.sign"]


def test_one_of_two_paths_is_cut():
    finding = only(lambda x: np.sum(x * np.floor(x)), X)
    assert finding.status == "connected"
    assert finding.reasons[0].startswith("but another path is cut by np.floor at ")


VANISHING: list[tuple[str, Callable[[Any], Any], str]] = [
    ("mask", lambda x: np.sum(x * (np.arange(3) > 5)), "at these values by np.multiply"),
    ("traced mask", lambda x: np.sum(x * functad.stop_gradient(x > 5)), "at these values by np.multiply"),
    ("where", lambda x: np.sum(np.where(X > 5, x, 0.0)), "at these values by np.where"),
    ("where, infinite", lambda x: np.sum(np.where(X > 5, np.log(x * 0), 0.0)), "at these values by np.where"),
    ("relu", lambda x: np.sum(np.maximum(x, 10.0)), "at these values by np.maximum"),
    ("clip", lambda x: np.sum(np.clip(x, 10.0, 11.0)), "at these values by np.clip"),
    ("empty slice", lambda x: np.sum(x[:0]) + 1.0, "at these values by np.sum"),
    ("power", lambda x: np.sum((x - X) ** 2), "at these values by np.power"),
    ("cancelling", lambda x: np.sum(x - x), "its contributions cancel"),
]


@pytest.mark.parametrize(("f", "reason"), [row[1:] for row in VANISHING], ids=[row[0] for row in VANISHING])
def test_zero_at_these_values(f, reason):
    with np.errstate(divide="ignore"):
        finding = only(f, X)
        assert (finding.status, finding.connected) == ("zero", True)
        assert finding.reasons[0].startswith(reason)
        assert not np.any(functad.grad(f)(X))


def test_several_results_of_one_operation():
    def f(x: Any) -> Any:
        values, _ = np.linalg.eigh(x + x.T)
        return np.sum(values) * 0.0

    assert only(f, np.eye(2) + TABLE[:2, :2]).reasons[0].startswith("at these values by np.multiply")


def test_values_that_leave_the_trace():
    def f(x: Any) -> Any:
        i = np.argmax(x)
        return TABLE[i].sum()

    finding = only(f, X)
    assert finding.status == "missing"
    at = line(f, "argmax"), line(f, "TABLE[i]")
    pattern = rf"the result of np\.argmax at .*{FILE}:{at[0]} (becomes a plain array|is used as an integer) at .*{FILE}:{at[1]}"
    assert re.fullmatch(pattern, finding.reasons[0])


def test_branches():
    def f(x: Any) -> Any:
        if x[0] > 0:
            return 1.0
        return 2.0

    finding = only(f, X)
    assert finding.status == "missing"
    assert f"decides a branch at {__file__}:{line(f, 'if x')}" in finding.reasons[0]


def test_what_is_computed_and_dropped():
    def f(x: Any) -> Any:
        np.sin(x)
        return np.ones(())

    assert f"the result does not depend on np.sin at {__file__}:{line(f, 'np.sin')}" in only(f, X).reasons


def test_conversions_are_let_through_and_listed():
    def f(x: Any) -> Any:
        first = math.sin(x[0])
        rest = np.asarray(x[1:])
        return first + rest.sum()

    finding = only(f, X)
    assert finding.status == "missing"
    lines = line(f, "math.sin"), line(f, "asarray")
    assert finding.reasons == (
        f"grad raises where it is converted by float() at {__file__}:{lines[0]}",
        f"grad raises where it becomes a plain array at {__file__}:{lines[1]}",
    )
    with pytest.raises(ConversionError):
        functad.grad(f)(X)


def test_constants_behave_as_the_plain_values_they_stand_for():
    seen: dict[str, Any] = {}

    def f(x: Any) -> Any:
        mask, best, plain = x > 0, np.argmax(x), functad.stop_gradient(x)
        counts = np.zeros(3)
        counts += mask
        seen["counts"] = np.asarray(counts).tolist()
        seen["index"] = [10, 20, 30][best], {2: "two"}[best], x[best], TABLE[0][mask].tolist(), list(range(best))
        seen["numbers"] = (
            float(plain[0]),
            int(plain[2]),
            plain.tolist(),
            plain[1].item(),
            complex(plain[0]),
            plain.flags.owndata,
        )
        seen["text"] = f"{plain[0]:.1f}", "%.1f" % plain[0]  # noqa: UP031
        seen["numpy"] = np.unique(mask).tolist(), np.packbits(mask).tolist(), np.add.reduce(plain).tolist()
        mask[0] = False
        seen["mask"] = mask.tolist(), (mask & True).tolist(), (~mask).tolist(), x[mask].shape
        assert not mask[0]
        return np.sum(x[mask]) + np.sum(np.where(mask, x, 0.0)) + np.sum(x, where=mask)

    assert only(f, X).status == "connected"
    watched = dict(seen)
    assert functad.grad(f)(X).tolist() == [0.0, 0.0, 3.0]
    assert watched.pop("index")[:2] == seen.pop("index")[:2]
    assert watched == seen


def test_a_gradient_inside():
    def f(x: Any) -> Any:
        inner = functad.grad(lambda y: np.sum(np.floor(x) * y * y))(x)
        return np.sum(np.add(inner, x > 0))

    finding = only(f, X)
    assert finding.status == "connected"
    assert any("np.floor" in reason for reason in finding.reasons)


def test_within_a_gradient():
    reports = []

    def f(x: Any) -> Any:
        reports.append(functad.explain(lambda y: np.sum(np.floor(y) + x), x))
        return np.sum(x * x)

    assert functad.grad(f)(X).tolist() == (2 * X).tolist()
    assert reports[0].findings[0].reasons[0].startswith("cut by np.floor")


def test_selection_of_arguments():
    def f(a: float, b: float, *, c: float) -> Any:
        return b * c

    assert [g.status for g in functad.explain(f, 1.0, 2.0, argnums=(0, -1), c=3.0).findings] == ["missing", "connected"]
    assert only(f, 1.0, 2.0, argnames="c", c=3.0).path == "kwargs['c']"
    assert only(lambda x: (x * 0 + 1, x), 2.0, has_aux=True).status == "zero"
    with pytest.raises(InputError):
        functad.explain(f, 1.0, 2.0, argnums=5, c=3.0)
    with pytest.raises(OutputError):
        functad.explain(lambda x: "text", 1.0)


def test_what_cannot_be_differentiated():
    report = functad.explain(lambda x: x["w"] * 1.0, {"n": 3, "w": 1.0, "name": "a"})
    assert [(f.path, f.status) for f in report.findings] == [
        ("args[0]['n']", "refused"),
        ("args[0]['name']", "refused"),
        ("args[0]['w']", "connected"),
    ]
    assert "Integers have no derivative" in report.findings[0].reasons[0]


def test_complex_and_several_results():
    report = functad.explain(lambda z: {"a": np.abs(z), "b": [z.real > 0, 3.0]}, X + 1j)
    assert report.findings[0].status == "connected"
    assert only(lambda z: np.sum(np.real(z) > 0), X + 1j).status == "zero"


@pytest.mark.parametrize("entry", [e for e in every_entry() if e.status != "refused"], ids=label)
def test_it_agrees_with_the_gradient_of_every_function(entry):
    for call in calls(entry, np.float64):
        if not call.primals:
            continue
        report = functad.explain(call.arrays, *call.primals, argnums=tuple(range(len(call.primals))))
        values, pullback = functad.vjp(call.arrays, *call.primals)
        generator = np.random.default_rng(1)
        seeds = [generator.uniform(0.5, 1.5, np.shape(value)).astype(np.asarray(value).dtype) for value in values]
        for finding, cotangent in zip(report.findings, pullback(tuple(seeds)), strict=True):
            if finding.status != "connected":
                assert np.allclose(cotangent, 0.0, atol=1e-12), f"{call}: {finding}"  # exactly, but for cancellation
                assert finding.reasons
            else:
                assert np.any(cotangent), f"{call}: {finding}"


def test_what_is_written_into_a_buffer_through_a_view():
    def f(x: Any) -> Any:
        y = np.zeros((2, 3), like=x)
        row = y[1]
        row[1:] = x[:2]
        y.T[0] += x[2]
        return np.sum(y)

    assert "args[0]: connected" in str(functad.explain(f, X))
    assert functad.grad(f)(X).tolist() == [1.0, 1.0, 2.0]


def test_a_buffer_like_a_view_that_was_written_to():
    def f(x: Any) -> Any:
        view = x[0:1]
        view[0] = x[1]
        return np.sum(np.zeros(3, like=view) + view)

    assert functad.explain(f, X).findings[0].status == "connected"
    assert functad.grad(f)(X).tolist() == [0.0, 3.0, 0.0]


@pytest.mark.parametrize(
    "inside",
    [
        functad.checkpoint(lambda x: np.floor(x) * 1.0),
        functad.checkpoint_sequence(lambda i, x: np.floor(x) * 1.0, 3),
        functad.vmap(functad.checkpoint(lambda x: np.floor(x) * 1.0)),
        functad.checkpoint(functad.checkpoint(np.floor)),
    ],
)
def test_what_checkpoints_cut_is_told(inside):
    finding = functad.explain(lambda x: np.sum(inside(x)), X).findings[0]
    assert finding.status == "zero"
    assert "cut by np.floor" in finding.reasons[0]


def test_a_value_kept_by_comparing_is_told():
    class Kept:
        last: Any = None
        value: Any = None

        def __call__(self, x: Any) -> Any:
            plain = functad.stop_gradient(x)
            if self.last is not None and np.array_equal(plain, self.last):
                return self.value
            self.last, self.value = np.copy(plain), np.copy(functad.stop_gradient(x**2))
            return x**2

    kept = Kept()

    def f(x: Any) -> Any:
        return np.sum(kept(x)) + np.sum(x)

    assert functad.grad(f)(X).tolist() == (2.0 * X + 1.0).tolist()
    again = functad.explain(f, X).findings[0]
    assert re.match(rf"but it equals what np.array_equal at .*{FILE}:\d+ compares it with", again.reasons[0])
    assert functad.explain(f, X + 1.0).findings[0].reasons == ()


def test_a_function_that_is_nothing_but_a_value_kept_by_comparing():
    kept: dict[str, Any] = {"x": np.copy(X), "value": 3.0}

    def f(x: Any) -> Any:
        return kept["value"] if np.array_equal(x, kept["x"]) else np.sum(x)

    (finding,) = functad.explain(f, X).findings
    assert finding.status == "missing"
    assert re.match(rf"it equals what np.array_equal at .*{FILE}:\d+ compares it with: a value kept", finding.reasons[0])


def test_values_that_fromiter_reads_one_by_one_are_connected():
    def f(x):
        return np.sum(np.fromiter((v * 2 for v in x), float, like=x))

    assert functad.grad(f)(np.array([1.0, 2.0])).tolist() == [2.0, 2.0]
    assert "connected" in str(functad.explain(f, np.array([1.0, 2.0])))
