"""Random programs with branches, loops, lengths and masks that depend on values."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np


class BranchingProgram:
    """A random function of an array of four numbers, a number and an integer.

    Args:
        seed: the seed of the draw.

    Attributes:
        source: the source of the function.
        function: the function.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._loops = 0
        self._lines = ["def f(x, s, n):", "    a = x[0] * 0.5", "    b = s", "    c = np.tanh(x[1])"]
        for _ in range(3):
            self._block(["a", "b", "c", "s"], 2, 1, loop=False)
        self.source = "\n".join([*self._lines, "    return a, b, c, x, n"])
        space: dict[str, Any] = {"np": np}
        exec(compile(self.source, "<branching program>", "exec"), space)
        self.function: Callable[..., Any] = space["f"]

    def _one(self, *texts: str) -> str:
        return self._random.choice(texts)

    def _number(self, names: list[str]) -> str:
        a, b = self._one(*names), self._one(*names)
        return self._one(
            "np.sum(x)", f"x[{self._random.randrange(4)}]", a, f"{a} * 0.5", f"{a} * -1.5", f"np.sin({a})", f"{a} + np.max(x)",
            f"np.mean(x * {a})", f"{a} - s", f"np.abs({a})", f"max({a}, {b})", f"x[n % 4] + {a}",
        )  # fmt: skip

    def _condition(self, names: list[str]) -> str:
        a, number = self._one(*names), self._random.randrange(4)
        compared = f"{a} {self._one('<', '>', '<=', '>=')} {self._one(*names, '0.0', '0.5', '1.0')}"
        return self._one(
            compared, compared, compared, f"np.any(x > {a})", f"{compared} and {self._one(*names)} < 1.0", f"not {compared}",
            f"n > {number}", f"np.count_nonzero(x > {a}) > {number}", f"int(np.argmax(x)) == {number}",
        )  # fmt: skip

    def _block(self, names: list[str], depth: int, indent: int, *, loop: bool) -> None:
        for _ in range(self._random.randrange(1, 4)):
            self._statement(names, depth, indent, loop=loop)

    def _statement(self, names: list[str], depth: int, indent: int, *, loop: bool) -> None:
        space, target, number = "    " * indent, self._one("a", "b", "c"), self._random.randrange(12)
        add = lambda *lines: self._lines.extend([space + line for line in lines])  # noqa: E731 - short
        if number < 3 or depth <= 0:
            add(f"{target} = {self._number(names)}")
        elif number < 5:
            add(f"if {self._condition(names)}:")
            self._block(names, depth - 1, indent + 1, loop=loop)
            if self._random.random() < 0.6:
                add("else:")
                self._block(names, depth - 1, indent + 1, loop=loop)
        elif number < 7:
            self._loops += 1
            i = f"i{self._loops}"
            if number == 5:
                most = self._random.randrange(1, 6)
                add(f"{i} = 0", f"while {self._condition(names)}:", f"    {i} += 1", f"    if {i} > {most}: break")
            else:
                add(f"for {i} in range(int(np.sum(x > {self._one(*names)})) + {self._random.randrange(2)}):")
            self._block(names if number == 5 else [*names, i], depth - 1, indent + 1, loop=True)
        elif number == 7:
            add(f"x = x.copy(); x[x > {self._one(*names)}] = {self._one(*names)}")
        elif number == 8:
            add(f"m = x[x {self._one('<', '>')} {self._one(*names)}]")
            add(f"{target} = np.sum(m * m) if m.size else {self._number(names)}")
        elif number == 9:
            add(f"x = np.sort(x) if {self._condition(names)} else x[::-1] * {self._one(*names)}")
        elif number == 10:
            result = self._one("a", "(a, b)", "[c, x]", "n", "{0: s}")
            add(f"if {self._condition(names)}: {self._one('break', 'continue') if loop else f'return {result}'}")
        else:
            add(f"x = x + {self._number(names)} * np.array([1.0, 0.0, 0.0, -0.5])")
