"""The kinds of primitives, and the JVP, shape and batching rules that follow from each kind.

| kind | Jacobian | JVP |
|---|---|---|
| `elementwise` | diagonal | the VJP formula, with the tangent in place of the cotangent |
| `linear` | constant | the function itself |
| `multilinear` | linear in each argument | the function with one argument replaced by its tangent |
| `general` | anything | given, or the transpose of the VJP |
| `constant` | zero | zero |

Solvers and control flow are primitives of the kind `general` that take any number of arrays and have one joint rule for each
mode (`SolverPrimitive`). They are created once, when their modules are imported. For calls of functions with user rules,
`functad.rules.call` creates a primitive per call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, spec_of
from functad.places import here
from functad.primitives import batching
from functad.primitives.entry import Composite, Primitive, Rule, Samples, UnknownRule, positional_names

Compute = Callable[..., Any]

_MOST_KNOWN = 1_000
"""The largest number of cached results of a shape rule."""


def elementwise(
    function: Any,
    *vjps: Rule | UnknownRule | None,
    doc: str,
    operator: Compute | None = None,
    domain: Sequence[tuple[float, float]] = ((-2.0, 2.0), (-2.0, 2.0)),
    samples: Samples | None = None,
    spec: Compute | None = None,
    names: Sequence[str] = ("x", "y", "z"),
    **traits: Any,
) -> Primitive:
    """Register a ufunc, or a function that broadcasts like a ufunc.

    Args:
        function: the function; the rules call its arguments `x`, or `x` and `y`.
        vjps: one rule per argument, `None` for derivative zero, an `UnknownRule` for an unknown derivative.
        doc: one line on the derivative.
        operator: computes the same faster (`operator.mul` for `np.multiply`) and keeps Python scalars weak.
        domain: for each argument, the interval of the samples.
        samples: replaces the samples drawn from `domain`.
        spec: the shape rule. Default: the rule of ufuncs.
        names: replaces the names of the arguments.
        traits: other attributes of `Primitive`. Set `jvps` if the JVP formulas differ from the VJP formulas, as for functions
            of complex numbers that are not holomorphic.
    """
    names = names[: len(vjps)]
    return Primitive(
        function,
        kind="elementwise",
        names=names,
        compute=operator or function,
        vjps=vjps,
        doc=doc,
        samples=samples or broadcasting_samples(domain[: len(vjps)]),
        spec=spec or (ufunc_spec(function, keeps_weak=operator is not None) if isinstance(function, np.ufunc) else None),
        broadcasts=True,
        **{"batch": batching.elementwise, **traits},
    )


def broadcasting_samples(domain: Sequence[tuple[float, float]]) -> Samples:
    """Return sample calls drawn from `domain`: scalars, vectors, matrices, broadcasting and empty arrays."""
    if len(domain) == 1:
        shapes: list[tuple[tuple[int, ...], ...]] = [((),), ((3,),), ((2, 3),), ((0,),)]
    else:
        shapes = [((),) * len(domain), ((3,),) * len(domain), ((2, 3), (3,)), ((3,), (2, 1)), ((), (2,)), ((0,), ())]
        if len(domain) == 3:
            shapes = [((),) * 3, ((3,),) * 3, ((2, 3), (3,), (2, 1)), ((0,), (), ())]

    def samples(array: Any) -> Sequence[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [
            (tuple(array(*shape, low=low, high=high) for shape, (low, high) in zip(row, domain, strict=True)), {})
            for row in shapes
        ]

    return samples


def ufunc_spec(function: np.ufunc, *, keeps_weak: bool) -> Compute:
    """Return the shape rule of a ufunc: shapes broadcast, and NumPy resolves the dtype.

    Results are cached: dtype resolution took a quarter of the time of a long abstract trace.
    """
    known: dict[Any, ArraySpec] = {}

    def spec(*values: Any) -> ArraySpec:
        specs = [spec_of(value) for value in values]
        key = tuple([(s.shape, s.dtype, s.weak) for s in specs])
        found = known.get(key)
        if found is None:
            found = resolved(specs)
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[key] = found
        if int in map(type, values) and not found.weak:
            refuse_large(function, found.dtype, values)
        return found

    def resolved(specs: Sequence[ArraySpec]) -> ArraySpec:
        weak = keeps_weak and all(s.weak for s in specs)
        # A Python bool is as strong as NumPy's bool.
        yields = not all(s.weak for s in specs)  # without arrays, Python numbers have their default dtypes
        dtypes = tuple(type(s.dtype.type(0).item()) if s.weak and yields and s.dtype.kind != "b" else s.dtype for s in specs)
        if any(s.dtype.kind == "O" for s in specs):
            raise UnsupportedError(
                f"np.{function.__name__} of a Tensor and an array of Python objects, at {here()}, cannot be traced. Make the "
                f"other array one of numbers: a.astype(float)."
            )
        dtype = function.resolve_dtypes((*dtypes, *[None] * function.nout))[-1]
        if weak and dtype.kind == "i":
            dtype = np.dtype(np.int64)  # Python computes an int from two bools, and NumPy an int8
        return ArraySpec(np.broadcast_shapes(*[s.shape for s in specs]), dtype, weak)

    return spec


def refuse_large(function: Compute, dtype: np.dtype[Any], values: Sequence[Any]) -> None:
    """Raise NumPy's OverflowError if a Python integer among the arguments does not fit the dtype of the others.

    If an integer fits neither the result dtype nor int64, the function is called with arrays of one element, and may raise.
    """
    if any(type(value) is int and value not in _range_of(dtype) for value in values):
        function(*[value if type(value) is int else np.ones(1, dtype_of(value)) for value in values])


@lru_cache(maxsize=64)
def _range_of(dtype: np.dtype[Any]) -> range:
    """Return the range of an integer dtype; for other dtypes the range of int64."""
    limits = np.iinfo(dtype if dtype.kind in "iu" else np.int64)
    return range(limits.min, limits.max + 1)


def shaped_as_argument(dtype: Any, position: int = 0) -> Compute:
    """Return the shape rule of functions with the shape of one argument and a fixed dtype."""
    return lambda *specs, **params: ArraySpec(spec_of(specs[position]).shape, dtype)


def linear(
    function: Any, vjp: Rule, *, doc: str, samples: Samples | None, compute: Compute | None = None, **traits: Any
) -> Primitive:
    """Register a function that is jointly linear in its array arguments.

    Args:
        function: the NumPy function.
        vjp: the rule; joint if `compute` takes any number of arrays (`*arrays`).
        doc: one line on the derivative.
        samples: sample calls.
        compute: `compute(*arrays, **params)`; its positional-only arguments are the arrays. Default: `function`.
        traits: other attributes of `Primitive`.
    """
    return _of_arrays("linear", function, (vjp,), compute, doc=doc, samples=samples, **traits)


def multilinear(
    function: Any, *vjps: Rule, doc: str, samples: Samples | None, compute: Compute | None = None, **traits: Any
) -> Primitive:
    """Register a function that is linear in each array argument; the arguments are as for `linear`."""
    return _of_arrays("multilinear", function, vjps, compute, doc=doc, samples=samples, **traits)


def general(
    function: Any,
    *vjps: Rule | UnknownRule | None,
    doc: str,
    samples: Samples | None,
    compute: Compute | None = None,
    joint: bool = False,
    **traits: Any,
) -> Primitive:
    """Register a function of the kind `general`.

    Args:
        function: the NumPy function.
        vjps: one rule per array argument (`None`: derivative zero), or one joint rule.
        doc: one line on the derivative.
        samples: sample calls.
        compute: `compute(*arrays, **params)`. Default: `function`.
        joint: `True` for one rule that returns the cotangents of all array arguments.
        traits: other attributes of `Primitive`; without `jvps`, the VJP rules are transposed.
    """
    return _of_arrays("general", function, vjps, compute, doc=doc, samples=samples, joint=joint, **traits)


def _of_arrays(
    kind: str, function: Any, vjps: tuple[Any, ...], compute: Compute | None, joint: bool | None = None, **traits: Any
) -> Primitive:
    """Register a function whose positional arguments are arrays. Without any, there is one joint rule."""
    body = compute or function
    names = positional_names(body)
    joint = not names if joint is None else joint
    return Primitive(function, kind=kind, names=names, compute=body, vjps=vjps, joint=joint, **traits)


def constant(
    function: Any,
    *,
    doc: str,
    samples: Samples | None,
    compute: Compute | None = None,
    operator: Compute | None = None,
    spec: Compute | None = None,
    **traits: Any,
) -> Primitive:
    """Register a function with derivative zero wherever it exists: comparisons, rounding, positions, shapes."""
    if isinstance(function, np.ufunc):
        spec = spec or ufunc_spec(function, keeps_weak=operator is not None)
        traits = {"batch": batching.elementwise, **traits}
    return Primitive(
        function,
        kind="constant",
        names=(),
        compute=compute or operator or function,
        vjps=(),
        doc=doc,
        samples=samples,
        spec=spec,
        **traits,
    )


def composite(function: Any, *, doc: str, samples: Samples, **traits: Any) -> Callable[[Callable[..., Any]], Composite]:
    """Return a decorator that registers a body, written with NumPy functions, as the composite for `function`."""

    def enter(body: Any) -> Composite:
        if body.__closure__:  # closures made by one function share a code object, but `debug_nans` finds entries by code
            body.__code__ = body.__code__.replace(co_name=function.__name__)
        return Composite(function, body, doc=doc, samples=samples, **traits)

    return enter


class SolverPrimitive(Primitive):
    """A primitive of any number of arrays that returns a tuple, with one joint rule for each mode.

    A VJP rule that reads `active` may compute only the cotangents at these positions, to save work such as a differential
    equation. The JVP rule reads `arrays`. Without a batching rule, each example is computed separately, because solvers choose
    their own steps for each example.
    """

    def __init__(self, function: Any, *, pull: Rule, push: Rule, **traits: Any) -> None:
        super().__init__(
            function,
            kind="general",
            names=(),
            vjps=(pull,),
            jvps=(push,),
            joint=True,
            multiple=True,
            samples=None,
            registered=False,
            **{"batch": batching.one_by_one, **traits},
        )
