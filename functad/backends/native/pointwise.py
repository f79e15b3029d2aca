"""Elementwise functions: arithmetic, comparisons, elementary functions, selections."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.backends.native.lowering import Lowered, Pointwise, row
from functad.expressions.expressions import Constant, Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code
from functad.loops.elementary.table import ELEMENTARY
from functad.loops.ir import REALS
from functad.loops.values import BITS, Value, where
from functad.primitives.elementwise.conversion import ASTYPE, ASTYPE_INTEGER, COPY
from functad.primitives.elementwise.selection import DROPPED, KEPT, WHERE
from functad.primitives.elementwise.special import SOFTMAX_FIRST
from functad.primitives.entry import ENTRIES, Primitive
from functad.primitives.reductions.over_axes import SELECTED
from functad.primitives.reductions.statistics import ROOT
from functad.primitives.safe import MENDED, PRODUCT, QUOTIENT
from functad.primitives.table import Table
from functad.transforms.grad import STOP

Formula = Callable[..., Value]

PYTHON = {"i": int, "f": float, "c": complex}

NAMES = {"psi": "digamma"}
"""SciPy functions with another name in `ELEMENTARY`."""


def dtypes_of(ufunc: np.ufunc, specs: Sequence[ArraySpec]) -> list[np.dtype[Any]] | None:
    """Return the operand dtypes and the result dtype of a ufunc's loop; `None` if there is none."""
    given: list[Any] = [PYTHON.get(spec.dtype.kind, spec.dtype) if spec.weak else spec.dtype for spec in specs]
    try:
        found = list(ufunc.resolve_dtypes((*given, None)))
        if all(dtype.kind != "O" for dtype in found):
            return found
        return list(ufunc.resolve_dtypes((*[spec.dtype for spec in specs], None)))  # NumPy compares Python numbers as objects
    except TypeError:
        return None


# Formulas of ufuncs

FORMULAS: Table[Formula] = Table()
"""The formulas of ufuncs that are not elementary functions of the loop IR."""

formula: Callable[..., Callable[[Formula], Formula]] = FORMULAS.add


def _truth(code: Code, x: Value) -> Value:
    return code.cast(x, "i1")


@formula(np.maximum, "at_least")
def larger(code: Code, x: Value, y: Value) -> Value:
    """Return the larger of two numbers."""
    if x.kind == "i1":
        return x | y
    return code.elementary("maximum", x, y) if x.is_real else where(x > y, x, y)


@formula(np.minimum, "at_most")
def smaller(code: Code, x: Value, y: Value) -> Value:
    """Return the smaller of two numbers."""
    if x.kind == "i1":
        return x & y
    return code.elementary("minimum", x, y) if x.is_real else where(x < y, x, y)


@formula(np.absolute, np.fabs)
def _absolute(code: Code, x: Value) -> Value:
    return abs(x) if x.is_real else where(x < 0, -x, x) if x.kind != "i1" else x


@formula(np.sign)
def _sign(code: Code, x: Value) -> Value:
    if x.is_real:
        return code.elementary("sign", x)
    return where(x > 0, x.like(1), where(x < 0, x.like(-1), 0))


@formula(np.floor_divide)
def _floor_divide(code: Code, x: Value, y: Value) -> Value:
    if x.is_real:
        return code.elementary("floor_divide", x, y)
    return _whole_division(x, y)[0]


@formula(np.remainder)
def _remainder(code: Code, x: Value, y: Value) -> Value:
    if x.is_real:
        return code.elementary("remainder", x, y)
    return _whole_division(x, y)[1]


def _whole_division(x: Value, y: Value) -> tuple[Value, Value]:
    """Return the quotient, rounded down, and the remainder; both are 0 for a division by zero, as in NumPy."""
    none, turned = y.equals(0), y.equals(-1)  # the least integer divided by -1 overflows
    safe = where(none | turned, y.like(1), y)
    quotient = x / safe
    rest = x - quotient * safe
    down = (~rest.equals(0)) & ((rest < 0) ^ (y < 0))
    quotient, rest = where(down, quotient - 1, quotient), where(down, rest + y, rest)
    quotient, rest = where(turned, -x, quotient), where(turned, x.like(0), rest)
    return where(none, x.like(0), quotient), where(none, x.like(0), rest)


@formula(np.multiply)
def _multiplied(code: Code, x: Value, y: Value) -> Value:
    return x & y if x.kind == "i1" else x * y


def _shifted(code: Code, x: Value, y: Value, how: str) -> Value:
    """Shift bits; a shift beyond the width leaves only the sign, as in NumPy."""
    bits = BITS[x.kind]
    inside = (y >= 0) & (y < bits)
    found = code.emit(how, x.kind, x, where(inside, y, 0))
    beyond = where(x < 0, x.like(-1), 0) if how == "ashr" else x.like(0)
    return where(inside, found, beyond)


def _times_log(code: Code, x: Value, y: Value, name: str) -> Value:
    """Return `x log(y)`, and 0 if x is 0 and y is not NaN."""
    return where(x.equals(0.0) & ~y.is_nan(), 0.0, x * code.elementary(name, y))


formula(np.add)(lambda code, x, y: x | y if x.kind == "i1" else x + y)
formula(np.subtract)(lambda code, x, y: x - y)
formula(np.divide)(lambda code, x, y: x / y)
formula(np.negative)(lambda code, x: -x)
formula(np.positive, np.conjugate, np.real)(lambda code, x: x)
formula(np.square)(lambda code, x: x * x)
formula(np.fmax)(lambda code, x, y: code.elementary("fmax", x, y) if x.is_real else larger(code, x, y))
formula(np.fmin)(lambda code, x, y: code.elementary("fmin", x, y) if x.is_real else smaller(code, x, y))
formula(np.less)(lambda code, x, y: x < y)
formula(np.less_equal)(lambda code, x, y: x <= y)
formula(np.greater)(lambda code, x, y: x > y)
formula(np.greater_equal)(lambda code, x, y: x >= y)
formula(np.equal)(lambda code, x, y: x.equals(y))
formula(np.not_equal)(lambda code, x, y: ~x.equals(y))
formula(np.logical_and)(lambda code, x, y: _truth(code, x) & _truth(code, y))
formula(np.logical_or)(lambda code, x, y: _truth(code, x) | _truth(code, y))
formula(np.logical_xor)(lambda code, x, y: _truth(code, x) ^ _truth(code, y))
formula(np.logical_not)(lambda code, x: ~_truth(code, x))
formula(np.bitwise_and)(lambda code, x, y: x & y)
formula(np.bitwise_or)(lambda code, x, y: x | y)
formula(np.bitwise_xor)(lambda code, x, y: x ^ y)
formula(np.invert)(lambda code, x: ~x)
formula(np.isnan)(lambda code, x: x.is_nan() if x.is_real else ~x.equals(x))
formula(np.isinf)(lambda code, x: abs(x).equals(math.inf) if x.is_real else ~x.equals(x))
formula(np.isfinite)(lambda code, x: abs(x) < math.inf if x.is_real else x.equals(x))
formula(np.signbit)(lambda code, x: x.bits < 0)
formula(np.deg2rad, np.radians)(lambda code, x: x * (math.pi / 180.0))
formula(np.rad2deg, np.degrees)(lambda code, x: x * (180.0 / math.pi))
formula(np.left_shift)(lambda code, x, y: _shifted(code, x, y, "shl"))
formula(np.right_shift)(lambda code, x, y: _shifted(code, x, y, "ashr"))
formula("special.xlogy")(lambda code, x, y: _times_log(code, x, y, "log"))
formula("special.xlog1py")(lambda code, x, y: _times_log(code, x, y, "log1p"))

COMPARISONS = ("less", "less_equal", "greater", "greater_equal")


def _formula(primitive: Primitive, kinds: Sequence[str]) -> Formula | None:
    """Return the formula of a ufunc for operands of the types of one of its loops; `None` if there is none."""
    kind, name, found = kinds[0], primitive.function.__name__, FORMULAS.find(primitive)
    if found is not None:
        return found
    name = "power" if name == "float_power" else NAMES.get(name, name)
    if name in ("floor", "ceil", "trunc", "rint") and kind not in REALS:
        return (lambda code, x: x) if name != "rint" else None
    if name in ELEMENTARY and kind in REALS:
        return lambda code, *xs: code.elementary(name, *xs)
    return None


def ufunc_row(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    """Lower a ufunc to an elementwise formula."""
    ufunc = equation.primitive.function
    dtypes = dtypes_of(ufunc, given)
    if dtypes is None or len(dtypes) != len(given) + 1 or any(dtype not in KINDS for dtype in dtypes):
        return None
    if dtypes[-1] != results[0].dtype:  # True + True is 2 for Python
        return None
    name = ufunc.__name__
    kinds = [KINDS[dtype] for dtype in dtypes[:-1]]
    if name == "power":
        return _power(equation, kinds, KINDS[dtypes[-1]])
    formula = _formula(equation.primitive, kinds)
    if formula is None:
        return None
    if name in COMPARISONS and kinds[0] == "i1":
        kinds = ["i64"] * 2
    return Pointwise(kinds, KINDS[dtypes[-1]], formula, equation.primitive.cost)


def has_formula(primitive: Primitive) -> bool:
    """Return `True` if a ufunc has a formula for real numbers, integers or booleans."""
    ufunc = primitive.function
    return ufunc is np.power or any(_formula(primitive, [kind] * ufunc.nin) is not None for kind in KINDS.values())


def _power(equation: Equation, kinds: Sequence[str], result: str) -> Lowered | None:
    """Lower a power; small constant exponents become products, as in NumPy."""
    exponent = equation.inputs[1]
    value = exponent.value if isinstance(exponent, Constant) and np.ndim(exponent.value) == 0 else None
    for known, formula in _POWERS.items():
        if value is not None and type(value) is not bool and value == known and (known in (1, 2, 3) or kinds[0] in REALS):
            return Pointwise(kinds, result, formula, 2.0)
    if kinds[0] not in REALS:
        return None
    return Pointwise(kinds, result, lambda code, x, y: code.elementary("power", x, y), 40.0)


_POWERS: dict[float, Formula] = {
    1: lambda code, x, y: x,
    2: lambda code, x, y: x * x,
    3: lambda code, x, y: x * x * x,
    -1: lambda code, x, y: x.like(1.0) / x,
    0.5: lambda code, x, y: x.sqrt(),
}


# Products in which zero times anything is zero, selections, conversions


def _kinds(given: Sequence[ArraySpec], result: ArraySpec) -> list[str]:
    return [KINDS[result.dtype]] * len(given)


def _is_harmless(source: Any) -> bool:
    """Return `True` if a factor is a constant that is finite and nonzero."""
    if not isinstance(source, Constant):
        return False
    value = np.asarray(source.value)
    return value.dtype.kind in "fiub" and bool(np.all(np.isfinite(value) & (value != 0)))


@row(PRODUCT)
def _product(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    def formula(code: Code, x: Value, y: Value) -> Value:
        out = x * y
        return where(out.is_nan() & (x.equals(0.0) | y.equals(0.0)), 0.0, out) if out.is_real else out

    if any(map(_is_harmless, equation.inputs)):
        return Pointwise(_kinds(given, results[0]), KINDS[results[0].dtype], _multiplied)
    return Pointwise(_kinds(given, results[0]), KINDS[results[0].dtype], formula, 3.0)


@row(QUOTIENT)
def _quotient(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    def formula(code: Code, x: Value, y: Value) -> Value:
        out = x / y
        return where(out.is_nan() & x.equals(0.0), 0.0, out)

    return Pointwise(_kinds(given, results[0]), KINDS[results[0].dtype], formula, 6.0)


@row(SOFTMAX_FIRST)
def _softmax_first(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind = KINDS[results[0].dtype]

    def formula(code: Code, x: Value, y: Value) -> Value:
        difference = y - x
        difference = where(difference.is_nan() & x.equals(y), 0.0, difference)
        return 1.0 / (code.elementary("exp", difference) + 1.0)

    return Pointwise(_kinds(given, results[0]), kind, formula, equation.primitive.cost)


@row(ROOT)
def _root(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind = KINDS[results[0].dtype]
    return Pointwise([kind], kind, lambda code, x: x.sqrt(), equation.primitive.cost) if kind in REALS else None


@row(MENDED)
def _mended(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kinds = [KINDS[spec.dtype] for spec in given]
    if kinds[0] not in REALS or np.broadcast_shapes(*[s.shape for s in given]) != results[0].shape:
        return None

    def formula(code: Code, x: Value, y: Value) -> Value:
        return where(x.is_nan() & y.equals(0.0 if y.is_real else 0), 0.0, x)

    return Pointwise(kinds, kinds[0], formula, 2.0)


def _masked(kept: bool) -> Any:
    def made(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
        kind = KINDS[results[0].dtype]

        def formula(code: Code, g: Value, mask: Value) -> Value:
            zero = g.like(0.0 if g.is_real else 0)
            return where(mask, g, zero) if kept else where(mask, zero, g)

        return Pointwise([kind, "i1"], kind, formula)

    return made


row(KEPT)(_masked(kept=True))
row(DROPPED)(_masked(kept=False))


@row(WHERE)
def _where(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind = KINDS[results[0].dtype]
    return Pointwise(["i1", kind, kind], kind, lambda code, c, x, y: where(c, x, y))


@row(SELECTED)
def _selected(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind = KINDS[np.result_type(*[spec.dtype for spec in given])]

    def formula(code: Code, a: Value, out: Value) -> Value:
        return a.equals(out) | (a.is_nan() & out.is_nan()) if a.is_real else a.equals(out)

    return Pointwise([kind, kind], "i1", formula, 2.0)


@row(ASTYPE, ASTYPE_INTEGER)
def _astype(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind = KINDS[given[0].dtype]
    return Pointwise([kind], KINDS[results[0].dtype], lambda code, x: code.cast(x, KINDS[results[0].dtype]))


@row(COPY, STOP)
def _same(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind = KINDS[given[0].dtype]
    return Pointwise([kind], kind, lambda code, x: x)


@row(ENTRIES[np.clip])
def _clip(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if equation.params or len(given) != 3:
        return None
    return Pointwise(
        _kinds(given, results[0]),
        KINDS[results[0].dtype],
        lambda code, a, low, high: smaller(code, larger(code, a, low), high),
        4.0,
    )
