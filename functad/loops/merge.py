"""Merging: local functions that differ only in integers become one function with the integers as parameters.

A traced loop over growing slices, such as `A[i, :i] @ x[:i]`, gives a function for each length. LLVM would optimise and compile
each of them. Calls of a merged function pass the lengths and positions. Its loops have no constant length, which costs a few
nanoseconds per call, so only programs with many functions are merged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from functad.loops.ir import Block, Call, For, Function, If, Load, Loop, Node, Op, Reduce, Store, is_name, walk

MOST_NODES = 3_000
"""Local functions with more nodes together are merged."""

LEAST_ALIKE = 4
"""The minimum number of functions that are merged into one."""

MOST_INTEGERS = 8
"""The maximum number of parameters for integers."""


class Shape(NamedTuple):
    """A function without its integers.

    Attributes:
        function: the function without a name, with numbered placeholders in place of its integers.
        integers: the integers.
    """

    function: Function
    integers: tuple[str, ...]


def merged(functions: Sequence[Function]) -> Sequence[Function]:
    """Return equivalent functions, in which local functions that differ only in integers are one function.

    The argument itself is returned if there are too few functions.
    """
    local = [function for function in functions if function.local]
    if sum(sum(1 for _ in walk(function.body)) for function in local) <= MOST_NODES:
        return functions
    alike: dict[Function, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for function in local:
        shape = shape_of(function)
        alike[shape.function].append((function.name, shape.integers))
    calls: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {}
    found: dict[str, Function] = {}
    for shared, members in alike.items():
        columns = list(zip(*[integers for _, integers in members], strict=True))
        varying = list(dict.fromkeys([column for column in columns if len(set(column)) > 1]))
        if len(members) < LEAST_ALIKE or len(varying) > MOST_INTEGERS:
            continue
        names = {column: f"%n{i}" for i, column in enumerate(varying)}
        operands = {f"#{i}": names.get(column, column[0]) for i, column in enumerate(columns)}
        name = members[0][0]
        parameters = (*shared.parameters, *[("i64", own) for own in names.values()])
        body = _mapped(shared.body, partial(_replaced, operands))
        found[name] = shared._replace(name=name, parameters=parameters, body=body)
        for number, (member, _) in enumerate(members):
            calls[member] = name, tuple([("i64", column[number]) for column in varying])
    if not calls:
        return functions
    kept = [
        found.get(function.name, function)
        for function in functions
        if calls.get(function.name, (function.name,))[0] == function.name
    ]
    return [function._replace(body=_with_calls(function.body, calls)) for function in kept]


def shape_of(function: Function) -> Shape:
    """Return a function without its name and integers, and the integers."""
    integers: list[str] = []

    def taken(operand: str) -> str:
        if is_name(operand):
            return operand
        integers.append(operand)
        return f"#{len(integers) - 1}"

    body = _mapped(function.body, taken)
    return Shape(function._replace(name="", body=body), tuple(integers))


def _replaced(operands: dict[str, str], operand: str) -> str:
    return operands.get(operand, operand)


def _mapped(body: Sequence[Node], change: Callable[[str], str]) -> tuple[Node, ...]:
    """Return nodes with the operands of type `i64` changed: bounds of loops, positions, and terms of positions."""
    found: list[Node] = []
    for node in body:
        if isinstance(node, Op) and node.of == "i64" and node.name != "address":
            skipped = 1 if node.name == "select" else 0  # its condition
            operands = (*node.operands[:skipped], *map(change, node.operands[skipped:]))
            found.append(node._replace(operands=operands))
        elif isinstance(node, (Load, Store, Reduce)):
            found.append(node._replace(position=change(node.position)))
        elif isinstance(node, Call):
            given = [(kind, change(operand) if kind == "i64" else operand) for kind, operand in node.operands]
            found.append(node._replace(operands=tuple(given)))
        elif isinstance(node, For):
            first, stop = change(node.first), change(node.stop)
            found.append(node._replace(first=first, stop=stop, body=_mapped(node.body, change)))
        elif isinstance(node, (If, Block, Loop)):
            found.append(node._replace(body=_mapped(node.body, change)))
        else:
            found.append(node)
    return tuple(found)


def _with_calls(body: tuple[Node, ...], calls: dict[str, tuple[str, tuple[tuple[str, str], ...]]]) -> tuple[Node, ...]:
    """Return nodes with calls of merged functions."""
    found: list[Node] = []
    for node in body:
        if isinstance(node, Call) and node.function in calls:
            name, integers = calls[node.function]
            node = node._replace(function=name, operands=(*node.operands, *integers), inline="never")
        elif isinstance(node, (For, If, Block, Loop)):
            node = node._replace(body=_with_calls(node.body, calls))
        found.append(node)
    return tuple(found)
