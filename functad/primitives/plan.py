"""Plans: the rules of a primitive for a set of differentiated inputs, and the residuals that the rules read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.operands import layout_of

Rules = tuple[Callable[..., Any], ...]

MANY = 256
"""The largest number of cached plans. Most primitives have at most three; a stack of many arrays has one for each subset."""


PULL_SEVERAL, PULL_WRITE, PULL_READ, PULL_PRODUCT = "several", "write", "read", "product"
"""Names of the functions that a backward pass calls in place of `Plan.pull`."""

INLINE: dict[Callable[..., Any], str] = {}
"""Rules that are cheaper than a call, as source text: `{0}` is the cotangent, `{1}` the value that the rule reads."""


class Plan:
    """The rules and residuals for a call of a primitive with a given set of differentiated inputs.

    The functions of a plan are generated from the signatures of the rules. Residuals are the values that the rules read:
    `None` for no name, the value itself for one name, and a tuple for several.

    A reverse plan is made of VJP rules, and a forward plan of JVP rules. If JVP rules read the same residuals as the VJP rules,
    the reverse plan has both `pull` and `push`, and serves both modes.

    Attributes:
        primitive: the called primitive.
        active: positions of the differentiated inputs.
        rules: one rule per active input, or the joint rule alone.
        joint: `True` if `rules` is one joint rule.
        special: the name of the function that a backward pass calls in place of `pull`; empty if it calls `pull`.
        names: the names that the rules read, without duplicates.
        save: `save(values, out, params)` returns the residuals.
        pull: `pull(g, residuals)` returns the cotangent of the active input, or a tuple for several inputs. `None` if `special`
            is set, and in plans for forward mode.
        push: `push(t, residuals)` returns the tangent of the result, or a tuple for several results. `t` is the tangent of the
            active input, or a list for several inputs; `None` in the list means zero. `push` is `None` in a reverse plan
            without JVP rules.
        pushes: the rules that `push` calls.
        arguments: `arguments(residuals)` returns one tuple of arguments for each rule.
        holds: positions of the array arguments that some rule reads.
        params: names of the parameters that the rules read, or `params` alone.
        fresh: `True` if the rules return new arrays without other references, as elementwise rules that read a value do.
    """

    __slots__ = (
        "active",
        "arguments",
        "fresh",
        "holds",
        "joint",
        "names",
        "params",
        "primitive",
        "pull",
        "push",
        "pushes",
        "rules",
        "save",
        "special",
    )

    def __init__(
        self,
        primitive: Any,
        active: tuple[int, ...],
        rules: Rules,
        wants: list[list[str]],
        joint: bool,
        *,
        forward: bool = False,
    ) -> None:
        self.primitive, self.active, self.rules, self.joint = primitive, active, rules, joint
        sources = {name: _source(primitive, name) for names in wants for name in names}
        known = {name: repr(active) for name in sources if sources[name] == "active"}
        sources = {name: source for name, source in sources.items() if name not in known}
        self.names = tuple(sources)
        self.params = tuple([name for name, source in sources.items() if source[0] == "p"])
        every = range(max(len(primitive.names), *active, 63) + 1 if "arrays" in sources or "rest" in sources else 0)
        self.holds = frozenset(every) | {i for i, name in enumerate(primitive.names) if name in sources}
        values = {"out", *primitive.names}
        self.fresh = primitive.kind == "elementwise" and all(not values.isdisjoint(names) for names in wants)
        self.special = "" if forward else self._special()
        self.save = _maker(f"lambda v, out, p: {_residuals(list(sources.values()))}", ("derived",))(primitive.derived)
        reads = [[known.get(name) or _read(self.names, name) for name in names] for names in wants]
        self.arguments = _maker(f"lambda r: {_tuple([_tuple(each) for each in reads])}", ())()
        single = len(active) == 1
        self.pull = None if self.special or forward else _pull(rules, reads, single)
        self.pushes = rules if forward else primitive.jvps_with_residuals(active, wants)
        self.push = None
        if joint and forward:
            self.push = _push_of_all(primitive, rules, wants[0], reads[0], active)
        elif self.pushes is not None:
            self.push = _pull(self.pushes, reads, single=True) if single else _push(self.pushes, reads, primitive.multiple)

    def _special(self) -> str:
        primitive = self.primitive
        if primitive.writes:
            return PULL_WRITE
        if primitive.multiple or self.joint:
            return PULL_SEVERAL
        applies = {"": True, PULL_READ: self.active == (0,), PULL_PRODUCT: len(self.active) == 2}
        return primitive.special if applies[primitive.special] else ""


def _residuals(sources: Sequence[str]) -> str:
    return ("None", *sources)[len(sources)] if len(sources) < 2 else _tuple(sources)


def _read(names: Sequence[str], name: str) -> str:
    """Return the source text that reads a name from the residuals `r`."""
    return "r" if len(names) == 1 else f"r[{names.index(name)}]"


def _tuple(items: Sequence[str]) -> str:
    return "(" + "".join(f"{item}, " for item in items) + ")"


def _called(rules: Rules, reads: Sequence[Sequence[str]], given: Sequence[str]) -> list[str]:
    """Return for each rule the source text of its call with a cotangent or tangent."""
    texts = []
    for i, (rule, names, g) in enumerate(zip(rules, reads, given, strict=True)):
        inline = INLINE.get(rule)
        texts.append(inline.format(g, *names) if inline is not None else f"rule{i}({', '.join([g, *names])})")
    return texts


def _pull(rules: Rules, reads: Sequence[Sequence[str]], single: bool) -> Callable[[Any, Any], Any]:
    if single and reads == [["r"]]:
        return rules[0]
    calls = _called(rules, reads, ["g"] * len(rules))
    return _with_rules(f"lambda g, r: {calls[0] if single else _tuple(calls)}", rules)


def _push_of_all(
    primitive: Any, rules: Rules, names: Sequence[str], reads: Sequence[str], active: tuple[int, ...]
) -> Callable[[Any, Any], Any]:
    """Return the `push` of a joint JVP rule, which receives the tangents of all arrays, `None` for zero."""
    of_each = next((reads[i] for i, name in enumerate(names) if name in ("arrays", "shapes")), repr(primitive.names))
    given = "(t,)" if len(active) == 1 else "t"
    ts = f"list(map(dict(zip({active!r}, {given})).get, range(len({of_each}))))"
    return _with_rules(f"lambda t, r: {_called(rules, [reads], [ts])[0]}", rules)


def _push(rules: Rules, reads: Sequence[Sequence[str]], multiple: bool) -> Callable[[Any, Any], Any]:
    total = "tuple([a + b for a, b in zip(total, {}, strict=True)])" if multiple else "total + {}"
    lines = ["def made(ts, r):", "    total = None"]
    for i, call in enumerate(_called(rules, reads, ["t"] * len(rules))):
        lines += [
            f"    t = ts[{i}]",
            "    if t is not None:",
            f"        total = {call} if total is None else {total.format(call)}",
        ]
    return _with_rules("\n".join([*lines, "    return total"]), rules)


def _with_rules(text: str, rules: Rules) -> Callable[[Any, Any], Any]:
    """Return the function of a source text in which `rule0`, `rule1`, ... are the rules."""
    return _maker(text, tuple([f"rule{i}" for i in range(len(rules))]))(*rules)


@cache
def _maker(text: str, names: tuple[str, ...]) -> Callable[..., Callable[..., Any]]:
    """Return a factory that binds names in the source text of a function. It is cached, because compiling takes 30 us.

    The file name marks the lines of the text as functad's own.
    """
    module: dict[str, Any] = {"shape_of": shape_of, "layout_of": layout_of, "dtype_of": dtype_of}
    text = f"made = {text}" if text.startswith("lambda") else text
    body = "\n    ".join([f"def make({', '.join(names)}):", *text.splitlines(), "return made"])
    exec(compile(body, "<functad.plan>", "exec"), module)  # noqa: S102 - made of names of parameters
    make: Callable[..., Any] = module["make"]
    return make


def _source(primitive: Any, name: str) -> str:
    """Return the source text of the value of a name that a rule reads: of the arrays `v`, the result and the parameters `p`."""
    whole = {
        "active": "active",
        "params": "p",
        "arrays": "tuple(v)",
        "rest": "tuple(v[1:])",
        "shapes": "tuple([shape_of(a) for a in v])",
        "dtypes": "tuple([dtype_of(a) for a in v])",
    }
    stem, _, suffix = name.rpartition("_")
    if name == "out" or (stem == "out" and suffix in ("shape", "dtype")):
        return f"{suffix}_of(out)" if stem else "out"
    if name in whole and name not in primitive.names and name not in primitive.parameters:
        return whole[name]
    if name in primitive.derived:
        return f"derived[{name!r}](*v)"
    if name in primitive.names:
        return f"v[{primitive.names.index(name)}]"
    if stem in primitive.names and suffix in ("shape", "dtype", "layout"):
        return f"{suffix}_of(v[{primitive.names.index(stem)}])"
    return f"p[{name!r}]"
