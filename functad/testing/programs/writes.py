"""Random lines that write to arrays, by family.

The family `mutation` writes to buffers that the program created, and to slices of them. The family `views` reads and writes
through views and copies in every memory order. The family `scratch` reuses plain arrays: indices, masks and constants,
overwritten after use.
"""

from __future__ import annotations

import numpy as np

from functad.testing.programs.drafts import FAMILIES, Draft, Impossible, line, statement


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
