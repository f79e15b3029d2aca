"""Entries of the vocabulary: the computation, derivative rules, documentation and test samples of each function.

A rule is plain NumPy. Its signature lists the values that it reads; only these are kept until the rule runs. The first argument
of a VJP rule is the cotangent `g`, the first argument of a JVP rule is the tangent `t`. The other arguments have these names:

    x, y, a, ...   an array argument of the primitive
    out            the result
    a_shape, a_dtype, out_shape, ...   a shape or dtype; the array itself is not kept
    a_layout       the shape, with the chunks of a chunked array
    axis, ...      a parameter
    arrays, shapes, dtypes, params     all array arguments; their shapes; their dtypes; all parameters
    rest           all array arguments but the first
    a name in `derived`   a residual that is computed from the array arguments when the call is recorded, such as a mask;
                          it is kept in place of these arguments

A rule with the first argument `gs`, and the rule of a primitive with any number of arrays, is *joint*: it returns the
cotangents of all array arguments at once.
"""

from __future__ import annotations

import inspect
import operator
import pickle
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, spec_of, stand_in
from functad.places import here
from functad.primitives.operands import NO_ARRAYS, zeros_for
from functad.primitives.plan import Plan, Plans
from functad.process import by_name, cached_property

Rule = Callable[..., Any]
Samples = Callable[[Any], Sequence[tuple[tuple[Any, ...], dict[str, Any]]]]

ENTRIES: dict[Any, Entry] = {}
"""The registry: every entry, by its NumPy function."""

INTERNAL: list[Primitive] = []
"""Primitives for rules, without a NumPy function of their own."""


class Entry:
    """The registered data of one function: its name, status, documentation and samples.

    Attributes:
        function: the public function.
        name: the name printed in expression lists.
        status: `primitive`, `composite`, `constant` or `refused`.
        doc: one line on the derivative or its convention.
        samples: `samples(array)` gives calls `(args, kwargs)`; `array(*shape, low=, high=)` makes an input.
        front: called in place of `function` when an argument is a Tensor; has the same signature.
        sequences: names of the parameters that take a sequence of arrays. `front` converts the items, which may be lists.
        creates: `True` for a function that creates an array. The array is a Tensor if `like=` is a Tensor, so that Tensors can
            be written into it.
        in_place: `True` for a function that writes into its first argument and returns `None`.
        value_dependent: `True` if the shape or dtype of the result depends on values. An abstract trace refuses the call.
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
        """Return `True` if a parameter takes one array, so that a list that contains Tensors is converted there.

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
    """A placeholder for the rule of an argument with an unknown derivative. A call that needs the rule raises.

    Attributes:
        problem: the unsupported operation, for the message.
        cure: the reason and the suggested fix.
    """

    __slots__ = ("cure", "problem")

    def __init__(self, problem: str, cure: str) -> None:
        self.problem = problem
        self.cure = cure

    def error(self) -> UnsupportedError:
        """Return the error to raise."""
        return UnsupportedError(f"{self.problem}, at {here()}. {self.cure}")


def names_read(rule: Rule | UnknownRule) -> list[str]:
    """Return the names that a rule reads besides its cotangent or tangent.

    Raises:
        UnsupportedError: the derivative is unknown.
    """
    if isinstance(rule, UnknownRule):
        raise rule.error()
    code = getattr(rule, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return list(inspect.signature(rule).parameters)[1:]
    return list(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])  # a tenth of the time, at every import


def _by_kind(kind: str, function: Any, reduces: np.ufunc | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the traits that follow from the kind of a primitive, its function and its given traits."""
    is_elementwise, is_ufunc, curvature = kind == "elementwise", isinstance(function, np.ufunc), given.get("curvature")
    is_cheap = curvature in ("none", "none of reals", "product") if is_elementwise else kind == "constant" and is_ufunc
    moves_elements = bool(given.get("views")) or given.get("dependence") in ("moved", "chosen")
    ufunc = given.get("ufunc", function if is_ufunc else None)
    is_ufunc_or_reduction = ufunc is not None or reduces is not None
    return {
        "finite": not is_elementwise or curvature in ("none", "product"),
        "cost": 1.0 if is_cheap else 20.0,
        "exact": kind == "constant" or moves_elements,
        "passes_nan": (0,) if is_elementwise and is_ufunc and function.nin == 1 else (),
        "ufunc": ufunc,
        "fresh": is_ufunc_or_reduction,
        "zero_d": False if is_ufunc_or_reduction else None,
    }


class Primitive(Entry):
    """A function with its own derivative rules.

    A call with arrays computes; a call with a Tensor is recorded. Array arguments are positional, and parameters are keywords
    without defaults: `front` handles the NumPy signature with its defaults.

    Attributes:
        kind: `elementwise`, `linear`, `multilinear`, `general` or `constant`.
        names: names of the array arguments; empty for any number of arrays.
        compute: `compute(*arrays, **params)`, the value.
        vjps: VJP rules, one per array argument (`None`: derivative zero), or one joint rule.
        jvps: JVP rules, one per array argument or one joint rule for the tangents of all active arguments; `None` to derive
            them from the kind and the VJP rules. If they read the same residuals as the VJP rules, the records of a reverse
            trace serve forward mode too.
        spec: `spec(*specs, **params)`, shape and dtype of the result.
        multiple: `True` if the result is a tuple.
        special: the name of the function that a backward pass calls in place of the rules (see `functad.primitives.plan`):
            `gather` adds the cotangent in place at the elements that were read, `contraction` sums cotangents of a matrix
            product before the multiplication; empty for all others.
        complex: `True` if complex arguments are accepted.
        broadcasts: `True` if arguments broadcast, so that cotangents may have to be summed.
        views: how the result aliases the only argument, as in NumPy: `always`, `read-only`, or `by layout` (only if the axes
            allow a view); empty for no alias. It may be a function of the parameters.
        ordered: `True` if the result, a new array, has C order whenever all array arguments (for `writes`: the first) have C
            order. Results of elementwise functions always do.
        ufunc: the ufunc that computes the same elements if no NaN occurs, such as `np.multiply` for products in which an exact
            zero wins; else `None`. Default: the function, if it is a ufunc.
        zero_d: `True` if results of shape `()` are arrays, `False` if they are scalars, or a function of the parameters that
            returns one of these. Default: `False` for ufuncs and reductions, else `None`: the primitive is tried on samples
            (see `functad.primitives.zero_d`).
        fresh: `True` if the result is always a new array or a scalar, which never shares memory with an argument. Default:
            `True` for ufuncs and reductions.
        finite: `True` if results are finite for finite arguments, except for overflow in sums and products. Default: `False`
            for elementwise functions with second derivatives, `True` for all others.
        cost: the time to compute one element of the result, in additions. Default: 1 for elementwise functions without second
            derivatives, products, and ufuncs with derivative zero; 20 for all others.
        exact: `True` if the result has no rounding errors for real arguments. Default: `True` for constants, views, and
            primitives that only move or choose elements.
        kinks: `kinks(*arrays, **params)` returns the distances of the elements of real arguments to the nearest kink, where the
            derivative jumps; `None` if there are no kinks.
        jumps: the same for jumps of the value.
        conditioned: `True` if the condition number of the first argument, a matrix, amplifies relative errors.
        passes_nan: positions of arguments. A NaN element of such an argument makes each result NaN that is computed from it.
            Default: the only argument of a ufunc; `linear` and `multilinear` primitives pass the NaN of all arguments.
        reads_all: `True` if each element of these arguments is used in some result.
        plain: a function of the same arguments with equal results in the absence of NaN, for primitives that treat NaN; else
            `None`.
        writes: `True` if the primitive replaces, or adds to, elements of its first argument.
        derived: by name, functions of the array arguments that compute residuals for the rules.
        flat: the constant primitive that tapes record in place of a primitive with derivative zero, to keep zero derivatives
            apart from `None`.
        partial: `True` if the derivative of some argument is unknown.
        lost: `lost(t, *saved)` takes a tangent and the residuals of both rules, and returns one boolean for each result:
            `True` if tangents lose information in the direction `t`. The cotangents of these results (of all results, if none
            of these is used) are then passed to the VJP rule, which may raise. `None` if tangents never lose information.
        looked_at_by: primitives of rules. If one is recorded for the same argument, the check of `lost` was made already.
        batch: the batching rule (see `functad.primitives.batching`); `None` for no rule: elementwise functions and
            ufuncs broadcast, and all others are computed example by example, with a `LoopWarning`.
        linear_by: `linear_by(params)` returns the positions of the arguments that are jointly linear; `None` if the kind
            and the rules show them.
        dependence: the name of a rule of `functad.sparse.dependence` for the sparsity of the Jacobian; empty if the kind
            determines it, or if every result element depends on every argument element.
        curvature: the name of a rule of `functad.sparse.curvature` for the sparsity of second derivatives, or `none`; empty if
            the kind determines it, or if all pairs of arguments of a result have second derivatives.
        raises: `raises(specs, params)` returns the positions of the arguments whose values decide whether NumPy raises an
            error, and a key: calls with the same values there and equal keys raise alike. `None`: no values raise an error.
        parameters: names of parameters of a user-defined function. A rule that reads such a name gets the parameter, even if
            the name has another meaning above, such as `rest`.
        owner: the user's object for a primitive with user-defined rules; else `None`.
        lists: the control flow of the lists among its parameters: `branches`, `scan` or `loop`; empty if it has none.
        inner: the `Expressions` of its computation, with one input for each array; `None` if it has none.
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
    special: str = ""
    complex: bool = True
    broadcasts: bool = False
    views: str | Callable[[Any], str] = ""
    ordered: bool = False
    ufunc: np.ufunc | None = None
    zero_d: bool | Callable[[Any], bool] | None = None
    fresh: bool = False
    finite: bool
    cost: float = 20.0
    exact: bool = False
    kinks: Callable[..., Any] | None = None
    jumps: Callable[..., Any] | None = None
    conditioned: bool = False
    passes_nan: tuple[int, ...] = ()
    reads_all: bool = True
    plain: Callable[..., Any] | None = None
    writes: bool = False
    derived: Mapping[str, Callable[..., Any]] = MappingProxyType({})
    flat: Primitive | None = None
    lost: Callable[..., tuple[bool, ...]] | None = None
    looked_at_by: tuple[Primitive, ...] = ()
    batch: Callable[..., Any] | None = None
    linear_by: Callable[[Any], Container[int]] | None = None
    dependence: str = ""
    curvature: str = ""
    raises: Callable[[Sequence[ArraySpec], Any], tuple[Sequence[int], Any] | None] | None = None
    parameters: Container[str] = ()
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
        traits = {**_by_kind(kind, function, reduces, traits), **traits}
        vars(self).update({trait: value for trait, value in traits.items() if value is not None})
        if internal:
            INTERNAL.append(self)
        elif registered:
            ENTRIES[function] = self

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        """Compute on arrays; record the call if an argument is a Tensor."""
        for a in arrays:
            if type(a) not in PLAIN:
                dispatch = getattr(type(a), "__functad_dispatch__", None)
                if dispatch is not None:
                    return dispatch(self, arrays, params)
        return self.compute(*arrays, **params)

    def __reduce__(self) -> Any:
        """Return a function that finds the primitive, and its arguments."""
        if ENTRIES.get(self.function) is self:
            return _entry_of, (self.function,)
        if self.owner is not None:
            return operator.attrgetter("entry"), (self.owner,)
        named = by_name(self, *[module for module in sys.modules if module.startswith("functad.")])
        if named is not None:
            return named
        alike = [other for other in INTERNAL if other.name == self.name]
        if self in alike:
            return _internal, (self.compute.__module__, self.name, alike.index(self))
        raise pickle.PicklingError(f"Can't pickle {self!r}: it was made for one call, and no module holds it")

    def differentiable(self, position: int) -> bool:
        """Return `True` if the derivative with respect to an array argument can be nonzero."""
        if self.kind == "constant":
            return False
        return self.joint or position >= len(self.vjps) or self.vjps[position] is not None

    def reverse_plan(self, active: tuple[int, ...]) -> Plan:
        """Return the plan for pulling a cotangent back to the inputs at the positions `active`."""
        plan = self.reverse_plans.get(active)
        if plan is None:
            rules = self.vjps if self.joint else tuple([self.vjps[i] for i in active])
            named = [rule for rule in rules if rule is not None]
            wants = [names_read(rule) for rule in named]  # raises for an unknown derivative
            plan = self.reverse_plans[active] = Plan(self, active, tuple(named), wants, self.joint)  # type: ignore[arg-type]
        return plan

    def forward_plan(self, active: tuple[int, ...]) -> Plan | None:
        """Return the plan for pushing forward tangents of the inputs at `active`; `None` to transpose the VJP rules."""
        plan: Plan | None = self.forward_plans.get(active)
        if plan is not None:
            return plan
        rules: list[Any]
        wants: list[list[str]] | None = None
        joint = False
        if self.jvps is not None and self.joint and not self.names:
            rules, joint = [self.jvps[0]], True
        elif self.jvps is not None:
            rules = [rule for i in active if (rule := self.jvps[i]) is not None]
        elif self.kind == "elementwise" and not self.joint:
            rules = [rule for i in active if (rule := self.vjps[i]) is not None]
        elif self.kind == "linear" and self.names:
            rules, wants = [lambda t, params: self(t, **params)], [["params"]]
        elif self.kind == "linear":
            rules, wants, joint = [_all_tangents(self, active)], [["shapes", "dtypes", "params"]], True
        elif self.kind == "multilinear":
            rules, wants = [_in_place_of(self, i) for i in active], [["arrays", "params"]] * len(active)
        else:
            return None
        plan = Plan(self, active, tuple(rules), wants or [names_read(rule) for rule in rules], joint, forward=True)
        self.forward_plans[active] = plan
        return plan

    def like_the_rules(self, given: Any, active: tuple[int, ...], wants: list[list[str]]) -> tuple[Rule, ...] | None:
        """Return the JVP rules of the active inputs if they read the names `wants`; otherwise `None`."""
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


def _in_place_of(primitive: Primitive, position: int) -> Rule:
    def push(t: Any, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        return primitive(*arrays[:position], t, *arrays[position + 1 :], **params)

    return push


def _all_tangents(primitive: Primitive, active: tuple[int, ...]) -> Rule:
    def push(ts: Sequence[Any], shapes: tuple[tuple[int, ...], ...], dtypes: tuple[Any, ...], params: dict[str, Any]) -> Any:
        given = dict(zip(active, ts, strict=True))
        first = next(t for t in ts if t is not None)
        full = []
        for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
            t = given.get(i)
            if t is None:  # in its own dtype, because an imaginary part may be written into the array
                t = zeros_for(shape, dtype if dtype.kind in "fc" else dtype_of(first), first)
            full.append(t)
        return primitive(*full, **params)

    return push


# The process that unpickles a primitive may not have imported the vocabulary.


def _entry_of(function: Any) -> Any:
    return import_module("functad.primitives.vocabulary").find(function)


def _internal(module: str, name: str, number: int) -> Primitive:
    """Return one of the internal primitives with a name that a module creates."""
    import_module(module)
    return [primitive for primitive in INTERNAL if primitive.name == name][number]


class Composite(Entry):
    """A function written in terms of primitives, from which its derivatives follow."""

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
