"""The lines of random programs that test the limits of `jit`.

Values may be of any dtype, infinite or NaN. The lines use Python integers beyond int64, writes to 0-d arrays and views,
booleans with bytes other than 0 and 1, foreign byte order, loops of zero and one step, unused results, static arguments, and
values read from globals, attributes, dicts and nested functions. Branches, loops, masks and sizes depend on values.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from functad.testing.programs.drafts import Choose, Draft, Impossible, broadcasts, listed

PRELUDE = """
import math
from types import SimpleNamespace

import functad as F

box = SimpleNamespace()
table = {}


def compiled(f, **options):
    return f


def store(place, value):
    '''Put a value in the place that the program reads.'''
    if place == "box.w":
        box.w = value
    elif place == "table['w']":
        table["w"] = value
    elif place == "nested()":
        globals()["nested"] = nest(value)
    else:
        globals()["stored"] = value


def nest(value):
    '''Return a function that calls a function that reads a value.'''

    def outer():
        def inner():
            return value

        return inner()

    return outer


def captured(f, place, value, args):
    '''Return value and gradient of a call with respect to a value that the function reads.'''

    def reads(w):
        store(place, w)
        return total(f(*args))

    return F.value_and_grad(reads)(value)


def halved(x, most):
    '''Halve a value until it is small, in at most nine steps.'''
    steps = 0
    while np.sum(np.abs(x)) > most:
        x, steps = x * 0.5, steps + 1
        if steps > 8:
            break
    return x


def first_above(x, level):
    '''Return the first of six elements above a level, times its position.'''
    for k, v in enumerate(np.ravel(x)[:6]):
        if v > level:
            return v * k
    return 0.5


def alternating(x):
    '''Return a sum over the positive ones of six elements, with a sign that each zero and each large element changes.'''
    total, sign = 0.0, 1
    for v in np.ravel(x)[:6]:
        if v < 0:
            continue
        if v == 0 or abs(v) > 2:
            sign = -sign
        total = total + sign * v
    return total


def is_float(x):
    return isinstance(x, float) or (hasattr(x, "dtype") and x.dtype.kind == "f")


def total(y):
    '''Return a weighted sum of all floating-point results.'''
    parts = [np.sum(leaf * (1.0 + 0.5 * i)) for i, leaf in enumerate(F.tree_leaves(y)) if is_float(leaf)]
    return sum(parts, 0.0)


def floats(args):
    '''Return the positions of floating-point arguments.'''
    return tuple([i for i, x in enumerate(args) if is_float(x)])


def others(args):
    '''Return arguments of the same kinds with other values.'''
    return [x * 0.75 if type(x) is float else (x * x.dtype.type(0.75) if is_float(x) else x) for x in args]


def gaps(args):
    '''Return the same arguments with gaps between their elements.'''
    return [np.repeat(x, 2, axis=-1)[..., ::2] if isinstance(x, np.ndarray) and x.ndim else x for x in args]
"""
"""The functions that a case uses."""

PLACES = ("stored", "box.w", "table['w']", "nested()")
"""The expressions that read a captured value."""

STORED = "np.array([1.0, -0.5, 2.0])"
"""The source text of the captured value."""

LIMITS = (
    *("0", "1", "-1", "2", "3", "7", "127", "128", "-129", "255", "256", "2**15", "2**31 - 1", "2**31", "-2**31", "-2**31 - 1"),
    *("2**32", "2**53", "2**53 + 1", "2**62", "2**63 - 1", "2**63", "-2**63", "-2**63 - 1", "2**64 - 1", "2**64", "2**64 + 1"),
    *("-2**64", "2**70", "10**30", "math.factorial(21)", "10**400"),
)
"""Python integers at the borders of NumPy's integer types and of float64."""

NUMBERS = ("2.0", "0.0", "-0.0", "np.inf", "np.nan", "True", "3", "2**31", "2**40", "2**63", "-2**63", "2**64", "10**30")
"""Arguments that are Python numbers."""

SPECIAL = ("0.0", "-0.0", "np.inf", "-np.inf", "np.nan", "1.0", "-2.5", "0.5", "1e300", "1e-310", "3.0", "0.25", "-1.5")
DTYPES = (
    *("float64", "float64", "float64", "float64", "float32", "int64", "int32", "int8", "uint8", "uint64"),
    *("bool", "bool", "float16", "complex128", "complex64", "int16"),
)
SHAPES = ((3,), (3,), (), (1,), (2, 3), (5,), (40,), (4, 3), (0,), (3, 1), (20,), (2, 2, 3), (300,))
LAYOUTS = (
    *("{0}", "{0}", "{0}", "{0}", "np.asfortranarray({0})", "np.repeat({0}, 2, axis=-1)[..., ::2]", "{0}[::-1]"),
    *("{0}.astype({0}.dtype.newbyteorder())", "np.broadcast_to({0}[:1], {1})"),
)

STATIC = (
    *(("2", "2.0", "2"), ("1", "True", "1.0"), ("0.0", "-0.0", "0", "False"), ("np.float32(2)", "np.float64(2)", "2")),
    *(("np.nan", "2.0", "np.nan"), ("2**63", "float(2**63)"), ("np.int64(3)", "3", "np.int8(3)")),
)
STATIC_TUPLES = (("(1, 0.0)", "(True, -0.0)", "(1.0, 0)"), ("(2, (3,))", "(2.0, (3.0,))"))
"""Static values that compare equal, for successive calls."""

INTEGERS = listed("""
    {a} + {limit}; {a} * {limit}; {limit} - {a}; {a} / {limit}; {limit} / {a}; {a} // {limit}; {a} % {limit}
    np.where({a} > 0, {limit}, {a}); np.where({a} > 0, {a}, {limit}); {a} < {limit}; {limit} == {a}; {a} >= {limit}
    np.maximum({a}, {limit}); np.clip({a}, {limit}, None); np.add({a}, {limit}); np.multiply({limit}, {a})
    np.full({shape}, {limit}) + {a}; np.full_like({a}, {limit}); {a} ** {2|3|0|-1}; {a} & {limit}; {a} | {limit}
    {a} ^ {limit}; ~{a}; {a} << {3|0|70}; {a} >> 1; -{a}; abs({a}); +{a}; np.isfinite({limit}) * {a}; np.sign({limit}) * {a}
    np.array({limit}) * {a}; np.float64({limit}) * {a}; np.fmod({a}, {limit}); np.arctan2({a}, {limit})
    np.copysign({a}, {limit}); np.hypot({limit}, {a}); np.logaddexp({a}, {limit}); np.minimum({limit}, {limit}) * {a}
    ({limit}) * ({limit}) * {a}; {a} * {a} + 1; {a} * ({a} - {limit}); ({a} + {limit}) - {limit}; {a} - {limit} == {a}
    np.square({a}); np.negative({a}); np.reciprocal({a}); {a}.astype(np.{float64|int64|int8|uint64|float32|bool_})
    divmod({a}, {limit}); np.sum({a} * {limit}); np.full(3, {limit}) * {a}
""")
ELEMENTWISE = listed("""
    np.{sqrt|exp|log|sin|abs|sign|isnan|isfinite|square|negative|tanh|log1p|signbit|conj|real|floor|logical_not}({a})
    np.{isinf|cbrt|expm1|sinh|arctan|rint|spacing|exp2|imag|angle|nan_to_num|degrees|invert|positive|fabs}({a})
    np.{add|subtract|multiply|divide|maximum|minimum|fmax|fmin|hypot|arctan2|copysign|logaddexp|fmod}({a}, {b})
    np.{remainder|floor_divide|heaviside|nextafter|greater|equal|logical_and|bitwise_and|float_power|gcd}({a}, {b}); {a} * {b}
    {a} - {b}; {a} / {b}; {a} + {b}; {a} @ {b}; {a} % {b}; {a} // {b}; np.power({a}, {2|0.5|3}); np.left_shift({a}, 3)
    {a} == {b}; {a} < {b}; ({a} > 0) * {a}; np.where({a} > 0, {a}, 0); np.where({a} == 0, 0, {b} / {a})
    np.where({a} > 0, np.sqrt({a}), {b}); 0 * {a}; 1 / {a}; {a} * 0.0; {a} - {a}; {a} / {a}; np.clip({a}, -1, 1); {a} * 1j
    np.maximum({a}, 0.0); abs({a})
""")
# np.arctan2 is not reduced: NumPy 2.4 loses partial results in some layouts, and gives arctan2(5, 5) for three 5s.
REDUCTIONS = listed("""
    np.{sum|prod|max|min|mean|any|all|argmax|argmin|cumsum|cumprod|count_nonzero|nansum|std|var|ptp|nanmax}({a})
    np.{sum|prod|max|min|mean|any|all|argmax|cumsum|cumprod|nansum|nanprod|median|sort|flip|diff}({a}, axis={axis})
    {a}.{sum|prod|max|min|mean|any|all|cumsum}(); np.sum({a}, dtype=np.{float64|int64|float32})
    np.{add|logaddexp|hypot|multiply|maximum}.reduce({a})
    np.{add|multiply|maximum|logaddexp|hypot|divide|minimum}.reduceat({a}, [0, {in_first}]); np.einsum('...i->...', {a})
    np.einsum('...i,...i->...', {a}, {same}); np.dot({a}, {same}.T); np.vdot({a}, {same}); np.linalg.norm({a}); np.trace({a})
""")
BOOLEANS = listed("""
    np.where({m}, {v}, 0); np.where({m}, 1.0, 0.0); {m} & {m}; {m} | {n}; {m} ^ {n}; ~{m}; {m}.astype(float); {m} * {v}
    np.sum({m}); np.count_nonzero({m}); np.logical_and({m}, {n}); {m} + {n}; {m}.copy(); {m} == {n}; np.any({m})
    np.all({m}, axis=-1); np.mean({m}); {m} * 2; np.logical_not({m}); np.where({m} & {n}, {v}, {v} * 2)
    {m}.astype(np.int8) + {m}.astype(np.int8); np.concatenate([{m}.ravel(), {n}.ravel()]); {m}[::-1]; np.cumsum({m})
    np.maximum({m}, {n}); {m}.T; np.add({m}, {n}); {m} <= {n}; np.invert({m}); np.argmax({m}); np.sort({m}, axis=None)
    {m}.reshape(-1); np.multiply({m}, {n}); np.sum({v}, where={m}, initial=0)
""")
ZERO_D = listed("""
    {a}[{zeros}, ...]; {a}[{zeros}]; np.squeeze({a}.reshape(-1)[:1]); {a}.reshape(-1)[:1].reshape(()); {a}[..., 0]; {a}[0]
    {a}[0, ...]; {a}[...]; {a}[()]; {a}.T; np.transpose({a}); np.sum({a})[...]; {a}.reshape(-1)[0:1]; np.expand_dims({a}, 0)
    np.broadcast_to({a}, (2, *{shape})); np.ravel({a}); {a}.real; np.diagonal({a}, 0)[0, ...]; np.max({a})[()]; {a}.copy()
    np.atleast_1d({a}); {a}.ravel()[-1, ...] * 1; np.copy({a}); {a}.astype(float); np.asarray({a}, like={a})
    {a}.flatten()[1:2].squeeze()
""")
BUFFERS = listed("""
    np.copy({a}); {a}.copy(); {a} * 1; np.zeros_like({a}); np.full_like({a}, 1); np.array({a}, like={a})
    np.ones_like({a}) * {a}; {a}.reshape(-1)[:1].copy().reshape(()); np.asarray({a} + 0, like={a}); np.sum({a}, keepdims=True)
    {a}.flatten(); np.sin({a})
""")
BUFFER_VIEWS = listed("""
    {a}[{zeros}, ...]; np.squeeze({a}.reshape(-1)[:1]); {a}.reshape(-1)[:1].reshape(()); {a}[0, ...]; {a}[...]; {a}.T
    {a}[::-1]; {a}[-1:]; {a}.real; np.diagonal({a}); {a}.reshape(-1)[0:1]; np.expand_dims({a}, 0); {a}[..., 0]; {a}.view()
    np.ravel({a}); np.swapaxes({a}, 0, -1); {a}[()]; np.broadcast_to({a}, {shape}); np.squeeze({a}); {a}[None]
""")
WRITES = listed("""
    {a} *= 2; {a} += {fitting}; {a}[...] = {fitting}; {a}[()] = 1; {a} -= 1; np.multiply({a}, 2, out={a}); {a}.fill(3)
    np.copyto({a}, {fitting}); {a}[{zeros}] = 5; {a}[{zeros}] += {scalar}; {a}[...] *= 3; np.add({a}, {same}, out={a})
    {a}[0:1] = 0; {a}[{a} > 0] = 0; {a} /= 2; np.negative({a}, out={a}); {a}[()] *= 2; {a}[-1] = {limit}; {a} *= {limit}
    {a}[...] = {limit}; {a}[::2] += 1; np.exp({a}, out={a}); for i in range({steps}): {a} += i; np.add.at({a}, [0, 0], 1)
    {a}[{a} > 0] *= 2; {a}[{a} > 1] = {a}[{a} > 1] ** 2; {a}[{a} < 0] -= {same}[{a} < 0]; {a}[{a} == 0] = {scalar}
    np.put({a}, [0], 7); {a} **= 2; {a} //= 2; np.sum({same}, out={a})
""")
LOOPS = listed("""
    F.fori_loop({0|0|1|3}, {steps}, lambda i, c: {step}, {a})
    F.fori_loop(0, {steps}, lambda i, c: (c[1], c[0]), ({a}, {same}))
    F.fori_loop(0, {steps}, lambda i, c: (c[0] + c[1], c[1]), ({a}, {same}))
    F.scan(lambda c, x: ({step}, c), {a}, None, length={steps}); F.scan(lambda c, x: (c + x, c * x), {a}[0], {a})
    F.scan(lambda c, x: (c, x * 2), {a}, np.ones(({steps}, 2)))
    F.scan(lambda c, x: ({step}, c + 1), {a}, np.ones({steps}), reverse=True); F.map(lambda x: x * 2 + 1, {a})
    F.while_loop(lambda c: c[0] < {steps}, lambda c: (c[0] + 1, {step_1}), (0, {a}))[1]; F.associative_scan(np.add, {a})
    F.cond(np.sum({a}) > 0, lambda h: (h, h), lambda h: (0 * h, 0 * h), {a})
    F.scan(lambda c, x: ((c[1], c[0]), c[0]), ({a}, {same}), None, length={steps})[0]
    F.cond({scalar} > 0, lambda h: (h, 1 / h), lambda h: (0 * h, h), {a} * 1.0)
    F.switch({steps}, [lambda h: h, lambda h: h * 2], {a}); F.fori_loop(0, {steps}, lambda i, c: c + i, {a})
    F.fori_loop(0, {steps}, lambda i, c: c * i, {a})
    F.fori_loop(0, {steps}, lambda i, c: F.fori_loop(0, {steps}, lambda j, e: e + c, c), {a})
    sum([{a} for i in range({steps})], {a}); F.vmap(lambda x: x * 2)({a})
    F.vmap(lambda x, y: y + 1, in_axes=(0, None))({a}, {v}); F.checkpoint(lambda x: x * x)({a})
""")
# LAPACK may never return from the singular values of NaN. Compiled `qr` spreads NaN otherwise than LAPACK, see the limits.
SEVERAL = listed("""
    np.modf({a}); np.divmod({a}, {b}); np.frexp({a}); np.split({a}, [1])
    np.linalg.slogdet(np.atleast_2d({a})[:, :1].T * np.eye(1)); np.linalg.eigh(np.eye(2) * {scalar})
    np.linalg.qr(np.atleast_2d(np.clip(np.nan_to_num({a}), -9, 9)))
    np.linalg.svd(np.atleast_2d(np.clip(np.nan_to_num({a}), -9, 9)))
    np.array_split({a}, 2); np.broadcast_arrays({a}, {b})
    np.meshgrid(np.ravel({a})[:2], np.ravel({a})[:3]); np.gradient({a}); np.histogram({a}, 3, (0., 1.)); (0 * {a}, 1 / {a})
    np.linalg.eigh(np.outer({a}, {a})); np.unstack({a})
""")
VALUES = listed("""
    ({a} if np.sum({a}) > 0 else -{a}); ({a} * 2 if np.any({a} > 0.5) and {scalar} < 1 else {b}); halved({a}, {number})
    first_above({a}, {number}); alternating({a}); [{a}, {b}][int(np.sum({a} > 0) % 2)]; np.sum({a}[{a} > 0])
    np.sum({a}[{a} != 0] * {same}[{a} != 0]); np.max({a}[{a} > 0]); np.{sqrt|sin|log|reciprocal}({a}[{a} > 0]).sum()
    {a}[{a} < {b}].size; {a}[{a} > 0]; np.sort({a}[{a} > 0]); np.cumsum({a}[{a} < 1]); {a}[np.isfinite({a})].sum()
    np.sum({a}[({a} > 0) & ({a} < 2)] ** 2); {a}[np.nonzero({a} > 0)]; np.count_nonzero({a}[{a} > 0] > 1); np.argwhere({a} > 1)
    {a}[{a} > 0][{a}[{a} > 0] < 2].{sum|min|prod}(); np.where({a} > 0)[0]; {a}[np.sum(np.abs({a}), axis=-1) > 1].sum(axis=0)
    sum([{a} * k for k in range(np.count_nonzero({a} > 0) % 4)], {b}); {a}[:np.count_nonzero({a} > 0.5)]
    np.ravel({a})[np.argmax({a})]
    max(np.ravel({a})[:4]); min({a}, {b}); sorted(np.ravel({a})[:4])[0]; np.zeros(np.count_nonzero({a} > 0)); len({a}[{a} > 0])
    ({a} if {a}[{a} > 0].size else {b}); np.std(np.append({a}[{a} > -1], 1.0)); np.dot({a}[{a} > 0], {a}[{a} > 0])
    {a}[{a} > 0].astype(float)
    {a}[{a} > 0] / np.sum({a}[{a} > 0]); np.any({a}[{a} > 0] > 1); np.clip({a}[{a} > -2], 0, 1).sum(); np.repeat({a}, {a} > 0)
""")
"""Branches, loops, sizes and masks that depend on values. There is no mean of none: its tangent is NaN in eager code only."""

CAPTURED = listed("""
    {a} * {w}; {a} + np.sum({w}); np.sin({w}) * {a}; np.dot({w}, {w}) * {a}; {w} * 2 + {a}; np.where({a} > 0, {w}, {a})
    F.fori_loop(0, 2, lambda i, c: c * 0.5 + np.sum({w}), {a}); F.scan(lambda c, x: (c * np.sum({w}), c), {a}, None, length=2)
    F.vmap(lambda x: x * np.sum({w}))({a}); F.checkpoint(lambda x: x * np.sum({w}))({a})
    F.cond(np.sum({a}) > 0, lambda h: h * np.sum({w}), lambda h: h * 1.0, {a})
    F.make_expressions(lambda x: x * np.sum({w}))({a})({a}); compiled(lambda x: x * np.sum({w}))({a})
    F.grad(lambda x: np.sum(x * np.sum({w}) ** 2))({a})
""")
WITH_STATIC = listed("""
    {a} * n; {a} + n; np.copysign(1.0, n) * {a}; np.full(3, n); {a} / n; np.where({a} > 0, n, 0); np.array(n)
    ({a} if n else {a} * 3); np.arctan2({a} * 0, n); np.add({a}, n); np.float_power({a}, n); n
    F.fori_loop(0, 2, lambda i, c: c * n, {a}); compiled(lambda x, k: x * k, static_argnums=1)({a}, n)
""")
WITH_STATIC_TUPLE = listed("""
    {a} * n[0]; {a} + n[0]; np.copysign(1.0, n[0]) * {a}; np.array(n[0]); ({a} if n[0] else {a} * 3); {a} * np.ravel(n[1])[0]
    np.copysign(1.0, np.ravel(n[1])[0]) * {a}; np.full(2, n[0])
""")

STEPS = ("c + 1", "c * 2", "c", "-c", "np.where(c > 0, c, -c)", "c[::-1]", "c * 0.5", "np.sin(c)", "c + {same}", "{same}")


@dataclass
class BorderDraft(Draft):
    """A growing program with values of any dtype, infinite or NaN.

    Attributes:
        place: the expression that reads a captured value, or an empty string.
        static: the values of the static argument for successive calls, or an empty tuple.
    """

    takes_complex: ClassVar[bool] = True
    least_rank: ClassVar[int] = 0
    place: str = ""
    static: tuple[str, ...] = ()

    def accepts(self, value: Any) -> bool:
        """Return `True` if the program may use `value`."""
        if type(value) in (bool, int, float, complex):
            return True
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "biufc":
            return False
        return value.ndim <= self.max_rank and value.size <= self.largest

    def enter(self, expression: str, family: str) -> None:
        """Append a line that binds a buffer for later writes; it must be writable."""
        if not self.value(expression).flags.writeable:
            raise Impossible
        super().enter(expression, family)


TABLES = {
    "integers": INTEGERS,
    "elementwise": ELEMENTWISE,
    "reductions": REDUCTIONS,
    "booleans": BOOLEANS,
    "zero_d": ZERO_D,
    "loops": LOOPS,
    "several": SEVERAL,
    "values": VALUES,
    "values too": VALUES,
}


def draw_lines(choose: Choose, max_operations: int = 5) -> BorderDraft:
    """Return a program of one to five lines, plus a few fixed ones, that test the limits of `jit`."""
    draft = BorderDraft(choose, max_rank=4, largest=700)
    exec(PRELUDE, draft.space)  # noqa: S102 - a constant
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draft.texts = tuple([_draw_input(draft) for _ in range(1 + choose(3))])
        kind = choose(6)
        if kind == 0:
            draft.static = STATIC_TUPLES[choose(2)] if choose(3) == 2 else draft.one(STATIC)
            draft.space["n"] = draft.value(draft.static[0])
        elif kind == 1:
            draft.place = draft.one(PLACES)
            draft.space["store"](draft.place, draft.value(STORED))
        for _ in range(4):  # the line that reads the static or captured value must be possible
            with draft.undoing():
                _first_line(draft)
            if draft.lines:
                break
        for _ in range(1 + choose(max_operations)):
            with draft.undoing():
                _next_line(draft)
    if not any(text[0] in "ab" for text in draft.lines):
        draft.state("a0 = x0", "borders")
    elif draft.buffers and choose(2):
        draft.state(f"a{len(draft.names) + 90} = np.sum({draft.buffers[0]})", "borders")
    if choose(12) == 0:  # a line about integers that does not run; NumPy may raise in it
        a = draft.operand()
        draft.state(f"a{len(draft.names) + 95} = {_fill(draft, draft.one(INTEGERS), a)}", "borders")
    return draft


def _draw_input(draft: BorderDraft) -> str:
    """Bind an input and return its source text."""
    text = str(draft.one(NUMBERS)) if draft.choose(5) == 4 else _array(draft, draft.one(DTYPES), draft.one(SHAPES))
    draft.input(draft.value(text))
    return text


def _array(draft: BorderDraft, dtype: str, shape: tuple[int, ...]) -> str:
    """Return the source text of an array in a random layout."""
    size = int(np.prod(shape))
    if dtype == "bool":
        elements = [draft.one([0, 1, 2, 128, 255]) for _ in range(min(size, 8))]
        text = f"np.resize(np.array({elements}, np.uint8), {shape}).view(bool)"
    elif dtype[0] in "iu":
        pool = [0, 1, 2, 100, 127] if dtype[0] == "u" else [0, 1, -1, 5, -7, 127]
        if dtype[-2:] in ("64", "32") and not draft.choose(3):
            pool += [2**31 - 1, *([2**63 - 1, 2**53 + 1] if dtype[-2:] == "64" else [])]
        text = f"np.resize(np.array({[draft.one(pool) for _ in range(min(size, 8))]}, np.{dtype}), {shape})"
    else:
        reals = SPECIAL if not draft.choose(3) else ("0.0", "1.0", "-2.5", "0.5", "3.0", "0.25", "-1.5", "2.0", "0.75")
        text = f"np.resize(np.array([{', '.join([draft.one(reals) for _ in range(min(size, 8))])}], np.{dtype}), {shape})"
    if not size:
        return f"np.zeros({shape}, np.{dtype})"
    layout = draft.one(LAYOUTS) if shape else "{0}"
    if dtype == "bool" and "astype" in layout:
        layout = "{0}"
    text = str(layout).format(text, shape)
    return f"{text}[()]" if not shape and draft.choose(2) else text


def _fill(d: BorderDraft, text: str, a: str) -> str:
    """Return a line about a value with all blanks filled."""
    if "{m}" in text or "{n}" in text:
        booleans = [name for name in d.names if getattr(d.space[name], "dtype", None) == np.bool_]
        m = d.one(booleans)
        text = text.replace("{m}", m).replace("{n}", d.one([k for k in booleans if broadcasts(d.space[k], d.space[m])]))
    text = re.sub(r"\{limit\}", lambda _: f"({d.one(LIMITS)})", text)
    if "{steps}" in text:
        text = text.replace("{steps}", d.one(["0", "1", "2", "0", "1", "17"]))
    text = re.sub(r"\{step\}", lambda _: _step(d, a), text)
    text = re.sub(r"\{step_1\}", lambda _: re.sub(r"\bc\b", "c[1]", _step(d, a)), text)
    zeros = ", ".join(["0"] * np.ndim(d.space[a])) or "..."
    return d.way(text, a=a, zeros=zeros, w=d.place or "2.0")


def _step(d: BorderDraft, a: str) -> str:
    """Return the text of one step of a loop that starts from a value."""
    value = d.space[a]
    # NumPy refuses to negate booleans, and `jit` traces the body of a loop of no steps.
    negates = type(value) is not bool and getattr(value, "dtype", None) != np.bool_
    return str(d.one([s for s in STEPS if (np.ndim(value) or "[" not in s) and (negates or "-" not in s)]))


def _first_line(d: BorderDraft) -> None:
    """Append a line that reads the static or the captured value, or any line if there is neither."""
    if not d.static and not d.place:
        _next_line(d)
        return
    entries = CAPTURED if d.place else (WITH_STATIC_TUPLE if type(d.space["n"]) is tuple else WITH_STATIC)
    d.add(_fill(d, d.one(entries), d.operand()), "borders")


def _next_line(d: BorderDraft) -> None:
    """Append a line that computes a value, creates or views a buffer, or writes to one."""
    if d.choose(3) == 2:
        kind = d.choose(4) if d.buffers else 0
        if kind == 0:
            d.enter(_fill(d, d.one(BUFFERS), d.operand(lambda x: isinstance(x, np.ndarray))), "borders")
        elif kind == 1:
            d.enter(_fill(d, d.one(BUFFER_VIEWS), d.one(d.buffers)), "borders")
        else:
            d.run(_fill(d, d.one(WRITES), d.one(d.buffers)), "borders")
        return
    entries = TABLES[d.one(list(TABLES))]
    d.add(_fill(d, d.one(entries), d.operand()), "borders")
