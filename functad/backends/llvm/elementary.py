"""The elementary functions by the names of NumPy and of `scipy.special`, as functions of LLVM that are always inlined.

A row is a formula that holds everywhere. Where that is slow for the sake of arguments that hardly occur, such as angles above
2^30, there is a quick formula too, and a condition that says where it does not hold: a loop may compute blocks by the quick
one, gather the condition, and repeat the few blocks that need it by the other.

Formulas are written in float64. For float32 they are computed in float64 with shorter polynomials, and rounded once;
those that loops are full of are formulas of either precision.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from functad.backends.llvm import (
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
from functad.backends.llvm.values import SUFFIX, Body, Value

FORMS = ("formula", "quick", "beyond")


class Elementary(NamedTuple):
    """How a function is computed.

    Attributes:
        formula: the value by the arguments, wherever they are.
        arguments: how many there are.
        quick: the value where `beyond` is not true.
        beyond: whether the quick formula does not hold.
        native: the forms that are computed in the precision of the arguments, without a detour through float64.
        brief: `True` if it takes a few instructions, which are written in place of a call.
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


class Definition(NamedTuple):
    """The text of a function, and of what it needs outside of itself: declarations, which a module has once each."""

    symbol: str
    text: str
    declarations: tuple[str, ...]


@cache
def definition(name: str, kind: str, *, fused: bool, form: str = "formula") -> Definition:
    """Return one form of a function for a type, as LLVM's text.

    Args:
        name: of the function, a key of `ELEMENTARY`.
        kind: `double` or `float`.
        fused: the processor multiplies and adds in one instruction.
        form: `formula`, `quick` or `beyond`, the last of which gives a truth value.
    """
    row = ELEMENTARY[name]
    narrow = kind == "float" and form not in row.native
    body = Body(fused=fused, short=kind == "float")
    arguments = [Value(body, f"%x{i}", kind) for i in range(row.arguments)]
    result = getattr(row, form)(*([x.widened() for x in arguments] if narrow else arguments))
    if narrow and result.kind == "double":
        result = result.narrowed()
    symbol = f"@functad.{name}.{SUFFIX[kind]}" + ("" if form == "formula" else f".{form}")
    given = ", ".join(f"{x.kind} {x.name}" for x in arguments)
    lines = [
        f"define internal {result.kind} {symbol}({given}) alwaysinline nounwind {{",
        *body.lines,
        f"  ret {result.kind} {result.name}",
        "}",
    ]
    return Definition(symbol, "\n".join(lines), tuple(body.declarations))


GUARDED = """\
define {kind} {symbol}.called({given}) noinline nounwind {{
  %rare = call i1 {symbol}.beyond({given})
  br i1 %rare, label %apart, label %quick
apart:
  %slow = call {kind} {symbol}({given})
  ret {kind} %slow
quick:
  %fast = call {kind} {symbol}.quick({given})
  ret {kind} %fast
}}"""

CALLED = """\
define {kind} {symbol}.called({given}) noinline nounwind {{
  %value = call {kind} {symbol}({given})
  ret {kind} %value
}}"""


def called(name: str, kind: str, *, fused: bool) -> list[Definition]:
    """Return a function for code that is not vectorised, and what it consists of; the last one is what to call.

    It is called and not inlined, so that the time that code takes to compile does not grow with each of its calls. Where there
    is a quick formula it stands under a branch.

    Args:
        name: of the function, a key of `ELEMENTARY`.
        kind: `double` or `float`.
        fused: the processor multiplies and adds in one instruction.
    """
    row = ELEMENTARY[name]
    whole = definition(name, kind, fused=fused)
    given = ", ".join(f"{kind} %x{i}" for i in range(row.arguments))
    forms = [] if row.quick is None else [definition(name, kind, fused=fused, form=form) for form in ("quick", "beyond")]
    text = (GUARDED if forms else CALLED).format(kind=kind, symbol=whole.symbol, given=given)
    return [whole, *forms, Definition(f"{whole.symbol}.called", text, ())]


def declared(name: str, kind: str) -> Definition:
    """Return the declaration of what `called` defines, for a module that finds it in another one.

    Args:
        name: of the function, a key of `ELEMENTARY`.
        kind: `double` or `float`.
    """
    symbol = f"@functad.{name}.{SUFFIX[kind]}.called"
    kinds = ", ".join([kind] * ELEMENTARY[name].arguments)
    return Definition(symbol, f"declare {kind} {symbol}({kinds}) nounwind willreturn memory(none)", ())


def joined(definitions: list[Definition]) -> str:
    """Return the text of several definitions, each once, with what they need."""
    declarations = {line: None for part in definitions for line in part.declarations}
    return "\n".join([*declarations, *{part.text: None for part in definitions}])
