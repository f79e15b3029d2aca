"""The lines of random programs that look at arrays through views and copies of every kind, in every order of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.testing.programs.drafts import FAMILIES, Draft, fits, line, statement
from functad.testing.programs.text import Impossible, listed

ORDERS = ("C", "F", "A", "K")


def _parts(d: Draft, shape: Sequence[int]) -> str:
    """Return a basic index."""
    parts = [
        str(d.one([":", "::-1", "1:", ":-1", "::2", f"{d.choose(n)}:", "0", "-1", "None", "::-2"]))
        for n in shape[: 1 + d.choose(len(shape))]
    ]
    if d.choose(4) == 3:
        parts.insert(d.choose(len(parts) + 1), "...")
    return ", ".join(parts)


def _shape(d: Draft, size: int) -> tuple[int, ...]:
    """Return a shape of as many elements."""
    first = d.one([n for n in range(1, min(size, 100) + 1) if size % n == 0])
    return tuple(d.one([(-1,), (first, size // first), (first, 1, -1), (size,)]))


def _arranged(d: Draft, b: str, value: Any) -> list[str]:
    """Return ways of slicing and of arranging axes."""
    axis, other = d.axis(value.ndim), d.axis(value.ndim)
    order = tuple(np.random.default_rng(d.choose(100)).permutation(value.ndim).tolist())
    return [
        *[f"{b}[{_parts(d, value.shape)}]" for _ in range(6)],
        *listed(f"""
            {b}.T; np.swapaxes({b}, {axis}, {other}); np.moveaxis({b}, {axis}, {other}); np.rollaxis({b}, {axis})
            {b}.transpose{order}; np.permute_dims({b}, {order}); {b}.mT; np.flip({b}, {axis}); np.rot90({b})
            np.expand_dims({b}, {axis}); np.squeeze({b}); {b}[None].squeeze(0); np.atleast_{1 + d.choose(3)}d({b})
            np.broadcast_to({b}, {(2, *value.shape)}); np.broadcast_arrays({b}, np.zeros((2, {value.shape[-1]})))[0]
            np.array_split({b}, 2, axis={axis})[0]; np.unstack({b}, axis={axis})[-1]; list({b})[0]; np.diagonal({b})
            {b}.diagonal(1); np.einsum('...ij->...ji', {b}); np.einsum('...ii->...i', {b})
            np.lib.stride_tricks.sliding_window_view({b}, 2, axis={axis})
        """),
    ]


def _ordered(d: Draft, b: str, value: Any) -> list[str]:
    """Return expressions whose memory depends on an order: views where it fits, copies where it does not."""
    shape, k = _shape(d, value.size), d.one(ORDERS)
    o = "A" if k == "K" else k
    return listed(f"""
        {b}.reshape({shape}, order={o!r}); np.reshape({b}, {shape}, order={o!r}); {b}.ravel({k!r}); np.ravel({b}, {k!r})
        {b}.flatten({k!r}); {b}.copy({k!r}); np.copy({b}, order={k!r}); np.array({b}, order={k!r}, like={b})
        np.array({b}, copy=None, order={k!r}, like={b}); np.asarray({b}, order={k!r}, like={b}); np.asarray({b}, like={b})
        np.asanyarray({b}, order={k!r}, like={b}); np.ascontiguousarray({b}, like={b}); np.asfortranarray({b}, like={b})
        np.require({b}, requirements={d.one(ORDERS[:2])!r}, like={b}); {b}.astype(float, order={k!r}, copy=False)
        {b}.astype(float, copy=False); {b}.astype(float, order={k!r}); np.astype({b}, float, copy=False)
        np.zeros_like({b}, order={k!r}) + {b}; np.full_like({b}, 0.5, order={k!r})
        np.array({b}.T, order={k!r}, like={b}).reshape(-1, order={o!r})
    """)


def _same(d: Draft, b: str, value: Any) -> list[str]:
    """Return expressions for the array itself, or for the same memory."""
    calls = [f"np.{name}({b})" for name in ("real", "conj", "conjugate", "real_if_close", "atleast_1d", "nan_to_num")]
    return [
        *calls,
        *listed(f"""
            {b}.real; {b}.conj(); {b}.conjugate(); {b}.view(); +{b}; {b}.imag; {b}[...]; {b}[()]
        """),
    ]


def view_of(d: Draft, b: str) -> str:
    """Return a view of a value, or a copy in some order."""
    return str(d.one(d.one([_arranged, _ordered, _same])(d, b, d.space[b])))


@line("views")
def viewed(d: Draft) -> str:
    """A value seen through one or two views."""
    a = d.array()
    text = view_of(d, a)
    value = d.value(text)
    if d.choose(2) or not isinstance(value, np.ndarray) or not value.ndim:
        return text
    size, order = np.size(value), d.one(ORDERS)
    return str(
        d.one([f"{text}.ravel({order!r}) * np.arange({size})", f"{text}.flatten({order!r})[::2]", f"{text}.sum(axis=0)"])
    )


@statement("views", 2)
def view(d: Draft) -> None:
    """A view of a buffer, or of a view, which shares its memory or does not: what is written into the one shows it."""
    enter(d, view_of(d, d.one(d.buffers)))


@statement("views")
def result(d: Draft) -> None:
    """What any function gives, in whatever order of memory, to be written into."""
    family = d.one(sorted(set(FAMILIES) - {"numbers", "views"}))
    enter(d, d.one(FAMILIES[family])(d))


def enter(d: Draft, text: str) -> None:
    """Name an array that may be written into, or only be read if NumPy has it so."""
    value = d.value(text)
    if not isinstance(value, np.ndarray) or not value.ndim or not value.size or not d.accepts(value) or d.is_input(value):
        raise Impossible
    if value.flags.writeable:
        d.bind("b", text, value, "views", d.buffers, d.names)
        d.mutates = True
    else:
        d.bind("a", text, value, "views", d.names)


def _place(d: Draft) -> str:
    """Return a place in a buffer: elements of it, or of a view of it."""
    b = d.one(d.buffers)
    text = b if d.choose(2) else d.one([view_of(d, b), f"{b}.flat", f"{b}.ravel()", f"{b}.T"])
    value = d.value(text)
    shape: tuple[int, ...] = (value.base.size,) if isinstance(value, np.flatiter) else np.shape(value)
    if not shape or not shape[0]:
        raise Impossible
    n = d.choose(shape[0])
    picks = sorted({d.choose(shape[0]) for _ in range(3)})
    index = d.one(["...", "1:", "::-1", f"{n}", f"{n - shape[0]}", ":", f"{picks}", "::2", f"{n}:"])
    if len(shape) > 1 and d.choose(2):
        last = d.choose(shape[-1])
        index = d.one(
            [f"..., {last}", f":, {d.choose(shape[1])}", f"{picks}, 0" if len(shape) == 2 else "...", _parts(d, shape)]
        )
    return f"{text}[{index}]"


@statement("views", 3)
def assigned(d: Draft) -> None:
    """Elements set, or changed in place, through views."""
    place = _place(d)
    sign = d.one(["=", "+=", "*=", "-="])
    shape = np.shape(d.value(place))
    fitting = [name for name in reversed(d.names) if fits(d.space[name], shape)]
    value = d.one([*fitting[:4], "0.5", "9.0"])
    if ".flat[" in place and any(np.may_share_memory(d.value(value), d.space[b]) for b in d.buffers):
        raise Impossible  # NumPy writes one element after the other there, and reads what it has written
    d.run(f"{place} {sign} {d.one([value, f'np.sin({value})', f'{value} * 0.5'])}", "views")


@statement("views", 2)
def overwritten(d: Draft) -> None:
    """Other ways of writing: functions, results in arrays at hand, overlapping parts, loops."""
    b = d.one(d.buffers)
    value = d.space[b]
    n, last = value.shape[0], d.axis(value.ndim)
    text = b if d.choose(2) else view_of(d, b)
    a = d.operand(lambda other: fits(other, value.shape))
    shape = np.shape(d.value(text))
    same = d.operand(lambda other: np.shape(other) == shape)
    ways = listed(f"""
        {text}.fill({d.number()}); np.multiply({same}, 0.5, out={text}); np.sin({same}, out={text})
        np.add({same}, {same}, out={text}); np.add({a}, 1.0, out={b}, where={b} > 0); np.put({text}, [0, -1], {d.number()})
        {text}.put([0], 0.25); np.place({b}, {b} > 0.3, [0.1]); np.putmask({text}, {same} > 0.3, 0.2)
        np.copyto({text}, {same}); np.copyto({b}, {a}, where={b} < 0.5); np.add.at({text}, [0, 0], {d.number()})
        np.multiply.at({text}, {n - 1}, 0.5); {text}.sort(axis={last}); np.nan_to_num({text}, copy=False)
        np.cumsum({a}, axis={last}, out={b}); np.clip({same}, -0.5, 0.5, out={text}); np.fill_diagonal({text}, 0.5)
        np.put_along_axis({text}, np.zeros({(1,) * value.ndim}, int), 0.5, axis={last})
        {b}[0], {b}[-1] = {b}[-1].copy(), {b}[0].copy(); {b}[1:] += {b}[:-1]; {b}[:] = {b}[::-1]; {b} += {b}.T
        for n in range(1, {n}): {b}[n] += 0.5 * {b}[n - 1]; for row in {text}: row *= 0.5; {text}[...] *= {d.number()}
        {text}.real[...] = 0.5
    """)
    d.run(d.one(ways), "views")
