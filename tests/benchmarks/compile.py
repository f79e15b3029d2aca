"""Compare compiled functions with other libraries and with derivatives by hand: `python -m tests.benchmarks.compile`.

Every library runs in a process of its own. In each row the results of all are checked against those by hand before anything
is timed; then rounds of steps are timed in turn, as `compare` does. A library that fails in a row, gives other results or takes
too long is named with its reason, and the row goes on without it. Compiling is timed on its own: what the first call of a
function that is made anew takes longer than a call that is compiled already.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from .compare import PATIENCE_HELP, ROUND_SECONDS, Rounds, difference, machine
from .compiled.peers import COMPILING, MODULES, Peer, start
from .compiled.report import markdown
from .compiled.rows import ROWS, Row
from .frameworks import ROOT, WorkerError

LEAST_ROUNDS = 3
LONG = 5.0
"""A first call that takes more seconds is not repeated to time compiling more than once."""

Found = dict[str, Any]


class Measured:
    """One row as it is measured: what is found of each peer, and which of them are still in it.

    Args:
        row: the row.
        peers: the processes.
    """

    def __init__(self, row: Row, peers: list[Peer]) -> None:
        self.row = row
        self.peers = peers
        self.found: dict[str, Found] = {peer.name: {} for peer in peers}

    def ready(self) -> list[Peer]:
        """Return the peers that have not failed."""
        return [peer for peer in self.peers if "error" not in self.found[peer.name]]

    def ask(self, peer: Peer, do: str, **arguments: Any) -> Found | None:
        """Return an answer; `None` if the peer fails, which is noted and told."""
        try:
            return peer.ask(do, **arguments)
        except WorkerError as error:
            self.fail(peer, str(error).removeprefix(f"{peer.name}: ").replace(f"{ROOT}/", ""))
            return None

    def fail(self, peer: Peer, reason: str) -> None:
        """Leave a peer out of the row."""
        self.found[peer.name] = {"error": reason}
        print(f"  left out of {self.row.name}: {peer.name}: {reason}", file=sys.stderr)

    def check(self) -> None:
        """Leave out whose results differ from those by hand (else from those of the first)."""
        results: dict[str, list[np.ndarray[Any, Any]]] = {}
        with tempfile.TemporaryDirectory() as folder:
            for peer in self.ready():
                file = Path(folder) / f"{peer.name}.npz"
                if self.ask(peer, "check", file=str(file)) is not None:
                    with np.load(file) as arrays:
                        results[peer.name] = [arrays[key] for key in arrays.files]
        reference = results.get("handwritten") or next(iter(results.values()), [])
        for peer in self.ready():
            worst = difference(reference, results[peer.name])
            if not worst <= self.row.rtol:
                self.fail(peer, f"its results differ by {worst:.1e}")


def measure(row: Row, peers: list[Peer], options: argparse.Namespace, patience: Rounds) -> dict[str, Found]:
    """Return for each framework the seconds of a call and those of compiling."""
    measured = Measured(row, peers)
    steps: dict[str, int] = {}
    first: dict[str, float] = {}
    for peer in peers:
        answer = measured.ask(peer, "prepare", program=row.name)
        if answer is not None:
            first[peer.name] = answer["first"]
            steps[peer.name] = max(1, min(2000, round(ROUND_SECONDS / answer["seconds"])))
    measured.check()
    anew = _compile(measured, first, options.compiles)
    times: dict[str, list[float]] = {peer.name: [] for peer in peers}
    spent = dict.fromkeys(times, 0.0)
    try:
        patience.begin(measured.ready())
    except WorkerError as error:  # a process died between two commands; the round below finds out whose
        print(f"  {error}", file=sys.stderr)
    for i in range(options.rounds):
        for peer in measured.ready():
            if i >= LEAST_ROUNDS and spent[peer.name] >= options.budget:
                continue
            try:
                seconds = patience.seconds(peer, steps[peer.name])
            except WorkerError as error:
                measured.fail(peer, str(error))
                continue
            spent[peer.name] += seconds
            times[peer.name].append(seconds / steps[peer.name])
    for peer in measured.ready():
        measured.found[peer.name] = summary(times[peer.name], anew.get(peer.name))
    return measured.found


def _compile(measured: Measured, first: dict[str, float], count: int) -> dict[str, list[float]]:
    """Return the seconds of compiling, in turns; the first time, that of `prepare`, counts only if it took long."""
    found: dict[str, list[float]] = {}
    for _ in range(count):
        for peer in measured.ready():
            if peer.name in COMPILING and first[peer.name] <= LONG:
                time.sleep(0.05)
                answer = measured.ask(peer, "compile")
                if answer is not None:
                    found.setdefault(peer.name, []).append(answer["seconds"])
    for peer in measured.ready():
        if peer.name in COMPILING:
            found.setdefault(peer.name, [first[peer.name]])
    return found


def summary(times: list[float], anew: list[float] | None) -> Found:
    """Return median and quartiles of rounds, and what compiling takes."""
    low, middle, high = np.quantile(times, [0.25, 0.5, 0.75])
    found: Found = {"seconds": _short(middle), "quartiles": [_short(low), _short(high)], "rounds": len(times)}
    found["least"] = _short(min(times))
    if anew:
        found["compile"] = _short(statistics.median(anew))
    return found


def _short(seconds: float) -> float:
    return float(f"{seconds:.4g}")


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compile", description=__doc__.splitlines()[0])
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that can import the other libraries")
    parser.add_argument("--rows", nargs="+", default=[""], metavar="TEXT", help="rows whose names contain one of these texts")
    parser.add_argument(
        "--frameworks", nargs="+", choices=list(MODULES), default=list(MODULES), metavar="NAME", help=", ".join(MODULES)
    )
    parser.add_argument(
        "--threads", nargs="+", choices=("one", "default"), default=("one", "default"), help="one thread, or as each likes"
    )
    parser.add_argument("--rounds", type=int, default=11, help="rounds for each framework and row (default %(default)s)")
    parser.add_argument("--compiles", type=int, default=3, help="how often each row is compiled anew (default %(default)s)")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds after which a slow framework gets no more rounds")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which a call is ended (default %(default)s)")
    parser.add_argument("--patience", type=float, default=5.0, help=PATIENCE_HELP)
    parser.add_argument("--keep-memory", action="store_true", help="all processes keep freed memory instead of handing it back")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured to a file, after every row")
    parser.add_argument("--add", action="store_true", help="keep what this file has of other rows and threads")
    parser.add_argument("--least", action="store_true", help="show the least of all rounds, where the machine is not one's own")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to a file")
    options = parser.parse_args(arguments)
    if options.add and options.json is None:
        parser.error("--add needs --json")
    return options


def started(options: argparse.Namespace, rows: list[Row]) -> dict[str, Any]:
    """Return the record that this run adds to."""
    record: dict[str, Any] = {"versions": {}, "results": {}, "titles": {}}
    if options.add and options.json.exists():
        record |= json.loads(options.json.read_text(encoding="utf-8"))
    record["titles"] |= {row.name: row.title for row in rows}
    return {**record, "machine": machine(keep_memory=options.keep_memory)}


def main(arguments: list[str] | None = None) -> None:
    """Run the comparison."""
    options = parsed(arguments)
    rows = [row for row in ROWS.values() if any(text in row.name for text in options.rows)]
    record = started(options, rows)
    for threads in options.threads:
        peers = start(
            options.frameworks,
            options.peers_python,
            limit=options.limit,
            one_thread=threads == "one",
            keep_memory=options.keep_memory,
        )
        record["versions"] |= {peer.name: peer.versions for peer in peers}
        results = record["results"].setdefault(threads, {})
        patience = Rounds(options.patience)
        try:
            for row in rows:
                print(f"{threads}: {row.name} ...", file=sys.stderr)
                results[row.name] = measure(row, peers, options, patience)
                peers[:] = [peer.alive() for peer in peers]
                record["results"][threads] = {name: results[name] for name in ROWS if name in results}
                if options.json is not None:
                    options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        finally:
            for peer in peers:
                peer.close()
    text = markdown(record, by_least=options.least)
    print(text)
    if options.markdown is not None:
        options.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
