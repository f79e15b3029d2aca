"""Single equations in the source of NumPy calls: the ufunc that computes them, and short texts of frequent operations.

Short texts are methods and indexing instead of calls. The general function of a primitive inspects its arguments at each call.
The compiler knows shapes and dtypes, so it writes `.T` for a transpose and `a[:, 1:3]` for an index.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.backends.source import Definitions
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, spec_of, spec_or_none
from functad.primitives.arranging.join import CONCATENATE
from functad.primitives.arranging.reshape import RESHAPE, TRANSPOSE
from functad.primitives.elementwise.conversion import ASTYPE, COPY
from functad.primitives.indexing.index_map import IndexMap, are_disjoint, is_basic
from functad.primitives.indexing.read import ADD_PIECE, GATHER, GETITEM, SCATTER, fill
from functad.primitives.linalg.einsum import is_by_blas
from functad.primitives.linalg.products import MATMUL, SUM_OF_PRODUCTS
from functad.primitives.reductions.over_axes import MEAN, SUM
from functad.primitives.table import Table


def is_fresh(equation: Equation) -> bool:
    """Return `True` if the result of an equation is always a new array or a number."""
    primitive = equation.primitive
    return primitive.fresh and primitive.owner is None


def ufunc_of(equation: Equation, expressions: Expressions) -> np.ufunc | None:
    """Return the ufunc that computes an equation, or `None`. For Python numbers alone, ufuncs and operators differ: `None`."""
    function = equation.primitive.function
    if not isinstance(function, np.ufunc) or equation.params or function.nout != 1:
        return None
    specs = [expressions.specs[s] if not isinstance(s, Constant) else spec_of(s.value) for s in equation.inputs]
    return function if any(not spec.weak for spec in specs) else None


def is_power(ufunc: np.ufunc | None, equation: Equation, expressions: Expressions) -> bool:
    """Return `True` if `x**y` computes the equation. For booleans, `x**2` and `np.power(x, 2)` differ in dtype."""
    base = equation.inputs[0]
    spec = expressions.specs[base] if not isinstance(base, Constant) else spec_of(base.value)
    return ufunc is np.power and spec.dtype.kind != "b"


def makes_numbers(expressions: Expressions) -> bool:
    """Return `True` if NumPy gives all results of shape `()` as numbers, never as arrays."""
    wanted = {s for s in expressions.outputs if type(s) is not int or not expressions.specs[s].shape}
    for equation in expressions.equations:
        if equation.primitive.zero_d is False:
            wanted.difference_update(equation.outputs)
    return not wanted


# Texts

_FLOATS = "fdFD"
"""Dtypes with sums and means in the same dtype and matrix products in BLAS."""

_SMALL = 10_000
"""Elements below which an array counts as small."""

Text = Callable[[Equation, Sequence[str], Sequence[ArraySpec], Definitions], "str | None"]
"""Maps an equation, the texts of its inputs, their specs and the definitions to a text; `None` for the general text."""

TEXTS: Table[Text] = Table()

text: Callable[..., Callable[[Text], Text]] = TEXTS.add


def short_text(
    equation: Equation, given: Sequence[str], specs: Sequence[ArraySpec], definitions: Definitions, exact: bool
) -> str | None:
    """Return a short expression for the result of an equation; `None` if there is none.

    Args:
        equation: the equation.
        given: texts of its inputs.
        specs: the specs of all slots.
        definitions: the definitions in front of the text.
        exact: products equal the traced function bit for bit.
    """
    write = TEXTS.find(equation.primitive)
    own = _specs_of(equation, specs) if write is not None else None
    if write is None or own is None or (exact and equation.primitive.kind == "multilinear"):
        return None
    return write(equation, given, own, definitions)


def _specs_of(equation: Equation, specs: Sequence[ArraySpec]) -> list[ArraySpec] | None:
    """Return the specs of the inputs if all are NumPy arrays or scalars, else `None`."""
    own = [spec_or_none(s.value) if isinstance(s, Constant) else specs[s] for s in equation.inputs]
    found = [spec for spec in own if spec is not None and not spec.weak]
    return found if len(found) == len(own) else None


@text(RESHAPE)
def _reshape(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str:
    if not own[0].shape and own[0].dtype.kind in "iu":  # Python integers of more than 64 bits have no methods of arrays
        return f"np.reshape({given[0]}, {definitions.literal(equation.params['shape'])})"
    return f"{given[0]}.reshape({definitions.literal(equation.params['shape'])})"


@text(TRANSPOSE)
def _transpose(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str:
    axes = equation.params["axes"]
    whole = axes is None or list(axes) == list(range(len(axes)))[::-1]
    return f"{given[0]}.T" if whole else f"{given[0]}.transpose({definitions.literal(axes)})"


@text(CONCATENATE)
def _concatenate(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str:
    axis = equation.params["axis"]
    every = f"({', '.join(given)}{',' if len(given) == 1 else ''})"
    return f"np.concatenate({every})" if axis == 0 else f"np.concatenate({every}, {axis!r})"


@text(ASTYPE)
def _astype(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str | None:
    dtype = equation.params["dtype"]
    named = dtype.isnative and dtype.kind in "fc" and vars(np).get(dtype.name) is dtype.type
    return f"{given[0]}.astype(np.{dtype.name})" if named else None


@text(COPY)
def _copy(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str | None:
    """Copy only if the memory layout changes: no value of a program is modified."""
    order = equation.params.get("order")
    if not own[0].shape or order not in ("C", "F"):
        return None
    return f"np.as{'contiguous' if order == 'C' else 'fortran'}array({given[0]})"


@text(SUM)
def _sum(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str | None:
    axis, keepdims = equation.params["axis"], equation.params["keepdims"]
    if own[0].dtype.char not in _FLOATS:
        return None
    if axis is None and own[0].ndim == 1 and not keepdims:
        return f"np.add.reduce({given[0]})"
    axes = definitions.literal(axis)
    return f"np.add.reduce({given[0]}, {axes}{', None, None, True' if keepdims else ''})"


@text(MEAN)
def _mean(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str | None:
    axis, total = equation.params["axis"], _sum(equation, given, own, definitions)
    axes = range(own[0].ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    count = math.prod([own[0].shape[i] for i in axes])
    return f"{total} / {count}" if total is not None and count else None


@text(MATMUL)
def _matmul(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str | None:
    """Use `dot` for small arrays: it calls the same BLAS routine in half the time of the ufunc."""
    small = all(spec.ndim in (1, 2) and 0 < spec.size < _SMALL and spec.dtype.char in _FLOATS for spec in own)
    return f"{given[0]}.dot({given[1]})" if small and own[0].dtype == own[1].dtype else None


@text(np.einsum)
def _einsum(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str | None:
    """Decide on the use of BLAS once, from subscripts and shapes, and pass the path to `np.einsum`."""
    subscripts, optimize = equation.params["subscripts"], equation.params["optimize"]
    if len(given) == 2:
        by_blas = optimize or is_by_blas(subscripts, own[0].size * own[1].size)
        path = ", optimize=['einsum_path', (0, 1)]" if by_blas else ""
    else:
        path = f", optimize={definitions.literal(optimize)}" if optimize and len(given) > 2 else ""
    return f"np.einsum({subscripts!r}, {', '.join(given)}{path})"


@text(SUM_OF_PRODUCTS)
def _vecdot(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str | None:
    return f"np.vecdot({', '.join(given)})" if own[0].dtype.kind != "c" else None


@text(GETITEM)
def _getitem(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str | None:
    index = equation.params["index"]
    return f"{given[0]}[{index_text(index)}]" if is_basic(index) else None


@text(GATHER)
def _gather(equation: Equation, given: Sequence[str], own: Sequence[ArraySpec], definitions: Definitions) -> str:
    return f"{given[0]}[{index_text(fill(equation.params['template'], tuple(given[1:])))}]"


def index_text(index: Any) -> str:
    """Return the text between brackets for an index of integers, slices, `None`, an ellipsis and texts of arrays."""
    parts = [_part_text(part) for part in (index if type(index) is tuple else (index,))]
    return f"{parts[0]}," if type(index) is tuple and len(parts) == 1 else ", ".join(parts) or "()"


def _part_text(part: Any) -> str:
    if type(part) is slice:
        bounds = ["" if bound is None else str(int(bound)) for bound in (part.start, part.stop, part.step)]
        return ":".join(bounds if bounds[2] else bounds[:2])
    return "..." if part is Ellipsis else str(part)


def placed_lines(
    equation: Equation, name: str, given: Sequence[str], specs: Sequence[ArraySpec], definitions: Definitions
) -> list[str] | None:
    """Return the lines that put pieces into parts of a zero array; `None` if the equation is no scatter with basic indices.

    Args:
        equation: any equation.
        name: the name of the result.
        given: texts of the inputs.
        specs: the specs of all slots.
        definitions: the definitions in front of the text.
    """
    if equation.primitive is ADD_PIECE:
        return _piece_lines(equation, name, given, specs, definitions)
    if equation.primitive is not SCATTER:
        return None
    indices, shape, dtype = (equation.params[key] for key in ("indices", "shape", "dtype"))
    own = _specs_of(equation, specs) or ()
    like = next((text for text, spec in zip(given, own, strict=False) if spec.shape), None)
    if not own or not all(map(is_basic, indices)):
        return None
    like = "" if like is None else f", like={like}"
    put = "=" if are_disjoint([IndexMap.of(shape, index) for index in indices]) else "+="
    lines = [f"{name} = np.zeros({definitions.literal(shape)}, {definitions.literal(dtype)}{like})"]
    return lines + [f"{name}[{index_text(index)}] {put} {piece}" for index, piece in zip(indices, given, strict=True)]


def _piece_lines(
    equation: Equation, name: str, given: Sequence[str], specs: Sequence[ArraySpec], definitions: Definitions
) -> list[str] | None:
    """Return the lines that assign a piece at index arrays if no element is known to repeat, else `None`."""
    own, template = _specs_of(equation, specs), equation.params["template"]
    if own is None or any(part != "i" for part in template):
        return None
    arrays = tuple([s.value if isinstance(s, Constant) else spec for s, spec in zip(equation.inputs, own, strict=True)][1:])
    try:
        if not IndexMap.of(equation.params["shape"], fill(template, arrays)).is_injective:
            return None
    except IndexError:  # a constant index is out of bounds: the call raises
        return None
    shape, dtype = (definitions.literal(equation.params[key]) for key in ("shape", "dtype"))
    return [f"{name} = np.zeros({shape}, {dtype})", f"{name}[{', '.join(given[1:])}] = {given[0]}"]
