"""What functions of `functad.numpy` and its kin cost for plain values: `python -m tests.benchmarks.plain_values`.

Each is called in turn with the function that it stands for, outside of every trace and inside of one, and the shortest times of
many are subtracted.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import functad
from tests.adoption.stand_ins import numbers, replacement

from .compare import machine, plain

A, B = np.linspace(0.5, 1.5, 3), np.eye(3) + 0.5
C = np.zeros(3)
NUMBERS, PAIR = [0.5, 1.0, 1.5], [A, A]

CALLS: dict[str, Callable[[Any], Any]] = {
    "np.array(list)": lambda m: m["numpy"].array(NUMBERS),
    "np.array(array)": lambda m: m["numpy"].array(A),
    "np.asarray(list)": lambda m: m["numpy"].asarray(NUMBERS),
    "np.array(list, dtype=float)": lambda m: m["numpy"].array(NUMBERS, dtype=float),
    "np.array(array, copy=True)": lambda m: m["numpy"].array(A, copy=True),
    "np.asarray(array)": lambda m: m["numpy"].asarray(A),
    "np.asarray(array, dtype=float)": lambda m: m["numpy"].asarray(A, dtype=float),
    "np.asarray(number)": lambda m: m["numpy"].asarray(0.5),
    "np.zeros(n)": lambda m: m["numpy"].zeros(3),
    "np.zeros(n, dtype=int)": lambda m: m["numpy"].zeros(3, dtype=int),
    "np.empty(shape)": lambda m: m["numpy"].empty((2, 3)),
    "np.ones(n)": lambda m: m["numpy"].ones(3),
    "np.full(n, x)": lambda m: m["numpy"].full(3, 0.5),
    "np.arange(n)": lambda m: m["numpy"].arange(3),
    "np.eye(n)": lambda m: m["numpy"].eye(3),
    "np.linspace(a, b, n)": lambda m: m["numpy"].linspace(0.0, 1.0, 3),
    "np.zeros_like(array)": lambda m: m["numpy"].zeros_like(A),
    "np.concatenate(list)": lambda m: m["numpy"].concatenate(PAIR),
    "np.float64(x)": lambda m: m["numpy"].float64(0.5),
    "np.sum(list)": lambda m: m["numpy"].sum(NUMBERS),
    "np.sum(array)": lambda m: m["numpy"].sum(A),
    "np.sum(array, axis=0)": lambda m: m["numpy"].sum(A, axis=0),
    "np.dot(array, array)": lambda m: m["numpy"].dot(A, A),
    "np.mean(array, axis=0, keepdims=True)": lambda m: m["numpy"].mean(A, axis=0, keepdims=True),
    "np.where(array, array, 0.0)": lambda m: m["numpy"].where(A, A, 0.0),
    "np.clip(array, 0.0, 1.0)": lambda m: m["numpy"].clip(A, 0.0, 1.0),
    "np.reshape(array, shape)": lambda m: m["numpy"].reshape(A, (3, 1)),
    "np.exp(array)": lambda m: m["numpy"].exp(A),
    "np.exp(list)": lambda m: m["numpy"].exp(NUMBERS),
    "np.add(array, array)": lambda m: m["numpy"].add(A, A),
    "np.add(array, array, out=array)": lambda m: m["numpy"].add(A, B[0], out=C),
    "np.add(list, list)": lambda m: m["numpy"].add(NUMBERS, NUMBERS),
    "np.modf(array)": lambda m: m["numpy"].modf(A),
    "np.maximum.reduce(array)": lambda m: m["numpy"].maximum.reduce(A),
    "np.add.reduce(array, axis=0)": lambda m: m["numpy"].add.reduce(A, axis=0),
    "np.r_[...]": lambda m: m["numpy"].r_[A, 1.0],
    "np.vectorize(f)(array)": lambda m: m["vectorized"](A),
    "np.linalg.solve(B, a)": lambda m: m["numpy"].linalg.solve(B, A),
    "math.sin(x)": lambda m: m["math"].sin(0.5),
    "math.atan2(x, y)": lambda m: m["math"].atan2(0.5, 1.5),
    "math.hypot(x, y)": lambda m: m["math"].hypot(0.5, 1.5),
    "float(x)": lambda m: m["float"](0.5),
    "float(array)": lambda m: m["float"](A[0]),
    "math.fsum(list)": lambda m: m["math"].fsum(NUMBERS),
    "math.sqrt(x)": lambda m: m["math"].sqrt(0.5),
    "np.float64(array)": lambda m: m["numpy"].float64(A),
    "np.linalg.norm(array)": lambda m: m["numpy"].linalg.norm(A),
    "np.fft.fft(array)": lambda m: m["numpy"].fft.fft(A),
    "scipy.special.gamma(x)": lambda m: m["special"].gamma(0.5),
    "scipy.special.logsumexp(a)": lambda m: m["special"].logsumexp(A),
    "scipy.linalg.solve(B, a)": lambda m: m["scipy.linalg"].solve(B, A),
}


def modules(*, adopted: bool) -> dict[str, Any]:
    """Return by name what code calls: the originals, or what stands for them in adopted code."""
    import scipy.linalg
    import scipy.special

    found = {
        "numpy": np, "math": math, "special": scipy.special, "scipy.linalg": scipy.linalg, "float": float,
    }  # fmt: skip
    if adopted:
        found = {**{name: replacement(module) for name, module in found.items()}, "float": numbers()["float"]}
    return {**found, "vectorized": found["numpy"].vectorize(lambda x: x * 2.0)}


def shortest(step: Callable[[], Any], calls: int) -> float:
    """Return the shortest time of one call, of those of several runs of `calls` calls."""
    times = range(calls)
    start = perf_counter()
    for _ in times:
        step()
    return (perf_counter() - start) / calls


def costs(call: Callable[[Any], Any], rounds: int, calls: int) -> dict[str, float]:
    """Return the seconds of a call of the original, and those that a stand-in takes more, outside and inside a trace."""
    sides = {"numpy": modules(adopted=False), "outside": modules(adopted=True)}
    fastest = dict.fromkeys((*sides, "inside"), math.inf)

    def measure(name: str, side: dict[str, Any]) -> None:
        fastest[name] = min(fastest[name], shortest(lambda: call(side), calls))

    def traced(t: Any) -> Any:
        measure("inside", sides["outside"])
        return t

    for _ in range(rounds):
        for name, side in sides.items():
            measure(name, side)
        functad.grad(traced)(1.0)
    return {"numpy": fastest["numpy"], **{name: fastest[name] - fastest["numpy"] for name in ("outside", "inside")}}


def main(arguments: list[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=[])
    chosen = parser.parse_args(arguments)
    print(machine())
    rows = [["plain values", "NumPy's own", "more, outside of a trace", "more, inside"]]
    for name, call in CALLS.items():
        if not chosen.only or any(part in name for part in chosen.only):
            found = costs(call, chosen.rounds, chosen.calls)
            rows.append([name, *[f"{found[key] * 1e6:.2f} us" for key in ("numpy", "outside", "inside")]])
    print(plain(rows))


if __name__ == "__main__":
    main()
