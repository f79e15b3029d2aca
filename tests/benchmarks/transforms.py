"""Compare functad's transforms with those of other libraries: `python -m tests.benchmarks.transforms`.

Batched gradients, Hessians and forward mode are measured as `compare` measures gradients: results are checked against each
other, then rounds are timed in turn. What stands for reference is functad's gradient of the whole batch, the Hessian as a
product of matrices, and the plain run. Then sparse Jacobians of a banded function, whose time should grow as its rows do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from .banded import SIZES
from .banded import measure as measure_banded
from .compare import PATIENCE_HELP, Rounds, machine, markdown, measure, plain, readable
from .frameworks import TITLES, TRANSFORM_MODULES, start
from .transform_programs import CHAIN_OPERATIONS, JVP_RATIO, JVP_SECONDS, TRANSFORMS


def table(results: dict[str, dict[str, list[float]]], names: list[str], *, with_goals: bool) -> list[list[str]]:
    """Return the rows of the table; in brackets functad's time divided by the other's, and with goals what is aimed at."""
    others = [name for name in names if name != "functad"]
    rows = [["transform", "functad", *[TITLES[name] for name in others]]]
    for key, times in results.items():
        program = TRANSFORMS[key]
        row = [program.title, readable(statistics.median(times["functad"]))]
        for name in others:
            if name not in times:
                row.append("-")
                continue
            pairs = zip(times["functad"], times[name], strict=False)
            ratio = statistics.median([own / theirs for own, theirs in pairs])
            goal = program.goals.get(name) if with_goals else None
            aim = "" if goal is None else f", at most {goal}{' MISSED' if ratio > goal else ''}"
            row.append(f"{readable(statistics.median(times[name]))} ({ratio:.2f}{aim})")
        rows.append(row)
    return rows


def per_operation(results: dict[str, dict[str, list[float]]]) -> list[list[str]]:
    """Return what forward mode costs for each operation of a chain, and what it may cost."""
    rows = [["`jvp` of a chain, each operation", "plain run", "`jvp`", "aimed at", ""]]
    for key in ("jvp_scalar", "jvp_vector"):
        times = results.get(key, {})
        if "functad" in times and "reference" in times:
            pairs = list(zip(times["functad"], times["reference"], strict=False))
            over = statistics.median([own - JVP_RATIO * run for own, run in pairs]) / CHAIN_OPERATIONS
            own, run = (statistics.median(column) / CHAIN_OPERATIONS for column in zip(*pairs, strict=True))
            verdict = f"{JVP_RATIO} times the plain run and {readable(over)}"
            aim = readable(JVP_RATIO * run + JVP_SECONDS)
            rows.append([TRANSFORMS[key].title.split(", ")[-1], readable(run), readable(own), aim, verdict])
    return rows


def banded_table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Return the times of sparse Jacobians, as a whole and for each row."""
    found = [["sparse Jacobian, 5 bands", "pattern and colouring found", "for each row", "both given", "for each row"]]
    for row in rows:
        cells = [f"n = {row['n']:,}"]
        for key in ("seconds", "seconds_with_pattern"):
            cells += [readable(row[key]), readable(row[key] / row["n"])]
        found.append(cells)
    return found


def markdown_rows(rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines)


def options(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.transforms", description=__doc__.splitlines()[0])
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that can import the other libraries")
    parser.add_argument("--programs", nargs="+", choices=list(TRANSFORMS), default=list(TRANSFORMS), metavar="NAME")
    parser.add_argument(
        "--frameworks", nargs="+", choices=list(TRANSFORM_MODULES), default=list(TRANSFORM_MODULES), metavar="NAME"
    )
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES), help="rows of the banded Jacobians")
    parser.add_argument("--rounds", type=int, default=21, help="rounds for each framework and program (default %(default)s)")
    parser.add_argument("--budget", type=float, default=8.0, help="seconds after which a slow framework gets no more rounds")
    parser.add_argument("--patience", type=float, default=30.0, help=PATIENCE_HELP)
    parser.add_argument("--quick", action="store_true", help="5 rounds")
    parser.add_argument("--markdown", action="store_true", help="print the tables in Markdown, with versions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds, versions and the machine to a file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run the comparison."""
    chosen = options(arguments)
    rounds, patience = 5 if chosen.quick else chosen.rounds, Rounds(chosen.patience)
    frameworks = start(chosen.frameworks, chosen.peers_python, modules=TRANSFORM_MODULES)
    names = [framework.name for framework in frameworks]
    versions = {framework.name: framework.versions for framework in frameworks if framework.name != "reference"}
    results: dict[str, dict[str, list[float]]] = {}
    try:
        for name in chosen.programs:
            print(f"{name} ...", file=sys.stderr)
            results[name] = measure(TRANSFORMS[name], frameworks, rounds, chosen.budget, patience)
    finally:
        for framework in frameworks:
            framework.close()
    banded = measure_banded(tuple(chosen.sizes), rounds)
    rows = table(results, names, with_goals=not chosen.markdown)
    rest = [part for part in (per_operation(results), banded_table(banded)) if len(part) > 1]
    where = machine()
    if chosen.markdown:
        print("\n\n".join([markdown(rows, where, versions), *map(markdown_rows, rest)]))
    else:
        print("\n\n".join(map(plain, [rows, *rest])))
    if chosen.json is not None:
        record = {"machine": where, "versions": versions, "seconds": results, "banded": banded}
        chosen.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
