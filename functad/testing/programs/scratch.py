"""Random lines that reuse plain arrays: indices, masks and constants, overwritten after use."""

from __future__ import annotations

import numpy as np

from functad.testing.programs.drafts import Draft, Impossible, statement


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
