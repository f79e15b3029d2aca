"""Execute the old lines, and write down what they give: `python -m tests.migration.record LIBRARY...`, where that is."""

from __future__ import annotations

import ast
import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.migration.lines import LIBRARIES, POINT, Pair

RECORD = Path(__file__).parent / "record.json"


def executed(before: str, lines: str) -> list[Any]:
    """Return the value of the last line, as lists of numbers, one for each array in it."""
    names: dict[str, Any] = {"x": eval(POINT, {"np": np}), "np": np}
    exec(before, names)
    tree = ast.parse(lines)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "<lines>", "exec"), names)
    return leaves(eval(compile(ast.Expression(last.value), "<lines>", "eval"), names))


def leaves(value: Any) -> list[Any]:
    """Return the arrays of a result, as lists."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach()
    return [np.asarray(value.numpy() if hasattr(value, "numpy") else value, dtype=float).round(12).tolist()]


def old(library: str, pair: Pair) -> list[Any]:
    """Return the results of the old lines. Warnings of the other library about its own code are ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return executed(LIBRARIES[library].before, pair.old)


def new(library: str, pair: Pair) -> list[Any]:
    """Return what the new lines give."""
    return executed(LIBRARIES[library].after, pair.new)


def main(chosen: list[str]) -> None:
    """Record the libraries that are named."""
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for name in chosen:
        version = importlib.import_module(name).__version__ if name != "autograd" else _version(name)
        record[name] = {"version": version, "values": {pair.wanted: old(name, pair) for pair in LIBRARIES[name].pairs}}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _version(name: str) -> str:
    return importlib.import_module("importlib.metadata").version(name)


if __name__ == "__main__":
    main(sys.argv[1:])
