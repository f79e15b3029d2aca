"""Value and gradient of every program: against the hand-written one, and timed by pytest-benchmark (no time is asserted)."""

from __future__ import annotations

from typing import Any

import pytest

from . import functad_programs, handwritten_programs
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
