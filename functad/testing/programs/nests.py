"""Random nests of transforms, tapes and accumulators around a random program, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import functad
from functad.testing.programs.checks import (
    DisagreementError,
    Examination,
    Finding,
    NothingToCompare,
    as_list,
    checked,
    compare,
    confirm,
    plain,
)
from functad.testing.programs.drafts import Choose
from functad.testing.programs.layers import COMPILED, CONTAINERS, NEUTRAL, OUTERMOST, PRELUDE, PULLS, PUSHES, container
from functad.testing.programs.program import Program, draw_program, written_out

NEST_CHECKS = ("nest", "differences", "over_reverse", "over_forward")
KINDS = {"pull": PULLS, "push": PUSHES, "neutral": NEUTRAL, "compiled": COMPILED}


@dataclass(frozen=True)
class Layer:
    """One layer of a nest.

    Attributes:
        kind: `pull`, `push`, `neutral` or `compiled`.
        name: the key of the layer in the table of its kind.
        arguments, results: the types of containers for arguments and results.
        turned: enter keys in reverse order.
    """

    kind: str
    name: str
    arguments: str = "tuple"
    results: str = "tuple"
    turned: bool = False

    def text(self, level: int, inputs: int, results: int) -> str:
        """Return the definition of the function `f{level}`, which calls the function of the level below."""
        body = KINDS[self.kind][self.name]
        parts = {"f": f"f{level - 1}"}
        lines = [f"def f{level}(*xs):"]
        for letters, kind, count in (("puo", self.arguments, inputs), ("qvr", self.results, results)):
            order = range(count)[::-1] if self.turned else range(count)
            for letter, text in zip(letters, container(kind, order), strict=True):
                parts[letter] = f"{letter}{level}"
                if f"{{{letter}}}" in body:
                    lines.insert(0, f"{letter}{level} = {text}")
        lines.extend(f"    {line}" for line in body.format(**parts).splitlines())
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Nest(Program):
    """A program inside layers of transforms.

    Attributes:
        layers: the layers, innermost first.
    """

    layers: tuple[Layer, ...] = ()

    @property
    def definitions(self) -> str:
        """The definitions of the program and of all layers."""
        inputs, results = len(self.inputs), len(self.results)
        most = max(inputs, results)
        names = "{" + ", ".join(f"{n}: namedtuple('Named{n}', list('abcdefghijkl'[:{n}]))" for n in range(1, most + 1)) + "}"
        parts = [self.source, PRELUDE.strip("\n").replace("{names}", names)]
        for level, layer in enumerate(self.layers, 1):
            parts.append(layer.text(level, inputs, results))
            results = inputs if layer.kind == "pull" else results
        return "\n\n".join(parts)

    @property
    def function(self) -> Callable[..., Any]:
        """The function of the outermost layer."""
        function: Callable[..., Any] = self.space[f"f{len(self.layers)}"]
        return function

    def __repr__(self) -> str:
        """The source; it ends by printing the results of the nest and of its canonical form."""
        arrays = repr(self.as_program()).rpartition("inputs = [")[2][:-1]
        plainest = self.canonical()
        parts = [f"import numpy as np\n\n\n{self.definitions}", f"inputs = [{arrays}]\nprint(f{len(self.layers)}(*inputs))"]
        own = plainest.definitions.partition("else (y,)\n")[2].strip("\n")
        return "\n\n\n".join([*parts, *([own] if own else []), f"print(f{len(plainest.layers)}(*inputs))\n"])

    __str__ = __repr__

    def as_program(self) -> Program:
        """Return the program inside the layers."""
        return Program(**self.parts)

    def canonical(self) -> Nest:
        """Return the nest with `vjp` and `jvp` for all pull and push layers, without neutral and compiled layers."""
        plainest = [Layer(layer.kind, next(iter(KINDS[layer.kind]))) for layer in self.layers if layer.kind in ("pull", "push")]
        return replace(self, layers=tuple(plainest))


def draw_nest(
    choose: Choose, *, max_layers: int = 4, max_operations: int = 5, layouts: bool = False, compiled: str = ""
) -> Nest:
    """Return a random nest.

    Args:
        choose: the source of randomness: `choose(n)` returns one of `0 ... n - 1`.
        max_layers: the largest number of layers, not counting compiled ones; at most two layers take derivatives.
        max_operations: the largest number of lines of the program.
        layouts: inputs may have any memory layout.
        compiled: a `jit` backend that compiles the program or some layers; by default nothing is compiled.

    Example:
        >>> nest = draw_nest(lambda n: 0)
        >>> [layer.name for layer in nest.layers]
        ['vjp']
    """
    writes: Sequence[str] = ((), ("mutation",), ("mutation", "scratch"), ("mutation", "views"))[choose(4)]
    program = draw_program(
        choose, max_operations=max_operations, max_rank=2, mutation=writes, layouts=bool(layouts and choose(2))
    )
    program = replace(program, lines=written_out(program.lines))
    layers: list[Layer] = []
    for count in range(max_layers):
        if (count and not choose(4)) or (layers and layers[-1].name in OUTERMOST):
            break
        if compiled and (not choose(2) or not count):
            layers.append(Layer("compiled", compiled))
        derivatives = sum(layer.kind in ("pull", "push") for layer in layers)
        kind = ("pull", "push", "neutral")[choose(3)] if derivatives < 2 else "neutral"
        names = [name for name in KINDS[kind] if name != "none"]
        name = names[choose(len(names))]
        layers.append(Layer(kind, name, CONTAINERS[choose(7)], CONTAINERS[choose(7)], bool(choose(2))))
    return Nest(**program.parts, layers=tuple(layers))


class NestExamination(Examination):
    """The checks of one nest; `program` is its canonical form."""

    program: Nest

    def __init__(self, nest: Nest) -> None:
        self.whole = nest
        self.program = nest.canonical()
        self.inputs = nest.inputs
        self.before = [np.array(x) for x in self.inputs]
        self.open = not any(layer.name in OUTERMOST for layer in nest.layers)

    def findings(self, checks: Sequence[str] = ()) -> Iterator[Finding]:
        """Run the checks with these names, all by default."""
        for name in checks or NEST_CHECKS:
            found = checked(name, getattr(self, f"check_{name}"))
            if found.fails and not self._plain_runs():
                continue
            yield found
            if found.outcome in ("refused", "wrong", "bare"):
                return
        yield checked("arguments", self.check_arguments)

    def _plain_runs(self) -> bool:
        """Return `True` if the canonical nest runs without an error; other programs test its errors."""
        try:
            self.expected  # noqa: B018
        except Exception:  # noqa: BLE001
            return False
        return True

    def check_nest(self) -> None:
        """Compare the nest with its canonical form."""
        _agree([plain(y) for y in as_list(self.whole(*self.inputs))], self.expected)

    def check_differences(self) -> None:
        """Compare the outermost derivative of the canonical nest with differences of the layer below."""
        if not self.program.layers:
            raise NothingToCompare
        inner = replace(self.program, layers=self.program.layers[:-1])
        direction = [np.asarray(v) for v in inner.space["directions"](self.inputs)]

        def below(*xs: Any) -> list[Any]:
            ys = as_list(inner(*xs))
            return [inner.space["total"](ys)] if self.program.layers[-1].kind == "pull" else ys

        measured, found = self.differences(below, direction), self.expected
        if self.program.layers[-1].kind == "pull":
            found = [np.asarray(sum(np.sum(np.multiply(g, v)) for g, v in zip(found, direction, strict=True)))]
        confirm(found, measured, 1e-7, 1e-5, "the plainest layers give")

    def check_over_reverse(self) -> None:
        """Compare a pullback of the nest with a pullback of its canonical form."""
        self._over(lambda f, gs: functad.vjp(lambda *xs: tuple(f.function(*xs)), *self.inputs)[1](gs))

    def check_over_forward(self) -> None:
        """Compare forward mode over the nest with forward mode over its canonical form."""
        rng = np.random.default_rng(1)
        ts = tuple(rng.standard_normal(np.shape(x))[()] for x in self.inputs)
        self._over(lambda f, gs: functad.jvp(lambda *xs: tuple(f.function(*xs)), self.inputs, ts)[1])

    def _over(self, around: Callable[[Nest, Any], Any]) -> None:
        if not self.open:
            raise NothingToCompare
        rng = np.random.default_rng(0)
        gs = tuple(rng.standard_normal(np.shape(y))[()] for y in self.expected)
        try:
            expected = as_list(around(self.program, gs))
        except Exception as failed:
            raise NothingToCompare from failed
        _agree([plain(y) for y in as_list(around(self.whole, gs))], expected)


def _agree(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Compare arrays where the expected values are finite."""
    compare(found, expected, np.inf)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        known = np.isfinite(b)
        size = 1.0 + float(np.max(np.abs(b), initial=0.0, where=known))
        if not np.all((np.abs(a - b) <= 1e-7 * size) | ~known):
            raise DisagreementError(f"result {i} is {a!r}, not {b!r}")
