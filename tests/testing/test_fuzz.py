"""The command that checks random programs: what it draws, what it finds, and what it prints."""

from __future__ import annotations

import collections
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import functad
from functad.primitives.entry import ENTRIES
from functad.testing import Program, fuzz
from functad.testing.fuzz import shrink
from functad.testing.numerical import measure
from functad.testing.programs.nests import CONTAINERS, NEUTRAL, OUTERMOST, PRELUDE, PULLS, PUSHES, Layer, Nest, container
from functad.testing.programs.program import CHECKS, compare
from functad.tracing.operators import UNARY

SIMPLE = Program(
    ("a0 = np.sin(x0) * x1", "a1 = a0.sum(axis=0)"), (np.array([[0.3, 0.8], [-0.5, 1.2]]), np.array([0.7, -1.1])), ()
)


@pytest.mark.parametrize("profile", fuzz.PROFILES)
def test_programs_are_valid_numpy(profile):
    """The printed source gives the same, alone and again; inputs are left alone, flags too."""
    for seed in range(60):
        program = fuzz.drawn(profile, seed)
        assert repr(program) == repr(fuzz.drawn(profile, seed))
        if isinstance(program, Nest):
            program = program.as_program()
        space: dict[str, Any] = {}
        exec(str(program), space)
        inputs = space["inputs"]
        before = [(np.array(x), getattr(getattr(x, "flags", None), "writeable", None)) for x in inputs]
        with np.errstate(all="ignore"):
            found, again, expected = (f(*inputs) for f in (space["program"], space["program"], program))
        for a, b, c in zip(*(y if isinstance(y, tuple) else (y,) for y in (found, again, expected)), strict=True):
            assert np.array_equal(a, b), program
            assert np.array_equal(a, c), program
            assert type(a) is type(b) is type(c)
            assert np.all(np.isfinite(a)), program
        for x, y, (value, writeable) in zip(inputs, program.inputs, before, strict=True):
            assert np.array_equal(x, value), program
            assert np.array_equal(y, value), program
            assert getattr(x, "strides", ()) == getattr(y, "strides", ())
            assert getattr(getattr(x, "flags", None), "writeable", None) == writeable


def test_what_defects_were_found_by_occurs():
    source = "\n".join(repr(fuzz.drawn(profile, seed)) for profile in fuzz.PROFILES for seed in range(150))
    wanted = """
        order='K' order='A' order='F' .ravel( .flatten( .flat[ .T np.swapaxes( np.moveaxis( np.diagonal( np.squeeze(
        np.expand_dims( np.broadcast_to( .real .imag np.atleast_ np.asarray( astype(float, .conj() ::-1] out= np.put(
        np.add.at( np.take( take_along_axis( np.where( np.select( np.piecewise( np.copyto( .fill( np.asfortranarray( np.flip(
        isinstance( np.isscalar( ~m & np.float32( np.sin(np.arange( OrderedDict( defaultdict( Named[ GradientTape(
        ForwardAccumulator( implicit_gradients( F.scan( F.cond( F.custom_vjp( F.checkpoint( F.linearize( make_expressions(
        F.Variable( F.graph(
    """
    assert not [text for text in wanted.split() if text not in source]


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers_hold_what_they_are_given(kind):
    space: dict[str, Any] = {"np": np}
    exec(PRELUDE.replace("{names}", "{3: namedtuple('Named3', list('abc'))}"), space)
    for order in ([0, 1, 2], [2, 1, 0]):
        make, read, other = (eval(text, space) for text in container(kind, order))
        assert read(make((1.0, 2.0, 3.0))) == (1.0, 2.0, 3.0)
        assert set(map(str, read(other((1.0, 2.0, 3.0))))) == {"1.0", "2.0", "3.0"}


ALL_LAYERS = [(kind, name) for kind, table in (("pull", PULLS), ("push", PUSHES), ("neutral", NEUTRAL)) for name in table]


@pytest.mark.parametrize(("kind", "name"), ALL_LAYERS, ids=[name for _, name in ALL_LAYERS])
def test_layers_agree_with_the_plainest(kind, name):
    for order, container_kind in enumerate(("tuple", "dict", "nested")):
        layer = Layer(kind, name, container_kind, container_kind, turned=bool(order))
        nest = Nest(SIMPLE.lines, SIMPLE.inputs, (), layers=(layer,))
        found = fuzz.examined(nest)
        assert not [f for f in found if f.fails], found
        compared = {f.check for f in found if f.outcome == "compared"}
        assert {"nest", "arguments"} <= compared
        assert ("differences" in compared) == (kind != "neutral")
        assert ("over_reverse" in compared) == (name not in OUTERMOST)


def test_all_checks_of_a_plain_program_compare():
    found = fuzz.examined(SIMPLE)
    assert [f.check for f in found] == [*CHECKS, "arguments"]
    assert {f.outcome for f in found} == {"compared"}


def test_what_numpy_does_not_run_is_not_examined():
    assert fuzz.examined(replace(SIMPLE, lines=SIMPLE.lines[1:])) == []
    assert fuzz.examined(replace(SIMPLE, lines=("a0 = x0 > 0",))) == []


def test_what_hangs_on_the_last_digit_is_not_compared(monkeypatch):
    program = Program(("a0 = np.floor(x0)",), (np.array([3.0, 0.5]),), ("shown",))
    monkeypatch.setattr(fuzz.Examination, "check_value", lambda self: compare([2.0], [3.0], 1e-9))
    assert [f.outcome for f in fuzz.examined(program, ["value"])] == ["nothing"]
    steady = replace(program, inputs=(np.array([3.5, 0.5]),))
    assert [f.outcome for f in fuzz.examined(steady, ["value"])] == ["wrong"]


def test_examples_of_a_batch_are_not_written_into():
    """A raveled broadcast input is a copy, but a raveled example of a batch of such is a view of the batch."""
    flat = np.broadcast_to(np.array([-0.555, 0.664, -1.374]), (3, 3))
    lines = ("b0 = np.ravel(x0)", "a1 = np.cumsum(b0)", "b0[2] = 0.25")
    texts = ("np.broadcast_to(np.array([-0.555, 0.664, -1.374]), (3, 3))",)
    program = Program(lines, (flat,), ("shown",), mutates=True, texts=texts, returns=("a1",))
    assert {f.outcome for f in fuzz.examined(program, ["vmap"])} == {"compared"}


@pytest.mark.parametrize("width", [0.3, 0.05, 0.01])
def test_stairs_are_no_slope(width):
    [found] = measure(
        lambda x: [np.floor(x / width) * width], [np.linspace(0.51, 0.93, 9)], [np.ones(9)], real_bytes=4, twice=True
    )
    assert np.all(found.derivative[found.smooth] == 0)


def test_a_wrong_rule_is_found_and_made_short(monkeypatch, capsys):
    entry = ENTRIES[np.tan]
    monkeypatch.setitem(vars(entry), "vjps", (lambda g, x: g * 1.001 * (1 + np.tan(x) ** 2),))
    for name in ("reverse_plans", "forward_plans"):
        monkeypatch.setitem(vars(entry), name, {})
    monkeypatch.delitem(entry.__dict__, "unary_plan", raising=False)
    monkeypatch.delitem(UNARY, np.tan, raising=False)
    seed = next(seed for seed in range(2000) if "np.tan(" in fuzz.drawn("simple", seed).source)
    assert fuzz.main(["--profile", "simple", "--programs", "1", "--seed", str(seed)]) == 1
    printed = capsys.readouterr().out
    assert f"# seed {seed}: reverse is wrong" in printed
    report = printed.partition(f"# seed {seed}: reverse is wrong")[2].partition("# seed")[0]
    assert "np.tan(" in report
    assert report.count("    a") <= 3  # the line, one before it perhaps, and what is returned
    assert "check_grads(program, inputs, 1" in report
    UNARY.pop(np.tan, None)  # what was made of the wrong rule is forgotten
    entry.__dict__.pop("unary_plan", None)


def test_exceptions_from_inside_are_told_from_refusals(monkeypatch):
    def broken(f, *primals):
        raise AttributeError("'NoneType' object has no attribute 'shape'")

    monkeypatch.setattr(functad, "vjp", broken)
    [finding] = fuzz.examined(SIMPLE, ["value"])
    assert (finding.outcome, finding.what) == ("bare", "AttributeError")
    monkeypatch.undo()
    refused = replace(SIMPLE, lines=("a0 = np.asarray(x0) * 2.0",))
    [finding] = fuzz.examined(refused, ["value"])
    assert (finding.outcome, finding.what) == ("refused", "conversion")


def test_counts_add_up_over_blocks(capsys):
    first, second, both = (fuzz.check_block("simple", range(*ends))[0] for ends in ((0, 15), (15, 30), (0, 30)))
    assert first + second == both
    fuzz.main(["--profile", "simple", "--programs", "15", "--seed", "15"])
    printed = capsys.readouterr().out
    assert "simple: 15 of 15, next seed 30" in printed
    for (check, outcome, what), count in second.items():
        assert f"{count:9} {check:<12} {outcome} {what}" in printed


def test_processes_find_the_same():
    assert fuzz.check_block("numbers", range(40))[0] == sum(
        (counts for _, counts, _ in fuzz.run("numbers", 40, 0, 2)), collections.Counter()
    )


def test_refusals_can_be_shown(capsys):
    fuzz.main(["--profile", "writes", "--programs", "12", "--refused"])
    printed = capsys.readouterr().out
    assert "is refused" in printed
    assert "[unsupported]" in printed


def test_a_nest_is_made_short():
    layers = (Layer("neutral", "checkpoint"), Layer("pull", "tape_tree", "dict", "OrderedDict", turned=True))
    nest = Nest(SIMPLE.lines, SIMPLE.inputs, (), layers=layers)
    short = shrink(nest, lambda other: any(layer.name == "tape_tree" for layer in other.layers) and "x1" in other.source)
    assert short.layers == (Layer("pull", "tape_tree"),)
    assert len(short.lines) == 1


SHORT = {"simple": 240, "writes": 160, "scratch": 160, "numbers": 240, "large": 60, "nests": 120}
"""How many programs of each profile are checked with every change; a long run is a command."""


@pytest.mark.parametrize("profile", fuzz.PROFILES)
def test_nothing_is_wrong(profile):
    counts, failures = fuzz.check_block(profile, range(SHORT[profile]))
    assert not failures, "\n\n".join(map(str, failures))
    ends: collections.Counter[str] = collections.Counter()
    for (_, outcome, _), count in counts.items():
        ends[outcome] += count
    assert ends["compared"] > 0.8 * ends.total()
