"""Random programs by the thousand: `python -m functad.testing.fuzz --profile writes --programs 200000 --seed 0 --processes 2`.

Each program is drawn from its own seed, checked, and, if it fails, made as short as it can be. The run counts what came of the
checks, prints a program for each way of failing, and ends with status 1 if there was one.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import functools
import multiprocessing
import random
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from functad.testing.programs.cases import Case, CaseExamination, draw_case
from functad.testing.programs.checks import CHECKS, DIFFERENT, Examination, Finding, as_list, like
from functad.testing.programs.drafts import FAMILIES
from functad.testing.programs.nests import NEST_CHECKS, Nest, NestExamination, draw_nest
from functad.testing.programs.program import Program, draw_program
from functad.testing.programs.shrink import shrink

BLOCK = 250
"""How many programs a process checks before it reports."""

SHORTENED = 4
"""How many failures of one kind are made short in a block: most are the same."""

JITTERS = 12
"""How often inputs are changed in their last digits to see whether a program that fails stands on a jump."""

Counts = collections.Counter[tuple[str, str, str]]


@dataclass(frozen=True)
class Profile:
    """What kind of programs are drawn, and what is checked of them.

    Attributes:
        options: of `draw_program`, or of `draw_nest`.
        nests: programs are put into nests of transforms.
        backend: programs are compiled by this backend and compared with eager execution.
        some: of the checks that are not always made, how many are made of each program; all by default.
    """

    options: dict[str, Any] = field(default_factory=dict)
    nests: bool = False
    backend: str = ""
    some: int = 99


ALWAYS = ("value", "types", "reverse", "forward")
WRITING = sorted(set(FAMILIES) - {"contractions", "fft", "numbers", "registry"})

PROFILES = {
    "simple": Profile(some=1),
    "writes": Profile({"families": WRITING, "mutation": ("mutation", "views"), "layouts": True}),
    "scratch": Profile({"families": (*WRITING, "registry"), "mutation": ("scratch", "scratch", "views"), "layouts": True}),
    "numbers": Profile(
        {"families": ("numbers", "numbers", "elementwise", "selection"), "mutation": ("numbers",), "numbers": True}
    ),
    "large": Profile(
        {
            "families": ("elementwise", "selection", "views"),
            "mutation": ("mutation", "scratch", "views"),
            "layouts": True,
            "large": True,
            "max_operations": 6,
        }
    ),
    "nests": Profile({"layouts": True}, nests=True),
}
"""By name: programs that do not write, that write through views, that use plain arrays again, about numbers, of large arrays,
and nests of transforms."""

COMPILED = {f"compiled-{backend}": Profile({"backend": backend}, backend=backend) for backend in ("numpy", "llvm", "xla")}
"""By name, the profiles that compare compiled with eager execution, for each backend of `jit`."""


def drawn(profile: str, seed: int) -> Program:
    """Return the program of a profile that belongs to a seed.

    Example:
        >>> str(drawn("simple", 3)) == str(drawn("simple", 3))
        True
    """
    uniform = random.Random(seed).random  # noqa: S311 - a program is no secret

    def choose(n: int) -> int:
        return int(uniform() * n)

    kind = {**PROFILES, **COMPILED}[profile]
    draw = draw_case if kind.backend else draw_nest if kind.nests else draw_program
    return draw(choose, **kind.options)


def examined(program: Program, checks: Sequence[str] = ()) -> list[Finding]:
    """Run the checks of a program and return their findings; none if NumPy alone does not run it.

    Args:
        program: a program, or a nest of transforms around one.
        checks: names of checks; all by default.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(program, Case):
            return list(CaseExamination(program).findings())
        before = [np.array(x) for x in program.inputs]
        try:
            inside = program.as_program() if isinstance(program, Nest) else program
            expected = as_list(inside(*program.inputs))
        except Exception:  # noqa: BLE001 - a line was left out that others need
            _restored(program.inputs, before)
            return []
        if not all(np.asarray(y).dtype.kind == "f" and np.all(np.isfinite(y)) for y in expected) or _restored(
            program.inputs, before
        ):
            return []
        examination = NestExamination(program) if isinstance(program, Nest) else Examination(program)
        found = list(examination.findings(checks))
        if any(finding.outcome == "wrong" for finding in found) and _jumps(inside, expected):
            return [
                replace(finding, outcome="nothing", detail="") if finding.outcome == "wrong" else finding for finding in found
            ]
        return found


def _jumps(program: Program, expected: Sequence[Any]) -> bool:
    """Say whether a program jumps where it was drawn: a last digit of its inputs decides about its results.

    So do roundings, which no two ways of computing the same have in common.
    """
    uniform = np.random.default_rng(len(program.source)).uniform
    for _ in range(JITTERS):
        moved = [like(x, x + 1e-13 * uniform(-1, 1, np.shape(x))) for x in program.inputs]
        try:
            found = as_list(program(*moved))
        except DIFFERENT:
            return True
        for y, z in zip(found, expected, strict=True):
            if np.shape(y) != np.shape(z) or not np.allclose(y, z, 1e-9, 1e-9):
                return True
    return False


def _restored(inputs: Sequence[Any], before: Sequence[Any]) -> bool:
    """Say whether a program wrote into its inputs, as a shortened one may, and take it back."""
    written = [(x, value) for x, value in zip(inputs, before, strict=True) if not np.array_equal(x, value)]
    for x, value in written:
        x[...] = value
    return bool(written)


@dataclass
class Failure:
    """A program that fails, as short as it could be made."""

    seed: int
    program: Program
    finding: Finding

    @property
    def signature(self) -> tuple[str, ...]:
        """What it has in common with failures that are likely the same: the check, and the functions in the program."""
        names = set(re.findall(r"\w+(?=\()|\.T\b|\.flat\b", "\n".join(self.program.lines)))
        layers = [layer.name for layer in self.program.layers] if isinstance(self.program, Nest) else []
        return (*alike(self.finding), *sorted(names), *layers)

    def __str__(self) -> str:
        """The report, which can be pasted and run."""
        head = f"# seed {self.seed}: {self.finding.check} is {self.finding.outcome}\n"
        detail = "".join(f"# {line}\n" for line in self.finding.detail.splitlines()[:12])
        end = ENDS.get(self.finding.check, "")
        imports = "import functad\nfrom functad.testing import check_grads\n" if end else ""
        return f"{head}{detail}{self.program!r}\n\n{imports}{end}\n"


ENDS = {
    "value": "print(functad.vjp(program, *inputs)[0])\nprint(program(*inputs))",
    "types": "print(repr(functad.vjp(program, *inputs)[0]))\nprint(repr(program(*inputs)))",
    "reverse": 'check_grads(program, inputs, 1, ["rev"])',
    "forward": 'check_grads(program, inputs, 1, ["fwd"])',
    "tape": "x = [functad.constant(x) for x in inputs]\nwith functad.GradientTape() as tape:\n"
    "    tape.watch(x)\n    y = program(*x)\nprint(y, tape.gradient(y, x))\nprint(program(*inputs))",
    "checkpoint": 'check_grads(functad.checkpoint(program), inputs, 1, ["rev"])',
    "vmap": "print(functad.vmap(program)(*[np.stack([x, x]) for x in inputs]))\nprint(program(*inputs))",
    "list": "print(functad.make_expressions(program)(*inputs)(*inputs))\nprint(program(*inputs))",
}
"""What shows each failure, after the program, its inputs and the imports."""


def way(finding: Finding) -> tuple[str, str, str]:
    """Return the key under which findings are counted."""
    return finding.check, finding.outcome, finding.what


def alike(finding: Finding) -> tuple[str, ...]:
    """Return the key of failures of which one is shown: for bare exceptions with the place where they were raised."""
    return (*way(finding), finding.detail.rpartition(", in ")[2] if finding.outcome == "bare" else "")


def check_block(profile: str, seeds: range, refused: bool = False, checks: Sequence[str] = ()) -> tuple[Counts, list[Failure]]:
    """Check programs; return how often what was found, and the first failures of each kind, made short.

    Args:
        profile: a name from `PROFILES`.
        seeds: of the programs.
        refused: what is refused counts as a failure.
        checks: names of checks; those of the profile by default.
    """
    counts: Counts = collections.Counter()
    tried: collections.Counter[tuple[str, ...]] = collections.Counter()
    failures: dict[tuple[str, ...], Failure] = {}
    for seed in seeds:
        program = drawn(profile, seed)
        for finding in examined(program, checks or _checks(profile, seed)):
            counts[way(finding)] += 1
            if (finding.fails or (refused and finding.outcome == "refused")) and tried[alike(finding)] < SHORTENED:
                tried[alike(finding)] += 1
                failure = made_short(seed, program, finding)
                failures.setdefault(failure.signature, failure)
    return counts, list(failures.values())


def _checks(profile: str, seed: int) -> Sequence[str]:
    """Return the checks for one program: some are left to others, in turn."""
    if profile in COMPILED:
        return ("compiled",)
    kind = PROFILES[profile]
    if kind.nests:
        return NEST_CHECKS
    turns = [name for name in CHECKS if name not in ALWAYS]
    return [*ALWAYS, *(turns[(seed + i) % len(turns)] for i in range(min(kind.some, len(turns))))]


def made_short(seed: int, program: Program, finding: Finding) -> Failure:
    """Return a failure with the shortest program that fails in the same way."""
    first = [] if isinstance(program, (Nest, Case)) else ["value"]
    checks = [*[name for name in first if name != finding.check], finding.check]

    def found(shorter: Program) -> list[Finding]:
        return [other for other in examined(shorter, checks) if alike(other) == alike(finding)]

    short = shrink(program, lambda shorter: bool(found(shorter)))
    return Failure(seed, short, (found(short) or [finding])[0])


def run(
    profile: str, programs: int, seed: int, processes: int, refused: bool = False
) -> Iterator[tuple[int, Counts, list[Failure]]]:
    """Check programs in blocks; yield after each block, in order, how many are done, and what `check_block` returns."""
    blocks = [range(first, min(first + BLOCK, seed + programs)) for first in range(seed, seed + programs, BLOCK)]
    check = functools.partial(check_block, profile, refused=refused)
    context, done = multiprocessing.get_context("spawn"), 0
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        found = map(check, blocks) if processes == 1 else pool.map(check, blocks)
        for block, (counts, failures) in zip(blocks, found, strict=True):
            done += len(block)
            yield done, counts, failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if a program failed, else 0.

    Args:
        arguments: those of the command line by default.
    """
    parser = argparse.ArgumentParser("python -m functad.testing.fuzz", description="Check random NumPy programs.")
    parser.add_argument(
        "--profile",
        choices=[*PROFILES, *COMPILED, "all"],
        default="all",
        help="the kind of programs; by default all in turn that are not compiled",
    )
    parser.add_argument("--programs", type=int, default=1000, help="how many, of each kind")
    parser.add_argument(
        "--seed", type=int, default=0, help="the first; an interrupted run goes on from the last number printed"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--refused", action="store_true", help="also show a program for each error with which one was refused")
    given = parser.parse_args(arguments)
    failed = False
    for profile in PROFILES if given.profile == "all" else [given.profile]:
        failed |= _report(profile, given)
    return int(failed)


def say(text: str) -> None:
    """Print at once: a run may take hours."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _report(profile: str, given: argparse.Namespace) -> bool:
    """Run one profile and print what comes of it; return whether something failed."""
    counts: Counts = collections.Counter()
    shown: set[tuple[str, ...]] = set()
    start = time.perf_counter()
    done = 0
    for done, found, failures in run(profile, given.programs, given.seed, given.processes, given.refused):
        counts += found
        for failure in failures:
            if failure.signature not in shown:
                shown.add(failure.signature)
                say(str(failure))
        rate = done / (time.perf_counter() - start)
        wrong = sum(count for (_, outcome, _), count in counts.items() if outcome in ("wrong", "bare"))
        say(f"{profile}: {done} of {given.programs}, next seed {given.seed + done}, {rate:.0f} a second, {wrong} failures")
    say(f"\n{profile}, {done} programs:")
    for (check, outcome, what), count in sorted(counts.items()):
        say(f"{count:9} {check:<12} {outcome} {what}")
    return any(outcome in ("wrong", "bare") for _, outcome, _ in counts)


if __name__ == "__main__":
    sys.exit(main())
