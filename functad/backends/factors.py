"""Solve systems with a Cholesky factor as matrix by substitution in BLAS, without a second factorization.

The diagonal of a Cholesky factor has no zero, so no check for singular matrices is needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from functad.backends.native.products.blas import PREFIX, routines
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.arranging.reshape import TRANSPOSE
from functad.primitives.entry import ENTRIES, Primitive
from functad.primitives.linalg.decompositions import CHOLESKY
from functad.primitives.linalg.solve import SOLVE

TRIL, TRIU = ENTRIES[np.tril], ENTRIES[np.triu]

_ROWS, _LEFT, _PLAIN, _TURNED, _UPPER, _LOWER, _ANY_DIAGONAL = 101, 141, 111, 112, 121, 122, 131
"""CBLAS constants: row-major order, left side, no transpose, transpose, upper, lower, non-unit diagonal."""


def substituted(a: Any, b: Any, *, lower: bool) -> Any:
    """Solve `a x = b` for a triangular matrix without zeros on its diagonal."""
    if not (type(a) is type(b) is np.ndarray) or a.ndim != 2 or b.ndim != 2 or a.dtype != b.dtype or not b.size:
        return np.linalg.solve(a, b)
    size = a.itemsize
    turned = a.strides[1] != size and a.strides[0] == size
    if not turned and (a.strides[1] != size or a.strides[0] < size * len(a)):
        a = np.ascontiguousarray(a)
    out = np.array(b, order="C")
    solve, length = _substitution(a.dtype.char)
    triangle = _LOWER if lower != turned else _UPPER  # the triangle in memory
    places = a.ctypes.data, length(a.strides[1 if turned else 0] // size), out.ctypes.data, length(out.shape[1])
    rows, columns = map(length, out.shape)
    solve(_ROWS, _LEFT, triangle, _TURNED if turned else _PLAIN, _ANY_DIAGONAL, rows, columns, 1.0, *places)
    return out


@lru_cache
def _substitution(letter: str) -> tuple[Callable[..., None], Any]:
    """Return the BLAS routine `trsm` for a dtype, and the ctypes type of its sizes."""
    found = routines()
    assert found is not None
    length = ctypes.c_int64 if found.length == "i64" else ctypes.c_int32
    number = ctypes.c_double if letter == "d" else ctypes.c_float
    place, word = ctypes.c_void_p, ctypes.c_int
    kind = ctypes.CFUNCTYPE(None, word, word, word, word, word, length, length, number, place, length, place, length)
    return kind(found.addresses[f"{PREFIX}{'d' if letter == 'd' else 's'}trsm"]), length


TRIANGULAR_SOLVE = Primitive(
    substituted,
    kind="general",
    names=("a", "b"),
    compute=substituted,
    vjps=(),
    doc="",
    samples=None,
    name="triangular_solve",
    fresh=True,
    registered=False,
)


class Factors:
    """The values of a list that are Cholesky factors or their transposes.

    Attributes:
        is_lower: maps the slot of a factor to `True` if the factor is lower triangular.
    """

    def __init__(self) -> None:
        self.is_lower: dict[int, bool] = {}

    def note(self, equation: Equation) -> None:
        """Record the result of an equation if the result is a factor."""
        source = equation.inputs[0] if equation.inputs else None
        if equation.primitive is CHOLESKY:
            self.is_lower[equation.outputs[0]] = True
        elif equation.primitive is TRANSPOSE and source in self.is_lower:
            axes = equation.params["axes"]
            if axes is not None and [*axes[:-2]] == [*range(len(axes) - 2)] and axes[-1] < axes[-2]:
                self.is_lower[equation.outputs[0]] = not self.is_lower[source]

    def is_whole(self, equation: Equation) -> bool:
        """Return `True` if an equation is a `tril` or `triu` that leaves a factor unchanged."""
        [source, *_] = equation.inputs or (None,)
        lower = self.is_lower.get(source)  # type: ignore[arg-type]
        k = equation.params.get("k", 0)
        return (equation.primitive is TRIL and lower is True and k >= 0) or (
            equation.primitive is TRIU and lower is False and k <= 0
        )

    def by_substitution(self, equation: Equation, spec: ArraySpec) -> Equation:
        """Return the triangular solve of a system with a factor as matrix, else `equation`.

        Args:
            equation: an equation.
            spec: the spec of its result.
        """
        if equation.primitive is not SOLVE or equation.inputs[0] not in self.is_lower:
            return equation
        if routines() is None or spec.dtype.char not in "fd" or not spec.dtype.isnative or not spec.size:
            return equation
        lower = self.is_lower[equation.inputs[0]]
        return Equation(TRIANGULAR_SOLVE, equation.inputs, {"lower": lower}, equation.outputs)


def by_substitution(expressions: Expressions) -> Expressions:
    """Return the list with a triangular solve in place of each system with a Cholesky factor as matrix."""
    if not any(e.primitive is CHOLESKY for e in expressions.equations):
        return expressions
    factors, moved, equations = Factors(), dict[int, Any](), list[Equation]()
    for equation in expressions.equations:
        inputs = tuple([moved.get(s, s) if type(s) is int else s for s in equation.inputs])
        own = Equation(equation.primitive, inputs, equation.params, equation.outputs)
        factors.note(own)
        if factors.is_whole(own):
            moved[own.outputs[0]] = own.inputs[0]
        else:
            equations.append(factors.by_substitution(own, expressions.specs[own.outputs[0]]))
    outputs = tuple([moved.get(s, s) if type(s) is int else s for s in expressions.outputs])
    return expressions.replace(equations=tuple(equations), outputs=outputs)
