"""Plans: which rules of a primitive are run for a set of positions that was differentiated by, and what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.operands import layout_of

# How a plan's saved values are stored and handed to its rule: the cases that occur most are spared a tuple.
KEEP_NOTHING, KEEP_ONE, KEEP_TUPLE, KEEP_GATHER = range(4)

# How derivatives pass a record whose shapes and dtypes agree: unchanged, multiplied with what was saved, by a rule that reads
# one saved value, several, or none; and with two differentiated inputs, unchanged to and from both, multiplied with the other,
# or by two rules. These are written out in the walks, all others are 0. The transposes of sums and products pass likewise.
OTHER, PASSES, SCALES, MAPS, PICKS, CALLS, SUMS, PRODUCTS, PAIRS = range(9)


MANY = 256
"""So many plans are kept. Few primitives have more than three; a stack of many arrays has as many as these have subsets."""


class Plans(dict[tuple[int, ...], Any]):
    """Plans by positions; when there are many, all are given up, and those that are used are made again."""

    def __setitem__(self, active: tuple[int, ...], plan: Any) -> None:
        if len(self) >= MANY:
            self.clear()
        super().__setitem__(active, plan)


class Plan:
    """Which rules a call of a primitive needs, given which of its inputs are differentiated, and what they read.

    Attributes:
        primitive: the primitive called.
        active: positions of the inputs that are differentiated.
        rules: one rule per active input, or the joint rule alone.
        joint: whether `rules` is one joint rule.
        single: the only rule if there is one active input, one result, and the rule is not joint; else `None`.
        separate: there are several active inputs with a rule each, and one result, and no more is to be done than run them.
        contracts: it is a product of two matrices that are both active.
        keep: how the saved values are stored, one of the `KEEP_` constants.
        pick: `pick(values, out, params)` returns what the rules read.
        holds: positions of the array arguments that some rule reads as they are.
        read: all names that the rules read.
        params: those of them that are parameters, or `params` alone.
        reads: the only name that the only rule reads, if there is just one.
        elementwise: the primitive is of that kind.
        pushes: JVP rules for the active inputs that read what the VJP rules read, so that short ways serve both; or `None`.
        careful: the same, for where the product of a zero and an infinity may be among them.
        step: how derivatives pass the record of a short way.
        selects: the primitive is one that selects.
        fresh: the rules make new arrays, which nobody else holds: so do elementwise rules that compute with some value.
    """

    __slots__ = (
        "active",
        "careful",
        "contracts",
        "elementwise",
        "fresh",
        "holds",
        "joint",
        "keep",
        "params",
        "pick",
        "primitive",
        "pushes",
        "read",
        "reads",
        "rules",
        "selects",
        "separate",
        "single",
        "step",
    )

    def __init__(
        self,
        primitive: Any,
        active: tuple[int, ...],
        rules: tuple[Callable[..., Any], ...],
        wants: list[list[str]],
        joint: bool,
    ) -> None:
        self.primitive, self.active, self.rules, self.joint = primitive, active, rules, joint
        self.single = rules[0] if len(active) == 1 and not joint and not primitive.multiple else None
        self.contracts = primitive.contracts and len(active) == 2
        self.separate = len(active) > 1 and not joint and not primitive.multiple and not self.contracts
        picks = [_picks(primitive, names) for names in wants]
        self.reads = wants[0][0] if self.single is not None and len(wants[0]) == 1 else None
        sources = {name: source for pair in zip(wants, picks, strict=True) for name, source in zip(*pair, strict=True)}
        self.read = frozenset(sources)
        self.params = tuple([name for name, source in sources.items() if source[0] == "p"])
        every = range(max(len(primitive.names), *active, 63) + 1 if "arrays" in sources or "rest" in sources else 0)
        self.holds = frozenset(every) | {i for i, name in enumerate(primitive.names) if name in sources}
        values = {"out", *primitive.names}
        self.pushes = self.careful = None
        if not joint and not primitive.multiple and primitive.lost is None:  # what may be lost is looked for the long way
            self.careful = primitive.like_the_rules(primitive.jvps, active, wants)
            self.pushes = primitive.like_the_rules(primitive.pushes, active, wants) or self.careful
            self.careful = self.careful or self.pushes
        self.selects = primitive.selects
        self.elementwise = primitive.kind == "elementwise"
        self.fresh = self.elementwise and all(not values.isdisjoint(names) for names in wants)
        if self.single is not None and len(picks[0]) == 1:
            self.keep, body = KEEP_ONE, picks[0][0]
        elif joint or self.single is not None:
            self.keep = KEEP_TUPLE if picks[0] else KEEP_NOTHING
            body = _tuple_source(picks[0])
        else:
            self.keep = KEEP_TUPLE
            body = _tuple_source([_tuple_source(pick) for pick in picks])
        if primitive.gather and self.single is primitive.vjps[0]:
            self.keep = KEEP_GATHER
        self.step = self._step()
        self.pick = _made_pick(body, primitive.derived) if "derived[" in body else _pick(body)

    def _step(self) -> int:
        count = len(self.active)
        if self.primitive.steps is not None and 0 < count <= 2:
            step: int = self.primitive.steps[count - 1]
            return step
        if self.single is None:
            return PAIRS if self.separate and count == 2 else OTHER
        return OTHER if self.keep == KEEP_GATHER else (CALLS, MAPS, PICKS)[self.keep]


def _made_pick(body: str, derived: Mapping[str, Callable[..., Any]]) -> Callable[[Any, Any, Any], Any]:
    """Return the signature of a rule, written out as the function that fetches what it names."""
    names = {"shape_of": shape_of, "layout_of": layout_of, "dtype_of": dtype_of, "derived": derived}
    made: Callable[[Any, Any, Any], Any] = eval(f"lambda v, out, p: {body}", names)  # noqa: S307 - made of names of parameters
    return made


@cache
def _pick(body: str) -> Callable[[Any, Any, Any], Any]:
    """Call `_made_pick` once for all rules that read alike: to make one takes 30 us, at every import."""
    return _made_pick(body, {})


def _tuple_source(items: Sequence[str]) -> str:
    return "(" + "".join(f"{item}, " for item in items) + ")"


def _picks(primitive: Any, wanted: Sequence[str]) -> list[str]:
    """Return, for each name that a rule reads, the expression that fetches it."""
    whole = {
        "out": "out",
        "out_shape": "shape_of(out)",
        "out_dtype": "dtype_of(out)",
        "params": "p",
        "arrays": "tuple(v)",
        "rest": "tuple(v[1:])",
        "shapes": "tuple([shape_of(a) for a in v])",
        "dtypes": "tuple([dtype_of(a) for a in v])",
    }
    result = []
    for name in wanted:
        stem, _, suffix = name.rpartition("_")
        if name in whole:
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
