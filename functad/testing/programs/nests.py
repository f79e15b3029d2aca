"""Random nests of transforms, tapes and accumulators around a random program, and their checks.

The layers of a nest are source texts of functions of arrays that call the layer below. A pull layer returns the gradient of a
scalar function of all results. A push layer returns a directional derivative of the results. A neutral layer changes nothing.
All layers of a kind must agree, for all transforms, tapes and containers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import functad
from functad.testing.programs.drafts import Choose
from functad.testing.programs.program import (
    DisagreementError,
    Examination,
    Finding,
    NothingToCompare,
    Program,
    as_list,
    checked,
    compare,
    confirm,
    draw_program,
    plain,
    written_out,
)

PRELUDE = """
from collections import OrderedDict, defaultdict, namedtuple

import functad as F

Named = {names}


def weights(y):
    return np.cos(1.0 + np.arange(np.size(y))).reshape(np.shape(y))


def total(ys):
    return sum(np.sum(np.sin(y) * weights(y)) for y in ys)


def seeds(ys):
    return tuple(np.cos(y) * weights(y) for y in ys)


def directions(xs):
    return tuple(weights(x)[()] for x in xs)


def lifted(xs):
    return [x if isinstance(x, F.Tensor) else F.constant(x) for x in xs]


def known(y):
    return lifted([y])[0]


def filled(gs, xs):
    return tuple(np.zeros(np.shape(x)) if g is None else g for g, x in zip(gs, xs))


def f0(*xs):
    y = program(*xs)
    return y if isinstance(y, tuple) else (y,)
"""
"""Functions that the layers use; `f0` is the innermost function."""

PULLS = {
    "vjp": "return F.vjp(lambda *ys: {f}(*ys), *xs)[1](seeds({f}(*xs)))",
    "grad": "return F.grad(lambda *ys: total({f}(*ys)), argnums=tuple(range(len(xs))))(*xs)",
    "value_and_grad": "return F.value_and_grad(lambda *ys: total({f}(*ys)), argnums=tuple(range(len(xs))))(*xs)[1]",
    "grad_tree": "return {u}(F.grad(lambda d: total({f}(*{u}(d))))({p}(xs)))",
    "vjp_tree": "y, back = F.vjp(lambda *ys: {q}({f}(*ys)), *xs)\nreturn back({r}(seeds({v}(y))))",
    "jacrev": "return F.jacrev(lambda *ys: total({f}(*ys)), argnums=tuple(range(len(xs))))(*xs)",
    "jacfwd": "return F.jacfwd(lambda *ys: total({f}(*ys)), argnums=tuple(range(len(xs))))(*xs)",
    "jacobian_tree": "return {u}(F.jacobian(lambda d: total({f}(*{u}(d))))({p}(xs)))",
    "linearize": "y, linear = F.linearize({f}, *xs)\nreturn linear.transpose(seeds(y))",
    "tape": "ts = lifted(xs)\nwith F.GradientTape() as tape:\n    tape.watch(ts)\n    y = known(total({f}(*ts)))\n"
    "return filled(tape.gradient(y, ts), xs)",
    "tape_inside": "ts = lifted(xs)\nwith F.GradientTape(persistent=True) as tape:\n    tape.watch(ts)\n    y = {f}(*ts)\n"
    "    tape.gradient(known(total(y)), ts)\n    g = tape.gradient(known(total(y)), ts)\nreturn filled(g, xs)",
    "tape_tree": "ts = lifted(xs)\nwith F.GradientTape() as tape:\n    tape.watch({p}(ts))\n    y = {f}(*ts)\n"
    "g = tape.gradient({q}(lifted(y)), {p}(ts), output_gradients={r}(seeds(y)))\nreturn filled({u}(g), xs)",
    "tape_jacobian": "ts = lifted(xs)\nwith F.GradientTape() as tape:\n    tape.watch(ts)\n    y = known(total({f}(*ts)))\n"
    "return filled(tape.jacobian(y, ts), xs)",
    "gradients_function": "return filled(F.gradients_function(lambda *ys: total({f}(*ys)))(*xs), xs)",
    "gradients_function_tree": "g = F.gradients_function(lambda *ys: {q}({f}(*ys)))\n"
    "return filled(g(*xs, dy={r}(seeds({f}(*xs)))), xs)",
    "gradients_function_of_tree": "g = F.gradients_function(lambda d: total({f}(*{u}(d))))\n"
    "return filled({u}(g({p}(xs))[0]), xs)",
    "make_vjp": "y, back = F.make_vjp(lambda *ys: {q}({f}(*ys)))(*xs)\nreturn filled(back({r}(seeds({v}(y)))), xs)",
    "graph": "with F.graph():\n    ts = lifted(xs)\n    return filled(F.gradients(known(total({f}(*ts))), ts), xs)",
    "vmap_grad": "g = F.vmap(F.grad(lambda *ys: total({f}(*ys)), argnums=tuple(range(len(xs)))))\n"
    "return tuple(y[0] for y in g(*[np.stack([x, x * 0.9]) for x in xs]))",
    "list_of_grad": "g = F.make_expressions(F.grad(lambda *ys: total({f}(*ys)), argnums=tuple(range(len(xs)))))\n"
    "return g(*xs)(*xs)",
    "checkpoint_of_grad": "return F.checkpoint(F.grad(lambda *ys: total({f}(*ys)), argnums=tuple(range(len(xs)))))(*xs)",
    "implicit": "vs = [F.Variable(x) for x in xs]\n"
    "found = F.implicit_gradients(lambda: total({f}(*[v + 0.0 for v in vs])))()\n"
    "return filled([dict((id(v), g) for g, v in found).get(id(v)) for v in vs], xs)",
    "tape_of_variables": "vs = [F.Variable(x) for x in xs]\nwith F.GradientTape() as tape:\n"
    "    y = known(total({f}(*[v * 1.0 for v in vs])))\n"
    "return filled(tape.gradient(y, vs), xs)",
}
"""Pull layers. The first is the reference for the others."""

PUSHES = {
    "jvp": "return F.jvp({f}, xs, directions(xs))[1]",
    "jvp_tree": "return {v}(F.jvp(lambda d: {q}({f}(*{u}(d))), ({p}(xs),), ({o}(directions(xs)),))[1])",
    "linearize": "return F.linearize({f}, *xs)[1](*directions(xs))",
    "accumulator": "ts = lifted(xs)\nwith F.ForwardAccumulator(ts, list(directions(xs))) as acc:\n    y = {f}(*ts)\n"
    "return filled(acc.jvp(lifted(y)), y)",
    "accumulator_tree": "ts = lifted(xs)\nwith F.ForwardAccumulator({p}(ts), {o}(directions(xs))) as acc:\n    y = {f}(*ts)\n"
    "return filled({v}(acc.jvp({q}(lifted(y)))), y)",
    "jacfwd": "rows = F.jacfwd({f}, argnums=tuple(range(len(xs))))(*xs)\n"
    "return tuple(sum(np.tensordot(j, t, np.ndim(t)) for j, t in zip(row, directions(xs))) for row in rows)",
    "jacrev": "rows = F.jacrev({f}, argnums=tuple(range(len(xs))))(*xs)\n"
    "return tuple(sum(np.tensordot(j, t, np.ndim(t)) for j, t in zip(row, directions(xs))) for row in rows)",
    "double_vjp": "y, back = F.vjp({f}, *xs)\n"
    "return F.vjp(lambda *gs: back(gs), *[np.zeros_like(v) for v in y])[1](directions(xs))",
    "vmap_jvp": "push = F.vmap(lambda t: F.jvp({f}, xs, t)[1])\n"
    "return tuple(y[1] for y in push(tuple(np.stack([t * 0.0, t]) for t in directions(xs))))",
    "list_of_jvp": "return F.make_expressions(lambda *ys: F.jvp({f}, ys, directions(ys))[1])(*xs)(*xs)",
}

NEUTRAL = {
    "none": "return {f}(*xs)",
    "checkpoint": "return F.checkpoint({f})(*xs)",
    "recompute_grad": "return F.recompute_grad({f})(*xs)",
    "list": "return F.make_expressions({f})(*xs)(*xs)",
    "vmap": "return tuple(y[0] for y in F.vmap({f})(*[np.stack([x, x * 0.9]) for x in xs]))",
    "vmap_last": "batches = [np.stack([x * 0.9, x], axis=-1) for x in xs]\n"
    "return tuple(y[..., 1] for y in F.vmap({f}, in_axes=-1, out_axes=-1)(*batches))",
    "map": "return tuple(y[0] for y in F.map(lambda ys: {f}(*ys), tuple(np.stack([x, x * 0.9]) for x in xs)))",
    "scan": "return tuple(y[0] for y in F.scan(lambda c, row: (c + 1.0, {f}(*row)), 0.0, tuple(x[None] for x in xs))[1])",
    "cond": "return F.cond(np.sum(xs[0]) < 1e9, {f}, lambda *ys: {f}(*[y * 2.0 for y in ys]), *xs)",
    "fori_loop": "return F.fori_loop(0, 1, lambda i, c: {f}(*xs), tuple(np.zeros_like(y) for y in {f}(*xs)))",
    "while_loop": "return F.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, {f}(*xs)),\n"
    "    (0, tuple(np.zeros_like(y) for y in {f}(*xs))))[1]",
    "switch": "return F.switch(1, [lambda *ys: {f}(*[y * 2.0 for y in ys]), {f}], *xs)",
    "custom_vjp": "g = F.custom_vjp({f})\n"
    "g.defvjp(lambda *ys: ({f}(*ys), ys), lambda ys, gs: F.vjp({f}, *ys)[1](tuple(gs)))\nreturn g(*xs)",
    "custom_jvp": "g = F.custom_jvp({f})\ng.defjvp(lambda ys, ts: F.jvp({f}, ys, tuple(ts)))\nreturn g(*xs)",
    "custom_gradient": "def rule(*ys):\n    value, back = F.vjp({f}, *ys)\n    return value, lambda *gs: back(tuple(gs))\n"
    "return tuple(F.custom_gradient(rule)(*xs))",
    "bystander": "with F.GradientTape():\n    y = {f}(*xs)\nreturn y",
    "bystander_accumulator": "t = F.constant(1.0)\nwith F.ForwardAccumulator(t, 1.0):\n    y = {f}(*xs)\nreturn y",
    "bystander_graph": "with F.graph():\n    y = {f}(*xs)\nreturn y",
    "ravel": "flat, back = F.ravel(list(xs))\nreturn {f}(*back(flat))",
    "tree": "return {v}(F.tree_map(lambda y: y, {q}({f}(*{u}({p}(xs))))))",
    "list_tree": "return {v}(F.make_expressions(lambda d: {q}({f}(*{u}(d))))({p}(xs))({o}(xs)))",
    "checkpoint_tree": "return {v}(F.checkpoint(lambda d: {q}({f}(*{u}(d))))({p}(xs)))",
    "eval_shape": "F.eval_shape({f}, *xs)\nreturn {f}(*xs)",
    "has_aux": "return F.vjp(lambda *ys: (total(ys), {f}(*ys)), *xs, has_aux=True)[2]",
}

COMPILED = {name: f"return F.jit({{f}}, backend={name!r})(*xs)" for name in ("numpy", "llvm", "xla")}
"""Neutral layers that compile the layers below, by backend."""

OUTERMOST = ("implicit", "tape_of_variables", "has_aux", "graph")
"""Layers that stop outer derivatives: Variables and graphs hold values, and `has_aux` returns values outside the trace."""

MAPPINGS = {"dict": "{{{}}}", "OrderedDict": "OrderedDict({{{}}})", "defaultdict": "defaultdict(list, {{{}}})"}
CONTAINERS = ("tuple", "list", *MAPPINGS, "namedtuple", "nested")


def container(kind: str, order: Sequence[int]) -> tuple[str, str, str]:
    """Return source texts of three functions of ordered keys: from tuple to container, back, and with keys reversed."""
    keys = [f"k{i}" for i in order]
    pairs = [f"{key!r}: xs[{i}]" for i, key in enumerate(keys)]
    read = f"lambda d: ({''.join(f'd[{key!r}], ' for key in keys)})"
    if kind in MAPPINGS:
        made, other = (f"lambda xs: {MAPPINGS[kind].format(', '.join(row))}" for row in (pairs, pairs[::-1]))
        return made, read, other
    if kind == "nested":
        rest = "".join(f"{key!r}: xs[{i}], " for i, key in enumerate(keys[1:], 1))
        made = f"lambda xs: [{{{rest}}}, (xs[0],)]"
        read = f"lambda d: (d[1][0], {''.join(f'd[0][{key!r}], ' for key in keys[1:])})"
        return made, read, made
    made = f"lambda xs: Named[{len(keys)}](*xs)" if kind == "namedtuple" else f"lambda xs: {kind}(xs)"
    return made, "lambda d: tuple(d)", made


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
    """Return a random nest; at most two of its layers take derivatives.

    `max_layers` does not count compiled layers. `compiled` is a `jit` backend that compiles the program or some layers.
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
