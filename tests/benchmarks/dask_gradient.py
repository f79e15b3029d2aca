"""Gradients of a logistic regression on a Dask cluster of this machine: `python -m tests.benchmarks.dask_gradient`.

    python -m tests.benchmarks.dask_gradient memory --gigabytes 40
    python -m tests.benchmarks.dask_gradient time --rounds 15

`memory` takes one gradient over rows that are made chunk by chunk and stored nowhere, in workers limited to 1 GB each, and
prints the peak of each. `time` compares functad's value and gradient with hand-written ones on the same cluster, in turn, for
rows that lie in the memory of the workers; and two workers with one.
"""

from __future__ import annotations

import argparse
import functools
import resource
from collections.abc import Callable
from importlib import import_module
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

import functad

COLUMNS = 100
ROWS = 100_000
"""Of a chunk, which is 80 MB."""


def loss(w: Any, X: Any, y: Any) -> Any:
    """Return the mean loss of a logistic regression with labels -1 and 1."""
    return np.mean(np.logaddexp(0.0, -y * (X @ w)))


def of_chunk(X: Any, y: Any, w: Any) -> Any:
    """Return the sum of losses and its gradient over the rows of a chunk, by the formula that one derives by hand."""
    y = y[:, 0]
    z = -y * (X @ w)
    slope = -y / (1.0 + np.exp(-z))
    return np.concatenate([[np.sum(np.logaddexp(0.0, z))], slope @ X])[None]


def by_hand(w: Any, X: Any, y: Any, of_chunk: Callable[..., Any] = of_chunk) -> tuple[Any, Any]:
    """Return value and gradient as one writes them with `map_blocks`."""
    import dask.array as da

    parts = da.map_blocks(of_chunk, X, y[:, None], w, chunks=(1, COLUMNS + 1), dtype=float)
    total = parts.sum(axis=0) / len(X)
    return total[0], total[1:]


def by_functad(w: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return value and gradient as functad makes them: lazy, in one graph."""
    return functad.value_and_grad(loss)(w, X, y)


def by_blocks(w: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return value and gradient as `functad.map_blocks` makes them: those of a chunk in one task."""
    column = y[:, None]

    def mean(w: Any) -> Any:
        return np.sum(functad.map_blocks(loss_of_chunk, X, column, w)) / len(X)

    return functad.value_and_grad(mean)(w)


def loss_of_chunk(X: Any, y: Any, w: Any) -> Any:
    """Return the sum of the losses of the rows of a chunk, with labels in a column."""
    return total_of_chunk(w, X, y[:, 0])


compiled_whole = functad.jit(functad.value_and_grad(loss))


def by_jit(w: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return value and gradient as the compiled function makes them: lazy, one task for each chunk."""
    return compiled_whole(w, X, y)


def total_of_chunk(w: Any, X: Any, y: Any) -> Any:
    """Return the sum of the losses of the rows of a chunk."""
    return np.sum(np.logaddexp(0.0, -y * (X @ w)))


compiled = functad.jit(functad.value_and_grad(total_of_chunk))


def with_jit(X: Any, y: Any, w: Any) -> Any:
    """Return what `of_chunk` does, with a gradient that functad has compiled."""
    value, gradient = compiled(w, X, y[:, 0])
    return np.concatenate([[value], gradient])[None]


def with_trust(X: Any, y: Any, w: Any) -> Any:
    """Return what `with_functad` does, which then does not look whether its arguments were overwritten."""
    with functad.trust_constants():
        return with_functad(X, y, w)


def with_functad(X: Any, y: Any, w: Any) -> Any:
    """Return what `of_chunk` does, with a gradient by functad."""
    value, gradient = functad.value_and_grad(total_of_chunk)(w, X, y[:, 0])
    return np.concatenate([[value], gradient])[None]


WAYS = {
    "functad": by_functad,
    "functad.map_blocks": by_blocks,
    "jit": by_jit,
    "functad in map_blocks": functools.partial(by_hand, of_chunk=with_functad),
    "the same with trust_constants": functools.partial(by_hand, of_chunk=with_trust),
    "jit in map_blocks": functools.partial(by_hand, of_chunk=with_jit),
    "by hand": by_hand,
}


def data(chunks: int) -> tuple[Any, Any]:
    """Return rows and labels of random numbers, which are made where they are needed."""
    import dask.array as da

    rng = da.random.default_rng(0)
    X = rng.random(size=(chunks * ROWS, COLUMNS), chunks=(ROWS, COLUMNS))
    return X, da.sign(rng.random(size=chunks * ROWS, chunks=ROWS) - 0.5)


def cluster(workers: int, memory_limit: Any) -> Any:
    """Start a cluster of processes with one thread each."""
    from dask.distributed import LocalCluster

    return LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=memory_limit)


def peak() -> float:
    """Return the largest memory that this process has taken, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory(gigabytes: float, workers: int) -> None:
    """Print time and memory of one gradient over so many gigabytes of rows."""
    import dask

    chunks = round(gigabytes * 1e9 / (ROWS * COLUMNS * 8))
    with cluster(workers, "1GB") as local, local.get_client() as client:
        before = client.run(peak)
        X, y = data(chunks)
        w = np.full(COLUMNS, 0.01)
        start = perf_counter()
        value, gradient = dask.compute(*by_functad(w, X, y))
        seconds = perf_counter() - start
        after = client.run(peak)
    print(f"{X.nbytes / 1e9:.1f} GB in {chunks} chunks, {workers} workers: {seconds:.0f} s; value {value:.6f}")
    print(f"norm of the gradient {np.linalg.norm(gradient):.6f}")
    for address in after:
        print(f"a worker: {before[address]:.0f} MB before, {after[address]:.0f} MB at most")


def seconds_of(gradient: Callable[..., Any], args: tuple[Any, ...], client: Any) -> tuple[float, float]:
    """Return how long a value and a gradient take, and how much of processors, graph and transfer included."""
    import dask

    before, start = sum(client.run(process_time).values()) + process_time(), perf_counter()
    dask.compute(*gradient(*args))
    seconds = perf_counter() - start
    return seconds, sum(client.run(process_time).values()) + process_time() - before


def time(chunks: int, rounds: int) -> None:
    """Print the times of functad and of the hand-written gradient, in turn, with one worker and with two."""
    w = np.full(COLUMNS, 0.01)
    medians: dict[tuple[int, str], float] = {}
    for workers in (1, 2):
        with cluster(workers, 0) as local, local.get_client() as client:
            args = w, *client.persist(data(chunks))
            results = {name: client.gather(client.compute(list(way(*args)))) for name, way in WAYS.items()}
            for name in WAYS:
                np.testing.assert_allclose(results[name][1], results["by hand"][1], rtol=1e-9, atol=1e-12)
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
            for _ in range(rounds):
                for name, way in WAYS.items():
                    times[name].append(seconds_of(way, args, client))
        print(f"{workers} workers, {args[1].nbytes / 1e9:.1f} GB in {chunks} chunks, {rounds} rounds")
        for name in WAYS:
            walls, used = zip(*times[name], strict=True)
            ratios = [[a[i] / b[i] for a, b in zip(times[name], times["by hand"], strict=True)] for i in (0, 1)]
            medians[workers, name] = median(walls)
            print(
                f"  {name}: {median(walls) * 1e3:.0f} ms, best {min(walls) * 1e3:.0f}; processors {median(used) * 1e3:.0f} ms;"
            )
            print(f"    by hand = 1: time {median(ratios[0]):.3f}, processors {median(ratios[1]):.3f}", flush=True)
    for name in WAYS:
        print(f"{name}: two workers are {medians[1, name] / medians[2, name]:.2f} times as fast as one")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("memory", "time"))
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    if given.what == "memory":
        memory(given.gigabytes, given.workers)
    else:
        time(given.chunks, given.rounds)


if __name__ == "__main__":
    # Under its own name, by which workers import it, so that they compile once.
    import_module("tests.benchmarks.dask_gradient").main()
