"""Fuzzing: `python -m functad.testing.fuzz --profile writes --programs 200000 --seed 0 --processes 2`.

Each random program has its own seed. The fuzzer draws it, checks it and shrinks it if a check fails. It counts the outcomes of
all checks, prints one program per kind of failure, and exits with status 1 if there was a failure.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from functad.testing.programs.cases import Case, CaseExamination, draw_case
from functad.testing.programs.drafts import FAMILIES, literal
from functad.testing.programs.nests import KINDS, NEST_CHECKS, Layer, Nest, NestExamination, draw_nest
from functad.testing.programs.program import (
    CHECKS,
    DIFFERENT,
    Examination,
    Finding,
    Program,
    as_list,
    draw_program,
    is_binding,
    like,
)

BLOCK = 250
"""Number of programs that a process checks before it reports."""

SHORTENED = 4
"""Number of failures of one kind that are shrunk per block; most have the same cause."""

TRIES = 400
"""The largest number of candidates while a program is shrunk."""

JITTERS = 12
"""Number of random perturbations of the inputs' last digits that test whether a program is discontinuous there."""

Counts = collections.Counter[tuple[str, str, str]]
P = TypeVar("P", bound=Program)
T = TypeVar("T")


@dataclass(frozen=True)
class Profile:
    """The kind of random programs and the number of checks for each.

    Attributes:
        options: keyword arguments of `draw`.
        draw: `draw_program`, `draw_nest` or `draw_case`.
        always: the checks of every program.
        some: the number of `OPTIONAL` checks per program, which rotate with the seed.
    """

    options: dict[str, Any] = field(default_factory=dict)
    draw: Callable[..., Program] = draw_program
    always: Sequence[str] = ("value", "types", "reverse", "forward")
    some: int = 4


OPTIONAL = [name for name in CHECKS if name not in Profile.always]
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
    "nests": Profile({"layouts": True}, draw_nest, NEST_CHECKS, 0),
}
"""Profiles by name: no writes, writes through views, reused buffers, Python numbers, large arrays, nested transforms."""

COMPILED = {f"compiled-{name}": Profile({"backend": name}, draw_case, ("compiled",), 0) for name in ("numpy", "llvm", "xla")}
"""Profiles that compare compiled with eager execution, one per backend of `jit`."""

EVERY = {**PROFILES, **COMPILED}


def drawn(profile: str, seed: int) -> Program:
    """Return the program of a profile for a seed."""
    uniform = random.Random(seed).random  # noqa: S311 - not used for cryptography

    def choose(n: int) -> int:
        return int(uniform() * n)

    kind = EVERY[profile]
    return kind.draw(choose, **kind.options)


def examined(program: Program, checks: Sequence[str] = ()) -> list[Finding]:
    """Return the findings of all or some checks of a program, a nest or a case; none if plain NumPy cannot run the program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(program, Case):
            return list(CaseExamination(program).findings())
        before = [np.array(x) for x in program.inputs]
        try:
            inside = program.as_program() if isinstance(program, Nest) else program
            expected = as_list(inside(*program.inputs))
        except Exception:  # noqa: BLE001 - shrinking may remove a line that others need
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
    """Return `True` if a program is discontinuous near its inputs: changes of their last digits change its results.

    Two correct computations of such a program may differ, because they round differently.
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
    """Restore inputs that a program wrote to, as a shrunk program may; return `True` if there were any."""
    written = [(x, value) for x, value in zip(inputs, before, strict=True) if not np.array_equal(x, value)]
    for x, value in written:
        x[...] = value
    return bool(written)


@dataclass
class Failure:
    """A failing program, shrunk."""

    seed: int
    program: Program
    finding: Finding

    @property
    def signature(self) -> tuple[str, ...]:
        """The key of failures with a likely common cause: the check and the functions in the program."""
        names = set(re.findall(r"\w+(?=\()|\.T\b|\.flat\b", "\n".join(self.program.lines)))
        layers = [layer.name for layer in self.program.layers] if isinstance(self.program, Nest) else []
        return (*alike(self.finding), *sorted(names), *layers)

    def __str__(self) -> str:
        """Return a report as source that runs."""
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
"""Source lines that show a failure of each check; they follow the program, its inputs and the imports."""


def way(finding: Finding) -> tuple[str, str, str]:
    """Return the key under which findings are counted."""
    return finding.check, finding.outcome, finding.what


def alike(finding: Finding) -> tuple[str, ...]:
    """Return the key of failures that are reported once; for exceptions other than functad's, it includes the raising line."""
    return (*way(finding), finding.detail.rpartition(", in ")[2] if finding.outcome == "bare" else "")


def check_block(profile: str, seeds: range, refused: bool = False, checks: Sequence[str] = ()) -> tuple[Counts, list[Failure]]:
    """Check programs; return the counts of all findings and the first failures of each kind, shrunk.

    Args:
        profile: a name from `PROFILES` or `COMPILED`.
        seeds: one seed per program.
        refused: also return programs that functad refuses.
        checks: names of checks; the checks of the profile by default.
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
    """Return the checks of one program."""
    kind = EVERY[profile]
    return [*kind.always, *(OPTIONAL[(seed + i) % len(OPTIONAL)] for i in range(kind.some))]


def made_short(seed: int, program: Program, finding: Finding) -> Failure:
    """Return a failure with the shortest program found that fails in the same way."""
    first = [] if isinstance(program, (Nest, Case)) else ["value"]
    checks = [*[name for name in first if name != finding.check], finding.check]

    def found(shorter: Program) -> list[Finding]:
        return [other for other in examined(shorter, checks) if alike(other) == alike(finding)]

    short = shrink(program, lambda shorter: bool(found(shorter)))
    return Failure(seed, short, (found(short) or [finding])[0])


def shrink(program: P, fails: Callable[[P], bool]) -> P:
    """Return a failing program with as few lines as possible; `fails` tests whether a program fails in the same way."""
    texts = program.texts or tuple(map(literal, program.inputs))
    program = replace(program, texts=texts, returns=tuple(program.results))
    candidates = _shorter(program)
    for _ in range(TRIES):
        candidate = next(candidates, None)
        if candidate is None:
            break
        if fails(candidate):
            program, candidates = candidate, _shorter(candidate)
    return program


def _with(parts: tuple[T, ...], i: int, *new: T) -> tuple[T, ...]:
    """Return a tuple with `new` in place of element `i`."""
    return (*parts[:i], *new, *parts[i + 1 :])


def _shorter(program: P) -> Iterator[P]:
    """Yield slightly shorter or simpler programs."""
    if isinstance(program, Nest):
        for i, layer in enumerate(program.layers):
            yield replace(program, layers=_with(program.layers, i))
            plainer = [replace(layer, turned=False), replace(layer, arguments="tuple"), replace(layer, results="tuple")]
            if layer.kind != "neutral":
                plainer.append(Layer(layer.kind, next(iter(KINDS[layer.kind]))))
            yield from [replace(program, layers=_with(program.layers, i, other)) for other in plainer if other != layer]
    if isinstance(program, Case):
        for direct in (replace(program, calls="same"), replace(program, mode="value")):
            if direct != program and not program.place and not program.static:
                yield direct
        if len(program.static) > 2:
            yield from [replace(program, static=_with(program.static, i)) for i in range(len(program.static))]
    lines, returns = program.lines, program.returns
    for i in reversed(range(len(lines))):
        kept = _with(lines, i)
        gone = lines[i].partition(" = ")[0] if is_binding(lines[i]) else ""
        rest = tuple(name for name in returns if name != gone)
        if rest:
            yield replace(program, lines=kept, returns=rest)
        elif made := _made(kept):
            yield replace(program, lines=kept, returns=(made[-1],))
    if len(returns) > 1:
        for name in returns:
            yield replace(program, returns=tuple(other for other in returns if other != name))
    for i, line in enumerate(lines):
        name, _, expression = line.partition(" = ")
        if is_binding(line) and not expression.isidentifier():
            for other in (*[f"x{k}" for k in range(len(program.inputs))], *_made(lines[:i])):
                simpler = f"{other}.copy()" if name[0] == "b" else other
                if simpler != expression:
                    yield replace(program, lines=_with(lines, i, f"{name} = {simpler}"))
    for i, text in enumerate(program.texts):
        used = any(f"x{i}" in line for line in lines) or f"x{i}" in returns
        plain = literal(program.inputs[i]) if used and np.size(program.inputs[i]) < 100 else "np.float64(0.5)"
        if text != plain:
            texts = _with(program.texts, i, plain)
            inputs = tuple(eval(text, {"np": np}) for text in texts)  # noqa: S307 - the text was drawn from a fixed grammar
            yield replace(program, texts=texts, inputs=inputs)


def _made(lines: tuple[str, ...]) -> list[str]:
    """Return the names of values that a program may return."""
    return [line.partition(" = ")[0] for line in lines if is_binding(line) and line[0] in "ab"]


def run(
    profile: str, programs: int, seed: int, processes: int, refused: bool = False
) -> Iterator[tuple[int, Counts, list[Failure]]]:
    """Check programs in blocks; after each block, in order, yield the number done and the results of `check_block`."""
    blocks = [range(first, min(first + BLOCK, seed + programs)) for first in range(seed, seed + programs, BLOCK)]
    check = functools.partial(check_block, profile, refused=refused)
    context, done = multiprocessing.get_context("spawn"), 0
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        found = map(check, blocks) if processes == 1 else pool.map(check, blocks)
        for block, (counts, failures) in zip(blocks, found, strict=True):
            done += len(block)
            yield done, counts, failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` or those of the command line; return 1 if a program failed, else 0."""
    parser = argparse.ArgumentParser("python -m functad.testing.fuzz", description="Check random NumPy programs.")
    parser.add_argument(
        "--profile",
        choices=[*EVERY, "all"],
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
    """Print and flush, because a run may take hours."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _report(profile: str, given: argparse.Namespace) -> bool:
    """Run one profile and print its findings; return `True` if a program failed."""
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
