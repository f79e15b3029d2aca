"""The layers of nests of transforms: source texts of functions of arrays that call the layer below.

A pull layer returns the gradient of a scalar function of all results. A push layer returns a directional derivative of the
results. A neutral layer changes nothing. All layers of a kind must agree, for all transforms, tapes and containers.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """Return source texts of three functions: tuple to container, container to tuple, and tuple to container, keys reversed.

    Args:
        kind: one of `CONTAINERS`.
        order: the order of the keys.

    Example:
        >>> container("dict", [1, 0])[0]
        "lambda xs: {'k1': xs[0], 'k0': xs[1]}"
    """
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
