"""Random lines that read and write arrays through views and copies in every memory order."""

from __future__ import annotations

import numpy as np

from functad.testing.programs.drafts import FAMILIES, Draft, Impossible, line, statement

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
