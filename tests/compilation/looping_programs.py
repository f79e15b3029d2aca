"""Random programs with loops that end by a value: nested, with counters, lists, attributes, branches and `break`."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

COUNTED = [0]
"""A counter that programs change as a global variable."""


class LoopingProgram:
    """A random function of an array of four numbers, a number and an integer.

    Args:
        seed: the seed of the draw.

    Attributes:
        source: the source of the function.
        function: the function.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0
        self._lines = [
            "def f(x, s, n):", "    a = x[0] * 0.5", "    b = s", "    c = np.tanh(x[1])", "    k, h = 0, []",
            "    o = Space(m=0, v=s)",
        ]  # fmt: skip
        self._block(1, 2, loops=[])
        self._loop(1, 2, loops=[])
        self._block(1, 1, loops=[])
        result = self._one("a, b, c, x", "a, b, c, x", "a + b", "(a, k)", "(b, c, o.m)", "(a, h)", "(x, len(h))", "a, o.v")
        self.source = "\n".join([*self._lines, f"    return {result}"])
        space: dict[str, Any] = {"np": np, "itertools": itertools, "Space": SimpleNamespace, "COUNTED": COUNTED}
        exec(compile(self.source, f"<looping program {seed}>", "exec"), space)
        self.function: Callable[..., Any] = space["f"]

    def _one(self, *texts: str) -> str:
        return self._random.choice(texts)

    def _number(self) -> str:
        a, b = self._one("a", "b", "c", "o.v"), self._one("a", "b", "c", "s")
        return self._one(
            "np.sum(x) * 0.1", f"x[{self._random.randrange(4)}]", f"{a} * 0.5", f"{a} * -0.5", f"np.sin({a})",
            f"{a} * {b} * 0.1",
            f"np.tanh({a} + {b})", "s", f"np.cos({a} * np.max(x))", f"0.5 * ({a} - {b})", "0.25", f"max({a}, {b}, s) * 0.5",
        )  # fmt: skip

    def _condition(self) -> str:
        a = self._one("a", "b", "c", "o.v")
        compared = f"{a} {self._one('<', '>')} {self._one('a', 'b', '0.0', '0.2', '-0.1')}"
        return self._one(
            compared, compared, compared, f"np.any(x > {a})", f"{compared} and {self._one('a', 'b')} < 0.3", f"not {compared}",
            f"k < {self._random.randrange(6)}", f"{compared} and k < {self._random.randrange(6)}",
            f"n > {self._random.randrange(4)}",
            "k % 2 == 0", f"len(h) > {self._random.randrange(4)}", f"o.m < {self._random.randrange(4)}",
        )  # fmt: skip

    def _block(self, indent: int, depth: int, loops: list[str]) -> None:
        for _ in range(self._random.randrange(1, 4)):
            self._statement(indent, depth, loops)

    def _statement(self, indent: int, depth: int, loops: list[str]) -> None:
        space, number = "    " * indent, self._random.randrange(16)
        add = lambda *lines: self._lines.extend([space + line for line in lines])  # noqa: E731 - short
        if number < 6 or depth <= 0:
            add(f"{self._one('a', 'b', 'c')} = {self._number()}")
        elif number < 9:
            add(f"if {self._condition()}:")
            self._block(indent + 1, depth - 1, loops)
            if self._random.random() < 0.5:
                add("else:")
                self._block(indent + 1, depth - 1, loops)
        elif number == 9:
            add(self._one("k += 1", "k += 1", "k += 2", "k = k * 2 + 1", "k = 0"))
        elif number == 10:
            add(self._one("h.append(a)", "h.append(1)", "h = [*h[-2:], b]", "h.append(len(h))"))
        elif number == 11:
            add(self._one("o.m += 1", f"o.v = {self._number()}", "COUNTED[0] += 1", f"o.v = o.v * 0.5 + {self._number()}"))
        elif number == 12:
            add(f"x = x * 0.9 + {self._number()} * np.array([0.1, 0.0, 0.0, -0.05])")
        elif number == 13:
            add(self._one("x = x.copy(); x[1] = a", "y = x[1:]; x = x.copy(); x[2] = np.sum(y)", "x = x[::-1]"))
        elif number == 14 and loops:
            add(f"if {self._condition()}: {self._one('break', 'continue', 'break')}")
        else:
            self._loop(indent, depth - 1, loops)

    def _loop(self, indent: int, depth: int, loops: list[str]) -> None:
        self._count += 1
        space, w, kind = "    " * indent, f"w{self._count}", self._random.randrange(8)
        start = self._one("np.abs(a) + 0.3", "np.abs(s) + np.abs(b)", "np.sum(np.abs(x))", "np.max(np.abs(x)) + 0.1 * n")
        decay = self._one(f"{w} = {w} * 0.5", f"{w} = {w} * (0.3 if a > 0 else 0.7)", f"{w} = np.minimum({w} * 0.6, 1.0)")
        add = lambda *lines: self._lines.extend([space + line for line in lines])  # noqa: E731 - short
        add(f"{w} = {start}")
        if kind < 3:
            add(f"while {w} > {self._one('0.01', '0.1', '1e-3')}:", f"    {decay}")
        elif kind == 3:
            add(f"i{w} = 0", f"while {w} > 0.01 and i{w} < {self._random.randrange(2, 9)}:", f"    {decay}; i{w} += 1")
        elif kind == 4:
            add("while True:", f"    {decay}", f"    if {w} < 0.02: break")
        else:
            many = f"range({self._random.randrange(2, 12)})"
            ways = [
                ("_", many),
                (f"i{w}", many),
                ("_", "itertools.repeat(0, 7)"),
                ("i", "[0, 0, 1, 1, 1]"),
                ("_", "range(n + 2)"),
            ]
            target, source = self._random.choice([*ways, ("t", "x")])
            add(f"for {target} in {source}:", f"    {decay}", f"    if {w} < {self._one('0.02', '0.2')}: break")
            if self._random.random() < 0.3 and target != "_":
                add(f"    b = b * 0.5 + {target} * 0.1")
        self._block(indent + 1, depth, [*loops, w])
