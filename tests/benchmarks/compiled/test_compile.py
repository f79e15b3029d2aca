"""The comparison of compiled functions: it measures, and names what fails; no time is asserted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks import compile as comparison
from tests.benchmarks import report
from tests.benchmarks.compare import Rounds
from tests.benchmarks.compiled.peers import Peer
from tests.benchmarks.compiled.report import markdown, ratio, ratios, steady
from tests.benchmarks.compiled.rows import ROWS
from tests.benchmarks.frameworks import WorkerError

QUICK = ["--rounds", "1", "--compiles", "1", "--patience", "0", "--limit", "60"]


def test_every_framework_is_checked_timed_and_written_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "found.json", tmp_path / "found.md"
    chosen = ["--rows", "logistic_p", "--frameworks", "numpy", "eager", "handwritten", "--threads", "one"]
    comparison.main([*QUICK, *chosen, "--json", str(file), "--markdown", str(page)])
    record = json.loads(file.read_text())
    assert list(record["results"]["one"]) == ["logistic_product"]
    assert record["titles"] == {name: ROWS[name].title for name in record["results"]["one"]}
    for found in record["results"]["one"].values():
        assert set(found) == {"numpy", "eager", "handwritten"}
        assert all(peer["seconds"] > 0 for peer in found.values())
        assert found["numpy"]["compile"] >= 0
        assert "compile" not in found["eager"]
    printed = capsys.readouterr().out
    assert printed.strip() == page.read_text().strip()
    assert printed.count("| logistic regression, Hessian times a vector, 10,000 x 100 |") == 2


def test_rows_are_added_to_those_that_were_measured_before(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    before = {
        "results": {"one": {"tiny": {}, "bundle": {}}, "default": {}},
        "versions": {"jax": {"version": "1"}},
        "titles": {"bundle": "b"},
    }
    file.write_text(json.dumps(before))
    comparison.main([*QUICK, "--rows", "tiny", "--frameworks", "eager", "--threads", "one", "--json", str(file), "--add"])
    record = json.loads(file.read_text())
    assert list(record["results"]["one"]) == ["tiny", "bundle"]
    assert record["results"]["one"]["tiny"]["eager"]["rounds"] == 1
    assert (record["results"]["default"], set(record["versions"])) == ({}, {"jax", "eager"})
    assert record["titles"] == {"tiny": ROWS["tiny"].title, "bundle": "b"}
    with pytest.raises(SystemExit):
        comparison.parsed(["--add"])


class _Peer:
    """Stands for a library whose results, or whose failure, are given."""

    def __init__(self, name: str, results: Any) -> None:
        self.name = name
        self.results = results

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        if isinstance(self.results, str):
            raise WorkerError(f"{self.name}: {self.results}")
        if do == "check":
            np.savez(arguments["file"], *self.results)
        return {"seconds": [0.5] * arguments["steps"] if "steps" in arguments else 0.5, "first": 1.0, "pace": 1.0}


def test_a_row_goes_on_without_what_fails_or_gives_other_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.benchmarks.compare.PAUSE_SECONDS", 0.0)
    right = [np.ones(3)]
    peers: list[Any] = [
        _Peer("eager", [np.array([1.0, 1.0, 1.1])]),
        _Peer("numpy", "no memory"),
        _Peer("torch", [np.ones(3, np.float32)]),
        _Peer("handwritten", right),
        _Peer("jax", right),
    ]
    found = comparison.measure(ROWS["tiny"], peers, comparison.parsed(QUICK), Rounds(0.0))
    assert found["eager"] == {"error": "its results differ by 1.0e-01"}
    assert found["numpy"] == {"error": "no memory"}
    assert found["torch"] == {"error": "its results differ by nan"}
    assert found["handwritten"] == {"seconds": 0.5, "quartiles": [0.5, 0.5], "least": 0.5, "rounds": 1}
    assert found["jax"]["compile"] == 0.5
    assert "left out of tiny: numpy: no memory" in capsys.readouterr().err


def test_what_takes_too_long_is_ended_and_started_again() -> None:
    import sys

    peer = Peer("handwritten", sys.executable, limit=30.0, one_thread=True)
    assert peer.alive() is peer
    peer.limit = 0.001
    with pytest.raises(WorkerError, match=r"^handwritten: more than 0\.001 s$"):
        peer.ask("prepare", program="lstm_looped")
    peer.limit = 30.0
    other = peer.alive()
    try:
        assert other is not peer
        assert other.ask("prepare", program="tiny")["seconds"] > 0
    finally:
        other.close()


def test_ratios_leave_out_what_failed_and_what_does_not_count() -> None:
    results = {
        "tiny": {"numpy": {"seconds": 9.0}, "jax": {"seconds": 1.0}},
        "logistic": {"numpy": {"seconds": 1.0}, "jax": {"seconds": 4.0}},
        "network": {"numpy": {"error": "no"}, "jax": {"seconds": 4.0}},
        "bundle": {"numpy": {"seconds": 4.0}, "jax": {"seconds": 1.0}},
    }
    assert ratios(results, "numpy") == {"logistic": 0.25, "bundle": 4.0}
    assert ratio(results["tiny"], "numpy", steady) == 9.0
    record = {
        "machine": {"date": "today", "cpu": "a processor", "cores": 2, "memory": "kept", "python": "3", "numpy": "2"},
        "versions": {name: {"version": "1"} for name in ("numpy", "jax")},
        "results": {"one": results},
    }
    rows = markdown(record).splitlines()
    assert rows[0] == "One thread:"
    assert "| bundle adjustment, blocks of the Jacobian, 30,000 observations | 4 s (4.00) | 1 s |" in rows
    assert "| network 784-512-256-10, batch 128, float32 | no | 4 s |" in rows
    assert "| **geometric mean of the ratios** | **1.00** of 2 | **1.00** of 3 |" in rows
    results["bundle"] = {"numpy": {"seconds": 4.0, "least": 3.0}, "jax": {"seconds": 1.0, "least": 0.5}}
    assert "| bundle adjustment, blocks of the Jacobian, 30,000 observations | 3 s (6.00) | 500 ms |" in markdown(
        record, by_least=True
    )


def test_the_report_marks_what_changed_and_names_what_failed() -> None:
    def record(**seconds: float | None) -> dict[str, Any]:
        found = {name: {"error": "gone"} if value is None else {"least": value} for name, value in seconds.items()}
        return {"results": {"one": {"tiny": found}}, "titles": {"tiny": "a call"}}

    before = record(llvm=2.0, numpy=3.0, eager=1.0, handwritten=1.0)
    now = record(llvm=2.2, numpy=None, eager=3.0, handwritten=2.0)
    assert [line.split(" | ")[1:] for line in report.lines(before, now)][2:] == [
        ["functad, llvm", "2.00", "1.10", "0.55 **faster** |"],
        ["functad, eager", "1.00", "1.50", "1.50 **slower** |"],
        ["functad, numpy", "3.00", "gone", "|"],
    ]


def test_the_report_measures_the_rows_that_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    report.main(["--rows", "tiny", "--rounds", "1"])
    printed = capsys.readouterr().out
    assert printed.count("| a call: `x * y + 1`, n = 3 |") == len(report.WAYS)
    assert set(report.ROWS) <= set(ROWS)
