"""Random lines that compute new values or write to arrays, by family, for values of any shape up to rank 4.

Lines of the family `registry` are the sample calls of all entries, with program values in place of the inputs, so that new
entries take part automatically. Elementwise functions are called on values of any shapes that broadcast. Lines of the family
`numbers` are about scalars: Python numbers beside NumPy scalars, precisions, truth values and type checks.

The family `mutation` writes to buffers that the program created, and to slices of them. The family `views` reads and writes
through views and copies in every memory order. The family `scratch` reuses plain arrays: indices, masks and constants,
overwritten after use.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import Any

import numpy as np

from functad.primitives import vocabulary
from functad.primitives.entry import ENTRIES, Entry
from functad.testing.primitive_checks import InputSource, is_constant
from functad.testing.programs.drafts import (
    FAMILIES,
    Draft,
    Impossible,
    Text,
    broadcasts,
    line,
    listed,
    literal,
    statement,
    table,
)
from functad.trees import flatten


class _Recording(InputSource):
    """An input source that records the interval of each array."""

    def __init__(self) -> None:
        super().__init__(np.float64)
        self.ranges: dict[int, tuple[Any, float, float]] = {}

    def __call__(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Any:
        made = super().__call__(*shape, low=low, high=high)
        self.ranges[id(made)] = (made, low, high)
        return made


@cache
def _paths() -> dict[Any, str]:
    """Return the source name of each registered function; it loads all families, so that earlier programs have no effect."""
    vocabulary.import_families()
    found = {}
    for prefix, module in (("np.fft", np.fft), ("np.linalg", np.linalg), ("np", np)):
        for name, value in vars(module).items():
            if not name.startswith("_") and callable(value) and value in ENTRIES:
                found[value] = f"{prefix}.{name}"
    return found


SAMPLED = {
    "registry": ("",),
    "elementwise": ("kinds",),
    "reductions": ("reductions.over_axes", "reductions.statistics", "reductions.norms"),
    "scans": ("reductions.scans", "signals.differences"),
    "shaping": ("arranging",),
    "joining": ("arranging.join",),
    "contractions": ("linalg.products", "linalg.einsum", "signals.convolve"),
    "linalg": ("linalg",),
    "fft": ("signals.fourier",),
    "ordering": ("indexing.sort", "reductions.quantiles"),
}
"""For each family with sample calls the modules in `functad.primitives` with the samples."""


@cache
def _sampled(modules: tuple[str, ...] = ("",)) -> list[tuple[str, Entry, list[Any], Any, dict[int, tuple[Any, float, float]]]]:
    """Return sample calls of entries with a differentiable result: name, entry, leaves, structure, intervals.

    Refused functions are skipped, because drawing a line runs it with plain NumPy: `np.save` would write a file.
    """
    result, paths = [], _paths()
    for entry in ENTRIES.values():
        if entry.function not in paths or is_constant(entry) or entry.status == "refused" or entry.samples is None:
            continue
        if not entry.samples.__module__.removeprefix("functad.primitives.").startswith(modules):
            continue
        recording = _Recording()
        # Constants in a program are plain arrays, so like= would dispatch nothing.
        sampled = [call for call in entry.samples(recording) if "like" not in call[1]]
        result += [(paths[entry.function], entry, *flatten(call), recording.ranges) for call in sampled]
    return result


def sample(d: Draft, modules: tuple[str, ...]) -> str:
    """Return a sample call of an entry, with program values as inputs: in the shapes of the sample, or in their own."""
    path, entry, leaves, structure, ranges = d.one(_sampled(modules))
    chosen: dict[tuple[int, ...], str] | None = {} if d.choose(2) else None
    changed: list[Any] = []
    for leaf in leaves:
        inexact = isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind == "f"
        changed.append(Text(_input(d, leaf, ranges, entry, chosen) if inexact else literal(leaf)))
    read = [name for name in d.names if any(re.search(rf"\b{name}\b", part) for part in changed)]
    if not read or (entry.value_dependent and any(map(d.ties, read))):
        raise Impossible  # equal elements may differ nearby
    d.value_dependent |= entry.value_dependent
    args, kwargs = structure.unflatten(changed)
    if "mean" in kwargs and not any(name in literal(arg) for name in d.names for arg in args):
        raise Impossible  # NumPy does not check mean= for Tensors
    parts = [*map(literal, args), *[f"{key}={literal(value)}" for key, value in kwargs.items()]]
    return f"{path}({', '.join(parts)})"


def _input(
    d: Draft,
    leaf: Any,
    ranges: dict[int, tuple[Any, float, float]],
    entry: Entry,
    chosen: dict[tuple[int, ...], str] | None,
) -> str:
    """Return an expression for an input of a sample: any value from its interval, or values near a computed input.

    With a table of values chosen for the shapes of the sample, equal shapes get values of equal shapes, and all arguments of
    an elementwise function get values that broadcast.
    """
    shape = np.shape(leaf)
    if id(leaf) not in ranges:
        return f"({literal(leaf)} + 0.05 * np.sin({d.shaped(d.operand(), shape)}))"
    if chosen is None:
        name = d.shaped(d.operand(), shape)
    elif chosen and getattr(entry, "kind", None) == "elementwise":
        name = d.operand(lambda value: all(broadcasts(value, d.space[other]) for other in chosen.values()))
    else:
        name = d.operand(lambda value: shape not in chosen or np.shape(value) == np.shape(d.space[chosen[shape]]))
    if chosen is not None:
        chosen.setdefault(shape, name)
    return d.within(name, *ranges[id(leaf)][1:])


for family, modules in SAMPLED.items():
    line(family)(partial(sample, modules=modules))


@line("elementwise")
def operator(d: Draft) -> str:
    """Return an operator on two values that broadcast, or on a value and a constant."""
    a = d.operand()
    b = d.number() if d.choose(3) == 2 else d.operand(lambda value: broadcasts(value, d.space[a]))
    sign = d.one(["+", "*", "-", "/", "**", "%"])
    if sign == "%" and a == b:  # `x % x` is discontinuous
        sign = "+"
    if sign in "/%":
        b = d.within(b, 0.5, 3.0)
    if sign == "**":
        a = d.within(a, 0.3, 2.0)
    left, right = (a, b) if d.choose(2) or sign in "/%**" else (b, a)
    return f"{left} {sign} {right}"


# Repeated use of one value, so that cotangents accumulate.
table("elementwise", Draft.operand)("""
    {a} * {a} + {a}; {a} * np.sin({a}) - 0.5 * {a}; -{a} + abs({a}); (2 - {a}) * {a} / 3
""")

table("indexing", Draft.array)("""
    {a}[{index}]
""")
table("indexing", Draft.array)("""
    {a}[{picks}]; {a}[..., [{in_last}, 0]]; np.take({a}, [{in_axis}, -1], axis={axis}); {a}[np.array({picks})[:, None], ...]
    np.take({a}, {picks}, mode='wrap'); {a}[{picks}, {in_last}]; {a}[[0, -1], [0, {in_last}]]; {a}[0, [0, -1]]
    np.diagonal({a})
""")
table("indexing", Draft.untied)("""
    np.take_along_axis({a}, np.argsort({a}, axis={axis}), axis={axis})
    np.take_along_axis({a}, np.argmax({a}, axis={axis}, keepdims=True), axis={axis})
""")
table("indexing", Draft.array)("""
    {a}[{a} > 0]; {a}[np.nonzero({a} < 0.5)]; np.extract({a} > -0.5, {a}); np.compress([True], {a}, axis=0)
""")

table("selection", Draft.operand)("""
    np.where({a} > 0.1, {a}, {b}); np.where({a} > 0, np.sqrt({a}), {b}); np.where({a} != 0, np.sin({a}) / {a}, 1.0)
    np.maximum({a}, {b}); np.clip({a}, -0.70037, 0.90037); np.minimum({a}, 0.3)
    np.select([{a} > 1, {a} > 0], [{b}, {a} * 2], 0.5); np.where({a} > 0.1, np.log(np.where({a} > 0.1, {a}, 1.0)), {b})
    np.clip({a}, {b} - 1, {b} + 1)
""")

table("nan", Draft.untied)("""
    np.nan{sum|mean|max|min|prod|var|std|median}({holed}, axis={axes}); np.nan_to_num({holed})
    np.nanquantile({holed}, 0.4, axis={axes})
""")


NUMBERS = listed("""
    2.0; 0.5; 3; True; np.float64(0.5); np.float32(1.5); np.int64(2); np.array(0.5); 1j; np.bool_(True)
""")
"""Constants of all types."""

UNARY = listed("""
    abs; absolute; negative; positive; square; sqrt; exp; sin; floor; sign; squeeze; transpose; ravel; real; imag; conj
    isfinite; atleast_1d; sum; mean; max; min; prod; cumsum; copy; nan_to_num; ndim; size; real_if_close; angle; fabs
    reciprocal; std; var; median; any; all; round; zeros_like; ones_like; argmax; sort; diff; flip; expm1; log1p; cbrt
    signbit; trunc; rint; degrees; spacing; isnan; i0; sinc; ptp
""")
BINARY = listed("""
    add; subtract; multiply; divide; power; maximum; minimum; fmax; hypot; arctan2; copysign; logaddexp; heaviside; fmod
    float_power; dot; inner; outer; vdot; matmul; logical_and; greater; less; equal; not_equal; remainder; true_divide
    floor_divide; kron; isclose; allclose; nextafter
""")
STEEP = ("sqrt", "cbrt", "power", "float_power", "**")
"""Functions with an infinite derivative at 0; times a derivative of 0, reverse mode gives NaN."""

ORDERING = ("sort", "median")
"""Functions without derivative at equal elements."""

TESTS = """
    isinstance({a}, float); isinstance({a}, np.ndarray); isinstance({a}, np.floating); isinstance({a}, np.generic)
    isinstance({a}, (int, float)); isinstance({a}, __import__('numbers').Number)
    isinstance({a}, __import__('numbers').Real); np.isscalar({a}); np.ndim({a}) == 0; hasattr({a}, '__len__')
    np.isrealobj({a}); np.result_type({a}, np.float32) == np.float32; isinstance({a}, np.float64); callable({a})
    isinstance({a}, __import__('collections').abc.Sequence); isinstance({a}, bool)
    np.issubdtype(np.asarray({a}, like={a}).dtype, np.float32); {a} > 0.1; bool(np.all({a} > 0.1))
"""
"""Conditions of branches."""


@line("numbers")
def unary(d: Draft) -> str:
    """Return a NumPy function of a number of any type."""
    a, name = d.operand(), d.one(UNARY)
    _check(d, name, a)
    return f"np.{name}({a})"


@line("numbers")
def binary(d: Draft) -> str:
    """Return an operator or a NumPy function of a value and a constant of any type, or of two values."""
    a = d.operand()
    b = d.one(NUMBERS) if d.choose(2) else d.operand(lambda value: broadcasts(value, d.space[a]))
    if a == b:  # `x % x` is discontinuous
        return d.way("{a} + {a}; np.multiply({a}, {a})", a=a)
    left, right = (a, b) if d.choose(2) else (b, a)
    name = d.one(BINARY) if d.choose(2) else d.one(["+", "*", "-", "/", "**", "%", "//"])
    if name in ("/", "%", "//") and np.min(np.abs(d.value(right))) < 0.3:  # may jump within the step of a difference
        raise Impossible
    _check(d, name, left, right)
    return f"np.{name}({left}, {right})" if name.isidentifier() else f"{left} {name} {right}"


def _check(d: Draft, name: str, a: str, b: str = "") -> None:
    """Reject an infinite slope, a negative base with a variable exponent, and equal elements without a derivative."""
    base = d.value(a)
    if name in STEEP and (np.min(np.abs(base), initial=1.0) < 1e-2 or (b in d.names and np.min(base, initial=1.0) < 0)):
        raise Impossible
    if name in ORDERING and d.ties(a):
        raise Impossible


table("numbers", Draft.operand)("""
    {a}.astype(np.float32); {a} * np.ones(2, np.float32); {a}[()]; np.float32(2) * {a}; round({a}, 1) + {a}
    np.stack([{a}, {b}]); np.result_type({a}, {b}).type(0.5) * {a}; np.array([0.5, 1.5], {a}.dtype) * {a}
    sum([{a}, {b}]); max({a}, {b}); pow({a}, 2); abs({a}); -{a}; divmod({a}, 1)[1]; {a}.item() * {b}
    np.full(2, 0.5) * {a}; np.linspace({a}, 1.0, 3); np.concatenate([np.ravel({a}), np.ravel({b})])
    np.where({a} > 0, {a}, {2.0|0.5|3|True|np.float64(0.5)|np.float32(1.5)|np.int64(2)}); np.interp({a}, [0, 1], [2, 3])
    np.clip({a}, {2.0|0.5|3}, None)
    np.full_like({a}, 0.5) + {b}; np.asarray({a}, like={a}); np.float64(0.5) ** {a}; {a}.real; {a}.imag + {b}
""")


@line("numbers")
def branch(d: Draft) -> str:
    """Return a branch on the type or size of a value."""
    a = d.operand(lambda value: np.ndim(value) > 0 or not isinstance(value, np.ndarray))  # a list treats () as a number
    return d.way("({v} * 2.0 if {test} else {v} * 0.5)", test=d.way(TESTS, a=a))


@line("numbers")
def counted(d: Draft) -> str:
    """Return truth values as numbers, as conditions, or combined."""
    m = d.one(d.masks[::-1])
    ways = """
        np.where({a}, {b}, {b} ** 2); np.where(~{a}, {b}, 0.5); np.where({a} & {other}, {b}, -{b}); {b} * {a}
        ({a} + {other}) * {b}; np.where({a} ^ {other}, 1.0, {b}); np.where(np.logical_not({a}), {b}, 2); {a} * 0.5 + {b}
        np.sum({a}) * {b}; np.mean({a}) * {b}; {b} ** {a}; np.select([{a}, {other}], [{b}, 2.0], 0); np.add({a}, {b})
        np.add({a}, {other}) * {b}; ({a} | {other}).astype(float) * {b}; ({a} == {other}) * {b}; {b}[{a}]; -({a} * {b})
    """
    return d.way(ways, a=m, other=d.one([name for name in d.masks if broadcasts(d.space[name], d.space[m])]))


@statement("numbers", 2)
def compared(d: Draft) -> None:
    """Bind one or several truth values."""
    a = d.operand()
    ways = """
        {a} < {b}; {b} >= {a}; np.abs({a}) < {b}; np.greater({a}, {b}); np.isfinite({a}); {a} != {b}; {a} == {a}
        ({a} < {b}) & ({a} > -1); ~({a} < {b}); np.logical_or({a} < {b}, {a} > 1); np.subtract({a}, 1) < 0
        np.isclose({a}, {b})
    """
    text = d.way(ways, a=a, b=d.way("0.1; 1; 0; {b}", a=a))
    value = d.value(text)
    if not isinstance(value, (bool, np.bool_, np.ndarray)):
        raise Impossible
    d.bind("m", text, value, "numbers", d.masks)


@statement("mutation")
def new_buffer(d: Draft) -> None:
    """Bind a buffer: a copy of a value, or constants of its shape."""
    d.enter(d.way("np.copy({a}); np.zeros_like({a}); {a}.copy(); np.full_like({a}, 0.5); {a} * 1.0", a=d.array()), "mutation")


@statement("mutation")
def view(d: Draft) -> None:
    """Bind a view of a buffer."""
    b = d.one(d.buffers)
    text = d.way("{a}[{1:|::-1|...|None|:, 0|0|..., ::2}]; {a}.T; {a}.reshape(-1); np.swapaxes({a}, 0, -1)", a=b)
    if not np.shares_memory(d.value(text), d.space[b]):
        raise Impossible
    d.enter(text, "mutation")


@statement("mutation", 2)
def assigned(d: Draft) -> None:
    """Assign or update elements of a buffer."""
    b = d.one(d.buffers)
    index = d.way("{0|1:|...|::-1|-1|:|..., 0|::2}; [0, {in_first}]; {a} > 0.2", a=b)
    place, sign = f"{b}[{index}]", d.one(["=", "+=", "*=", "-="])
    if sign == "=" and index == "[0, 0]":
        raise Impossible  # NumPy does not specify the result of two assignments to one element
    value = d.number() if sign == "=" and "> 0.2" in index else d.value_for(place)
    d.run(f"{place} {sign} {value}", "mutation")


@statement("mutation")
def whole(d: Draft) -> None:
    """Update a whole buffer in place."""
    b = d.one(d.buffers)
    d.run(f"{b} {d.one(['*=', '+=', '-='])} {d.value_for(b)}", "mutation")


@statement("mutation")
def by_function(d: Draft) -> None:
    """Call a NumPy function that writes to its argument."""
    b = d.one(d.buffers)
    picks = [d.choose(d.shape(b)[0]) for _ in range(1 + d.choose(3))]
    ways = """
        np.add.at({a}, {picks}, {places}); np.copyto({a}, {all}); np.copyto({a}, {all}, where={a} > 0)
        np.put_along_axis({a}, np.argmax({a}, axis=0, keepdims=True), 0.5, axis=0); np.subtract.at({a}, {picks}, 0.25)
        np.fill_diagonal({a}, {number})
    """
    d.run(d.way(ways, a=b, picks=picks, all=d.value_for(b), places=d.value_for(f"{b}[{picks}]")), "mutation")


SLICED = "{a}[{index}]"
ARRANGED = """
    {a}.T; np.{swapaxes|moveaxis}({a}, {axis}, {other}); np.rollaxis({a}, {axis}); {a}.transpose{permuted}
    np.permute_dims({a}, {permuted}); {a}.mT; np.flip({a}, {axis}); np.rot90({a}); np.expand_dims({a}, {axis})
    np.squeeze({a}); {a}[None].squeeze(0); np.atleast_{1|2|3}d({a}); np.broadcast_to({a}, (2, *{shape}))
    np.broadcast_arrays({a}, np.zeros((2, {last})))[0]; np.array_split({a}, 2, axis={axis})[0]
    np.unstack({a}, axis={axis})[-1]; list({a})[0]; np.diagonal({a}); {a}.diagonal(1); np.einsum('...ij->...ji', {a})
    np.einsum('...ii->...i', {a}); np.lib.stride_tricks.sliding_window_view({a}, 2, axis={axis})
"""
ORDERED = """
    {a}.reshape({reshaped}, order='{C|F|A}'); np.reshape({a}, {reshaped}, order='{C|F|A}'); {a}.ravel('{C|F|A|K}')
    np.ravel({a}, '{C|F|A|K}'); {a}.flatten('{C|F|A|K}'); {a}.copy('{C|F|A|K}'); np.copy({a}, order='{C|F|A|K}')
    np.array({a}, order='{C|F|A|K}', like={a}); np.array({a}, copy=None, order='{C|F|A|K}', like={a})
    np.asarray({a}, order='{C|F|A|K}', like={a}); np.asarray({a}, like={a}); np.asanyarray({a}, order='{C|F|A|K}', like={a})
    np.ascontiguousarray({a}, like={a}); np.asfortranarray({a}, like={a}); np.require({a}, requirements='{C|F}', like={a})
    {a}.astype(float, order='{C|F|A|K}', copy=False); {a}.astype(float, copy=False); {a}.astype(float, order='{C|F|A|K}')
    np.astype({a}, float, copy=False); np.zeros_like({a}, order='{C|F|A|K}') + {a}; np.full_like({a}, 0.5, order='{C|F|A|K}')
    np.array({a}.T, order='{C|F|A|K}', like={a}).reshape(-1, order='{C|F|A}')
"""
SAME = """
    np.{real|conj|conjugate|real_if_close|atleast_1d|nan_to_num}({a}); {a}.{real|imag}; {a}.{conj|conjugate|view}(); +{a}
    {a}[...]; {a}[()]
"""
VIEWS = (SLICED, ARRANGED, ORDERED, SAME)
"""Slices; rearranged axes; operations that return a view or a copy depending on the memory order; the array itself."""


def view_of(d: Draft, a: str) -> str:
    """Return a view of a value, or a copy in some memory order."""
    return d.way(d.one(VIEWS), a=a)


@line("views")
def viewed(d: Draft) -> str:
    """Read a value through one or two views."""
    text = view_of(d, d.array())
    value = d.value(text)
    if d.choose(2) or not isinstance(value, np.ndarray) or not value.ndim:
        return text
    return d.way("{a}.ravel('{C|F|A|K}') * np.arange({size}); {a}.flatten('{C|F|A|K}')[::2]; {a}.sum(axis=0)", a=text)


@statement("views", 2)
def buffer_view(d: Draft) -> None:
    """Bind a view or a copy of a buffer or view; later writes show whether it aliases."""
    d.enter(view_of(d, d.one(d.buffers)), "views")


@statement("views")
def buffer_result(d: Draft) -> None:
    """Bind the result of any function, in any memory order, as a buffer."""
    family = d.one(sorted(set(FAMILIES) - {"numbers", "views"}))
    d.enter(d.one(FAMILIES[family])(d), "views")


def _place(d: Draft) -> str:
    """Return a random target for a write: elements of a buffer or of a view of it."""
    b = d.one(d.buffers)
    text = b if d.choose(2) else d.one([view_of(d, b), f"{b}.flat", f"{b}.ravel()", f"{b}.T"])
    value = d.value(text)
    shape: tuple[int, ...] = (value.base.size,) if isinstance(value, np.flatiter) else np.shape(value)
    if not shape or not shape[0]:
        raise Impossible
    picks = sorted({d.choose(shape[0]) for _ in range(3)})
    index = "{...|1:|::-1|:|::2}; {in_first}; -{in_first}; {in_first}:; {picks}"
    if len(shape) > 1 and d.choose(2):
        index = "..., {in_last}; :, {in_last}; {index}" + "; {picks}, 0" * (len(shape) == 2)
    return f"{text}[{d.way(index, a=text, shape=shape, picks=picks)}]"


@statement("views", 3)
def assigned_in_view(d: Draft) -> None:
    """Assign or update elements through views."""
    place = _place(d)
    value = d.value_for(place)
    if ".flat[" in place and any(np.may_share_memory(d.value(value), d.space[b]) for b in d.buffers):
        raise Impossible  # NumPy writes to `.flat` one element at a time, and reads elements that it already wrote
    d.run(f"{place} {d.one(['=', '+=', '*=', '-='])} {value}", "views")


@statement("views", 2)
def overwritten_view(d: Draft) -> None:
    """Write by functions, `out=`, overlapping slices or loops."""
    b = d.one(d.buffers)
    ways = """
        {a}.fill({number}); np.multiply({same}, 0.5, out={a}); np.sin({same}, out={a}); np.add({same}, {same}, out={a})
        np.put({a}, [0, -1], {number}); {a}.put([0], 0.25); np.putmask({a}, {same} > 0.3, 0.2); np.copyto({a}, {same})
        np.add.at({a}, [0, 0], {number}); np.multiply.at({a}, -1, 0.5); {a}.sort(axis={axis}); np.nan_to_num({a}, copy=False)
        np.clip({same}, -0.5, 0.5, out={a}); np.fill_diagonal({a}, 0.5); {a}[...] *= {number}
        np.put_along_axis({a}, np.zeros((1,) * {ndim}, int), 0.5, axis={axis}); {a}.real[...] = 0.5
        for row in np.atleast_2d({a}): row *= 0.5
    """
    own = """
        np.add({fitting}, 1.0, out={a}, where={a} > 0); np.place({a}, {a} > 0.3, [0.1]); {a} += {a}.T
        np.copyto({a}, {fitting}, where={a} < 0.5)
        np.cumsum({fitting}, axis={axis}, out={a}); {a}[0], {a}[-1] = {a}[-1].copy(), {a}[0].copy(); {a}[1:] += {a}[:-1]
        {a}[:] = {a}[::-1]; for n in range(1, {first}): {a}[n] += 0.5 * {a}[n - 1]
    """
    d.run(d.way(ways, a=b if d.choose(2) else view_of(d, b)) if d.choose(3) else d.way(own, a=b), "views")


def _used(d: Draft, a: str, text: str, reads: str, writes: str, *lists: list[str]) -> None:
    """Bind a plain array, append a line that reads or writes with it, and a line that overwrites it."""
    c = d.bind("c", text, d.value(text), "scratch", d.scratch, *lists)
    if d.buffers and not d.choose(3):
        d.run(d.way(writes, a=d.one(d.buffers), v=a, c=c), "scratch")
    else:
        d.add(d.way(reads, a=a, c=c), "scratch")
    _overwrite(d, c)


@statement("scratch")
def indices(d: Draft) -> None:
    """Use an array of indices and overwrite it."""
    a = d.array()
    picks = [d.choose(d.one(d.shape(a))) for _ in range(1 + d.choose(3))]
    reads = """
        np.take({a}, {c}, axis={axis}); {a}.take({c}, axis={axis}); {a}[{c} % {first}]; {a}[{c}]; {a}[..., {c}]
        np.take_along_axis({a}, {c}.reshape(-1, *(1,) * ({ndim} - 1)) % {first}, axis=0); {a}[np.ix_({c}.ravel())]
        np.delete({a}, {c}.ravel()[:1] % {first}, axis=0); np.insert({a}, {c}.ravel(), 0.5, axis={axis})
        np.repeat({a}, {c}.ravel()[0] + 1, axis={axis}); np.roll({a}, {c}.ravel()[0], axis={axis})
        np.split({a}, {c}.ravel()[:1], axis={axis})[-1]; np.add.reduceat({a}, {c}.ravel() % {first}, axis=0)
        np.bincount({c}.ravel(), weights=np.resize({a}, {c}.size)); {a}[{c}, ..., 0]
        np.take({a}, {c}, axis={axis}, mode='clip'); np.choose({c}.ravel()[0] % 2, [{a}, {a} * 2])
    """
    writes = """
        {a}[{c} % {first}] = {number}; {a}[{c} % {first}] = {scalar}; {a}[{c} % {first}] *= 0.5; np.put({a}, {c}, {scalar})
        np.add.at({a}, {c} % {first}, {scalar}); np.put({a}, {c}, {number})
        np.put_along_axis({a}, {c}.reshape(-1, *(1,) * ({ndim} - 1)) % {first}, {number}, axis=0)
    """
    made = d.one([f"np.array({picks})", f"np.array({picks}, np.int8)", f"np.array([{picks}, {picks[::-1]}])"])
    _used(d, a, made, reads, writes)


@statement("scratch")
def mask(d: Draft) -> None:
    """Use a boolean array and overwrite it."""
    a = d.array()
    value = d.space[a]
    bits = np.random.default_rng(d.choose(1 << 10)).random(value.shape) < 0.5
    plain = f"np.array({bits.tolist()})" if value.size < 100 else f"np.arange({value.size}).reshape({value.shape}) % 3 == 0"
    compared = not d.choose(2)
    reads = """
        np.where({c}, {a}, {same} * 0.5); np.select([{c}, ~{c}], [{a}, {same} * 2.0]); np.choose({c}, [{a}, {same} * 2.0])
        np.piecewise({a}, [{c}], [lambda v: v * 2.0, lambda v: v * 0.5]); np.sum({a}, where={c}); {c} * {a}
        np.add({a}, {same}, where={c}, out=np.copy({a})); np.where({c}[::-1], 1.0, {a}); {a}[{c}]
        np.compress({c}.ravel(), {a}.ravel()); np.extract({c}, {a})
    """
    writes = """
        {a}[{c}] = 0.5; np.copyto({a}, {v}, where={c}); np.putmask({a}, {c}, {v}); {a}[{c}] *= 2.0; np.place({a}, {c}, [0.5])
        {a}[{c}] = {v}[{c}]
    """
    d.value_dependent |= compared
    _used(d, a, f"{a} > 0.2" if compared else plain, reads, writes, d.masks)


@statement("scratch")
def constant(d: Draft) -> None:
    """Use an array of numbers and overwrite it."""
    a = d.array()
    made = "np.full({shape}, 0.5); np.arange(1.0, {last} + 1); np.linspace(0.2, 0.9, {last}); np.array(2.0)"
    reads = """
        {a} * {c}; {c} - {a}; {a} / {c}; np.{multiply|arctan2|maximum|dot|hypot}({a}, {c}); np.multiply({c}, {a}); {a} @ {c}
        np.where({a} > 0, {a}, {c}); np.concatenate([{a}.ravel(), {c}.ravel()]); np.hypot({a}, {c}.T); np.exp({a}) ** {c}
        np.einsum('...i,...i', {a}, {c}); np.interp({a}, np.sort({c}.ravel()), {c}.ravel()); np.kron({c}, {a})
        np.convolve({a}.ravel(), {c}.ravel()); np.clip({a}, -{c}, {c}); np.average({a}, axis=-1, weights={c})
        np.polyval({c}.ravel()[:3], {a}); np.linalg.norm({a} - {c}); np.gradient({a}, np.cumsum({c}), axis=-1)
        np.broadcast_to({c}, {shape}) * {a}; {c}.reshape(-1)[::-1] * {a}; np.linalg.solve(np.diag({c}), {a}.T)
    """
    writes = "{a}[...] = {c}; {a} *= {c}; {a}[0] = {c}[0]; np.copyto({a}, {c}); np.add({a}, {c}, out={a})"
    _used(d, a, d.way(made, a=a), reads, writes)


@statement("scratch")
def overwritten_scratch(d: Draft) -> None:
    """Overwrite one of the plain arrays at any time."""
    _overwrite(d, d.one(d.scratch[::-1]))


def _overwrite(d: Draft, c: str) -> None:
    value = d.space[c]
    if not isinstance(value, np.ndarray) or not value.flags.writeable:
        raise Impossible
    ways = """
        {c}[...] = {new}; {c}.fill({new}); np.copyto({c}, {new}); {c}.ravel()[...] = {new}; {c}.T[...] = {new}
        {c}.flat = {new}; np.put({c}, [0], {new}); np.place({c}, np.ones({c}.shape, bool), [{new}]); {c}[0] = {new}
        {c}[::-1] = {c}.copy(); {c}.sort(); np.logical_not({c}, out={c}, casting='unsafe')
    """
    if value.dtype.kind == "f":
        ways += "{c} *= 0.5; np.negative({c}, out={c}); {c} += 1.0"
    statement = d.way(ways, c=c, new={"f": "3.0", "b": "False", "i": "0"}[value.dtype.kind])
    exec(statement, d.space)  # noqa: S102 - the text was drawn from a fixed grammar
    d.state(statement, "scratch")
