"""Entries: the computation, derivative rules, documentation, test samples and traits of each function.

A primitive makes a `Plan` for each set of differentiated inputs. The functions of a plan are generated from the signatures of
the rules: they save the residuals, and run the rules.

A rule is plain NumPy. Its signature lists the values that it reads; only these are kept until the rule runs. The first argument
of a VJP rule is the cotangent `g`, the first argument of a JVP rule is the tangent `t`. The other arguments have these names:

    x, y, a, ...   an array argument of the primitive
    out            the result
    a_shape, a_dtype, out_shape, ...   a shape or dtype; the array itself is not kept
    a_layout       the shape, with the chunks of a chunked array
    axis, ...      a parameter
    arrays, shapes, dtypes, params     all array arguments; their shapes; their dtypes; all parameters
    rest           all array arguments but the first
    active         the positions of the differentiated array arguments
    a name in `derived`   a residual that is computed from the array arguments when the call is recorded, such as a mask;
                          it is kept in place of these arguments

A rule with the first argument `gs`, and the rule of a primitive with any number of arrays, is *joint*: it returns the
cotangents of all array arguments at once. A joint JVP rule receives the tangents of all array arguments, `None` for zero, and
reads `arrays` or `shapes` if the number of arrays varies.
"""

from __future__ import annotations

import inspect
import operator
import pickle
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, shape_of, spec_of, stand_in
from functad.places import here
from functad.primitives.operands import NO_ARRAYS, layout_of, zeros_for
from functad.process import by_name, cached_property

Rule = Callable[..., Any]
Rules = tuple[Rule, ...]
Samples = Callable[[Any], Sequence[tuple[tuple[Any, ...], dict[str, Any]]]]

ENTRIES: dict[Any, Entry] = {}
"""The registry: the entries imported so far, by their functions. `functad.primitives.vocabulary.find` imports others."""

INTERNAL: list[Primitive] = []
"""Primitives for rules, without a NumPy function of their own."""


class Entry:
    """The registered data of one function: its name, status, documentation, samples and traits.

    Args:
        registered: `False` for an entry that is not in `ENTRIES`.
        traits: other attributes of the class; `None` gives the default.

    Attributes:
        function: the public function.
        name: the name printed in expression lists.
        status: `primitive`, `composite`, `constant` or `refused`.
        kind: `elementwise`, `linear`, `multilinear`, `general` or `constant` (see `functad.primitives.kinds`); empty for a
            composite.
        doc: one line on the derivative or its convention.
        samples: `samples(array)` gives calls `(args, kwargs)`; `array(*shape, low=, high=)` makes an input.
        front: called in place of `function` when an argument is a Tensor; has the same signature.
        complex: `True` if complex arguments are accepted.
        sequences: names of the parameters that take a sequence of arrays. `front` converts the items, which may be lists.
        creates: `True` for a function that creates an array. The array is a Tensor if `like=` is a Tensor, so that Tensors can
            be written into it.
        in_place: `True` for a function that writes into its first argument and returns `None`.
        value_dependent: `True` if the shape or dtype of the result depends on values. An abstract trace refuses the call.
        reduces: the ufunc that a reduction or a scan applies, such as `np.add` for `np.sum`; else `None`. It combines the
            results of the parts of an array. With `out=`, NumPy chooses its loop by the dtypes of `out` and of the array.
    """

    status = "entry"
    kind: str = ""
    function: Any
    front: Callable[..., Any]
    name: str
    doc: str
    samples: Samples | None
    complex: bool = True
    value_dependent: bool = False
    in_place: bool = False
    sequences: tuple[str, ...] = ()
    creates: bool = False
    reduces: np.ufunc | None = None

    def __init__(
        self,
        function: Any,
        *,
        front: Callable[..., Any],
        doc: str,
        samples: Samples | None,
        name: str | None = None,
        registered: bool = True,
        **traits: Any,
    ) -> None:
        unknown = [trait for trait in traits if not hasattr(type(self), trait)]
        if unknown:
            raise TypeError(f"a {self.status} has no {', '.join(unknown)}")
        vars(self).update(function=function, front=front, name=name or function.__name__.lstrip("_"), doc=doc, samples=samples)
        vars(self).update({trait: value for trait, value in traits.items() if value is not None})
        if registered:
            ENTRIES[function] = self

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
        """The names of the positional parameters of `front`."""
        return positional_names(self.front)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self!r} is immutable: pass {name} to the function that makes the entry")

    def __repr__(self) -> str:
        return f"<{self.status} {self.name}>"


class Composite(Entry):
    """A function written in terms of primitives, from which its derivatives follow."""

    status = "composite"

    def __init__(self, function: Any, body: Callable[..., Any], **given: Any) -> None:
        super().__init__(function, front=body, **given)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the body."""
        return self.front(*args, **kwargs)


# Primitives


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


def positional_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of the positional parameters of a function, without `*args`."""
    if type(function) is FunctionType and not vars(function):  # `inspect.signature` would take 7 ms of the import
        return list(function.__code__.co_varnames[: function.__code__.co_argcount])
    if isinstance(function, BuiltinFunctionType):  # `($module, a, b, /)`
        return [name for name in getattr(function, "__text_signature__", "").strip("()").split(", ") if name.isidentifier()]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]


def names_read(rule: Rule | UnknownRule) -> list[str]:
    """Return the names that a rule reads besides its cotangent or tangent.

    Raises:
        UnsupportedError: the derivative is unknown.
    """
    if isinstance(rule, UnknownRule):
        raise rule.error()
    return positional_names(rule)[1:]


def _by_kind(kind: str, function: Any, compute: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the traits that follow from the kind of a primitive, its functions and its given traits."""
    is_elementwise, is_ufunc, curvature = kind == "elementwise", isinstance(function, np.ufunc), given.get("curvature")
    is_cheap = curvature in ("none", "none of reals", "product") if is_elementwise else kind == "constant" and is_ufunc
    moves_elements = bool(given.get("views")) or given.get("dependence") in ("moved", "chosen")
    ufunc = given.get("ufunc", function if is_ufunc else None)
    is_ufunc_or_reduction = ufunc is not None or given.get("reduces") is not None
    is_operator = kind in ("elementwise", "constant") and getattr(compute, "__module__", "") in ("_operator", "builtins")
    return {
        "finite": not is_elementwise or curvature in ("none", "product"),
        "cost": 1.0 if is_cheap else 20.0,
        "exact": kind == "constant" or moves_elements,
        "passes_nan": (0,) if is_elementwise and is_ufunc and function.nin == 1 else (),
        "ufunc": ufunc,
        "python": compute if is_operator else None,
        "fresh": is_ufunc_or_reduction,
        "zero_d": False if is_ufunc_or_reduction else None,
    }


class Branches(NamedTuple):
    """A decomposition that depends on a value. The three functions have the arguments of the primitive.

    Attributes:
        condition: returns one boolean.
        then: the result if the condition is true; `None` if `compute` raises an error.
        otherwise: the result if the condition is false.
    """

    condition: Callable[..., Any]
    then: Callable[..., Any] | None
    otherwise: Callable[..., Any]


class Primitive(Entry):
    """A function with its own derivative rules.

    A call with arrays computes; a call with a Tensor is recorded. Array arguments are positional, and parameters are keywords
    without defaults: `front` handles the NumPy signature with its defaults.

    Attributes:
        names: names of the array arguments; empty for any number of arrays.
        compute: `compute(*arrays, **params)`, the value.
        vjps: VJP rules, one per array argument (`None`: derivative zero), or one joint rule.
        jvps: JVP rules, one per array argument, or one joint rule for the tangents of all array arguments, which are `None`
            for zero; `None` to derive the rules from the kind and the VJP rules. If they read the same residuals as the VJP
            rules, the records of a reverse trace serve forward mode too.
        joint: `True` if `vjps` is one joint rule. The JVP rules may still be one per array argument.
        spec: `spec(*specs, **params)`, shape and dtype of the result.
        multiple: `True` if the result is a tuple.
        special: the name of the function of `functad.transforms.reverse` that a backward pass calls in place of the rules:
            `PULL_READ` adds the cotangent in place at the elements that were read, `PULL_PRODUCT` sums cotangents of a matrix
            product before the multiplication; empty for all others.
        broadcasts: `True` if arguments broadcast, so that cotangents may have to be summed.
        views: how the result aliases the only argument, as in NumPy: `always`, `read-only`, or `by layout` (only if the axes
            allow a view); empty for no alias. It may be a function of the parameters.
        ordered: `True` if the result, a new array, has C order whenever all array arguments (for `writes`: the first) have C
            order. Results of elementwise functions always do.
        ufunc: the ufunc that computes the same elements if no NaN occurs, such as `np.multiply` for products in which an exact
            zero wins; else `None`. Default: the function, if it is a ufunc.
        python: the function of Python numbers that computes the same elements if no NaN occurs: an operator, a function of
            `math`, or a one-line function of these; else `None`. Default: the operator that computes.
        zero_d: `True` if results of shape `()` are arrays, `False` if they are scalars, or a function of the parameters that
            returns one of these. Default: `False` for ufuncs and reductions, else `None`: the primitive is tried on samples
            (see `functad.primitives.batching`).
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
        decomposition: a function of the same arguments with equal results, written with simpler NumPy functions; `True` for
            `compute` itself; `Branches` if it depends on a value; `None` if there is none. A backend that has no code for the
            primitive traces it.
        writes: `True` if the primitive replaces, or adds to, elements of its first argument.
        adds: `True` if such a primitive adds to elements.
        derived: by name, functions of the array arguments that compute residuals for the rules.
        flat: the constant primitive that tapes record in place of a primitive with derivative zero, to keep zero derivatives
            apart from `None`.
        lost: `lost(t, *saved)` takes a tangent and the residuals of both rules, and returns one boolean for each result:
            `True` if tangents lose information in the direction `t`. The cotangents of these results (of all results, if none
            of these is used) are then passed to the VJP rule, which may raise. `None` if tangents never lose information.
        looked_at_by: primitives with the same check. If the trace has a record of one of them for the same argument, the check
            of `lost` is left out.
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
        sized: the function of the arrays for a trace without values that can guard the size of the result; else `None`.
        parameters: names of parameters of a user-defined function. A rule that reads such a name gets the parameter, even if
            the name has another meaning above, such as `rest`.
        owner: the user's object for a primitive with user-defined rules; else `None`.
        effect: `True` if a call has an effect besides its result (see `functad.primitives.effects`).
        lists: the control flow of the lists among its parameters: `branches`, `scan` or `loop`; empty if it has none.
        inner: the `Expressions` of its computation, with one input for each array; `None` if it has none.
    """

    status = "primitive"
    names: tuple[str, ...]
    compute: Callable[..., Any]
    vjps: tuple[Rule | UnknownRule | None, ...]
    reverse_plans: dict[tuple[int, ...], Plan]
    forward_plans: dict[tuple[int, ...], Plan]
    jvps: tuple[Rule | UnknownRule | None, ...] | None = None
    joint: bool = False
    multiple: bool = False
    special: str = ""
    broadcasts: bool = False
    views: str | Callable[[Any], str] = ""
    ordered: bool = False
    ufunc: np.ufunc | None = None
    python: Callable[..., Any] | None = None
    zero_d: bool | Callable[[Any], bool] | None = None
    fresh: bool = False
    finite: bool = True
    cost: float = 20.0
    exact: bool = False
    kinks: Callable[..., Any] | None = None
    jumps: Callable[..., Any] | None = None
    conditioned: bool = False
    passes_nan: tuple[int, ...] = ()
    reads_all: bool = True
    plain: Callable[..., Any] | None = None
    decomposition: Callable[..., Any] | Branches | None = None
    writes: bool = False
    adds: bool = False
    derived: Mapping[str, Callable[..., Any]] = MappingProxyType({})
    flat: Primitive | None = None
    lost: Callable[..., tuple[bool, ...]] | None = None
    looked_at_by: tuple[Primitive, ...] = ()
    batch: Callable[..., Any] | None = None
    linear_by: Callable[[Any], Container[int]] | None = None
    dependence: str = ""
    curvature: str = ""
    raises: Callable[[Sequence[ArraySpec], Any], tuple[Sequence[int], Any] | None] | None = None
    sized: Callable[..., Any] | None = None
    parameters: Container[str] = ()
    owner: Any = None
    effect: bool = False
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
        samples: Samples | None,
        front: Callable[..., Any] | None = None,
        internal: bool = False,
        registered: bool = True,
        **traits: Any,
    ) -> None:
        super().__init__(
            function,
            front=front or self.__call__,
            samples=samples,
            registered=registered and not internal,
            **{**_by_kind(kind, function, compute, traits), **traits},
        )
        vars(self).update(kind=kind, names=tuple(names), compute=compute, vjps=vjps, reverse_plans={}, forward_plans={})
        if traits.get("decomposition") is True:
            vars(self).update(decomposition=compute)
        if internal:
            INTERNAL.append(self)

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
        raise pickle.PicklingError(f"Can't pickle {self!r}: it was made for one call, and no module holds it")

    def differentiable(self, position: int) -> bool:
        """Return `True` if the derivative with respect to an array argument can be nonzero."""
        if self.kind == "constant":
            return False
        return self.joint or position >= len(self.vjps) or self.vjps[position] is not None

    @property
    def partial(self) -> bool:
        """`True` if the derivative of some argument is unknown."""
        return any(isinstance(rule, UnknownRule) for rule in self.vjps)

    def reverse_plan(self, active: tuple[int, ...]) -> Plan:
        """Return the plan for pulling a cotangent back to the inputs at the positions `active`."""
        plan = self.reverse_plans.get(active)
        if plan is None:
            rules = self.vjps if self.joint else tuple([self.vjps[i] for i in active])
            named: list[Any] = [rule for rule in rules if rule is not None]
            wants = [names_read(rule) for rule in named]  # raises for an unknown derivative
            plan = _kept(self.reverse_plans, active, Plan(self, active, tuple(named), wants, self.joint))
        return plan

    def forward_plan(self, active: tuple[int, ...]) -> Plan | None:
        """Return the plan for pushing forward tangents of the inputs at `active`; `None` to transpose the VJP rules."""
        plan = self.forward_plans.get(active)
        if plan is None and (plan := self.new_forward_plan(active)) is not None:
            _kept(self.forward_plans, active, plan)
        return plan

    def new_forward_plan(self, active: tuple[int, ...]) -> Plan | None:
        """Return a new plan of JVP rules; `None` if the VJP rules must be transposed."""
        wants: list[list[str]] | None = None
        rules, joint = self._jvps_of(active), self.jvps is not None and len(self.jvps) != len(self.names)
        if rules is None and self.kind == "linear" and self.names:
            rules, wants = [lambda t, params: self(t, **params)], [["params"]]
        elif rules is None and self.kind == "linear":
            rules, wants, joint = [_of_linear(self)], [["shapes", "dtypes", "params"]], True
        elif rules is None and self.kind == "multilinear":
            rules, wants = [_in_place_of(self, i) for i in active], [["arrays", "params"]] * len(active)
        if rules is None:
            return None
        return Plan(self, active, tuple(rules), wants or [names_read(rule) for rule in rules], joint, forward=True)

    def _jvps_of(self, active: tuple[int, ...]) -> list[Any] | None:
        """Return the JVP rules of the active inputs, or the joint one; `None` if a rule must be derived.

        The VJP rules of an elementwise primitive are its JVP rules too.
        """
        given = self.vjps if self.jvps is None and self.kind == "elementwise" and not self.joint else self.jvps
        if given is None:
            return None
        rules = [given[i] for i in active] if len(given) == len(self.names) else list(given)
        return None if None in rules else rules

    def jvps_with_residuals(self, active: tuple[int, ...], names: list[list[str]]) -> tuple[Rule, ...] | None:
        """Return the JVP rules of the active inputs if each reads the same names as the VJP rule; otherwise `None`."""
        if self.joint or self.multiple or self.lost is not None:
            return None
        rules = self._jvps_of(active)
        if rules is None or any(isinstance(rule, UnknownRule) for rule in rules):
            return None
        return tuple(rules) if list(map(names_read, rules)) == names else None

    @cached_property
    def unary_plan(self) -> Plan | None:
        """The plan for the only argument; `None` if the derivative is zero."""
        return self.reverse_plan((0,)) if self.differentiable(0) else None

    def spec(self, *specs: Any, **params: Any) -> Any:
        """Return the spec of the result by computing it on arrays that take no memory."""
        with np.errstate(all="ignore"):
            out = self.compute(*map(stand_in, specs), **params)
        return tuple(map(spec_of, out)) if self.multiple else spec_of(out)


def _in_place_of(primitive: Primitive, position: int) -> Rule:
    def push(t: Any, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        return primitive(*arrays[:position], t, *arrays[position + 1 :], **params)

    return push


def _of_linear(primitive: Primitive) -> Rule:
    """Return the joint JVP rule of a linear primitive: the primitive itself, with zeros for tangents that are `None`."""

    def push(ts: Sequence[Any], shapes: tuple[tuple[int, ...], ...], dtypes: tuple[Any, ...], params: dict[str, Any]) -> Any:
        first = next(t for t in ts if t is not None)
        own = [dtype if dtype.kind in "fc" else dtype_of(first) for dtype in dtypes]  # a write may add an imaginary part
        full = [zeros_for(shape, d, first) if t is None else t for t, shape, d in zip(ts, shapes, own, strict=True)]
        return primitive(*full, **params)

    return push


def _kept(plans: dict[tuple[int, ...], Plan], active: tuple[int, ...], plan: Plan) -> Plan:
    """Add a plan to a cache, which is cleared when it is full; return the plan."""
    if len(plans) >= MANY:
        plans.clear()
    plans[active] = plan
    return plan


def _entry_of(function: Any) -> Any:
    """Return an entry. The process that unpickles a primitive may not have imported the family."""
    return import_module("functad.primitives.vocabulary").find(function)


# Plans

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
    the reverse plan has both `pull` and `push`. Calls of one array and fast paths then record it in both modes; all other calls
    in forward mode record the forward plan.

    Attributes:
        primitive: the called primitive.
        active: positions of the differentiated inputs.
        rules: one rule per active input, or the joint rule alone.
        joint: `True` if `rules` is one joint rule.
        special: the name of the function of `functad.transforms.reverse` that a backward pass calls in place of `pull`; empty
            if it calls `pull`.
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
