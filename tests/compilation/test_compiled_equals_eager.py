"""Generated comparison of compiled with eager functions: `functad.testing.programs.cases` draws the programs and the calls."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad.backends.backend import find
from functad.errors import MissingPackageError
from functad.testing import fuzz
from functad.testing.programs.borders import BOOLEANS, LOOPS, PLACES
from functad.testing.programs.cases import CALLS, MODES, Case, CaseExamination, agree, draw_case

SEEDS = {
    "numpy": (*range(200), 576, 1336, 2168, 2515, 3215, 3812, 4189, 4731, 6825, 7917, 8254),
    "llvm": (*range(120), 576, 1336, 2168, 2515, 3812, 4189, 4731, 7917),
    "xla": (*range(3, 9), 30047, 30072, 30132, 30376, 30402, 31394, 31758, 31885, 31944),
}
"""The seeds for each backend, with the seeds of differences that were fixed.

`python -m functad.testing.fuzz --profile compiled-llvm` checks any number of programs.
"""

KNOWN: dict[int, str] = {}
"""Seeds of programs whose results differ, and the reason. A seed leaves this table when the difference is gone."""


@pytest.mark.parametrize("backend", SEEDS)
def test_compiled_equals_eager(backend):
    try:
        find(backend)
    except MissingPackageError as missing:
        pytest.skip(f"the backend needs an optional package: {missing}")
    found = {seed: CaseExamination(fuzz.drawn(f"compiled-{backend}", seed)).findings() for seed in SEEDS[backend]}
    found = {seed: list(findings) for seed, findings in found.items()}
    wrong = [seed for seed, findings in found.items() if any(finding.fails for finding in findings)]
    shown = [f"{fuzz.drawn(f'compiled-{backend}', seed).source}{found[seed]}" for seed in wrong if seed not in KNOWN]
    assert wrong == [seed for seed in SEEDS[backend] if seed in KNOWN], "\n\n".join(shown)
    compared = [finding for findings in found.values() for finding in findings if finding.check == "compiled"]
    assert sum(finding.outcome == "compared" for finding in compared) > 0.8 * len(SEEDS[backend])


def cases(count, backend="numpy"):
    return [fuzz.drawn(f"compiled-{backend}", seed) for seed in range(count)]


def test_a_seed_gives_one_case():
    assert [repr(case) for case in cases(20)] == [repr(case) for case in cases(20)]
    assert len({repr(case) for case in cases(20)}) == 20


def test_printed_cases_can_be_pasted():
    for case in cases(30):
        space = {}
        text, _, _ = repr(case).rpartition("print(case(eager")
        exec(text, space)
        for x, y in zip(space["inputs"], case.inputs, strict=True):
            assert type(x) is type(y)
            assert x == y if type(x) is int else np.array(x).tobytes() == np.array(y).tobytes()


def test_every_mode_call_and_border_is_drawn():
    drawn = cases(1500)
    text = "\n".join(map(repr, drawn))
    assert {case.mode for case in drawn} == set(MODES)
    assert {case.calls for case in drawn} == set(CALLS)
    assert {case.place for case in drawn} == {"", *PLACES}
    for wanted in (
        *("2**63", "2**64", "-2**63", "2**31", "10**30", ".view(bool)", ".newbyteorder()", "np.asfortranarray", "[..., ::2]"),
        *("[::-1]", "np.broadcast_to", "np.inf", "np.nan", "-0.0", "(2, 2.0, 2,)", "F.fori_loop(0, 0"),
        *("F.fori_loop(0, 1", "length=0", "length=1", "F.while_loop", "F.cond", "[0, ...]", ".reshape(())", "[()]", "(300,)"),
    ):
        assert wanted in text, wanted
    assert len(BOOLEANS) > 20
    assert len(LOOPS) > 20


CASE = Case(("a0 = x0 * 2.0",), (np.array([1.0, 2.0]),), (), texts=("np.array([1.0, 2.0])",))


def outcome(lines, **options):
    case = Case(tuple(lines), CASE.inputs, (), texts=CASE.texts, **options)
    return [(finding.check, finding.outcome) for finding in CaseExamination(case).findings()]


def test_equal_results_are_compared():
    assert outcome(["a0 = x0 * 2.0"]) == [("compiled", "compared"), ("arguments", "compared")]


@pytest.mark.parametrize(
    "line",
    [
        "a0 = x0 * (2.0 if type(x0) is np.ndarray else 3.0)",
        "a0 = x0 * 2.0 if type(x0) is np.ndarray else (x0 * 2.0).astype(np.float32)",
        "a0 = np.sum(x0) if type(x0) is np.ndarray else np.sum(x0, keepdims=True)",
        "a0 = [x0 * 2.0] if type(x0) is np.ndarray else (x0 * 2.0,)",
        "a0 = x0 * np.inf if type(x0) is np.ndarray else x0 * np.nan",
        "a0 = 1 if type(x0) is np.ndarray else True",
        "a0 = [1, 2][0 if type(x0) is not np.ndarray else 2]",
    ],
)
def test_differences_are_found(line):
    assert outcome([line])[0] == ("compiled", "wrong")


def test_results_in_the_precision_of_an_input_have_its_tolerance():
    one, other = np.float64(np.float32(-0.49706006)), np.float64(np.float32(-0.49706009))
    assert agree(one, other, 4)
    assert not agree(one, other)
    assert not agree(one, other + 1e-8, 4)
    assert not agree(one, np.float64(np.float32(-0.498)), 4)


def differences_of_xla(text, line, **options):
    pytest.importorskip("jax", reason="the xla backend needs jax, of the extra `xla`")
    case = Case((line,), (eval(text),), (), texts=(text,), backend="xla", calls="same", **options)
    return next(CaseExamination(case).findings()).outcome


@pytest.mark.parametrize(
    ("value", "same", "other"),
    [
        ("np.array([1.0, 1e-310])", "x0 == 0", "x0 * (1.0 if type(x0) is np.ndarray else 2.0)"),
        ("np.array([complex(np.nan, 0.0), 1.0])", "x0 * 1.0", "x0 * (1.0 if type(x0) is np.ndarray else np.nan)"),
        ("np.array([0.5, 4.0])", "(x0 + (2**53)) - (2**53)", "(x0 + (2**53)) - (2**53 - (2 if type(x0) is np.ndarray else 8))"),
        ("np.array([-0.0])", "1 / (x0 + 0)", "1 / (x0 + 0) if type(x0) is np.ndarray else -3 / (x0 + 2)"),
    ],
    ids=["subnormal", "complex NaN", "constants", "signed zero"],
)
def test_no_more_than_documented_differences_of_xla_pass(value, same, other):
    assert differences_of_xla(value, f"a0 = {same}") != "wrong"
    assert differences_of_xla(value, f"a0 = {other}") == "wrong"


def test_derivatives_of_xla_at_infinities_are_those_of_eager_code():
    line = "a0 = np.where(x0[1] > 2, x0 @ x0, 0.0)"
    assert differences_of_xla("np.array([np.inf, 0.0])", line, mode="value_and_grad") != "wrong"


@pytest.mark.parametrize(
    ("value", "same", "other"),
    [
        ("np.array([complex(-np.inf, 0)])", "np.power(x0, 0.5)", "x0 ** (0.5 - {d} / 4)"),
        ("np.array([complex(-np.inf, 0)])", "np.vdot(x0, x0)", "np.vdot(x0, x0) if {d} == 0 else np.ones_like(x0)[0]"),
        (
            "3",
            "F.scan(lambda c, x: (c * 0.5, c), x0, None, length=1)[1]",
            "F.scan(lambda c, x: (c * 0.5, c + {d}), x0, None, length=1)[1]",
        ),
        (
            "np.array(0.75)",
            "F.cond(x0 > 0, lambda h: h, lambda h: 0 * h, x0)",
            "F.cond(x0 > 0, lambda h: h * (1 + {d}), lambda h: h, x0)",
        ),
        ("np.array([2, 1], np.uint8).view(bool)", "x0[:1] <= x0", "x0 if {d} == 0 else ~x0"),
        ("np.array([0.3, 0.7])", "np.sum(x0, dtype=np.float32)", "np.sum(x0, dtype=np.float32) + {d} * 1e-3"),
    ],
    ids=["power", "infinite products", "integer carry", "scalar", "bytes of booleans", "float32"],
)
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_no_more_than_documented_differences_pass(value, same, other, backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite")
    outcomes = []
    for line in (same, other.format(d="int(hasattr(x0, 'recorder'))")):
        case = Case((f"a0 = {line}",), (eval(value),), (), texts=(value,), backend=backend, calls="same")
        outcomes.append(next(CaseExamination(case).findings()).outcome)
    assert outcomes[0] != "wrong"
    assert outcomes[1] == "wrong"


def test_exceptions_are_compared():
    assert outcome(["a0 = x0 + np.ones(3)"])[0] == ("compiled", "compared")
    assert outcome(["a0 = x0 if type(x0) is np.ndarray else x0 + np.ones(3)"])[0] == ("compiled", "bare")


def test_arguments_that_change_are_found():
    case = Case(("x0[...] = 3.0", "a0 = x0 * 1.0"), (np.array([1.0, 2.0]),), (), texts=CASE.texts)
    assert [(finding.check, finding.outcome) for finding in CaseExamination(case).findings()][1] == ("arguments", "wrong")


def test_failures_are_made_short():
    lines = ("a0 = np.sin(x0)", "a1 = a0 * (2.0 if type(x0) is np.ndarray else 3.0)", "a2 = np.cos(a0)")
    case = Case(lines, CASE.inputs, (), texts=CASE.texts)
    [finding] = [finding for finding in CaseExamination(case).findings() if finding.fails]
    short = fuzz.made_short(0, case, finding).program
    assert short.lines == ("a0 = x0", lines[1])
    assert short.calls == "same"


def test_draw_case_takes_any_source_of_randomness():
    assert draw_case(lambda n: 0).lines


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_stacked_slices_with_different_steps(backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite", reason="the extra `jit`")
    x = np.arange(1.0, 11.0)
    for f in (lambda x: np.stack([x[0:4], x[1:8:2]]), lambda x: np.stack([x[0:4], x[2:6], x[4:8]])):
        np.testing.assert_array_equal(functad.jit(f, backend=backend)(x), f(x))
        g = functad.grad(lambda x: np.sum(f(x) ** 2))  # noqa: B023 - it is called here
        np.testing.assert_allclose(functad.jit(g, backend=backend)(x), g(x), rtol=1e-14)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_repeated_indices_of_an_unsigned_dtype(backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite", reason="the extra `jit`")
    rows = np.array([3, 1, 3], np.uint8)
    g = lambda x, i: functad.grad(lambda x: np.sum(x[rows, i] ** 2))(x)  # noqa: E731
    x, i = np.arange(20.0).reshape(4, 5), np.array([2, 0, 2])
    np.testing.assert_array_equal(functad.jit(g, backend=backend)(x, i), g(x, i))


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.filterwarnings("error")
def test_a_complex_number_of_numpy_as_a_factor(backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite", reason="the extra `jit`")
    assert functad.jit(lambda x: x * np.complex128(1), backend=backend)(np.array([1j])).tolist() == [1j]
    p = functad.numerical_primitive(lambda x: np.sin(x))
    np.testing.assert_array_equal(functad.jit(lambda x: p(x) * 2, backend=backend)(np.ones(3)), np.sin(np.ones(3)) * 2)
