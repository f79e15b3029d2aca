"""Compare functad with other libraries and with hand-written gradients: `python -m tests.benchmarks.compare`.

Every library runs in a process of its own. For each program the results are first checked against each other, value and
gradient; then rounds of steps are timed in turn, one framework after the other, so that whatever else happens on the machine
happens to all of them. The median of the rounds is reported, and the median of the ratios within each round: the clock of a
shared machine changes from second to second, by more than what is to be seen. A round is repeated if a loop of plain Python
before or after it took a quarter longer than it can: somebody else was at work on the same core, which costs up to half of
its speed, and Python more of it than large arrays.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .frameworks import MODULES, TITLES, Framework, WorkerError, start
from .programs import PROGRAMS, Program

ROUND_SECONDS = 0.04
"""A round repeats its step for about as long."""

PAUSE_SECONDS = 0.1
"""Between two frameworks: the idle threads of OpenBLAS (some 30 ms) and of OpenMP go on spinning after the work is done."""

DISTURBED = 1.25
"""A round in which the processor was slower than at its best by this factor is repeated."""

PATIENCE_HELP = "seconds for which rounds of a program are repeated that other work disturbed (default %(default)s)"

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def check(program: Program, frameworks: list[Framework]) -> list[str]:
    """Return how results differ from the hand-written ones (else from the first framework's).

    A framework that is there `for reference` does something else, and is left out.
    """
    found: dict[str, list[np.ndarray[Any, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for framework in [framework for framework in frameworks if framework.name != "reference"]:
            file = Path(folder) / f"{framework.name}.npz"
            framework.ask("check", file=str(file))
            with np.load(file) as arrays:
                found[framework.name] = [arrays[key] for key in arrays.files]
    reference = found.get("handwritten") or found[frameworks[0].name]
    return [
        f"{program.name}: {name} differs by {worst:.1e}"
        for name, arrays in found.items()
        if not (worst := difference(reference, arrays)) <= program.rtol
    ]


def difference(expected: list[np.ndarray[Any, Any]], given: list[np.ndarray[Any, Any]]) -> float:
    """Return the largest difference of two lists of arrays, relative to the largest element of each array."""
    if [np.shape(a) for a in expected] != [np.shape(a) for a in given]:
        return float("inf")
    if [a.dtype for a in expected] != [a.dtype for a in given]:
        return float("nan")
    worst = 0.0
    for left, right in zip(expected, given, strict=True):
        scale = float(np.max(np.abs(left))) or 1.0
        worst = max(worst, float(np.max(np.abs(left - right))) / scale)
    return worst


class Rounds:
    """Rounds of steps, repeated while something else runs on the same core.

    Attributes:
        patience: seconds for which rounds of one program may be repeated.
        least: for each framework, the best pace of its processor so far.
        disturbed: the rounds of this program that were kept although something else ran.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.least: dict[str, float] = {}
        self.disturbed = 0
        self._left = patience

    def begin(self, frameworks: Iterable[Framework]) -> None:
        """Begin with another program."""
        self.disturbed = 0
        self._left = self.patience
        for framework in frameworks:
            for _ in range(100):
                self._is_calm(framework, framework.ask("pace")["pace"])

    def _is_calm(self, framework: Framework, pace: float) -> bool:
        least = self.least[framework.name] = min(pace, self.least.get(framework.name, pace))
        return pace <= DISTURBED * least

    def seconds(self, framework: Framework, steps: int) -> float:
        """Return the seconds of one round."""
        while True:
            time.sleep(PAUSE_SECONDS)
            start = time.monotonic()
            answer = framework.ask("time", steps=steps)
            calm = self._is_calm(framework, answer["pace"])
            if calm or self._left <= 0:
                self.disturbed += not calm
                return float(sum(answer["seconds"]))
            self._left -= time.monotonic() - start + PAUSE_SECONDS


def measure(
    program: Program, frameworks: list[Framework], rounds: int, budget: float, patience: Rounds
) -> dict[str, list[float]]:
    """Return for each framework the seconds of a step, one figure per round."""
    ready: dict[str, Framework] = {}
    steps: dict[str, int] = {}
    for framework in frameworks:
        try:
            seconds = framework.ask("prepare", program=program.name)["seconds"]
        except WorkerError as error:
            print(f"left out of {program.name}: {error}", file=sys.stderr)
            continue
        ready[framework.name] = framework
        steps[framework.name] = max(1, min(2000, round(ROUND_SECONDS / seconds)))
    if not ready:
        return {}
    differences = check(program, list(ready.values()))
    if differences:
        raise SystemExit("results do not agree: " + "; ".join(differences))
    times: dict[str, list[float]] = {name: [] for name in ready}
    spent = dict.fromkeys(ready, 0.0)
    patience.begin(ready.values())
    for i in range(rounds):
        for name, framework in ready.items():
            if i < 3 or spent[name] < budget:
                seconds = patience.seconds(framework, steps[name])
                spent[name] += seconds
                times[name].append(seconds / steps[name])
    if patience.disturbed:
        count = sum(map(len, times.values()))
        print(f"{patience.disturbed} of {count} rounds of {program.name} were disturbed by other work", file=sys.stderr)
    return times


def readable(seconds: float) -> str:
    """Return a duration with three digits and a unit."""
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def table(results: dict[str, dict[str, list[float]]], names: list[str], *, with_goals: bool) -> list[list[str]]:
    """Return the rows of the table; with goals, a ratio above what is aimed at is marked."""
    ours = names[0] if names[0] == "tape" else "functad"
    others = [name for name in names if name != ours]
    rows = [["value and gradient", TITLES[ours], *[TITLES[name] for name in others]]]
    for key, times in results.items():
        program = PROGRAMS[key]
        median = {name: statistics.median(values) for name, values in times.items()}
        row = [program.title, readable(median[ours]) if ours in median else "-"]
        for name in others:
            if name not in median:
                row.append("-")
                continue
            cell = readable(median[name])
            if ours in median:
                pairs = zip(times[ours], times[name], strict=False)
                ratio = statistics.median([own / theirs for own, theirs in pairs])
                goals = program.tape_goals if ours == "tape" else program.goals
                goal = goals.get(name) if with_goals else None
                cell += (
                    f" ({ratio:.2f}" + ("" if goal is None else f", at most {goal}{' MISSED' if ratio > goal else ''}") + ")"
                )
            row.append(cell)
        rows.append(row)
    return rows


def plain(rows: list[list[str]]) -> str:
    """Return a table with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def markdown(rows: list[list[str]], machine: dict[str, Any], versions: dict[str, dict[str, str]]) -> str:
    """Return a table in Markdown, with what it was measured on."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    libraries = [f"{TITLES[name]} {found['version']}" for name, found in versions.items() if name != "handwritten"]
    place = [machine["date"], machine["cpu"], f"{machine['cores']} cores", machine["threads"], machine["memory"]]
    software = [f"Python {machine['python']}", f"NumPy {machine['numpy']}", *libraries]
    lines.append("")
    lines.append(
        "Medians of interleaved rounds; in brackets functad's time divided by theirs, the median over the rounds. "
        f"{', '.join(place)}; {', '.join(software)}."
    )
    return "\n".join(lines)


def machine(*, keep_memory: bool = False) -> dict[str, Any]:
    """Return what a figure depends on besides the code."""
    set_threads = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ]
    return {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "threads": ", ".join(set_threads) or "threads as each library chooses",
        "memory": "freed memory kept" if keep_memory else "freed memory handed back as the C library does",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.system(),
    }


def cpu() -> str:
    """Return the name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def options(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    compared = [name for name, program in PROGRAMS.items() if program.compared]
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compare", description=__doc__.splitlines()[0])
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that can import the other libraries")
    parser.add_argument("--programs", nargs="+", choices=compared, default=compared, metavar="NAME", help=", ".join(compared))
    parser.add_argument(
        "--frameworks",
        nargs="+",
        choices=list(MODULES),
        default=[name for name in MODULES if name not in ("tape", "tensorflow")],
        metavar="NAME",
        help=", ".join(MODULES) + "; what stands first, functad or tape, is what the others are compared with",
    )
    parser.add_argument("--rounds", type=int, default=21, help="rounds for each framework and program (default %(default)s)")
    parser.add_argument("--budget", type=float, default=8.0, help="seconds after which a slow framework gets no more rounds")
    parser.add_argument("--patience", type=float, default=30.0, help=PATIENCE_HELP)
    parser.add_argument("--keep-memory", action="store_true", help="all processes keep freed memory instead of handing it back")
    parser.add_argument("--quick", action="store_true", help="5 rounds")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown, with versions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds, versions and the machine to a file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run the comparison."""
    chosen = options(arguments)
    frameworks = start(chosen.frameworks, chosen.peers_python, keep_memory=chosen.keep_memory)
    names = [framework.name for framework in frameworks]
    versions = {framework.name: framework.versions for framework in frameworks}
    results: dict[str, dict[str, list[float]]] = {}
    rounds, patience = 5 if chosen.quick else chosen.rounds, Rounds(chosen.patience)
    try:
        for name in chosen.programs:
            print(f"{name} ...", file=sys.stderr)
            results[name] = measure(PROGRAMS[name], frameworks, rounds, chosen.budget, patience)
    finally:
        for framework in frameworks:
            framework.close()
    rows = table(results, names, with_goals=not chosen.markdown)
    where = machine(keep_memory=chosen.keep_memory)
    print(markdown(rows, where, versions) if chosen.markdown else plain(rows))
    if chosen.json is not None:
        record = {"machine": where, "versions": versions, "seconds": results}
        chosen.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
