"""Functions of another library as functions of functad: the common part of `from_jax` and `from_torch`.

The other library computes the values. Its transforms create the pullback, the pushforward and the batched function. Each of
these is again a function of the library and has the same rules, so the library computes derivatives of all orders and all
nested transforms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from functad.errors import InputError
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, is_array, is_inexact, spec_of, stand_in
from functad.immutable import exact_key
from functad.places import here, name_of
from functad.process import by_name
from functad.rules.call import Rules, apply
from functad.tracing.trace import Recorded, value_of
from functad.transforms.leaves import replaced
from functad.trees import Structure, flatten

P = ParamSpec("P")
R = TypeVar("R")
Flat = Callable[..., Sequence[Any]]
"""A function from arrays to a sequence of arrays, of the other library or of NumPy."""


class Library(NamedTuple):
    """The functions of the other library that a bridge uses.

    Attributes:
        array: the type of the library's arrays.
        run: `run(flat, arrays)` calls a function of the library with NumPy arrays and returns NumPy arrays.
        vjp: `vjp(flat, *primals)` returns the results and the pullback, without conjugation.
        jvp: `jvp(flat, primals, tangents)` returns the results and their tangents.
        vmap: `vmap(flat, axes)` returns the batched function.
        like: `like(f, flat)` returns `flat`, compiled if `f` is compiled.
        of_jax: the library is JAX; the backend `xla` includes its functions in compiled programs.
    """

    array: type
    run: Callable[[Flat, Sequence[Any]], Sequence[Any]]
    vjp: Callable[..., Any]
    jvp: Callable[..., Any]
    vmap: Callable[..., Any]
    like: Callable[[Any, Flat], Flat]
    of_jax: bool = False


_MOST_KNOWN = 64
"""The largest number of flat functions that a foreign function keeps."""


class ForeignFunction(Generic[P, R]):
    """A function of another library; the result of `from_jax` and `from_torch`.

    With NumPy arrays it returns NumPy arrays. With Tensors, a trace records it as one operation. With arrays of its own
    library, it calls the original function.
    """

    def __init__(self, f: Callable[P, R], library: Library, bridge: Callable[..., Any]) -> None:
        functools.update_wrapper(self, f, updated=())
        self.function = f
        self.library = library
        self.bridge = bridge
        self._known: dict[Hashable, _FlatFunction] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the value, recorded as one operation if an argument contains a traced Tensor."""
        given, structure = flatten((args, kwargs))
        leaves = list(map(value_of, given))
        own = [isinstance(leaf, self.library.array) for leaf in leaves]
        if any(own) and not any(isinstance(leaf, Recorded) for leaf in leaves):
            return self.function(*args, **kwargs)
        places = [i for i, leaf in enumerate(leaves) if is_array(leaf)]
        flat = self._flat(structure, tuple(places), tuple(replaced(leaves, places, [None] * len(places))))
        arrays = [self.library.run(lambda a: [a], [leaves[i]])[0] if own[i] else leaves[i] for i in places]
        outs = apply(flat.rules(), arrays)
        return flat.result[0].unflatten(outs)  # type: ignore[no-any-return]

    def _flat(self, structure: Structure, places: tuple[int, ...], others: tuple[Any, ...]) -> _FlatFunction:
        """Return the function of the array leaves; the same object for equal structures, positions and other leaves."""
        try:
            key = structure.exact_key(), places, exact_key(others)
            known = self._known.get(key)
        except TypeError:  # an unhashable argument that is not an array
            return _FlatFunction(self, _of_leaves(self, structure, places, others))
        if known is None:
            if len(self._known) >= _MOST_KNOWN:  # arguments such as step counters differ in each call
                self._known.clear()
            known = self._known[key] = _FlatFunction(self, _of_leaves(self, structure, places, others))
        return known

    def __reduce__(self) -> Any:
        return by_name(self, getattr(self, "__module__", None)) or (self.bridge, (self.function,))

    def __repr__(self) -> str:
        return f"<{self.bridge.__name__} of {name_of(self.function)}>"


def _of_leaves(
    foreign: ForeignFunction[..., Any], structure: Structure, places: Sequence[int], others: Sequence[Any]
) -> tuple[Flat, list[Structure]]:
    """Return the function of arrays, and a list; a call of the function stores the structure of its result in the list.

    Without arrays, the function of the library may compute with Python numbers, and return them.
    """
    result: list[Structure] = []

    def flat(*arrays: Any) -> list[Any]:
        args, kwargs = structure.unflatten(replaced(others, places, arrays))
        outs, result[:] = (found := flatten(foreign.function(*args, **kwargs)))[0], found[1:]
        for out in outs:
            if not (isinstance(out, foreign.library.array) or (not places and type(out) in PYTHON_SCALARS)):
                raise InputError(
                    f"{foreign!r}, called at {here()}, returned a {type(out).__name__}, but its results must be arrays of its "
                    f"library, whose derivatives are known there."
                )
        return outs

    return flat, result


class _FlatFunction:
    """A function of arrays of the other library, with its derived functions.

    Attributes:
        flat: the function.
        result: a list with the structure of the result of the user function; empty before the first call.
        derived: a cache of derived functions (pullback, pushforward, batched). They are compiled if the user function is
            compiled, and the cache keeps their compiled code.
    """

    def __init__(self, foreign: ForeignFunction[..., Any], of: tuple[Flat, list[Structure]]) -> None:
        self.foreign = foreign
        self.flat, self.result = of
        self.derived: dict[Hashable, _FlatFunction] = {}

    def _derive(self, make: Callable[..., Flat], *key: Any) -> _FlatFunction:
        found = self.derived.get((make, *key))
        if found is None:
            own = self.foreign.library.like(self.foreign.function, make(self.foreign.library, self.flat, *key))
            found = self.derived[make, *key] = _FlatFunction(self.foreign, (own, self.result))
        return found

    def rules(self) -> Rules:
        """Return the rules of the function; each calls a derived function of the library."""
        return Rules(
            function=self.foreign,
            value=self.value,
            forward=self.forward,
            backward=self.backward,
            push=self.push,
            batch=self.batch,
            spec=self.spec,
            name=getattr(self.foreign.function, "__name__", "foreign"),
            loops=True,
            of_jax=self.flat if self.foreign.library.of_jax else None,
        )

    def value(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the results, computed by the library."""
        return tuple(self.foreign.library.run(self.flat, arrays))

    def spec(self, *specs: ArraySpec) -> tuple[ArraySpec, ...]:
        """Return the specs of the results from a call with ones, which also supports branches on values."""
        return tuple(map(spec_of, self.value(*map(stand_in, specs))))

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the results and the residuals: the arguments, and the positions of the results that can have a cotangent."""
        outs = apply(self.rules(), arrays)
        return outs, (arrays, tuple([i for i, out in enumerate(outs) if is_inexact(out)]))

    def backward(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments."""
        arrays, of = kept
        active = tuple([i for i, a in enumerate(arrays) if is_inexact(a)])
        pull = self._derive(pulled, len(arrays), active, tuple(of))
        found = apply(pull.rules(), [*arrays, *[gs[i] for i in of]])
        return replaced([None] * len(arrays), active, found)

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results."""
        moving = tuple([i for i, t in enumerate(ts) if t is not None and is_inexact(arrays[i])])
        outs = apply(self.rules(), arrays)
        of = tuple([i for i, out in enumerate(outs) if is_inexact(out)])
        found = apply(self._derive(pushed, len(arrays), moving, of).rules(), [*arrays, *[ts[i] for i in moving]])
        return replaced([None] * len(outs), of, found)

    def batch(self, size: int, values: Sequence[Any], batched: Sequence[bool]) -> tuple[Any, ...]:
        """Return the results for all examples."""
        return apply(self._derive(_mapped, *[0 if flag else None for flag in batched]).rules(), values)


def pulled(library: Any, flat: Flat, count: int, active: Sequence[int], of: Sequence[int]) -> Flat:
    """Return the function that pulls cotangents back, with `count` primals and the cotangents as arguments.

    Args:
        library: the library with the `vjp`.
        flat: the function.
        count: the number of its arguments.
        active: the positions of the arguments to differentiate with respect to.
        of: the positions of the results with cotangents.
    """

    def pull(*given: Any) -> list[Any]:
        part = _part(flat, given[:count], active, of)
        return list(library.vjp(part, *[given[i] for i in active])[1](list(given[count:])))

    return pull


def pushed(library: Any, flat: Flat, count: int, active: Sequence[int], of: Sequence[int]) -> Flat:
    """Return the function that pushes tangents forward, with `count` primals and the tangents as arguments; see `pulled`."""

    def push(*given: Any) -> list[Any]:
        part = _part(flat, given[:count], active, of)
        return list(library.jvp(part, tuple([given[i] for i in active]), tuple(given[count:]))[1])

    return push


def _mapped(library: Library, flat: Flat, *axes: int | None) -> Flat:
    return library.vmap(flat, axes)  # type: ignore[no-any-return]


def _part(flat: Flat, arrays: Sequence[Any], active: Sequence[int], of: Sequence[int]) -> Flat:
    def part(*own: Any) -> list[Any]:
        outs = flat(*replaced(arrays, active, own))
        return [outs[i] for i in of]

    return part
