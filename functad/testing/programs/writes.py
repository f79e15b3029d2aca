"""Random lines that write to arrays: buffers that the program created, and views of them."""

from __future__ import annotations

import numpy as np

from functad.testing.programs.drafts import Draft, Impossible, statement


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
