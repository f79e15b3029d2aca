"""Random programs of nested Python loops with slices that grow, shrink and move, and with writes into arrays."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

VECTORS = ("x", "y", "t")
MATRICES = ("A", "B")


class Writer:
    """Writes one program as Python source.

    Args:
        seed: the seed of the choices.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.size = self.random.choice((6, 8, 9, 11))
        self.lines: list[str] = []

    def program(self) -> Callable[..., Any]:
        """Return a function of two square matrices and two vectors, with its source as `source`."""
        while True:
            found = self._written()
            try:
                found(*self.arguments())
            except (ValueError, IndexError):  # slices of other lengths, at the ends of a range
                continue
            return found

    def _written(self) -> Callable[..., Any]:
        self.lines = [
            "def program(A, B, x, y):",
            "    A, B, x, y, s = A.copy(), B.copy(), x.copy(), y.copy(), 0.5",
            f"    t = np.zeros({self.size}, like=x)",
        ]
        for _ in range(self.random.choice((1, 1, 2))):
            self.loop("    ", [])
        self.lines.append("    return np.sum(A * np.cos(A)) + np.sum(B * B) + x @ x + np.sum(np.sin(y)) + t @ y + s")
        source = "\n".join(self.lines)
        space: dict[str, Any] = {"np": np}
        exec(compile(source, f"<program of {self.size}>", "exec"), space)
        found = space["program"]
        found.source = source
        return found  # type: ignore[no-any-return]

    def loop(self, indent: str, around: list[str]) -> None:
        """Write a loop over the next index."""
        index, n = "ijk"[len(around)], self.size
        bounds = [f"1, {n - 1}", f"{n - 2}, 0, -1", f"{n}", f"0, {n}, 2"]
        if around:
            bounds += [f"{around[-1]}", f"{around[-1]} + 1, {n}", f"{around[-1]}, {n}"]
        self.lines.append(f"{indent}for {index} in range({self.random.choice(bounds)}):")
        inside, depth = [*around, index], len(around) + 1
        if self.random.random() < 0.2:
            self.lines.append(f"{indent}    t = np.zeros({n}, like=x)")
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self.statement(indent + "    ", inside)
        if depth < 2 and self.random.random() < 0.75:
            self.loop(indent + "    ", inside)
            if self.random.random() < 0.4:
                self.statement(indent + "    ", inside)

    def slices(self, inside: list[str]) -> tuple[str, str]:
        """Return a slice of an axis, and another one of the same length."""
        i = self.random.choice(inside)
        n = self.size
        return self.random.choice(
            [
                (f":{i}", f":{i}"),
                (f":{i}", f"{n} - {i}:"),
                (f"{i}:", f"{i}:"),
                (f"{i} + 1:", f"{i}:-1"),
                (f"{i} + 1:", f":{n} - {i} - 1"),
                (":", ":"),
                (f"{i}:{i} + 1", ":1"),
                (f":{i} + 1", f"{i}::-1"),
                (f"{i}::2", f":(({n} - {i} + 1) // 2)"),
            ]
        )

    def scalar(self, inside: list[str]) -> str:
        """Return an expression for a number."""
        i, j = self.random.choice(inside), self.random.choice(inside)
        a, b = self.slices(inside)
        v, w, m = self.random.choice(VECTORS), self.random.choice(VECTORS), self.random.choice(MATRICES)
        return self.random.choice(
            [
                f"{v}[{i}]",
                f"{m}[{i}, {j}]",
                f"{v}[{i} - 1] * {m}[{i}, {j}]",
                f"{m}[{i}, {a}] @ {v}[{b}]",
                f"np.dot({m}[{a}, {i}], {v}[{b}])",
                f"np.sum({v}[{a}] * {w}[{b}])",
                f"np.tanh({v}[{i}] - {w}[{j}])",
                f"{v}[{i}] / (2.0 + {m}[{i}, {i}] ** 2)",
                "s",
                f"np.where({v}[{i}] > {w}[{j}], {v}[{i}], 0.5)",
            ]
        )

    def vector(self, a: str, b: str, inside: list[str]) -> str:
        """Return an expression for a vector with the length of the slices `a` and `b`."""
        i = self.random.choice(inside)
        v, w, m = self.random.choice(VECTORS), self.random.choice(VECTORS), self.random.choice(MATRICES)
        c, d = self.slices(inside)
        return self.random.choice(
            [
                f"{v}[{a}] * {self.scalar(inside)}",
                f"{v}[{b}] + {m}[{i}, {a}]",
                f"np.sin({v}[{b}]) * {w}[{a}]",
                f"{m}[{a}, {i}] - {v}[{b}]",
                f"{m}[{a}, {c}] @ {v}[{d}]",
                f"{v}[{c}] @ {m}[{d}, {b}]",
                f"np.maximum({v}[{a}], {w}[{b}])",
                f"np.sum({m}[{c}, {b}], axis=0)",
                f"{v}[{a}][::-1]",
            ]
        )

    def statement(self, indent: str, inside: list[str]) -> None:
        """Write an assignment."""
        i, j = self.random.choice(inside), self.random.choice(inside)
        a, b = self.slices(inside)
        v, m = self.random.choice(VECTORS), self.random.choice(MATRICES)
        one, many = self.scalar(inside), self.vector(a, b, inside)
        self.lines.append(
            indent
            + self.random.choice(
                [
                    f"{v}[{i}] = 0.7 * np.tanh({one}) + 0.1",
                    f"{v}[{i}] += 0.1 * np.tanh({one})",
                    f"{m}[{i}, {j}] -= 0.2 * np.tanh({one})",
                    f"{m}[{i}, {j}] = 0.5 * {m}[{i}, {j}] + 0.3 * np.cos({one})",
                    f"{v}[{a}] = 0.5 * np.tanh({many})",
                    f"{v}[{b}] = 0.5 * np.tanh({many}) + 0.2",
                    f"{v}[{a}] -= 0.1 * np.tanh({many})",
                    f"{m}[{i}, {a}] = 0.6 * np.tanh({many})",
                    f"{m}[{a}, {i}] += 0.1 * np.sin({many})",
                    f"{m}[{a}, {b}] = 0.3 * np.tanh(np.outer({v}[{a}], {many}))",
                    f"{m}[{i}, {a}] = {m}[{a}, {j}] = 0.5 * np.sin({many})",
                    f"s = 0.5 * s + 0.1 * np.tanh({one})",
                    f"w = np.tanh({many}); {v}[{a}] = 0.5 * w; s = 0.5 * s + 0.1 * np.sum(w * {v}[{b}])",
                ]
            )
        )

    def arguments(self) -> tuple[Any, ...]:
        """Return arguments of the program."""
        own, n = np.random.default_rng(self.random.randrange(2**32)), self.size
        return own.normal(size=(n, n)), own.normal(size=(n, n)), own.normal(size=n), own.normal(size=n)
