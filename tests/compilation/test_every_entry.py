"""The backends `numpy` and `llvm` compute what the lists of all entries say: each sample in several dtypes, forward, reverse
and of second order, in batches, empty, without axes, for arrays that broadcast or do not lie in order, for NaN and infinities.

What a backend does not know it hands to NumPy, which counts too. What XLA computes is checked in test_backends.py.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad import Expressions
from functad.backends.backend import find
from functad.compilation.forms import Forms
from functad.compilation.passes import simplified
from functad.errors import FunctadError, MissingPackageError
from functad.expressions.expressions import Constant, Equation, evaluate
from functad.testing import Call, calls, every_entry
from tests.entries import is_constant, label


def installed(name: str) -> bool:
    try:
        find(name)
    except MissingPackageError:
        return False
    return True


BACKENDS = [name for name in ("numpy", "llvm") if installed(name)]
ENTRIES = [entry for entry in every_entry() if entry.samples is not None and entry.status != "refused"]


SAMPLES: dict[Any, int | None] = {np.float64: None, np.float32: 1, np.complex128: 1, np.complex64: 1}
"""The number of samples of an entry that are checked in a dtype; `None` means all."""

if os.environ.get("FUNCTAD_EVERY_ENTRY"):
    SAMPLES |= {np.float32: 3, np.complex128: 2}

LONGEST = 2000 if os.environ.get("FUNCTAD_EVERY_ENTRY") else 500
"""Equations after which no more forms of an entry are added: of long lists, as of elliptic integrals, few forms are enough."""

UNTRACED = {
    *("shares_memory", "may_share_memory", "array2string", "array_repr", "array_str", "isnat"),  # look at no numbers
    *("nonzero", "flatnonzero", "argwhere", "unique", "unique_values", "unique_counts", "unique_inverse", "unique_all"),
    *("union1d", "intersect1d", "setdiff1d", "setxor1d", "trim_zeros", "polymul", "polydiv", "roots"),
    *("special.chndtridf", "special.ncfdtrinc", "special.ncfdtridfn", "special.ncfdtridfd"),  # refuse derivatives
    "functad.primitives.elementwise.guard.checked",  # raises for all values but its own
    "functad.primitives.elementwise.guard.guard",
}
"""Entries without a list: the shapes of most of their results depend on values."""

ODD = (np.nan, np.inf, 0.0, -0.0, -np.inf, 1e-30)
"""Values at which functions have kinks, poles or no value."""


class Form(NamedTuple):
    """A list, inputs for it, and what it gives there."""

    name: str
    expressions: Expressions
    inputs: list[Sequence[Any]]
    expected: list[Sequence[Any]]


def form(name: str, function: Callable[..., Any], *inputs: Sequence[Any]) -> Form | None:
    """Return the list of a function, with those inputs that NumPy takes; `None` if a trace refuses the function."""
    refusals = (FunctadError, ValueError, TypeError, IndexError, np.linalg.LinAlgError, ArithmeticError)
    try:
        own = Form(name, functad.make_expressions(function)(*inputs[0]), [], [])
    except refusals:
        return None
    for primals in inputs:
        with suppress(*refusals):
            own.expected.append(evaluate(own.expressions, primals))
            own.inputs.append(primals)
    return own if own.inputs else None


def reverse(call: Call) -> Callable[..., Any]:
    """Return the call with its pull-back, as a function of what is differentiated."""

    def both(*given: Any) -> Any:
        if is_constant(call.entry) or not call.smooth(*given) or any(map(is_integer_array, call.primals)):
            return call.arrays(*given)
        values, pullback = functad.vjp(call.smooth, *given)
        return values, pullback(tuple([np.sin(v) + 1 for v in values]))

    return both


def forward(call: Call) -> Callable[..., Any]:
    """Return the push-forward of a call."""
    return lambda *given: functad.jvp(call.smooth, given, tuple([np.cos(x) for x in given]))


def second(call: Call) -> Callable[..., Any]:
    """Return derivatives of the pull-back, forward over reverse."""
    return lambda *given: functad.jvp(reverse(call), given, tuple([np.cos(x) for x in given]))[1]


def strided(x: Any) -> Any:
    """Return an array with the same values, whose elements do not lie next to each other."""
    return np.stack([x, x], -1)[..., 0] if np.ndim(x) else x


def special(x: Any, values: Sequence[float]) -> Any:
    """Return an array with some values in every second place; the largest and least ones if they are integers."""
    x = np.array(x)
    if x.dtype.kind in "iu":
        values = [np.iinfo(x.dtype).min, np.iinfo(x.dtype).max, 0]
    if x.dtype.kind in "iufc":
        x.flat[::2] = np.resize(values, x.flat[::2].size)
    return x[()]


SHAPES: list[Callable[[int], tuple[int, ...]]] = [lambda i: (), lambda i: (0, 3), lambda i: (2, 1) if i % 2 else (3,)]
"""Of the arguments of functions that broadcast, by their number."""


def is_integer_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "iub"


def sample_calls(entry: Any, dtype: Any) -> list[Call]:
    """Return the sample calls of an entry that have inputs, one that has axes first; none of what is only for real numbers."""
    if np.dtype(dtype).kind == "c" and not getattr(entry, "complex", True):
        return []
    try:
        found = calls(entry, dtype)
    except (TypeError, ValueError):
        return []
    if not any(call.primals for call in found):  # functions of integers
        found = [replace(call, positions=[i for i, x in enumerate(call.leaves) if is_integer_array(x)]) for call in found]
    found = [call for call in found if call.primals]
    return sorted(found, key=lambda call: not any(map(np.ndim, call.primals)))


def forms(entry: Any) -> Iterator[Form | None]:
    """Return the forms of an entry: each sample at its own values, apart in memory, and at odd ones; others of the first.

    What depends on the dtype shows in few samples of the others, and infinities in functions of SciPy take hours (hyp1f1).
    """
    odd = tuple([v for v in ODD if not (entry.name.startswith("special.") and np.isinf(v))])

    def sampled(call: Call) -> Form | None:
        given = call.primals
        return form(str(call), reverse(call), given, [strided(x) for x in given], [special(x, odd) for x in given])

    found = {dtype: sample_calls(entry, dtype)[:number] for dtype, number in SAMPLES.items()}
    for own in found.values():
        yield from map(sampled, own[:1])
    for call in found[np.float64][:1]:
        if not is_constant(entry):
            yield form("forward", forward(call), call.primals)
        yield form("batch", functad.vmap(reverse(call)), [np.stack([x, np.flip(x)]) for x in call.primals])
        yield form("empty", reverse(call), [x[:0] if np.ndim(x) else x for x in call.primals])
        for shape in SHAPES if getattr(entry, "broadcasts", False) else ():
            yield form(f"shape {shape(1)}", reverse(call), [np.resize(x, shape(i)) for i, x in enumerate(call.primals)])
    for own in found.values():
        yield from map(sampled, own[1:])
    for call in found[np.float64][: not is_constant(entry)]:
        yield form("second order", second(call), call.primals)


def merged(lists: Sequence[Expressions]) -> Expressions:
    """Return one list that computes what several do, so that it is compiled at once."""
    counts = [len(own.inputs) for own in lists]
    places: list[list[int]] = []
    inputs, inner = 0, sum(counts)
    for own, count in zip(lists, counts, strict=True):
        rest = len(own.specs) - count
        places.append([*range(inputs, inputs + count), *range(inner, inner + rest)])
        inputs, inner = inputs + count, inner + rest

    def moved(source: int | Constant, slots: list[int]) -> int | Constant:
        return source if isinstance(source, Constant) else slots[source]

    pairs = list(zip(lists, places, strict=True))
    equations = [
        Equation(e.primitive, tuple([moved(s, slots) for s in e.inputs]), e.params, tuple([slots[s] for s in e.outputs]))
        for own, slots in pairs
        for e in own.equations
    ]
    outputs = [moved(s, slots) for own, slots in pairs for s in own.outputs]
    specs = [s for own, count in zip(lists, counts, strict=True) for s in own.specs[:count]]
    specs += [s for own, count in zip(lists, counts, strict=True) for s in own.specs[count:]]
    names = [f"x{i}" for i in range(sum(counts))]
    structures = functad.tree_structure((tuple(names), {})), functad.tree_structure(tuple(outputs))
    return Expressions(tuple(names), tuple(equations), tuple(outputs), tuple(specs), *structures)


def check(found: Any, expected: Any, what: Any, epsilon: float | None = None) -> None:
    """Compare a result: the same dtype, shape and values that are no numbers; the others but for their last digits."""
    a, b = np.asarray(found), np.asarray(expected)
    assert (a.dtype, a.shape) == (b.dtype, b.shape), what
    if a.dtype.kind not in "fc":
        assert np.array_equal(a, b), what
        return
    epsilon = np.finfo(a.dtype).eps if epsilon is None else epsilon
    for x, y in ((a.real, b.real), (a.imag, b.imag)) if a.dtype.kind == "c" else ((a, b),):
        known = np.isfinite(y)
        assert np.array_equal(x[~known], y[~known], equal_nan=True), (what, a, b)
        size = np.max(np.abs(b), initial=1.0, where=np.isfinite(b))
        assert np.all(np.abs(x[known] - y[known]) <= 64 * epsilon * (np.abs(y[known]) + size)), (what, a, b)


def same_type(found: Any, expected: Any) -> bool:
    """Say whether a number stays one, and an array without axes an array."""
    return type(found) is type(expected)


def epsilon_of(expressions: Expressions) -> float:
    """Return the rounding of the lowest precision that a list computes in; what is cast to a higher one keeps it."""
    return float(max([np.finfo(spec.dtype).eps for spec in expressions.specs if spec.dtype.kind in "fc"], default=0.0))


@functools.cache
def machine(level: int) -> Any:
    """Return this processor with so much optimisation."""
    from functad.backends.llvm.module import Machine

    return Machine(level=level)


def compiled(backend: str, expressions: Expressions, level: int) -> Any:
    if backend != "llvm":
        return find(backend).compile(expressions)
    from functad.backends.native.program import LlvmProgram

    return LlvmProgram(expressions, machine(level))


OPTIMISED = 1 if os.environ.get("FUNCTAD_EVERY_ENTRY") else 16
"""One of so many entries is compiled as users' functions are. LLVM takes four times as long for it, minutes for all: the others
are compiled without optimisation, from the same text."""


def some_forms(entry: Any) -> list[Form]:
    """Return forms of an entry, until there are many equations."""
    found: list[Form] = []
    for one in filter(None, forms(entry)):
        found.append(one)
        if sum(len(each.expressions.equations) for each in found) > LONGEST:
            break
    return found


@pytest.mark.parametrize(("number", "entry"), list(enumerate(ENTRIES)), ids=[label(entry) for entry in ENTRIES])
def test_every_backend_computes_all_forms_of_an_entry(number: int, entry: Any) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = some_forms(entry)
        assert bool(every) != (label(entry) in UNTRACED)
        for backend in BACKENDS if every else ():
            expressions = simplified(whole := merged([one.expressions for one in every]), fused=backend != "numpy")
            forms_of_results = Forms(whole)
            program = compiled(backend, expressions, 0 if number % OPTIMISED else 3)
            for k in range(max(len(one.inputs) for one in every)):
                leaves = [x for one in every for x in one.inputs[k % len(one.inputs)]]
                found = iter(forms_of_results.fitted(program(leaves), leaves))
                for one in every:
                    what = label(entry), one.name, backend, k, one.expressions
                    for expected in one.expected[k % len(one.inputs)]:
                        result = next(found)
                        assert same_type(result, expected), what
                        check(result, expected, what, epsilon_of(one.expressions))
