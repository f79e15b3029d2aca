"""The lines of random programs that use plain arrays again: indices, masks and constants, overwritten after they were read."""

from __future__ import annotations

import numpy as np

from functad.testing.programs.drafts import Draft, statement
from functad.testing.programs.text import Impossible, listed


def _named(d: Draft, text: str, *lists: list[str]) -> str:
    return d.bind("c", text, d.value(text), "scratch", d.scratch, *lists)


def _used(d: Draft, reads: list[str], writes: list[str]) -> None:
    """Append a line that uses the newest of the plain arrays, and then one that overwrites it."""
    if writes and not d.choose(3):
        d.run(d.one(writes), "scratch")
    else:
        d.add(d.one(reads), "scratch")
    _overwrite(d, d.scratch[-1])


@statement("scratch")
def indices(d: Draft) -> None:
    """An array of indices, which is used at once and overwritten."""
    a = d.array()
    shape = np.shape(d.space[a])
    axis, first = d.axis(len(shape)), shape[0]
    picks = [d.choose(shape[axis]) for _ in range(1 + d.choose(3))]
    c = _named(d, d.one([f"np.array({picks})", f"np.array({picks}, np.int8)", f"np.array([{picks}, {picks[::-1]}])"]))
    along = f"{c}.reshape({(-1, *(1,) * (len(shape) - 1))}) % {first}"
    reads = listed(f"""
        np.take({a}, {c}, axis={axis}); {a}.take({c}, axis={axis}); {a}[{c} % {first}]; {a}[{c}]; {a}[..., {c}]
        np.take_along_axis({a}, {along}, axis=0); {a}[np.ix_({c}.ravel())]; np.choose({c}.ravel()[0] % 2, [{a}, {a} * 2])
        np.delete({a}, {c}.ravel()[:1] % {first}, axis=0); np.insert({a}, {c}.ravel(), 0.5, axis={axis})
        np.repeat({a}, {c}.ravel()[0] + 1, axis={axis}); np.roll({a}, {c}.ravel()[0], axis={axis})
        np.split({a}, {c}.ravel()[:1], axis={axis})[-1]; np.add.reduceat({a}, {c}.ravel() % {first}, axis=0)
        np.bincount({c}.ravel(), weights=np.resize({a}, {c}.size)); {a}[{c}, ..., 0]
        np.take({a}, {c}, axis={axis}, mode='clip')
    """)
    writes = []
    if d.buffers:
        b = d.one(d.buffers)
        m, ndim = np.shape(d.space[b])[0], np.ndim(d.space[b])
        value = d.one([name for name in d.names if np.ndim(d.space[name]) == 0] + [d.number()])
        writes = listed(f"""
            {b}[{c} % {m}] = {value}; {b}[{c} % {m}] *= 0.5; np.put({b}, {c}, {value}); np.add.at({b}, {c} % {m}, {value})
            np.put_along_axis({b}, {c}.reshape({(-1, *(1,) * (ndim - 1))}) % {m}, {value}, axis=0)
        """)
    _used(d, reads, writes)


@statement("scratch")
def mask(d: Draft) -> None:
    """An array of booleans, which is used at once and overwritten."""
    a = d.array()
    value = d.space[a]
    bits = np.random.default_rng(d.choose(1 << 10)).random(value.shape) < 0.5
    plain = f"np.array({bits.tolist()})" if value.size < 100 else f"np.arange({value.size}).reshape({value.shape}) % 3 == 0"
    compared = not d.choose(2)
    c = _named(d, f"{a} > 0.2" if compared else plain, d.masks)
    b = d.operand(lambda other: np.shape(other) == value.shape)
    reads = listed(f"""
        np.where({c}, {a}, {b} * 0.5); np.select([{c}, ~{c}], [{a}, {b} * 2.0])
        np.piecewise({a}, [{c}], [lambda v: v * 2.0, lambda v: v * 0.5]); np.sum({a}, where={c})
        np.add({a}, {b}, where={c}, out=np.copy({a})); np.choose({c}, [{a}, {b} * 2.0]); {c} * {a}
        np.where({c}[::-1], 1.0, {a}); {a}[{c}]; np.compress({c}.ravel(), {a}.ravel()); np.extract({c}, {a})
    """)
    writes = []
    for name in [name for name in d.buffers if np.shape(d.space[name]) == value.shape]:
        writes += listed(f"""
            {name}[{c}] = 0.5; np.copyto({name}, {a}, where={c}); np.putmask({name}, {c}, {a}); {name}[{c}] *= 2.0
            np.place({name}, {c}, [0.5]); {name}[{c}] = {a}[{c}]
        """)
    d.value_dependent |= compared
    _used(d, reads, writes)


@statement("scratch")
def constant(d: Draft) -> None:
    """An array of numbers, which is used at once and overwritten."""
    a = d.array()
    shape = np.shape(d.space[a])
    n = shape[-1]
    constants = [f"np.full({shape}, 0.5)", f"np.arange(1.0, {n + 1})", f"np.linspace(0.2, 0.9, {n})", "np.array(2.0)"]
    c = _named(d, d.one(constants))
    reads = listed(f"""
        {a} * {c}; {c} - {a}; {a} / {c}; np.multiply({c}, {a}); np.arctan2({a}, {c}); np.maximum({a}, {c})
        np.where({a} > 0, {a}, {c}); np.concatenate([{a}.ravel(), {c}.ravel()]); np.dot({a}, {c}); {a} @ {c}
        np.einsum('...i,...i', {a}, {c}); np.interp({a}, np.sort({c}.ravel()), {c}.ravel())
        np.convolve({a}.ravel(), {c}.ravel()); np.clip({a}, -{c}, {c}); np.average({a}, axis=-1, weights={c})
        np.polyval({c}.ravel()[:3], {a}); np.linalg.norm({a} - {c}); np.gradient({a}, np.cumsum({c}), axis=-1)
        np.broadcast_to({c}, {shape}) * {a}; {c}.reshape(-1)[::-1] * {a}; np.hypot({a}, {c}.T); np.exp({a}) ** {c}
        np.linalg.solve(np.diag({c}), {a}.T); np.kron({c}, {a})
    """)
    writes = []
    if d.buffers:
        b = d.one(d.buffers)
        writes = [f"{b}[...] = {c}", f"{b} *= {c}", f"{b}[0] = {c}[0]", f"np.copyto({b}, {c})", f"np.add({b}, {c}, out={b})"]
    _used(d, reads, writes)


@statement("scratch")
def overwritten(d: Draft) -> None:
    """One of the plain arrays overwritten at any time."""
    _overwrite(d, d.one(d.scratch[::-1]))


def _overwrite(d: Draft, c: str) -> None:
    value = d.space[c]
    if not isinstance(value, np.ndarray) or not value.flags.writeable:
        raise Impossible
    new = {"f": "3.0", "b": "False", "i": "0"}[value.dtype.kind]
    ways = listed(f"""
        {c}[...] = {new}; {c}.fill({new}); np.copyto({c}, {new}); {c}.ravel()[...] = {new}; {c}.T[...] = {new}
        {c}.flat = {new}; np.put({c}, [0], {new}); np.place({c}, np.ones({value.shape}, bool), [{new}])
    """)
    if value.ndim:
        ways += [f"{c}[0] = {new}", f"{c}[::-1] = {c}.copy()", f"{c}.sort()", f"np.logical_not({c}, out={c}, casting='unsafe')"]
    if value.dtype.kind == "f":
        ways += [f"{c} *= 0.5", f"np.negative({c}, out={c})", f"{c} += 1.0"]
    statement = d.one(ways)
    exec(statement, d.space)  # noqa: S102 - the text was drawn from a fixed grammar
    d.state(statement, "scratch")
