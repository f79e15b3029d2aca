"""The tables of `compile`, from what it has recorded."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from tests.benchmarks.compare import readable

from .peers import COMPILING, TITLES
from .rows import ROWS

PEER = "jax"
THREADS = {"one": "one thread", "default": "threads as each library chooses"}

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By row and framework: `seconds`, their `quartiles`, their `least`, `compile`, or an `error`."""


def steady(found: Mapping[str, Any]) -> float | None:
    """Return the seconds of a call that is compiled already."""
    return found.get("seconds")


def least(found: Mapping[str, Any]) -> float | None:
    """Return the seconds of a call in the fastest round."""
    return found.get("least")


def compiling(found: Mapping[str, Any]) -> float | None:
    """Return the seconds that compiling takes."""
    return found.get("compile")


def ratio(row: Mapping[str, Mapping[str, Any]], name: str, of: Callable[[Mapping[str, Any]], float | None]) -> float | None:
    """Return how many times the seconds of `jax.jit` a framework takes."""
    own, theirs = of(row.get(name, {})), of(row.get(PEER, {}))
    return own / theirs if own and theirs else None


def ratios(results: Results, name: str, of: Callable[[Mapping[str, Any]], float | None] = steady) -> dict[str, float]:
    """Return the ratios of all rows that count, and have both."""
    found = {key: ratio(row, name, of) for key, row in results.items() if ROWS[key].counted}
    return {key: value for key, value in found.items() if value is not None}


def means(results: Results, names: list[str], of: Callable[[Mapping[str, Any]], float | None] = steady) -> list[str]:
    """Return the row of geometric means, with the number of rows that have both."""
    cells = ["**geometric mean of the ratios**"]
    for name in names:
        found = ratios(results, name, of)
        cells.append(f"**{statistics.geometric_mean(found.values()):.2f}** of {len(found)}" if found else "-")
    return cells


def table(results: Results, names: list[str], head: str, of: Callable[[Mapping[str, Any]], float | None] = steady) -> str:
    """Return a table in Markdown: seconds, and in brackets the ratio to `jax.jit`."""
    rows = [[head, *[TITLES[name] for name in names]], ["---"] * (len(names) + 1)]
    for key, row in results.items():
        cells = [ROWS[key].title]
        for name in names:
            found = row.get(name, {})
            seconds = of(found)
            if seconds is None:
                cells.append(str(found.get("error", "-")).partition("\n")[0][:60])
                continue
            share = ratio(row, name, of)
            cells.append(readable(seconds) + ("" if share is None or name == PEER else f" ({share:.2f})"))
        rows.append(cells)
    rows.append(means(results, names, of))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def markdown(record: Mapping[str, Any], *, by_least: bool = False) -> str:
    """Return all tables of a record, with what was measured where."""
    figure, call = ("The fastest of interleaved rounds", least) if by_least else ("Medians of interleaved rounds", steady)
    parts = []
    names = [name for name in TITLES if name in record["versions"]]
    for threads, results in record["results"].items():
        parts.append(f"{THREADS[threads].capitalize()}:\n\n{table(results, names, 'a call', call)}")
        makers = [name for name in names if name in COMPILING]
        if makers:
            parts.append(f"Compiling, {THREADS[threads]}:\n\n{table(results, makers, 'compiling', compiling)}")
    machine = record["machine"]
    libraries = [f"{TITLES[name]} {found['version']}" for name, found in record["versions"].items() if name in ("jax", "torch")]
    place = [machine["date"], machine["cpu"], f"{machine['cores']} cores", machine["memory"], f"Python {machine['python']}"]
    place += [f"NumPy {machine['numpy']}", *libraries]
    parts.append(
        f"{figure}, in brackets as multiples of `jax.jit`. Compiling is what the first call takes longer "
        f"than the others, tracing included. {', '.join(place)}."
    )
    return "\n\n".join(parts) + "\n"
