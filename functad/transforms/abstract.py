"""Tracing without values: `make_expressions` and `eval_shape`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from functad.errors import InputError
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.spec import PLAIN, ArraySpec, spec_or_none
from functad.places import call_of
from functad.primitives.operands import foreign_rules
from functad.primitives.safe import PASS, SINGULAR
from functad.settings import setting
from functad.tracing.traces.abstract import DERIVATIVES, AbstractRecorder
from functad.tracing.traces.base import Recorded
from functad.tracing.views import in_c_order, memory_of
from functad.transforms.calling.arguments import check_result, traced
from functad.transforms.calling.selection import parameters_of
from functad.transforms.calling.transform import transform
from functad.trees.structure import Structure, flatten

P = ParamSpec("P")


@transform
def make_expressions(f: Callable[P, Any]) -> Callable[P, Expressions]:
    """Return a function that traces `f` and returns its expression list.

    The trace is abstract: only shapes and dtypes of the arguments matter, and `f` cannot branch on values. Values that do not
    depend on the arguments are computed during the trace and become constants of the list.

    Args:
        f: a function of NumPy code. Without `f`, the transform returns a decorator.

    Returns:
        A function with the signature of `f` that returns an `Expressions`. Its arguments may be arrays, numbers, `ArraySpec`s
        or pytrees of them.

    Raises:
        InputError: an argument is not a pytree of arrays.
        OutputError: the result of `f` is not a pytree of arrays.
        AbstractValueError: `f` needs the value of a Tensor.

    Example:
        >>> import numpy as np
        >>> make_expressions(lambda x, y: {"sum": x + y})(np.zeros((2, 3), np.float32), 1.0)
        { lambda x:float32[2,3] y:float[].
          a:float32[2,3] = add x y
          return a }
    """

    @functools.wraps(f)
    def made(*args: P.args, **kwargs: P.kwargs) -> Expressions:
        from functad.transforms.random_states import frozen_in  # noqa: PLC0415 - `import functad` needs no lists
        from functad.transforms.source_lines import noted_lines  # noqa: PLC0415 - the same

        with frozen_in("make_expressions", f, [f]), noted_lines(), setting(PASS, SINGULAR):
            return trace("make_expressions", f, args, kwargs)

    return made


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of `f(*args, **kwargs)` without computing the values.

    Args:
        f: a function of NumPy code.
        args: arrays, numbers, `ArraySpec`s or pytrees of them.
        kwargs: the same types, by name.

    Returns:
        The result of `f` with an `ArraySpec` in place of each array.

    Raises:
        InputError, OutputError, AbstractValueError: as for `make_expressions`.

    Example:
        >>> import numpy as np
        >>> eval_shape(lambda a, b: a @ b, ArraySpec((1000000, 3), np.dtype(float)), np.zeros((3, 2)))
        float64[1000000,2]
    """
    expressions = trace("eval_shape", f, args, kwargs)
    return expressions.output_structure.unflatten(expressions.results)


def trace(
    transform: str, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, ordered: bool = True
) -> Expressions:
    """Return the expression list of a function, traced without values; Tensors of other traces become constants."""
    return listed(AbstractRecorder(transform, f), f, args, kwargs, ordered=ordered)[0]


def listed(
    recorder: AbstractRecorder | Any,
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    ordered: bool = True,
) -> tuple[Expressions, list[Any]]:
    """Return the expression list of a function, and the leaves of its result.

    Args:
        recorder: the trace, which keeps equations.
        f: the function.
        args, kwargs: the arguments, or their specs.
        ordered: arguments that are given as specs are in C order.

    Raises:
        InputError: an argument is not a pytree of arrays.
        OutputError: the result is not a pytree of arrays.
    """
    transform, function = recorder.transform, recorder.function
    leaves, structure = flatten((args, kwargs))
    # The search for parameter names takes longer than recording some operations.
    shows = isinstance(recorder, AbstractRecorder)
    names = input_names(f, structure, len(args)) if shows else [f"args[{i}]" for i in range(len(leaves))]
    tensors = []
    for leaf, name in zip(leaves, names, strict=True):
        spec = _spec_of_input(leaf, name, transform, function)
        if shows:
            tensors.append(recorder.enter(spec))
            if not (ordered and in_c_order(leaf)):
                memory_of(tensors[-1]).ordered = False
        else:
            tensors.append(recorder.enter(leaf))
    inputs, keywords = structure.unflatten(tensors)
    out = traced(recorder, f, inputs, keywords)
    results, output_structure = flatten(out)
    outputs: list[int | Constant] = []
    for result, path in zip(results, output_structure.paths("result"), strict=True):
        check_result(result, path, transform, function)
        own = isinstance(result, Recorded) and result.recorder is recorder
        outputs.append(result.slot if own else Constant(result))
    equations = tuple(equation for equation in recorder.equations if equation is not None)
    expressions = Expressions(tuple(names), equations, tuple(outputs), tuple(recorder.specs), structure, output_structure)
    if shows and recorder.derivatives and (noted := DERIVATIVES.get()) is not None:
        noted.append((expressions, recorder.derivatives))
    return expressions, results


def _spec_of_input(leaf: Any, name: str, transform: str, f: object) -> ArraySpec:
    spec = spec_or_none(leaf)
    looks = spec is not None and type(leaf) not in PLAIN and transform != "jit"  # `jit` has checked
    if looks and (reason := foreign_rules(leaf)) is not None:
        raise InputError(f"{call_of(transform, f)}: {name} is a {type(leaf).__name__}. {reason}")
    if spec is None or spec.dtype.kind not in "biufc":
        raise InputError(
            f"{call_of(transform, f)}: {name} is a {type(leaf).__name__}, not an array or a number. Bind it first: "
            f"functools.partial, or a lambda around the function."
        )
    return spec


def input_names(f: Callable[..., Any], structure: Structure, count: int) -> list[str]:
    """Return, for each leaf of `(args, kwargs)`, the parameter name and the path of the leaf in the argument."""
    parameters = parameters_of(f) or {}
    positional = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    roots = [positional[i] if i < len(positional) else f"args[{i}]" for i in range(count)]
    arguments, keywords = structure.children
    names = [path for child, root in zip(arguments.children, roots, strict=True) for path in child.paths(root)]
    for child, key in zip(keywords.children, keywords.data[0], strict=True):
        names.extend(child.paths(key))
    return names
