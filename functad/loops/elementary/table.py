"""The table of elementary functions, by their names in NumPy and `scipy.special`, as functions of the loop IR.

Each row has a formula that is valid for all arguments. If rare arguments, such as angles above 2^30, make it slow, the row also
has a quick formula and a condition for the arguments that need the full formula. A loop may compute a block with the quick
formula, collect the condition, and repeat the few blocks that need the full formula.

Formulas are written in float64. For float32, they run in float64 with shorter polynomials, and the result is rounded once.
Formulas of common functions run in either precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from functad.loops.elementary import (
    digamma,
    error_functions,
    exponential,
    gamma,
    hyperbolic,
    logarithms,
    powers,
    rounding,
    trigonometric,
)
from functad.loops.ir import Allocate, Call, Function, If, Load, Node, Op, Store, Table
from functad.loops.values import Body, Value

FORMS = ("formula", "quick", "beyond")

SUFFIX = {"double": "f64", "float": "f32"}
"""The type suffixes in the symbols of functions."""


class Elementary(NamedTuple):
    """The formulas of a function.

    Attributes:
        formula: the formula for all arguments.
        arguments: the number of arguments.
        quick: the formula for arguments with `beyond` false.
        beyond: the condition under which `quick` is invalid.
        native: the forms that run in the precision of the arguments, without conversion to float64.
        brief: `True` if the function takes only a few instructions, which are always inlined.
    """

    formula: Callable[..., Value]
    arguments: int = 1
    quick: Callable[..., Value] | None = None
    beyond: Callable[..., Value] | None = None
    native: tuple[str, ...] = ()
    brief: bool = False


def _angle(formula: Callable[..., Value], quick: Callable[..., Value]) -> Elementary:
    return Elementary(formula, quick=quick, beyond=trigonometric.is_large, native=("quick", "beyond"))


def _division(formula: Callable[..., Value], quick: Callable[..., Value]) -> Elementary:
    return Elementary(formula, 2, quick, rounding.has_large_quotient)


def _brief(formula: Callable[..., Value], arguments: int = 1) -> Elementary:
    return Elementary(formula, arguments, native=FORMS, brief=True)


ELEMENTARY: dict[str, Elementary] = {
    "exp": Elementary(exponential.exp, native=FORMS),
    "exp2": Elementary(exponential.exp2),
    "expm1": Elementary(exponential.expm1, native=FORMS),
    "log": Elementary(logarithms.log, native=FORMS),
    "log2": Elementary(logarithms.log2),
    "log10": Elementary(logarithms.log10),
    "log1p": Elementary(logarithms.log1p, native=FORMS),
    "logaddexp": Elementary(logarithms.logaddexp, 2),
    "logaddexp2": Elementary(logarithms.logaddexp2, 2),
    "expit": Elementary(logarithms.logistic, native=FORMS),
    "log_expit": Elementary(logarithms.log_logistic),
    "sin": _angle(trigonometric.sin, trigonometric.sin_of_moderate),
    "cos": _angle(trigonometric.cos, trigonometric.cos_of_moderate),
    "tan": _angle(trigonometric.tan, trigonometric.tan_of_moderate),
    "arcsin": Elementary(trigonometric.arcsin),
    "arccos": Elementary(trigonometric.arccos),
    "arctan": Elementary(trigonometric.arctan),
    "arctan2": Elementary(trigonometric.arctan2, 2),
    "sinh": Elementary(hyperbolic.sinh),
    "cosh": Elementary(hyperbolic.cosh),
    "tanh": Elementary(hyperbolic.tanh, native=FORMS),
    "arcsinh": Elementary(hyperbolic.arcsinh),
    "arccosh": Elementary(hyperbolic.arccosh),
    "arctanh": Elementary(hyperbolic.arctanh),
    "erf": Elementary(error_functions.erf, native=FORMS),
    "erfc": Elementary(error_functions.erfc),
    "gammaln": Elementary(gamma.gammaln, quick=gamma.gammaln_of_moderate, beyond=gamma.is_extreme),
    "digamma": Elementary(digamma.digamma, quick=digamma.digamma_of_moderate, beyond=gamma.is_extreme),
    "power": Elementary(powers.power, 2),
    "cbrt": Elementary(powers.cbrt),
    "hypot": Elementary(powers.hypot, 2),
    "sqrt": _brief(powers.sqrt),
    "square": _brief(powers.square),
    "reciprocal": _brief(powers.reciprocal),
    "floor": _brief(rounding.floor),
    "ceil": _brief(rounding.ceil),
    "trunc": _brief(rounding.trunc),
    "rint": _brief(rounding.rint),
    "fmod": _division(rounding.fmod, rounding.fmod_of_moderate),
    "remainder": _division(rounding.remainder, rounding.remainder_of_moderate),
    "floor_divide": _division(rounding.floor_divide, rounding.floor_divide_of_moderate),
    "absolute": _brief(rounding.absolute),
    "sign": _brief(rounding.sign),
    "copysign": _brief(rounding.copysign, 2),
    "maximum": _brief(rounding.maximum, 2),
    "minimum": _brief(rounding.minimum, 2),
    "fmax": _brief(rounding.fmax, 2),
    "fmin": _brief(rounding.fmin, 2),
    "heaviside": _brief(rounding.heaviside, 2),
}
"""All functions by name."""


@dataclass(frozen=True, eq=False)
class Definition:
    """A function, and the tables that it reads."""

    function: Function
    tables: tuple[Table, ...] = ()


@cache
def definition(name: str, kind: str, *, fused: bool, form: str = "formula") -> Definition:
    """Return one form of a function for a type.

    Args:
        name: the function, a key of `ELEMENTARY`.
        kind: `double` or `float`.
        fused: `True` if the processor has a fused multiply-add instruction.
        form: `formula`, `quick` or `beyond`; `beyond` returns an `i1`.
    """
    row = ELEMENTARY[name]
    narrow = kind == "float" and form not in row.native
    body = Body(fused=fused, short=kind == "float")
    arguments = [Value(body, f"%x{i}", kind) for i in range(row.arguments)]
    result = getattr(row, form)(*([x.widened() for x in arguments] if narrow else arguments))
    if narrow and result.kind == "double":
        result = result.narrowed()
    symbol = f"@functad.{name}.{SUFFIX[kind]}" + ("" if form == "formula" else f".{form}")
    given = tuple([(x.kind, x.name) for x in arguments])
    whole = Function(symbol, given, tuple(body.nodes), (result.kind, result.name), local=True, inline="always")
    return Definition(whole, tuple(body.tables.values()))


def called_symbol(name: str, kind: str) -> str:
    """Return the symbol of the function that `called` defines."""
    return f"@functad.{name}.{SUFFIX[kind]}.called"


def called(name: str, kind: str, *, fused: bool) -> list[Definition]:
    """Return the definitions of a function for scalar code; the last definition is the function to call.

    The function is not inlined, so the compile time does not grow with the number of calls. If there is a quick formula, a
    branch selects the formula.

    Args:
        name: the function, a key of `ELEMENTARY`.
        kind: `double` or `float`.
        fused: `True` if the processor has a fused multiply-add instruction.
    """
    row = ELEMENTARY[name]
    whole = definition(name, kind, fused=fused)
    given = tuple([(kind, f"%x{i}") for i in range(row.arguments)])
    forms = [] if row.quick is None else [definition(name, kind, fused=fused, form=form) for form in ("quick", "beyond")]
    slow = Call("%slow", kind, whole.function.name, given)
    body: tuple[Node, ...] = (slow,)
    if forms:
        quick, beyond = forms
        body = (
            Allocate("%value", kind, 1),
            Call("%rare", "i1", beyond.function.name, given),
            If("%rare", (slow, Store(kind, "%value", "0", "%slow"))),
            Op("%usual", "xor", "i1", "i1", ("%rare", "1")),
            If("%usual", (Call("%fast", kind, quick.function.name, given), Store(kind, "%value", "0", "%fast"))),
            Load("%found", kind, "%value", "0"),
        )
    result = kind, "%found" if forms else "%slow"
    return [whole, *forms, Definition(Function(called_symbol(name, kind), given, body, result, inline="never"))]
