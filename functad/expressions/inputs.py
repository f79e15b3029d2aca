"""Validation of the arguments of an expression list."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import StructureError
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, spec_or_none
from functad.places import here
from functad.primitives.operands import foreign_rules
from functad.trees.structure import difference, flatten

_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
"""Rank of each kind of number. A Python number is accepted for dtypes of its own or a higher rank."""


_WIDEST = frozenset(PYTHON_SCALARS.values())


def fitting(expressions: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the leaves of the arguments of an expression list, converted to the expected specs.

    Shapes and dtypes must match the specs. A Python number is converted to an expected dtype of the same or a higher kind. A
    NumPy number is accepted for an expected Python number if the dtypes in the list stay the same.

    Raises:
        StructureError: the arguments do not match.
    """
    structure, names = expressions.input_structure, expressions.inputs
    leaves, own = flatten((args, kwargs))
    if own != structure:
        raise StructureError(
            f"an expression list was called with other arguments than it was made for ({', '.join(names) or 'none'}), at "
            f"{here()}: {difference(structure, own, '(args, kwargs)')}. Make a list for these with make_expressions."
        )
    for i, (leaf, spec) in enumerate(zip(leaves, expressions.specs, strict=False)):
        if type(leaf) is np.ndarray and leaf.shape == spec.shape and leaf.dtype == spec.dtype and not spec.weak:
            continue  # the common case
        if spec.weak and spec_or_none(leaf) == ArraySpec((), spec.dtype) and _WIDEST.issuperset(expressions._dtypes()):
            continue
        leaves[i] = _fitted(leaf, spec, names[i])
    return leaves


def _fitted(leaf: Any, spec: ArraySpec, name: str) -> Any:
    """Return a leaf converted to the expected spec.

    Raises:
        StructureError: a lossless conversion does not exist.
    """
    kind = type(leaf)
    if kind in PYTHON_SCALARS:
        given = PYTHON_SCALARS[kind]
        if spec.shape == () and _RANK[given.kind] <= _RANK[spec.dtype.kind] and (given.kind == "b") == (spec.dtype.kind == "b"):
            value = spec.dtype.type(leaf)
            return value.item() if spec.weak else value
    own = spec_or_none(leaf)
    if own is None:
        raise StructureError(
            f"an expression list that was made for {spec} as {name} was called with a {kind.__name__} there, at {here()}: "
            f"pass an array or a number."
        )
    if (reason := foreign_rules(leaf)) is not None:
        raise StructureError(
            f"an expression list that was made for {spec} as {name} was called with a {kind.__name__} there, at {here()}: "
            f"no array of NumPy's own. {reason}"
        )
    if own.shape == spec.shape and own.weak == spec.weak and own.dtype.newbyteorder("=") == spec.dtype:
        return leaf
    if own.weak and own.shape == spec.shape and own.dtype.kind == spec.dtype.kind:
        return leaf.astype(spec.dtype)  # a Tensor that represents a Python number
    raise StructureError(
        f"an expression list that was made for {spec} as {name} was called with {own} there, at {here()}: shapes, constants "
        f"and dtypes in it are those of {spec}. {_cure(own, spec)}"
    )


def _cure(own: ArraySpec, spec: ArraySpec) -> str:
    if own.shape != spec.shape:
        return "Make a list for this shape with make_expressions, or apply vmap to the list for a batch."
    if spec.weak:
        return f"It was made for a number of Python, which yields to the dtypes of arrays: pass {repr(spec)[:-2]}(x)."
    return f"Pass x.astype({spec.dtype.name!r}), or make a list for this dtype with make_expressions."
