"""Plans: the rules of a primitive for a set of differentiated inputs, and the residuals that the rules read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import CodeType
from typing import Any

from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.operands import layout_of

MANY = 256
"""The largest number of cached plans. Most primitives have at most three; a stack of many arrays has one for each subset."""


class Plans(dict[tuple[int, ...], Any]):
    """A cache of plans by active positions. It is cleared when it is full."""

    def __setitem__(self, active: tuple[int, ...], plan: Any) -> None:
        if len(self) >= MANY:
            self.clear()
        super().__setitem__(active, plan)


SEVERAL, WRITE, GATHER, CONTRACTION = "several", "write", "gather", "contraction"
"""Names of the functions that a backward pass calls in place of `Plan.pull`."""

INLINE: dict[Callable[..., Any], str] = {}
"""Rules that are cheaper than a call, as source text: `{0}` is the cotangent, `{1}` the value that the rule reads."""


class Plan:
    """The rules and residuals for a call of a primitive with a given set of differentiated inputs.

    The functions of a plan are generated from the signatures of the rules. Residuals are the values that the rules read:
    `None` for no name, the value itself for one name, and a tuple for several.

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
            active input, or a list for several inputs; `None` in the list means zero. `push` is `None` if no JVP rule reads
            the same residuals.
        pushes: the rules that `push` calls.
        arguments: `arguments(residuals)` returns one tuple of arguments for each rule.
        holds: positions of the array arguments that some rule reads.
        params: names of the parameters that the rules read, or `params` alone.
        elementwise: `True` for an elementwise primitive.
        fresh: `True` if the rules return new arrays without other references, as elementwise rules that read a value do.
    """

    __slots__ = (
        "active",
        "arguments",
        "elementwise",
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
        rules: tuple[Callable[..., Any], ...],
        wants: list[list[str]],
        joint: bool,
        *,
        forward: bool = False,
    ) -> None:
        self.primitive, self.active, self.rules, self.joint = primitive, active, rules, joint
        sources = {name: source for names in wants for name, source in zip(names, _sources(primitive, names), strict=True)}
        self.names = tuple(sources)
        self.params = tuple([name for name, source in sources.items() if source[0] == "p"])
        every = range(max(len(primitive.names), *active, 63) + 1 if "arrays" in sources or "rest" in sources else 0)
        self.holds = frozenset(every) | {i for i, name in enumerate(primitive.names) if name in sources}
        self.elementwise = primitive.kind == "elementwise"
        values = {"out", *primitive.names}
        self.fresh = self.elementwise and all(not values.isdisjoint(names) for names in wants)
        self.special = "" if forward else self._special()
        self.save = _made(f"lambda v, out, p: {_residuals(list(sources.values()))}", primitive.derived)
        reads = [[_read(self.names, name) for name in names] for names in wants]
        self.arguments = _made(f"lambda r: {_tuple([_tuple(each) for each in reads])}")
        single = len(active) == 1
        self.pull = None if self.special or forward else _pull(rules, reads, single)
        self.pushes = rules if forward else None
        if not forward and not joint and not primitive.multiple and primitive.lost is None:
            self.pushes = primitive.like_the_rules(primitive.jvps, active, wants)
        self.push = None if self.pushes is None else _push(self.pushes, reads, single, joint, primitive.multiple)

    def _special(self) -> str:
        primitive = self.primitive
        if primitive.writes:
            return WRITE
        if primitive.multiple or self.joint:
            return SEVERAL
        applies = {"": True, GATHER: self.active == (0,), CONTRACTION: len(self.active) == 2}
        return primitive.special if applies[primitive.special] else ""


def _residuals(sources: Sequence[str]) -> str:
    return ("None", *sources)[len(sources)] if len(sources) < 2 else _tuple(sources)


def _read(names: Sequence[str], name: str) -> str:
    """Return the source text that reads a name from the residuals `r`."""
    return "r" if len(names) == 1 else f"r[{names.index(name)}]"


def _tuple(items: Sequence[str]) -> str:
    return "(" + "".join(f"{item}, " for item in items) + ")"


def _called(rules: Sequence[Callable[..., Any]], reads: Sequence[Sequence[str]], given: Sequence[str]) -> list[str]:
    """Return for each rule the source text of its call with a cotangent or tangent."""
    texts = []
    for i, (rule, names, g) in enumerate(zip(rules, reads, given, strict=True)):
        inline = INLINE.get(rule)
        texts.append(inline.format(g, *names) if inline is not None else f"rules[{i}]({', '.join([g, *names])})")
    return texts


def _pull(rules: Sequence[Callable[..., Any]], reads: Sequence[Sequence[str]], single: bool) -> Callable[[Any, Any], Any]:
    if single and reads == [["r"]]:
        return rules[0]
    calls = _called(rules, reads, ["g"] * len(rules))
    return _with_rules(f"lambda g, r: {calls[0] if single else _tuple(calls)}", rules)


def _push(
    rules: Sequence[Callable[..., Any]], reads: Sequence[Sequence[str]], single: bool, joint: bool, multiple: bool
) -> Callable[[Any, Any], Any]:
    if joint:
        return _with_rules(f"lambda t, r: {_called(rules, reads, ['(t, )' if single else 't'])[0]}", rules)
    if single:
        return _pull(rules, reads, single=True)
    total = "tuple([a + b for a, b in zip(total, {}, strict=True)])" if multiple else "total + {}"
    lines = ["def push(ts, r):", "    total = None"]
    for i, call in enumerate(_called(rules, reads, ["t"] * len(rules))):
        lines += [
            f"    t = ts[{i}]",
            "    if t is not None:",
            f"        total = {call} if total is None else {total.format(call)}",
        ]
    return _with_rules("\n".join([*lines, "    return total"]), rules)


def _with_rules(text: str, rules: Sequence[Callable[..., Any]]) -> Callable[[Any, Any], Any]:
    """Return the function of a source text in which `rules[i]` refers to a rule."""
    names = [f"rule{i}" for i in range(len(rules))]
    for i, name in enumerate(names):
        text = text.replace(f"rules[{i}]", name)
    return _maker(text, tuple(names))(*rules)


def _compiled(text: str, mode: str) -> CodeType:
    """Compile generated text. Its file name marks the lines as functad's own."""
    return compile(text, "<functad.plan>", mode)


@cache
def _maker(text: str, names: tuple[str, ...]) -> Callable[..., Callable[[Any, Any], Any]]:
    """Return a factory that binds names in a source text. It is cached, because compiling takes 30 us."""
    module: dict[str, Any] = {}
    if text.startswith("lambda"):
        text = f"return {text}"
    body = "\n".join(f"    {line}" for line in text.splitlines())
    result = "" if text.startswith("return") else "\n    return push"
    exec(_compiled(f"def make({', '.join(names)}):\n{body}{result}", "exec"), module)  # noqa: S102 - names of parameters
    made: Callable[..., Any] = module["make"]
    return made


def _made(text: str, derived: Mapping[str, Callable[..., Any]] | None = None) -> Callable[..., Any]:
    """Return the function of a source text, cached for all rules with equal text."""
    return _evaluated(text, derived) if derived and "derived[" in text else _cached(text)


def _evaluated(text: str, derived: Mapping[str, Callable[..., Any]] | None) -> Callable[..., Any]:
    names = {"shape_of": shape_of, "layout_of": layout_of, "dtype_of": dtype_of, "derived": derived}
    made: Callable[..., Any] = eval(_compiled(text, "eval"), names)  # noqa: S307 - made of names of parameters
    return made


@cache
def _cached(text: str) -> Callable[..., Any]:
    return _evaluated(text, None)


def _sources(primitive: Any, wanted: Sequence[str]) -> list[str]:
    """Return, for each name that a rule reads, the source text of its value."""
    of_result = {"out": "out", "out_shape": "shape_of(out)", "out_dtype": "dtype_of(out)"}
    whole = {
        "params": "p",
        "arrays": "tuple(v)",
        "rest": "tuple(v[1:])",
        "shapes": "tuple([shape_of(a) for a in v])",
        "dtypes": "tuple([dtype_of(a) for a in v])",
    }
    result = []
    for name in wanted:
        stem, _, suffix = name.rpartition("_")
        if name in of_result:
            result.append(of_result[name])
        elif name in whole and name not in primitive.names and name not in primitive.parameters:
            result.append(whole[name])
        elif name in primitive.derived:
            result.append(f"derived[{name!r}](*v)")
        elif name in primitive.names:
            result.append(f"v[{primitive.names.index(name)}]")
        elif stem in primitive.names and suffix in ("shape", "dtype", "layout"):
            result.append(f"{suffix}_of(v[{primitive.names.index(stem)}])")
        else:
            result.append(f"p[{name!r}]")
    return result
