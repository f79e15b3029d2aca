"""Random programs of slicing, viewing, assigning and arithmetic: on Tensors they do what they do on arrays.

A state machine builds a program step by step on plain arrays, which tell it what shapes there are. At the end the same program
runs under the transforms: all arrays must have NumPy's values, and derivatives those of finite differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import assume, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import functad
from functad.errors import FunctadError

Pool = list[Any]
Step = Callable[[Pool], Any]

START = np.array([[0.3, -0.7, 1.1], [0.9, -1.3, 0.5]])
DIRECTION = np.array([[0.6, -0.2, 0.9], [-0.5, 0.8, 0.3]])

VIEWS: dict[str, Callable[[Any], Any]] = {
    "[1:]": lambda a: a[1:],
    "[::-1]": lambda a: a[::-1],
    "[..., :2]": lambda a: a[..., :2],
    "[..., -1]": lambda a: a[..., -1],
    "[None]": lambda a: a[None],
    "[0]": lambda a: a[0],
    "[...]": lambda a: a[...],
    ".T": lambda a: a.T,
    ".reshape(-1)": lambda a: a.reshape(-1),
    ".ravel()": lambda a: a.ravel(),
    "swapaxes": lambda a: np.swapaxes(a, 0, -1),
    "flip": np.flip,
    "squeeze": np.squeeze,
    "split": lambda a: np.array_split(a, 2)[0],
    "expand_dims": lambda a: np.expand_dims(a, -1),
    "diagonal by einsum": lambda a: np.einsum("ii->i", a[: min(a.shape), : min(a.shape)]),
    "real": lambda a: a.real,
    "rows": lambda a: next(iter(a)),
    "ravel K": lambda a: a.ravel("K"),
    "ravel F": lambda a: np.ravel(a, "F"),
    "ravel A": lambda a: a.ravel("A"),
    "reshape F": lambda a: a.reshape((-1, a.shape[0]), order="F"),
    "reshape A": lambda a: a.reshape(-1, order="A"),
    "reshape turned": lambda a: a.T.reshape(a.shape),
    "flatten K": lambda a: a.flatten("K"),
    "moveaxis": lambda a: np.moveaxis(a, 0, -1),
    "rot90": np.rot90,
    "atleast_2d": np.atleast_2d,
    "atleast_3d": np.atleast_3d,
    "diagonal": np.diagonal,
    "broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)),
    "asarray F": lambda a: np.asarray(a, order="F", like=a),
    "ascontiguousarray": lambda a: np.ascontiguousarray(a, like=a),
    "astype F": lambda a: a.astype(float, order="F", copy=False),
    "astype": lambda a: a.astype(float, copy=False),
    "conj": lambda a: a.conj(),
    "imag": lambda a: (a * 1j).imag,
}
NEW: dict[str, Callable[[Any], Any]] = {
    "sin": np.sin,
    "half": lambda a: a * 0.5,
    "copy": lambda a: a.copy(),
    "mask": lambda a: a[np.arange(a.shape[0]) % 2 == 0],
    "gather": lambda a: a[[0, -1, 0]],
    "sum": lambda a: np.sum(a, axis=0, keepdims=True),
    "zeros_like": np.zeros_like,
    "stack": lambda a: np.stack([a, a * 0.3]),
    "+": lambda a: +a,
    "Fortran": lambda a: np.copy(a, order="F"),
    "insert": lambda a: np.insert(a, 0, 0.5, axis=-1),
    "sort": lambda a: np.sort(a, axis=0),
    "take": lambda a: np.take(a, [0, 0], axis=-1),
    "stack last": lambda a: np.stack([a, a * 0.3], axis=-1),
    "concatenate": lambda a: np.concatenate([a, a], axis=-1),
    "flat": lambda a: np.sin(a.flat[:]),
    "where": lambda a: np.where(np.arange(a.shape[-1]) > 0, a, 0.25),
}
INDICES: dict[str, Any] = {
    "...": Ellipsis,
    "0": 0,
    "-1": -1,
    "1:": slice(1, None),
    "::-1": slice(None, None, -1),
    "..., 0": (Ellipsis, 0),
    "[0, -1]": [0, -1],
    "[0, 0]": [0, 0],
    "..., [0, 0]": (Ellipsis, np.array([0, 0])),
    "mask": "mask",
}


def index_of(name: str, a: Any) -> Any:
    """Return an index for an array; a mask depends on its shape."""
    index = INDICES[name]
    return np.arange(np.prod(a.shape, dtype=int)).reshape(a.shape) % 3 == 0 if isinstance(index, str) else index


def number(v: Any) -> Any:
    """Return a number that depends on all of an array, and on none too strongly for differences."""
    return np.sin(np.sum(v) / 8)


def fitted(v: Any, shape: tuple[int, ...]) -> Any:
    """Return something of a shape that depends on all of an array."""
    return number(v) * (0.1 + np.arange(np.prod(shape, dtype=int)).reshape(shape) / 10)


def assign(a: Any, index: Any, v: Any) -> None:
    a[index] = v


def add(a: Any, v: Any) -> None:
    a += v


def multiply(a: Any, v: Any) -> None:
    a *= v


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "+=": lambda a, v: add(a, fitted(v, a.shape)),
    "*=": lambda a, v: multiply(a, 0.8 + 0.1 * number(v)),
    "+= itself": lambda a, v: add(a, a * 0.1),
    "fill": lambda a, v: a.fill(number(v)),
    "copyto": lambda a, v: np.copyto(a, number(v), where=np.arange(a.shape[-1]) % 2 == 0),
    "put": lambda a, v: np.put(a, [0, -1], np.ravel(v)),
    "out=": lambda a, v: np.multiply(a, 0.5, out=a),
    "out= and where=": lambda a, v: np.add(a, number(v), out=a, where=np.arange(a.shape[-1]) % 2 == 0),
    "add.at": lambda a, v: np.add.at(a, [0, 0], number(v)),
    "multiply.at": lambda a, v: np.multiply.at(a, [0, 0], 0.8 + 0.1 * number(v)),
    "overlap": lambda a, v: assign(a, slice(1, None), a[:-1]),
    "overlap, back": lambda a, v: assign(a, slice(None, -1), a[1:] * 0.9),
    "fill_diagonal": lambda a, v: np.fill_diagonal(a, number(v)),
    "[i][j] =": lambda a, v: assign(a[0], -1, number(v)),
    "rows *=": lambda a, v: [multiply(row, 0.9) for row in a],
    "flat =": lambda a, v: flat(a, v),
}


def flat(a: Any, v: Any) -> None:
    a.flat[1:2] = number(v)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": lambda x: x.copy(),
    "Fortran": np.asfortranarray,
    "backwards": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "gaps": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
}


class Programs(RuleBasedStateMachine):
    """Builds one program."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.text: list[str] = []
        self.pool = self.start(START.copy())
        self.layout = "C"

    @initialize(layout=st.sampled_from(sorted(LAYOUTS)))
    def lay(self, layout: str) -> None:
        self.layout = layout
        self.pool = self.start(LAYOUTS[layout](START))
        self.text.append(f"x in {layout} order")

    @staticmethod
    def start(x: Any) -> Pool:
        return [x * 1.0, np.sin(x[0]), x]

    def pick(self, number: int) -> int:
        return number % len(self.pool)

    def take(self, text: str, step: Step) -> None:
        """Run a step on plain arrays, and keep it if NumPy does not refuse it."""
        before = [a.copy() for a in self.pool]
        try:
            step(self.pool)
        except (ValueError, IndexError, TypeError):
            for a, old in zip(self.pool, before, strict=False):
                if a.flags.writeable:
                    a[...] = old
            assume(False)
        del self.pool[8:]  # a step that adds may leave the pool as it was
        if len(self.pool) == 8 == len(before):
            assume("=" in text.split(maxsplit=1)[0] or "at" in text)
        self.steps.append(step)
        self.text.append(text)

    @rule(number=st.integers(0, 7), name=st.sampled_from(sorted(VIEWS)))
    def view(self, number: int, name: str) -> None:
        i = self.pick(number)
        assume(len(self.pool) < 8 and self.pool[i].ndim < 4 and self.pool[i].size)
        self.take(f"a{len(self.pool)} = view {name} of a{i}", lambda pool: pool.append(np_array(VIEWS[name](pool[i]))))

    @rule(number=st.integers(0, 7), name=st.sampled_from(sorted(NEW)))
    def new(self, number: int, name: str) -> None:
        i = self.pick(number)
        assume(len(self.pool) < 8 and 0 < self.pool[i].ndim < 4 and self.pool[i].size)
        self.take(f"a{len(self.pool)} = {name} of a{i}", lambda pool: pool.append(NEW[name](pool[i])))

    @rule(number=st.integers(0, 7), other=st.integers(0, 7), name=st.sampled_from(sorted(INDICES)), scalar=st.booleans())
    def setitem(self, number: int, other: int, name: str, *, scalar: bool) -> None:
        i, j = self.pick(number), self.pick(other)
        assume(self.pool[i].size)

        def step(pool: Pool) -> None:
            index = index_of(name, pool[i])
            v = number(pool[j]) if scalar else fitted(pool[j], np.empty(pool[i].shape)[index].shape)
            pool[i][index] = v

        self.take(f"= a{i}[{name}] = a{j}{' summed' if scalar else ''}", step)

    @rule(number=st.integers(0, 7), other=st.integers(0, 7), name=st.sampled_from(sorted(WRITES)))
    def write(self, number: int, other: int, name: str) -> None:
        i, j = self.pick(number), self.pick(other)
        assume(self.pool[i].size and self.pool[i].ndim)
        assume(self.pool[i].flags.writeable)  # NumPy's `add.at` writes into read-only arrays, which a Tensor refuses
        self.take(f"= a{i} {name} a{j}", lambda pool: WRITES[name](pool[i], pool[j]))

    def run(self, x: Any) -> tuple[Any, ...]:
        pool = self.start(x)
        for step in self.steps:
            step(pool)
            del pool[8:]
        return tuple(pool)

    def loss(self, x: Any) -> Any:
        pool = self.run(x)
        return sum(np.sum(np.sin(a) * (i + 1)) for i, a in enumerate(pool))

    def teardown(self) -> None:
        program = "\n".join(self.text)
        x, direction = LAYOUTS[self.layout](START), LAYOUTS[self.layout](DIRECTION)
        expected = self.run(LAYOUTS[self.layout](START))
        values, tangents = functad.jvp(self.run, (x,), (direction,))
        h = 1e-6
        higher, lower = (self.run(LAYOUTS[self.layout](START + d * DIRECTION)) for d in (h, -h))
        for value, tangent, wanted, a, b in zip(values, tangents, expected, higher, lower, strict=True):
            assert np.shape(value) == np.shape(wanted), program
            # NumPy's sines of contiguous and of strided arrays, and its sums, may differ in the last place.
            np.testing.assert_allclose(value, wanted, rtol=1e-14, atol=1e-15, err_msg=program)
            close = 1e-5 * max(1.0, np.abs(wanted).max(initial=0), np.abs(tangent).max(initial=0))
            np.testing.assert_allclose(tangent, (a - b) / (2 * h), rtol=0, atol=close, err_msg=program)
        change = sum(np.sum(np.cos(v) * t * (i + 1)) for i, (v, t) in enumerate(zip(values, tangents, strict=True)))
        gradient = functad.grad(self.loss)(x)
        np.testing.assert_allclose(np.sum(gradient * direction), change, rtol=1e-9, atol=1e-9, err_msg=program)
        _, second = functad.jvp(functad.grad(self.loss), (x,), (direction,))
        reverse = functad.grad(lambda x: np.sum(functad.grad(self.loss)(x) * direction))(x)
        np.testing.assert_allclose(reverse, second, rtol=1e-8, atol=1e-8 * (1 + np.abs(second).max()), err_msg=program)
        self.look_without_values(x, expected, gradient, program)

    def look_without_values(self, x: Any, expected: tuple[Any, ...], gradient: Any, program: str) -> None:
        """Where values are not known, the program gives the same, or is refused."""
        batch = np.stack([x, x]) if self.layout == "C" else np.moveaxis(np.stack([x.T, x.T]), -1, 1)
        traces: dict[str, Callable[[], Any]] = {
            "list": lambda: functad.make_expressions(self.run)(x)(x),
            "vmap": lambda: [a[0] for a in functad.vmap(self.run)(batch)],
            "vmap of grad": lambda: functad.vmap(functad.grad(self.loss))(batch)[:1],
        }
        for name, trace in traces.items():
            if name != "list" and self.layout not in ("C", "Fortran"):
                continue  # the examples of a batch lie otherwise
            try:
                found = trace()
            except FunctadError:
                continue
            wanted = [gradient] if name == "vmap of grad" else expected
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"{name}\n{program}")


def np_array(a: Any) -> Any:
    """Keep what NumPy gave: an array, never a scalar, which nothing can be written into."""
    assume(a.ndim > 0)
    return a


MANY = settings().max_examples if settings().max_examples > 1000 else 20
"""Programs to try: all of the profile `long`, else 20, which take half a minute."""

Programs.TestCase.settings = settings(Programs.TestCase.settings, max_examples=MANY, stateful_step_count=14)
TestPrograms = Programs.TestCase
