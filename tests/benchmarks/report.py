"""Say what changed since the last recorded run: `python -m tests.benchmarks.report`.

A few quick rows of `compile` are measured and compared with its record. Seconds of two machines cannot be compared, so what is
compared is how many times the seconds of the same gradient by hand, in NumPy, each way takes. It reports, and fails nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import compile as measured_run
from .compiled.peers import TITLES

RECORD = Path(__file__).parent / "compiled" / "results.json"
ROWS = (
    "tiny",
    "tanh_exp_1e3_float64",
    "tanh_exp_1e6_float64",
    "chain_8_scanned",
    "network",
    "per_example",
    "mixture_10_25",
    "logistic_gradient",
    "lorenz_scanned",
    "recurrent_scanned",
    "convolution",
)
WAYS = ("llvm", "numpy", "eager")
PEER = "handwritten"
NOTABLE = 1.2
"""Ratios that differ by this factor or more are marked; what is between is what the same machine shows from run to run."""


def shares(record: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Return by row and way how many times the seconds by hand it takes, on one thread."""
    found = {}
    for row, results in record["results"]["one"].items():
        by_hand = results.get(PEER, {}).get("least")
        for way in WAYS:
            seconds = results.get(way, {}).get("least")
            if by_hand and seconds:
                found[row, way] = seconds / by_hand
    return found


def lines(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table: each way's seconds as a multiple of those by hand, in the record and now."""
    old, new = shares(before), shares(now)
    yield "| row | way | recorded | now | now / recorded |"
    yield "|---|---|---|---|---|"
    for (row, way), share in new.items():
        if (row, way) in old:
            change = share / old[row, way]
            mark = " **slower**" if change >= NOTABLE else " **faster**" if change <= 1 / NOTABLE else ""
            yield f"| {now['titles'][row]} | {TITLES[way]} | {old[row, way]:.2f} | {share:.2f} | {change:.2f}{mark} |"
    for row, way in sorted(old.keys() - new.keys()):
        if row in now["results"]["one"]:
            error = now["results"]["one"][row].get(way, {}).get("error", "not measured")
            yield f"| {now['titles'][row]} | {TITLES[way]} | {old[row, way]:.2f} | {error[:60]} | |"


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), metavar="TEXT", help="rows whose names contain one of these")
    parser.add_argument("--rounds", type=int, default=5, help="rounds for each (default %(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "now.json"
        command = ["--rows", *options.rows, "--frameworks", *WAYS, PEER, "--threads", "one", "--rounds", str(options.rounds)]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            measured_run.main([*command, "--compiles", "1", "--budget", "1", "--patience", "0", "--json", str(file)])
        now = json.loads(file.read_text(encoding="utf-8"))
    print("Seconds as multiples of those of the same gradient by hand, the least of interleaved rounds, one thread.\n")
    print("\n".join(lines(json.loads(RECORD.read_text(encoding="utf-8")), now)))


if __name__ == "__main__":
    main()
