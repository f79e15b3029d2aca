"""Random NumPy programs: values against NumPy, derivatives of both modes against differences, expression lists against both."""

from __future__ import annotations

import collections
import functools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import functad
from functad import tree_flatten
from functad.errors import AbstractValueError
from functad.primitives.entry import ENTRIES
from functad.testing import NothingComparedError, Program, WrongDerivativeError, check_grads, draw_program
from functad.testing.programs import lines
from functad.testing.programs.drafts import FAMILIES, STATEMENTS, literal
from functad.testing.strategies import programs

SUPPRESSED = [HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large]
many = settings(max_examples=320, deadline=None, suppress_health_check=SUPPRESSED)
some = settings(max_examples=150, deadline=None, suppress_health_check=SUPPRESSED)

GROUPS = [
    ["elementwise", "reductions", "selection"],
    ["shaping", "indexing", "joining"],
    ["contractions", "linalg", "shaping"],
    ["scans", "ordering", "nan", "fft"],
    ["registry", "elementwise"],
]


def agrees_with_numpy(program: Program) -> None:
    """Check that a program gives the same under a trace as on arrays."""
    expected = program(*program.inputs)
    same(functad.vjp(program, *program.inputs)[0], expected, 1e-11)


def same(found: Any, expected: Any, tolerance: float) -> None:
    (left, structure), (right, wanted) = tree_flatten(found), tree_flatten(expected)
    assert structure == wanted
    for a, b in zip(left, right, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def differentiates(program: Program, order: int, modes: Any = ("rev", "fwd")) -> bool:
    """Check the derivatives of a program; return whether there was anything to compare."""
    try:
        check_grads(program, program.inputs, order, modes)
    except NothingComparedError:  # it ends at a kink everywhere: the sign of a difference of equals
        return False
    return True


def assert_most(compared: list[bool]) -> None:
    """Check that derivatives of nearly all programs were compared with something."""
    assert len(compared) >= 100
    assert sum(compared) > 0.9 * len(compared)


def test_there_is_a_group_for_every_family():
    assert set(FAMILIES) - {"numbers", "views"} == {family for group in GROUPS for family in group}


@pytest.mark.parametrize("group", GROUPS, ids="-".join)
def test_first_derivatives_within_families(group):
    compared = []

    @many
    @given(programs(families=group))
    def check(program):
        agrees_with_numpy(program)
        compared.append(differentiates(program, 1))

    check()
    assert_most(compared)


def test_first_derivatives_of_mixed_programs():
    compared = []

    @many
    @given(programs())
    def check(program):
        agrees_with_numpy(program)
        compared.append(differentiates(program, 1))

    check()
    assert_most(compared)


def test_second_derivatives_of_mixed_programs():
    compared = []

    @some
    @given(programs(max_operations=5))
    def check(program):
        compared.append(differentiates(program, 2))

    check()
    assert_most(compared)


@some
@given(programs(max_operations=5))
def test_programs_have_expression_lists(program):
    """The list gives the same value, and so does the list of the pull-back."""
    expected, pullback = functad.vjp(program, *program.inputs)
    g = functad.tree_map(lambda y: np.cos(np.arange(np.size(y))).reshape(np.shape(y))[()], expected)

    def pulled(*inputs):
        return functad.vjp(program, *inputs)[1](g)

    try:
        with np.errstate(all="ignore"):  # of branches that are not taken
            value = functad.make_expressions(program)(*program.inputs).check()(*program.inputs)
            cotangents = functad.make_expressions(pulled)(*program.inputs).check()(*program.inputs)
    except AbstractValueError:
        assert program.value_dependent, f"asks for values:\n{program}"
        return
    same(value, expected, 1e-11)
    same(cotangents, pullback(g), 1e-9)


@pytest.mark.parametrize("part", range(2))
def test_programs_that_write(part):
    compared = []

    @many
    @given(programs(mutation=True))
    def check(program):
        inputs = [np.copy(x) for x in program.inputs]
        agrees_with_numpy(program)
        compared.append(differentiates(program, 1 + part, ("rev",) if part else ("rev", "fwd")))
        for before, after in zip(inputs, program.inputs, strict=True):
            assert np.array_equal(before, after)

    check()
    assert_most(compared)


# The programs themselves


@functools.cache
def drawn(seed: int, **options: Any) -> Program:
    rng = np.random.default_rng(seed)
    return draw_program(lambda n: int(rng.integers(n)), **options)


@pytest.mark.parametrize("mutation", [False, True], ids=["pure", "mutation"])
def test_programs_are_valid_numpy(mutation):
    """The source runs where only NumPy is known, leaves its inputs alone, and gives finite numbers, the same each time."""
    ranks, writes = set(), collections.Counter()
    for seed in range(500):
        program = drawn(seed, mutation=mutation)
        space: dict[str, Any] = {}
        exec(str(program), space)
        with np.errstate(all="ignore"):  # of branches that are not taken
            found = tree_flatten(space["program"](*space["inputs"]))[0]
        expected = tree_flatten(program(*program.inputs))[0]
        assert np.all([np.array_equal(a, b) for a, b in zip(found, expected, strict=True)]), program
        assert np.all([np.all(np.isfinite(a)) for a in expected]), program
        for a, b in zip(space["inputs"], program.inputs, strict=True):
            assert np.array_equal(a, b), program
        ranks |= {np.ndim(x) for x in (*program.inputs, *expected)}
        writes.update(
            re.findall(r"(\+=|-=|\*=|\] =|np\.add\.at|np\.copyto|put_along_axis|fill_diagonal|subtract\.at)", program.source)
        )
        assert mutation or not program.mutates
    assert ranks == {0, 1, 2, 3, 4}
    assert bool(writes) == mutation
    if mutation:
        assert set(writes) >= {"+=", "*=", "] =", "np.add.at", "np.copyto", "put_along_axis", "fill_diagonal"}


def test_programs_that_write_are_differentiable():
    """By differences: what is drawn is a smooth function nearly everywhere, so that a comparison says something."""
    from functad.testing.numerical import measure

    smooth = total = 0
    for seed in range(200):
        program = drawn(seed, mutation=True)
        rng = np.random.default_rng(seed)
        direction = [rng.standard_normal(np.shape(x)) for x in program.inputs]
        for m in measure(lambda *xs, p=program: tree_flatten(p(*xs))[0], program.inputs, direction):
            smooth, total = smooth + np.count_nonzero(m.smooth), total + np.size(m.smooth)
    assert smooth > 0.95 * total


def test_few_programs_have_nothing_to_compare():
    nothing = 0
    for seed in range(200):
        program = drawn(seed)
        try:
            check_grads(program, program.inputs, 1, ("rev",))
        except NothingComparedError:
            nothing += 1
    assert nothing <= 4


def test_all_families_and_most_entries_occur():
    families, source = collections.Counter(), ""
    for seed in range(1500):
        program = drawn(seed)
        families.update(program.families)
        source += program.source
    assert set(families) == set(FAMILIES) - {"numbers", "views"}
    assert min(families.values()) > 100
    called = set(re.findall(r"np\.[\w.]+", source))
    entries = [entry for entry in ENTRIES.values() if not entry.name.startswith("special.")]  # of NumPy, not SciPy
    names = {entry.name for entry in entries if entry.kind != "constant"}
    missing = {name for name in names if not any(call.rsplit(".", 1)[1] == name for call in called)}
    assert len(missing) < 0.25 * len(names), missing


def test_new_entries_take_part_by_themselves():
    names = {row[0] for row in lines._sampled()}
    assert {"np.linalg.svd", "np.interp", "np.fft.irfft", "np.nanmedian", "np.einsum"} <= names


@pytest.mark.parametrize("module", [module for modules in lines.SAMPLED.values() for module in modules])
def test_every_module_with_samples_is_one(module):
    assert lines._sampled((module,))


def test_programs_write_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(300):
        drawn(seed, families=("registry",))
    assert not list(tmp_path.iterdir())
    assert not [row[0] for row in lines._sampled() if row[1].status == "refused"]


def test_families_can_be_chosen():
    for seed in range(20):
        assert set(drawn(seed, families=("fft", "linalg")).families) <= {"fft", "linalg", "elementwise"}
    with pytest.raises(ValueError, match="no family 'fish'"):
        drawn(0, families=("fish",))


def test_rank_is_limited():
    for seed in range(50):
        program = drawn(seed, max_rank=2)
        assert all(np.ndim(y) <= 2 for y in tree_flatten(program(*program.inputs))[0])
        assert all(np.ndim(x) <= 2 for x in program.inputs)


def test_literals_mean_what_they_stand_for():
    values = [np.arange(3), np.array([[1.5, np.nan], [-np.inf, 0.1]]), np.zeros((0, 2)), np.float64(0.25), [1, (2, None)], True]
    values += [slice(None, 3), "inf", np.array([True]), np.dtype(np.float32), np.float32, np.ones(2, np.float32), Ellipsis]
    for value in values:
        back = eval(literal(value), {"np": np})
        if isinstance(value, np.ndarray):
            assert back.dtype == value.dtype
            np.testing.assert_array_equal(back, value)
        else:
            assert back == value


def test_writes_are_all_drawn():
    writes = STATEMENTS["mutation"]
    assert len(writes) == len({*writes}) + 1  # assignment to elements is twice as likely


# Wrong rules, which random programs must find


WATCHED = [np.maximum, np.sum, np.sin, np.matmul, np.where, np.cumsum, np.transpose, np.concatenate, np.prod]


@pytest.mark.parametrize("function", WATCHED, ids=lambda f: f.__name__)
def test_a_wrong_rule_is_found(function, monkeypatch):
    from functad.tracing.operators import BINARY, UNARY

    entry = ENTRIES[function]
    rules = tuple(None if rule is None else _scaled(rule) for rule in entry.vjps)
    known = list(entry.reverse_plans)
    monkeypatch.setitem(vars(entry), "vjps", rules)
    monkeypatch.setitem(vars(entry), "reverse_plans", {})
    monkeypatch.setitem(vars(entry), "forward_plans", {})
    monkeypatch.delitem(entry.__dict__, "unary_plan", raising=False)
    for active in known:  # some fast paths look them up without making them
        entry.reverse_plan(active)
    monkeypatch.delitem(BINARY, function, raising=False)
    monkeypatch.delitem(UNARY, function, raising=False)
    found = False
    for seed in range(400):
        program = drawn(seed)
        if f"np.{entry.name}(" not in program.source:
            continue
        try:
            differentiates(program, 1, ("rev",))
        except WrongDerivativeError:
            found = True
            break
    UNARY.pop(function, None)
    entry.__dict__.pop("unary_plan", None)
    assert found


def _scaled(rule):
    import inspect

    def wrong(*args):
        ct = rule(*args)
        return [None if part is None else part * 1.001 for part in ct] if isinstance(ct, (list, tuple)) else ct * 1.001

    wrong.__signature__ = inspect.signature(rule)
    return wrong
