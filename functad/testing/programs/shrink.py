"""Shrink a failing random program while it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np

from functad.testing.programs.cases import Case
from functad.testing.programs.drafts import literal
from functad.testing.programs.nests import KINDS, Layer, Nest
from functad.testing.programs.program import Program, is_binding

P = TypeVar("P", bound=Program)
T = TypeVar("T")

TRIES = 400
"""The largest number of candidates."""


def shrink(program: P, fails: Callable[[P], bool]) -> P:
    """Return a failing program with as few lines as possible.

    Args:
        program: a failing program.
        fails: returns `True` if a program fails in the same way, and `False` for invalid programs.

    Example:
        >>> program = Program(("a0 = np.sin(x0)", "a1 = x0 * 2", "a2 = a1 + a0"), (np.float64(1.0),), ())
        >>> print(shrink(program, lambda p: "np.sin" in p.source).source)
        def program(x0):
            a0 = np.sin(x0)
            return a0
        <BLANKLINE>
    """
    texts = program.texts or tuple(map(literal, program.inputs))
    program = replace(program, texts=texts, returns=tuple(program.results))
    left = TRIES
    shorter: P | None = program
    while shorter is not None and left:
        program, shorter = shorter, None
        for candidate in _shorter(program):
            left -= 1
            if fails(candidate):
                shorter = candidate
                break
            if not left:
                break
    return program


def _with(parts: tuple[T, ...], i: int, *new: T) -> tuple[T, ...]:
    """Return a tuple with `new` in place of element `i`."""
    return (*parts[:i], *new, *parts[i + 1 :])


def _shorter(program: P) -> Iterator[P]:
    """Yield slightly shorter or simpler programs."""
    if isinstance(program, Nest):
        for i, layer in enumerate(program.layers):
            yield replace(program, layers=_with(program.layers, i))
            plainer = [replace(layer, turned=False), replace(layer, arguments="tuple"), replace(layer, results="tuple")]
            if layer.kind != "neutral":
                plainer.append(Layer(layer.kind, next(iter(KINDS[layer.kind]))))
            yield from [replace(program, layers=_with(program.layers, i, other)) for other in plainer if other != layer]
    if isinstance(program, Case):
        for direct in (replace(program, calls="same"), replace(program, mode="value")):
            if direct != program and not program.place and not program.static:
                yield direct
        if len(program.static) > 2:
            yield from [replace(program, static=_with(program.static, i)) for i in range(len(program.static))]
    lines, returns = program.lines, program.returns
    for i in reversed(range(len(lines))):
        kept = _with(lines, i)
        gone = lines[i].partition(" = ")[0] if is_binding(lines[i]) else ""
        rest = tuple(name for name in returns if name != gone)
        if rest:
            yield replace(program, lines=kept, returns=rest)
        elif made := _made(kept):
            yield replace(program, lines=kept, returns=(made[-1],))
    if len(returns) > 1:
        for name in returns:
            yield replace(program, returns=tuple(other for other in returns if other != name))
    for i, line in enumerate(lines):
        name, _, expression = line.partition(" = ")
        if is_binding(line) and not expression.isidentifier():
            for other in (*[f"x{k}" for k in range(len(program.inputs))], *_made(lines[:i])):
                simpler = f"{other}.copy()" if name[0] == "b" else other
                if simpler != expression:
                    yield replace(program, lines=_with(lines, i, f"{name} = {simpler}"))
    for i, text in enumerate(program.texts):
        used = any(f"x{i}" in line for line in lines) or f"x{i}" in returns
        plain = literal(program.inputs[i]) if used and np.size(program.inputs[i]) < 100 else "np.float64(0.5)"
        if text != plain:
            texts = _with(program.texts, i, plain)
            inputs = tuple(eval(text, {"np": np}) for text in texts)  # noqa: S307 - the text was drawn from a fixed grammar
            yield replace(program, texts=texts, inputs=inputs)


def _made(lines: tuple[str, ...]) -> list[str]:
    """Return the names of values that a program may return."""
    return [line.partition(" = ")[0] for line in lines if is_binding(line) and line[0] in "ab"]
