"""`primitive` and `numerical_primitive`: opaque functions with user-defined or numerical derivative rules."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from functad.errors import CustomRuleError, InputError, UnsupportedError
from functad.expressions.spec import dtype_of, shape_of, spec_of
from functad.places import Named, here, name_of, user_frame
from functad.primitives import vocabulary
from functad.primitives.entry import Primitive
from functad.primitives.operands import as_operand, layout_of
from functad.process import by_name, calling_module
from functad.rules.call import Rules, of_all_examples
from functad.rules.numerical import Differences, as_spec, is_pair, or_approximate, tried
from functad.tracing.ownership import lend, lend_read_only
from functad.tracing.trace import Recorded, value_of
from functad.transforms.transform import parameters_of
from functad.trees import flatten

P = ParamSpec("P")
R = TypeVar("R")
KINDS = ("elementwise", "linear", "general")
METHODS = ("central", "complex-step")
_MADE = {"out", "out_shape", "out_dtype", "params", "arrays", "rest", "shapes", "dtypes"}
"""Names that a rule may read besides arguments."""

_TRAITS: dict[str, Callable[[Any], Any]] = {"shape": shape_of, "dtype": dtype_of, "layout": layout_of}
"""The traits of an array that a rule may read, as in `x_shape`."""


class RegisteredFunction(Generic[P, R]):
    """A function with its own primitive, made by `primitive` or `numerical_primitive`.

    Attributes:
        names: names of the array arguments.
        parameters: names of the other arguments.
        entry: the recorded primitive; `None` if each call creates its own.
        given: the function that created this object, and its arguments, for pickling if no module holds the object.

    Example:
        >>> import numpy as np, functad
        >>> cube = functad.primitive(lambda x: x**3, lambda g, x: g * 3 * x**2, kind="elementwise", name="cube")
        >>> type(cube).__name__, float(functad.grad(cube)(2.0))
        ('RegisteredFunction', 12.0)
    """

    entry: Primitive | None = None
    _run: Callable[[list[Any], dict[str, Any]], Any]
    """Returns the value of a call from its arrays and its other arguments."""

    def __init__(self, f: Callable[P, R], names: Sequence[str], name: str, given: tuple[Any, ...]) -> None:
        functools.update_wrapper(self, f, updated=())
        self.given = given
        self.function = f
        self.names = tuple(names)
        self.name = name
        self.made_in = calling_module(user_frame(sys._getframe(1)))
        self.many = _variadic(f)
        # Arrays are positional if there is no signature with these names.
        known = _parameters(f) or {}
        self._parameters = known if set(self.names) <= set(known) else {}
        self._signature = inspect.Signature(list(self._parameters.values()))
        self.parameters = frozenset(self._parameters) - set(self.names)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the value. The call is recorded as one operation if an array argument is a Tensor."""
        arrays, params = self._bound(args, kwargs)
        for name, value in params.items():
            if any(isinstance(value_of(leaf), Recorded) for leaf in flatten(value)[0]):
                raise CustomRuleError(
                    f"{self.name}, called at {here()}: {name} is a Tensor, but only {', '.join(self.names) or 'none'} are "
                    f"arrays that have rules; a derivative would be lost. Enter it with names={(*self.names, name)!r}"
                    + (" and joint=True." if name == self.many else ".")
                )
        return self._run(arrays, params)  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return by_name(self, self.made_in) or (_entered_again, self.given)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the array arguments in the order of their names, and the other arguments by name."""
        if not self._parameters:
            return [as_operand(value_of(a)) for a in args], kwargs
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        for name, parameter in self._parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                given |= given.pop(name)
        arrays = [a for name in self.names for a in (given.pop(name) if name == self.many else (given.pop(name),))]
        return [as_operand(value_of(a)) for a in arrays], given

    def _grouped(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """Return the arrays of a call by name. `*args` gets a tuple with the arrays that the other names leave."""
        given = iter(arrays)
        left = len(arrays) - len(self.names) + 1
        return {name: tuple([next(given) for _ in range(left)]) if name == self.many else next(given) for name in self.names}

    def _on_copies(self, arrays: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """Return the value for plain arrays. The function gets copies: it may write to them, and rules read the originals."""
        arrays, f = [lend(a) for a in arrays], self.function
        if not self._parameters:
            return f(*arrays, **params)
        given = {**self._grouped(arrays), **params}
        before = list(self._parameters).index(self.many) if self.many is not None else 0  # these must be positional
        args = [
            given.pop(name)
            for i, (name, parameter) in enumerate(self._parameters.items())
            if i < before or parameter.kind is parameter.POSITIONAL_ONLY
        ]
        return f(*args, *(() if self.many is None else given.pop(self.many)), **given)


def primitive(
    f: Callable[P, R],
    *vjps: Callable[..., Any] | None,
    kind: str = "general",
    jvps: Sequence[Callable[..., Any] | None] | None = None,
    names: Sequence[str] | None = None,
    name: str | None = None,
    shape: Callable[..., Any] | None = None,
    batch: Callable[..., Any] | None = None,
    joint: bool = False,
    multiple: bool = False,
    complex: bool = True,
) -> RegisteredFunction[P, R]:
    """Register any function, for example of SciPy or in C, as a primitive with its own derivative rules.

    A rule is NumPy code, and the names of its arguments define the values that it reads. The first argument is the cotangent
    `g` or the tangent `t`. The other arguments are arguments of `f` by name, `out` for the result, and `x_shape` and `x_dtype`
    for the shape and dtype of the argument `x`. Only values that some rule reads are kept for the backward pass. The rules of a
    ufunc without an entry also apply to calls of the ufunc itself with a Tensor.

    Args:
        f: the function; it is called with plain arrays only.
        vjps: for each array argument the VJP rule, `None` for derivative zero. Rules that are linear in `g` are sufficient:
            forward mode transposes them.
        kind: `"elementwise"` for a function that broadcasts like a ufunc: rules then need no sums and hold for both modes, and
            `vmap` needs no rule; `"linear"` for a function that is linear in its only array; else `"general"`.
        jvps: rules of forward mode, one for each array argument.
        names: the names of the array arguments. Default: the first arguments, one for each rule; for a joint rule, all
            positional arguments without a default value. The others are parameters, which rules may read by name too.
        name: the name in printed expression lists. Default: the name of `f`.
        shape: `shape(*specs, **params)` maps the `ArraySpec`s of the arguments to the `ArraySpec`, or `(shape, dtype)`, of the
            result. Default: `f` is called with arrays of ones when a shape is needed.
        batch: `batch(size, batched, *arrays, **params)` returns the value for all examples, and `True` if the value has the
            batch axis in front. `batched` tells the same for the arrays, which may be Tensors. Default: `vmap` calls a general
            function for each example, with a warning.
        joint: `True` for one rule `rule(g, arrays, out, ...)` that returns the cotangents of all arrays as a tuple. Then
            `*args` of `f` may take any number of arrays, and a rule reads them as a tuple.
        multiple: `True` if the result, and so `g`, is a tuple.
        complex: `False` to raise `UnsupportedError` for complex arguments.

    Returns:
        The function, for arrays and Tensors. `functad.testing.check_rules(f, *args)` compares its derivatives with numerical
        ones.

    Raises:
        InputError: the rules do not match the arguments or read unknown names, or the function has an entry already.
        CustomRuleError: (when differentiated) a rule of a general function returns a cotangent of another shape than the
            argument, or a joint rule returns a wrong number of cotangents.

    Example:
        >>> import math, numpy as np, functad
        >>> def gamma(x):
        ...     return np.vectorize(math.gamma, otypes=[float])(x)[()]
        >>> def digamma(x):  # of large numbers
        ...     return np.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6)
        >>> gamma = functad.primitive(gamma, lambda g, x, out: g * out * digamma(x), kind="elementwise")
        >>> round(float(functad.grad(gamma)(10.0)) / math.gamma(10.0), 6)
        2.251753
        >>> functad.make_expressions(gamma)(np.ones(3))
        { lambda x:float64[3].
          a:float64[3] = gamma x
          return a }
    """
    options: dict[str, Any] = {"kind": kind, "jvps": jvps, "names": names, "name": name, "shape": shape, "batch": batch}
    options.update(joint=joint, multiple=multiple, complex=complex)
    own = _checked_name(f, name, kind)
    named = _names_of_arrays(f, names, len(vjps), own, joint=joint)
    many = _variadic(f)
    _check_counts(own, named, vjps, jvps, many, joint=joint)
    for rule in (*vjps, *(jvps or ())):
        _check_names(own, f, named, rule)
    made: RegisteredFunction[P, R] = RegisteredFunction(f, named, own, (primitive, (f, *vjps), options))

    def refuse_complex(arrays: Sequence[Any]) -> None:
        if not complex and any(dtype_of(a).kind == "c" for a in arrays):
            raise UnsupportedError(
                f"{own} of a complex argument, at {here()}: it was entered with complex=False. Pass real arguments, such as "
                f"x.real."
            )

    def compute(*arrays: Any, **params: Any) -> Any:
        refuse_complex(arrays)
        return made._on_copies(arrays, params)

    def spec(*specs: Any, **params: Any) -> Any:
        refuse_complex(specs)
        if shape is None:
            found = tried(compute, specs, params, own)
            return tuple(map(spec_of, found)) if multiple else spec_of(np.asarray(found))
        found = shape(*map(spec_of, specs), **params)
        return tuple(map(as_spec, found)) if multiple else as_spec(found)

    entry = made.entry = Primitive(
        f,
        kind=kind,
        names=() if many in named else named,
        compute=f if isinstance(f, np.ufunc) and complex else compute,
        vjps=_vjps(made, vjps, kind, joint=joint),
        jvps=None if jvps is None else tuple(map(_guarded_rule, jvps)),
        doc="entered by primitive",
        samples=None,
        name=own,
        spec=spec,
        joint=joint,
        multiple=multiple,
        broadcasts=kind == "elementwise",
        complex=complex,
        registered=isinstance(f, np.ufunc),
        batch=None if batch is None else _batch(batch),
        parameters=made.parameters,
        owner=made,
    )
    made._run = lambda arrays, params: entry(*arrays, **params)
    return made


def _checked_name(f: Any, name: str | None, kind: str) -> str:
    """Return the name of a primitive. Raise if its function or kind is invalid."""
    if not callable(f):
        raise InputError(f"primitive needs a function, not a {type(f).__name__}, at {here()}.")
    own = name or str(getattr(f, "__name__", type(f).__name__))
    if kind not in KINDS:
        raise InputError(f"primitive {own}: kind is {kind!r}, not one of {', '.join(map(repr, KINDS))}, at {here()}.")
    if isinstance(f, np.ufunc) and vocabulary.find(f) is not None:
        raise InputError(
            f"primitive: {own} has derivative rules already, at {here()}. Enter a function around it: lambda x: f(x)."
        )
    return own


def _batch(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a user's batching rule as a batching rule of a primitive."""

    def batch(entry: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]) -> Any:
        outs, single = _batched(rule, entry.name, size, values, batched, params)
        return outs[0] if single else outs

    return batch


def _batched(
    rule: Callable[..., Any], name: str, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> tuple[tuple[Any, ...], bool]:
    """Return the results of a user's batching rule for all examples, and `True` if the function returns no tuple."""
    out, own = rule(size, tuple(batched), *map(lend_read_only, values), **params)
    single = not isinstance(out, tuple)
    outs, flags = ((out,), (own,)) if single else (out, own)
    return of_all_examples(outs, flags, size, [f"the batch rule of {name} gave"] * len(outs)), single


def _check_counts(
    own: str, named: Sequence[str], rules: Sequence[Any], forward: Sequence[Any] | None, many: str | None, *, joint: bool
) -> None:
    """Raise unless the number of rules matches the number of arrays. `many` is the name of `*args`, or `None`."""
    if many in named and (not joint or forward is not None):
        raise InputError(
            f"primitive {own}: *{many} takes any number of arrays, at {here()}. Give a single rule that is joint: "
            f"lambda g, arrays: ..., joint=True, and no jvps."
        )
    if len(rules) != (1 if joint else len(named)):
        raise InputError(
            f"primitive {own}: {len(rules)} rules for the arrays {', '.join(named) or '(none)'}, at {here()}: give one for "
            f"each, None for a derivative of zero"
            + (", or a single one that is joint." if joint else f", or joint=True for *{many}." if many else ".")
        )
    if forward is not None and len(forward) != len(named):
        raise InputError(f"primitive {own}: {len(forward)} JVP rules for {len(named)} arrays, at {here()}.")


def _check_names(own: str, f: Any, named: Sequence[str], rule: Any) -> None:
    """Raise unless every name that a rule reads is known.

    Raises:
        InputError: the rule is not a function with named arguments, or a name is neither an argument nor a derived value.
    """
    if rule is None:
        return
    parameters = _parameters(f)
    read = list((parameters_of(rule) or {}).values()) if callable(rule) else []
    shown = f"lambda g, {', '.join(named[:1] or ['out'])}: ..., where g is the cotangent, or the tangent"
    if not read or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in read):
        raise InputError(f"primitive {own}: a rule must be a function that names what it reads, at {here()}: {shown}.")
    if read[0].name in set(named) - {"g", "t"}:
        raise InputError(f"primitive {own}: a rule takes {read[0].name} first, at {here()}. It must be {shown}.")
    if parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    known = {*_names_of(named), *parameters, *_MADE}
    for name in [p.name for p in read[1:] if p.name not in known]:
        raise InputError(
            f"primitive {own}: a rule reads {name!r}, at {here()}, which is no argument of {own}. There are "
            f"{', '.join(list(named) + [p for p in parameters if p not in named])}, and out for the result."
        )


def _guarded_rule(rule: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return a rule that receives read-only arrays, because other rules read them too."""
    if rule is None:
        return None

    @functools.wraps(rule)
    def call(*read: Any) -> Any:
        return rule(*[tuple(map(lend_read_only, value)) if type(value) is tuple else lend_read_only(value) for value in read])

    return call


def _vjps(made: RegisteredFunction[..., Any], vjps: Sequence[Any], kind: str, *, joint: bool) -> tuple[Any, ...]:
    """Return the user's VJP rules as rules of a primitive, with checks of their results."""
    rules = tuple(map(_guarded_rule, vjps))
    if joint:
        return tuple([None if rule is None else _joint_rule(rule, made) for rule in rules])
    if kind == "general":
        rows = zip(rules, made.names, strict=True)
        return tuple([None if rule is None else _checked_rule(rule, name, made.name) for rule, name in rows])
    return rules


def _reading(rule: Any, names: Sequence[str]) -> Any:
    """Return a rule that reads the values with these names."""
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    rule.__signature__ = inspect.Signature(parameters)
    return rule


def _checked_rule(rule: Callable[..., Any], name: str, own: str) -> Any:
    """Return a rule that checks the shape of its cotangent."""
    names = list(inspect.signature(rule).parameters)
    every = list(dict.fromkeys([*names, f"{name}_shape"]))
    place = every.index(f"{name}_shape")
    anywhere = or_approximate(rule, f"rule of {own} for {name}")

    def checked(*read: Any) -> Any:
        shape = read[place]
        ct = anywhere(read[0], shape, *read[1 : len(names)])
        if shape_of(ct) != shape:
            raise CustomRuleError(
                f"the rule of {own} for {name} gave a cotangent of shape {shape_of(ct)}, but {name} has shape {shape}, at "
                f"{here()}."
            )
        return ct

    return _reading(checked, every)


def _joint_rule(rule: Callable[..., Any], made: RegisteredFunction[..., Any]) -> Any:
    """Return a joint rule that checks the number of its cotangents.

    A primitive that takes any number of arrays has no names for them. Its rule receives all `arrays`, and finds each by name.
    """
    names, many = made.names, made.many
    first, *wanted = parameters_of(rule) or {}

    def for_each(cts: Any, count: int) -> Any:
        if not isinstance(cts, (tuple, list)) or len(cts) != count:
            found = f"{len(cts)} cotangents" if isinstance(cts, (tuple, list)) else f"a {type(cts).__name__}"
            arrays = ", ".join(names) if len(names) == count else f"the {count} arrays of {', '.join(names)}"
            raise CustomRuleError(
                f"the joint rule of {made.name} gave {found}, at {here()}: it must return a tuple with a cotangent for each of "
                f"{arrays}."
            )
        return cts

    if many not in names:
        return _reading(lambda *read: for_each(rule(*read), len(names)), [first, *wanted])
    others = [name for name in wanted if name not in {"arrays", *_names_of(names)}]

    def of_all(g: Any, arrays: tuple[Any, ...], *values: Any) -> Any:
        given = {"arrays": arrays, **made._grouped(arrays), **dict(zip(others, values, strict=True))}
        return for_each(rule(g, *[_read(name, given, many) for name in wanted]), len(arrays))

    return _reading(of_all, ["g", "arrays", *others])


def _names_of(names: Sequence[str]) -> set[str]:
    """Return the names by which a rule reads arrays and their traits."""
    return {*names, *[f"{name}_{trait}" for name in names for trait in _TRAITS]}


def _read(name: str, given: Mapping[str, Any], many: str | None) -> Any:
    """Return a value by name, or a trait of an array, such as `x_shape`."""
    if name in given:
        return given[name]
    array, _, trait = name.rpartition("_")
    return tuple(map(_TRAITS[trait], given[array])) if array == many else _TRAITS[trait](given[array])


def numerical_primitive(
    f: Callable[P, R],
    method: str = "central",
    *,
    step: float | None = None,
    names: Sequence[str] | None = None,
    name: str | None = None,
    shape: Callable[..., Any] | None = None,
    batch: Callable[..., Any] | None = None,
) -> RegisteredFunction[P, R]:
    """Register an opaque function as a primitive with approximate derivatives by finite differences.

    Printed lists show it as `name[approximate=central]`. A tangent costs two evaluations for each array argument, a cotangent
    two for each array element (one with the complex step). The error is about 1e-9 of the size of the values for a first
    derivative. For a second derivative, a difference of differences with larger steps, it is 1e-7; for float32, 1e-4.

    Args:
        f: any function of arrays that returns an array or number, or a tuple of these. It is called with plain arrays only.
        method: `"central"`: `(f(x + h t) - f(x - h t)) / 2 h`; or `"complex-step"`: `Im f(x + i h t) / h` with `h = 1e-100`
            (2e-13 if an argument has single precision), which is exact to rounding, for functions that accept complex numbers
            and are analytic (Squire and Trapp, SIAM Review 40 (1998), 110-112). Its second derivatives are central differences
            of complex steps.
        step: the step of a first derivative, relative to numbers of size 1. Default: the third root of the precision.
        names: the names of the array arguments. Default: all positional arguments without a default value, and `*args`.
        name: as for `primitive`.
        shape: as for `primitive`.
        batch: as for `primitive`. If the result is a tuple, it returns a tuple of values and a tuple of booleans.

    Returns:
        The function, for arrays and Tensors.

    Raises:
        InputError: the method is unknown, or the step is not positive.

    Example:
        >>> import math, functad
        >>> def simulate(x, rate=2.0):
        ...     return math.exp(rate * float(x))  # plain numbers only
        >>> simulated = functad.numerical_primitive(simulate)
        >>> round(float(functad.grad(simulated)(0.5)), 6), round(float(functad.grad(functad.grad(simulated))(0.5)), 4)
        (5.436564, 10.8731)
        >>> functad.make_expressions(simulated)(0.5)
        { lambda x:float[].
          a:float64[] = simulate[approximate=central] x
          return a }
    """
    own = name or str(getattr(f, "__name__", type(f).__name__))
    if method not in METHODS:
        raise InputError(f"numerical_primitive {own}: method is {method!r}, not 'central' or 'complex-step', at {here()}.")
    if step is not None and not step > 0:
        raise InputError(f"numerical_primitive {own}: step is {step!r}; it must be positive, at {here()}.")
    shown = f"{own}[approximate={method}]"
    options = {"step": step, "names": names, "name": name, "shape": shape, "batch": batch}
    named = _names_of_arrays(f, names, 0, own, joint=True)
    made: RegisteredFunction[P, R] = RegisteredFunction(f, named, shown, (numerical_primitive, (f, method), options))

    def run(arrays: list[Any], params: dict[str, Any]) -> Any:
        base, single = _numerical(made, params, shape, batch)
        outs = Differences(base, method, step)(arrays)
        return outs[0] if not single or single[0] else outs

    made._run = run
    return made


def _entered_again(make: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return an unpickled function; for a ufunc with an entry in this process, the owner of the entry."""
    known: Any = vocabulary.find(args[0]) if isinstance(args[0], np.ufunc) else None
    return make(*args, **options) if known is None or known.owner is None else known.owner


def _numerical(made: RegisteredFunction[..., Any], params: dict[str, Any], shape: Any, batch: Any) -> tuple[Rules, list[bool]]:
    """Return the rules of one call, and a list that they set to `[True]` if the result is not a tuple."""
    single: list[bool] = []
    f, shown = made.function, made.name

    def value(*arrays: Any) -> tuple[Any, ...]:
        out = made._on_copies(arrays, params)
        single[:] = [not isinstance(out, tuple)]
        return tuple([np.asarray(a)[()] for a in out]) if isinstance(out, tuple) else (np.asarray(out)[()],)

    def spec(*specs: Any) -> tuple[Any, ...]:
        if shape is None:
            return tuple(map(spec_of, tried(value, specs, {}, shown)))
        found = shape(*specs, **params)
        single[:] = [not isinstance(found, tuple) or is_pair(found)]
        return (as_spec(found),) if single[0] else tuple(map(as_spec, found))

    def batched(size: int, values: Sequence[Any], flags: Sequence[bool]) -> tuple[Any, ...]:
        outs, is_single = _batched(batch, shown, size, values, flags, params)
        single[:] = [is_single]
        return outs

    own = batched if batch is not None else None
    # Programs call the ufunc of a primitive in place of the primitive, which returns a tuple.
    function = Named(name_of(f)) if isinstance(f, np.ufunc) else f
    return Rules(function=function, value=value, batch=own, spec=spec, name=shown, loops=True, by_user=True), single


def _names_of_arrays(f: Any, names: Sequence[str] | None, count: int, own: str, *, joint: bool) -> list[str]:
    """Return the names of the array arguments."""
    if names is not None:
        return list(names)
    if isinstance(f, np.ufunc):
        return ["x", "y", "z"][: f.nin]
    parameters = parameters_of(f)
    if parameters is None:
        raise InputError(f"primitive {own}: its signature is not known, so give names= of its arrays, at {here()}.")
    positional = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    chosen = [p for p in positional if p.default is p.empty] if joint else positional[:count]
    many = _variadic(f) if joint else None
    return [p.name for p in chosen] + ([] if many is None else [many])


def _parameters(f: Any) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of a function, and no parameters of a ufunc: its `where` and `out` are no arguments of a rule."""
    return {} if isinstance(f, np.ufunc) else parameters_of(f)


def _variadic(f: Any) -> str | None:
    """Return the name of the parameter that takes any number of positional arguments; `None` if there is none."""
    return next((p.name for p in (_parameters(f) or {}).values() if p.kind is p.VAR_POSITIONAL), None)
