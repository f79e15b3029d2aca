"""The lines of random programs that write into arrays: buffers that the program itself made, and views of them."""

from __future__ import annotations

import numpy as np

from functad.testing.programs.drafts import Draft, fits, statement
from functad.testing.programs.text import Impossible, listed


@statement("mutation")
def new_buffer(d: Draft) -> None:
    """A copy of a value, or an array of constants of its shape, that later lines write into."""
    a = d.array()
    _bind(d, d.one([f"np.copy({a})", f"np.zeros_like({a})", f"{a}.copy()", f"np.full_like({a}, 0.5)", f"{a} * 1.0"]))


@statement("mutation")
def view(d: Draft) -> None:
    """A view of a buffer, which shares its memory."""
    b = d.one(d.buffers)
    ndim = np.ndim(d.space[b])
    ways = [f"{b}[1:]", f"{b}[::-1]", f"{b}[...]", f"{b}.T", f"{b}[None]", f"{b}.reshape(-1)"]
    ways += [f"{b}[:, 0]", f"np.swapaxes({b}, 0, -1)", f"{b}[0]", f"{b}[..., ::2]"] if ndim > 1 else []
    text = d.one(ways)
    if not np.shares_memory(d.value(text), d.space[b]):
        raise Impossible
    _bind(d, text)


def _bind(d: Draft, text: str) -> None:
    value = d.value(text)
    if not isinstance(value, np.ndarray) or not value.ndim or not value.size or not d.accepts(value):
        raise Impossible
    d.bind("b", text, value, "mutation", d.buffers, d.names)
    d.mutates = True


def _value_for(d: Draft, target: str) -> str:
    """Return a value that can be written into a place: a number, or something that broadcasts to it."""
    shape = np.shape(d.value(target))
    fitting = [name for name in reversed(d.names) if fits(d.space[name], shape)]
    name = d.one([*fitting, "0.5"]) if fitting else "0.5"
    return str(d.one([name, f"np.sin({name})", f"({name} * 0.5)"]))


@statement("mutation", 2)
def assigned(d: Draft) -> None:
    """Elements set, or changed in place."""
    b = d.one(d.buffers)
    value = d.space[b]
    length = value.shape[0]
    index = d.one(
        ["0", "1:", "...", "::-1", "-1", ":", f"[{d.choose(length)}, {d.choose(length)}]", f"{b} > 0.2", "..., 0", "::2"]
    )
    target = f"{b}[{index}]"
    sign = d.one(["=", "+=", "*=", "-="])
    if sign == "=" and index == f"{b} > 0.2":
        d.run(f"{target} {sign} {d.number()}", "mutation")
        return
    if sign == "=" and index.startswith("[") and len({*index.strip("[]").split(", ")}) == 1:
        raise Impossible  # which of two values written to the same place stays is NumPy's secret
    d.run(f"{target} {sign} {_value_for(d, target)}", "mutation")


@statement("mutation")
def whole(d: Draft) -> None:
    """A whole buffer changed in place."""
    b = d.one(d.buffers)
    d.run(f"{b} {d.one(['*=', '+=', '-='])} {_value_for(d, b)}", "mutation")


@statement("mutation")
def by_function(d: Draft) -> None:
    """A NumPy function that writes into its argument."""
    b = d.one(d.buffers)
    value = d.space[b]
    length = value.shape[0]
    picks = [d.choose(length) for _ in range(1 + d.choose(3))]
    ways = listed(f"""
        np.add.at({b}, {picks}, {_value_for(d, f"{b}[{picks}]")}); np.copyto({b}, {_value_for(d, b)})
        np.copyto({b}, {_value_for(d, b)}, where={b} > 0)
        np.put_along_axis({b}, np.argmax({b}, axis=0, keepdims=True), 0.5, axis=0); np.subtract.at({b}, {picks}, 0.25)
    """)
    if value.ndim > 1 and len(set(value.shape)) == 1:
        ways.append(f"np.fill_diagonal({b}, {d.number()})")
    d.run(d.one(ways), "mutation")
