"""Value and gradient of every program: against the hand-written one, and timed by pytest-benchmark (no time is asserted)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from . import compare, functad_programs, handwritten_programs, plain_values
from .compare import difference
from .programs import PROGRAMS, Program

COMPARED = [program for program in PROGRAMS.values() if program.compared]


@pytest.mark.parametrize("program", COMPARED, ids=lambda program: program.name)
def test_value_and_gradient_agree_with_the_hand_written_ones(program: Program, benchmark: Any) -> None:
    arguments = program.arguments()
    step = functad_programs.prepare(program.name, arguments, program.argnums)
    found = functad_programs.arrays(benchmark.pedantic(step, rounds=3, warmup_rounds=1))
    by_hand = handwritten_programs.prepare(program.name, arguments, program.argnums)
    assert difference(handwritten_programs.arrays(by_hand()), found) <= program.rtol


class _Neighboured:
    """Stands for a framework whose processor has the given paces, one after the other; each round takes as long as its pace."""

    name = "neighboured"

    def __init__(self, paces: list[float]) -> None:
        self.paces = paces

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        pace = self.paces.pop(0)
        return {"pace": pace, "seconds": [pace] * arguments.get("steps", 1)}


def test_rounds_that_a_neighbour_disturbed_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "PAUSE_SECONDS", 0.0)
    rounds = compare.Rounds(patience=60.0)
    framework: Any = _Neighboured([2.0] * 99 + [1.0] + [2.0, 1.9, 1.1, 0.5, 2.0, 0.6])
    rounds.begin([framework])
    assert rounds.seconds(framework, 3) == pytest.approx(3.3)
    assert [rounds.seconds(framework, 2) for _ in range(2)] == [1.0, 1.2]
    assert (rounds.disturbed, framework.paces) == (0, [])


def test_rounds_are_kept_when_patience_has_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "PAUSE_SECONDS", 0.0)
    rounds = compare.Rounds(patience=0.0)
    framework: Any = _Neighboured([1.0] * 100 + [2.0, 1.0, 3.0])
    rounds.begin([framework])
    assert [rounds.seconds(framework, 1) for _ in range(3)] == [2.0, 1.0, 3.0]
    assert rounds.disturbed == 2


def test_comparison_measures_every_framework(capsys: pytest.CaptureFixture[str]) -> None:
    compare.main(["--programs", "logistic", "--frameworks", "functad", "handwritten", "--rounds", "2", "--patience", "0"])
    header, row = capsys.readouterr().out.splitlines()
    assert header.split("  ")[-1].strip() == "hand-written NumPy"
    assert re.fullmatch(r"logistic loss, 100 x 10 .*\d [um]s .*\d [um]s \(\d+\.\d\d, at most 6\.0( MISSED)?\)", row)


def test_costs_of_plain_values_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    plain_values.main(["--rounds", "1", "--calls", "2", "--only", "np.zeros(n)", "math.sin"])
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split("  ")[0] for row in rows] == ["plain values", "np.zeros(n)", "math.sin(x)"]
