"""The entry of a function in the vocabulary: what it computes, its derivative rules, and how it is tested.

A rule is plain NumPy, and its signature says what it reads. The first argument of a VJP rule is the cotangent `g`,
that of a JVP rule the tangent `t`; every other argument is a name from this list, and only the values so named are
kept alive until the rule runs:

    x, y, a, ...   an array argument of the primitive, by its name
    out            the result
    a_shape, a_dtype, out_shape, ...   shape or dtype only, so the array itself is not kept
    a_layout       the shape, and the chunks of an array that lies in chunks
    axis, ...      a parameter
    arrays, shapes, dtypes, params     all array arguments; their shapes, their dtypes; all parameters
    rest           all array arguments but the first
    a name in `derived`   what that function makes of the array arguments when the call is recorded: a mask, say,
                          which is kept in place of the arguments that it was made from

A rule that starts with `gs` (or whose primitive takes any number of arrays) is *joint*: it returns the cotangents of all
array arguments at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import PLAIN, ArraySpec, spec_of, stand_in
from functad.forks import cached_property
from functad.places import here
from functad.primitives.importing import reduced
from functad.primitives.operands import NO_ARRAYS
from functad.primitives.plan import Plan, Plans

Rule = Callable[..., Any]
Samples = Callable[[Any], Sequence[tuple[tuple[Any, ...], dict[str, Any]]]]

ENTRIES: dict[Any, Entry] = {}
"""The registry: every entry by the NumPy function that it stands for."""

INTERNAL: list[Primitive] = []
"""Primitives that rules need and that NumPy has no function for."""


class Entry:
    """What functad knows of one function: its name, status, documentation and samples.

    Attributes:
        function: the function that users call.
        name: the name printed in expression lists.
        status: `primitive`, `composite`, `constant` or `refused`.
        doc: one line on the derivative or its convention.
        samples: `samples(array)` gives calls `(args, kwargs)`; `array(*shape, low=, high=)` makes an input.
        front: called in place of `function` when an argument is a Tensor; has the same signature.
        sequences: names of the parameters that take a sequence of arrays: `front` converts its parts, which may be lists.
        creates: it makes an array, which becomes a Tensor if `like=` is one, so that others can be written into it.
        in_place: it writes into its first argument, and returns nothing.
        value_dependent: shape or dtype of the result depend on values, so that an abstract trace must refuse the call.
        reduces: the ufunc that a reduction or a scan applies, such as `np.add` for `np.sum`; else `None`. With `out=`, NumPy
            chooses the loop of this ufunc by the dtypes of `out` and of the array.
    """

    status = "entry"
    function: Any
    front: Callable[..., Any]
    name: str
    doc: str
    samples: Samples | None
    value_dependent: bool
    in_place: bool
    sequences: tuple[str, ...]
    creates: bool
    reduces: np.ufunc | None

    def __init__(
        self,
        function: Any,
        *,
        front: Callable[..., Any],
        doc: str,
        samples: Samples | None,
        name: str | None = None,
        value_dependent: bool = False,
        in_place: bool = False,
        sequences: tuple[str, ...] = (),
        creates: bool = False,
        reduces: np.ufunc | None = None,
    ) -> None:
        vars(self).update(function=function, front=front, name=name or function.__name__.lstrip("_"), doc=doc, samples=samples)
        vars(self).update(value_dependent=value_dependent, in_place=in_place, creates=creates)
        vars(self).update(sequences=sequences, reduces=reduces)

    def takes_array(self, parameter: int | str) -> bool:
        """Return `True` if a parameter takes one array, so that a list with Tensors in its place is to be converted.

        Args:
            parameter: its position or its name.
        """
        if isinstance(parameter, int):
            parameter = self._positional[parameter] if parameter < len(self._positional) else ""
        return parameter not in NO_ARRAYS and parameter not in self.sequences

    @cached_property
    def _positional(self) -> list[str]:
        """The names of the parameters of `front` that take one positional argument."""
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [p.name for p in inspect.signature(self.front).parameters.values() if p.kind in kinds]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self!r} is whole: its {name} is an argument of the call that makes it")

    def __repr__(self) -> str:
        return f"<{self.status} {self.name}>"


class UnknownRule:
    """Stands where a rule would, for an argument whose derivative is not known: a call that would need it raises.

    Attributes:
        problem: what cannot be done.
        cure: why, and what to write instead.
    """

    __slots__ = ("cure", "problem")

    def __init__(self, problem: str, cure: str) -> None:
        self.problem = problem
        self.cure = cure

    def error(self) -> UnsupportedError:
        """Return the error to raise."""
        return UnsupportedError(f"{self.problem}, at {here()}. {self.cure}")


def names_read(rule: Rule | UnknownRule) -> list[str]:
    """Return the names that a rule reads beside its cotangent or tangent.

    Raises:
        UnsupportedError: there is no rule, because the derivative is not known.
    """
    if isinstance(rule, UnknownRule):
        raise rule.error()
    code = getattr(rule, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return list(inspect.signature(rule).parameters)[1:]
    return list(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])  # a tenth of the time, at every import


class Primitive(Entry):
    """A function with derivative rules of its own.

    Called with arrays it computes; called with a Tensor among them it is recorded. Array arguments are positional,
    parameters are keywords, all given: the NumPy signature with its defaults is the business of `front`.

    Attributes:
        kind: `elementwise`, `linear`, `multilinear`, `general` or `constant`.
        names: names of the array arguments; empty if there may be any number of them.
        compute: `compute(*arrays, **params)`, the value.
        vjps: VJP rules, one per array argument (`None`: derivative zero), or one joint rule.
        jvps: JVP rules likewise, or `None` if they follow; one for any number of arrays gets the tangents of all active ones.
        spec: `spec(*specs, **params)`, shape and dtype of the result.
        multiple: the result is a tuple.
        gather: the cotangent of the first argument is added into the place it was read from.
        complex: whether complex arguments are accepted.
        broadcasts: arguments of different shapes are combined, so cotangents may have to be summed.
        views: whether its result shares the memory of its only argument, and so follows NumPy's rules for views: `always`,
            `read-only`, `by layout` if the axes allow it, or not, if empty; a function of the parameters may say which.
        ordered: its result, a new array, lies in C order if all array arguments do, or the array that it `writes` to. The
            results of elementwise functions do in any case.
        zero_d: `zero_d(params)` returns `True` if results of shape `()` are arrays, `False` if they are scalars. `None`: ufuncs
            and reductions return scalars, and other primitives are tried on samples (see `functad.primitives.zero_d`).
        finite: results are finite for finite arguments, but for overflow in sums and products. By default all are but those of
            elementwise functions with second derivatives.
        passes_nan: positions of arguments; a NaN element of one makes each result NaN that is computed from it. By default the
            position of the only argument of a ufunc; `linear` and `multilinear` primitives pass the NaN of all arguments.
        reads_all: each element of these arguments is used in some result.
        plain: a function of the same arguments with equal results where no NaN occurs, for primitives that treat NaN.
        writes: it replaces, or adds to, elements of its first argument.
        contracts: it is the product of matrices, the sums of whose cotangents may be taken before they are multiplied.
        derived: by name, what rules read that is made of the array arguments.
        flat: of a constant one, the primitive with derivative zero that tapes record in its place: to these zero is not `None`.
        partial: by some argument the derivative is not known.
        pushes: JVP rules, one for each array argument, that read the same as the VJP rules, where these are other formulas.
        lost: `lost(t, *saved)`, with what both rules read, says for each result whether its cotangent is to be looked at (if
            none of these is used, all are): the VJP rule finds there what tangents lack in the direction `t`. Empty if nothing.
        looked_at_by: primitives of rules: one that was recorded for the same argument shows that this has been looked at.
        batch: computes it for all examples of a batch at once (see `functad.primitives.batching`); `None` if that follows
            from the kind.
        linear_by: `linear_by(params)`, the positions of the arguments in which together it is linear, where that is not what
            its kind and rules look like; `None` where it is.
        dependence: which elements of its results depend on which of its arguments, by the name of a rule of
            `functad.sparse.dependence`; empty if the kind says it, or if everything depends on everything.
        curvature: which elements have second derivatives together, by the name of a rule of `functad.sparse.curvature`, or
            `none`; empty if the kind says it, or if all that a result depends on have.
        raises: `raises(specs, params)` returns the positions of the arguments whose values decide whether NumPy raises an
            error, and a key: calls with the same values there and equal keys raise alike. `None`: no values raise one.
        owner: what a user has got of it, if it is that of a user.
        lists: how it runs the lists among its parameters: `branches`, `scan` or `loop`; empty if it has none.
        inner: the list of what it computes, an `Expressions` with an input for each array; `None` if it has none.
    """

    status = "primitive"
    kind: str
    names: tuple[str, ...]
    compute: Callable[..., Any]
    vjps: tuple[Rule | UnknownRule | None, ...]
    partial: bool
    reverse_plans: Plans
    forward_plans: Plans
    jvps: tuple[Rule | UnknownRule | None, ...] | None = None
    joint: bool = False
    spec: Callable[..., Any]
    multiple: bool = False
    gather: bool = False
    complex: bool = True
    broadcasts: bool = False
    views: str | Callable[[Any], str] = ""
    ordered: bool = False
    zero_d: Callable[[Any], bool] | None = None
    finite: bool
    passes_nan: tuple[int, ...]
    reads_all: bool = True
    plain: Callable[..., Any] | None = None
    writes: bool = False
    contracts: bool = False
    derived: Mapping[str, Callable[..., Any]] = MappingProxyType({})
    flat: Primitive | None = None
    pushes: tuple[Rule, ...] | None = None
    lost: Callable[..., tuple[bool, ...]] | None = None
    looked_at_by: tuple[Primitive, ...] = ()
    batch: Callable[..., Any] | None = None
    linear_by: Callable[[Any], Container[int]] | None = None
    dependence: str = ""
    curvature: str = ""
    raises: Callable[[Sequence[ArraySpec], Any], tuple[Sequence[int], Any] | None] | None = None
    owner: Any = None
    lists: str = ""
    inner: Any = None

    def __init__(
        self,
        function: Any,
        *,
        kind: str,
        names: Sequence[str],
        compute: Callable[..., Any],
        vjps: tuple[Rule | UnknownRule | None, ...],
        doc: str,
        samples: Samples | None,
        name: str | None = None,
        front: Callable[..., Any] | None = None,
        value_dependent: bool = False,
        sequences: tuple[str, ...] = (),
        internal: bool = False,
        registered: bool = True,
        reduces: np.ufunc | None = None,
        **traits: Any,
    ) -> None:
        unknown = traits.keys() - Primitive.__annotations__.keys()
        if unknown:
            raise TypeError(f"a primitive has no {', '.join(sorted(unknown))}")
        super().__init__(
            function,
            front=front or self.__call__,
            doc=doc,
            samples=samples,
            name=name,
            value_dependent=value_dependent,
            sequences=sequences,
            reduces=reduces,
        )
        partial = any(isinstance(rule, UnknownRule) for rule in vjps)
        vars(self).update(kind=kind, names=tuple(names), compute=compute, vjps=vjps, partial=partial)
        vars(self).update(reverse_plans=Plans(), forward_plans=Plans(), spec=self.spec_by_stand_in)
        traits.setdefault("finite", kind != "elementwise" or traits.get("curvature") in ("none", "product"))
        is_unary = kind == "elementwise" and type(function) is np.ufunc and function.nin == 1
        traits.setdefault("passes_nan", (0,) if is_unary else ())
        vars(self).update({trait: value for trait, value in traits.items() if value is not None})
        if internal:
            INTERNAL.append(self)
        elif registered:
            ENTRIES[function] = self

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        """Compute on arrays; record if a Tensor is among them."""
        for a in arrays:
            if type(a) not in PLAIN:
                record = getattr(type(a), "__functad_record__", None)
                if record is not None:
                    return record(self, arrays, params)
        return self.compute(*arrays, **params)

    def __reduce__(self) -> Any:
        return reduced(self, entered=ENTRIES.get(self.function) is self, internal=INTERNAL)

    def differentiable(self, position: int) -> bool:
        """Say whether the derivative with respect to an array argument can be other than zero."""
        if self.kind == "constant":
            return False
        return self.joint or position >= len(self.vjps) or self.vjps[position] is not None

    def reverse_plan(self, active: tuple[int, ...]) -> Plan:
        """Return the plan for pulling a cotangent back to the inputs at the positions `active`."""
        plan = self.reverse_plans.get(active)
        if plan is None:
            rules = self.vjps if self.joint else tuple([self.vjps[i] for i in active])
            named = [rule for rule in rules if rule is not None]
            wants = [names_read(rule) for rule in named]  # raises if one is not known
            plan = self.reverse_plans[active] = Plan(self, active, tuple(named), wants, self.joint)  # type: ignore[arg-type]
        return plan

    def like_the_rules(self, given: Any, active: tuple[int, ...], wants: list[list[str]]) -> tuple[Rule, ...] | None:
        """Return those of some JVP rules that are for the active inputs, if they read given names; otherwise `None`."""
        if given is None and self.kind == "elementwise" and self.jvps is None:
            given = self.vjps
        if given is None or max(active, default=0) >= len(given):
            return None
        rules = [given[i] for i in active]
        if any(rule is None or isinstance(rule, UnknownRule) for rule in rules):
            return None
        return tuple(rules) if [names_read(rule) for rule in rules] == wants else None

    @cached_property
    def unary_plan(self) -> Plan | None:
        """The plan for the only argument; `None` if the derivative is zero."""
        return self.reverse_plan((0,)) if self.differentiable(0) else None

    def spec_by_stand_in(self, *specs: Any, **params: Any) -> Any:
        """Return the spec of the result by computing it on arrays that take no memory."""
        with np.errstate(all="ignore"):
            out = self.compute(*map(stand_in, specs), **params)
        return tuple(map(spec_of, out)) if self.multiple else spec_of(out)


class Composite(Entry):
    """A function written out in terms of primitives; its derivatives follow."""

    status = "composite"
    complex: bool

    def __init__(
        self, function: Any, body: Callable[..., Any], *, doc: str, samples: Samples, complex: bool = True, **given: Any
    ) -> None:
        super().__init__(function, front=body, doc=doc, samples=samples, **given)
        vars(self).update(complex=complex)
        ENTRIES[function] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the body."""
        return self.front(*args, **kwargs)


__all__ = ["ENTRIES", "INTERNAL", "ArraySpec", "Composite", "Entry", "Primitive", "Rule", "UnknownRule"]
