"""Every backend computes what the lists of all entries say: in both precisions, complex, empty, without axes, for arrays that
broadcast or do not lie in order, for NaN and infinities. What a backend does not know it hands to NumPy, which counts too.
"""

from __future__ import annotations

import collections
import importlib
import os
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import functad
from functad.backends.backend import find
from functad.compilation.simplify import simplified
from functad.errors import FunctadError, MissingPackageError
from functad.expressions.expressions import Expressions, evaluate
from functad.testing.fuzz import examined
from functad.testing.programs.nests import draw_nest
from functad.testing.sample_calls import Call, calls, every_entry, is_constant, label
from functad.testing.strategies import programs
from tests.compilation.test_every_entry import check, merged


def installed(name: str) -> bool:
    try:
        find(name)
    except MissingPackageError:
        return False
    return True


BACKENDS = [name for name in ("numpy", "llvm", "xla") if installed(name)]
ENTRIES = [entry for entry in every_entry() if entry.samples is not None and entry.status != "refused"]


SHARE = 1 if os.environ.get("FUNCTAD_EVERY_ENTRY") else 96
"""One of so many entries is checked. XLA takes a third of a second for one, minutes for all: FUNCTAD_EVERY_ENTRY=1 checks
all. The other backends compute all in test_every_entry.py."""


UNSAID = {
    "searchsorted": "NumPy says nothing of searches among elements that are not sorted, as those beside a NaN",
    "numpy.fft.ihfft": "an infinity reaches all elements of a transform, by ways of its own",
    "functad.primitives.elementwise.conversion.astype_integer": "a NaN is no integer",
    "functad.primitives.linalg.solve.rank_of": "a NaN is no integer",
    "heaviside": "XLA makes a choice of a product with a boolean, so that False times NaN is zero",
    "complex_sign": "the direction of a complex infinity is NaN",
}
"""What XLA computes of NaN and infinities in its own way, and why that is nowhere said."""


LONGEST = 2000
"""Equations after which no more forms of an entry are added: of a long list, as of elliptic integrals, one form is enough."""


class Item(NamedTuple):
    """A list, inputs for it, and what it gives there."""

    name: str
    expressions: Expressions
    primals: Sequence[Any]
    expected: Sequence[Any]


def item(name: str, call: Call, primals: Sequence[Any]) -> Item | None:
    """Return the list of a call and its pull-back; `None` if a trace refuses the call, or NumPy does for these values."""

    def both(*given: Any) -> Any:
        if is_constant(call.entry) or not call.smooth(*primals):
            return call.arrays(*given)
        values, pullback = functad.vjp(call.smooth, *given)
        return values, pullback(tuple([np.sin(v) + 1 for v in values]))

    try:
        expressions = functad.make_expressions(both)(*primals)
        return Item(name, expressions, primals, evaluate(expressions, primals))
    except (FunctadError, ValueError, TypeError, IndexError, np.linalg.LinAlgError, ArithmeticError):
        return None


def strided(x: Any) -> Any:
    """Return an array with the same values, whose elements do not lie next to each other."""
    return np.stack([x, x], -1)[..., 0] if np.ndim(x) else x


ODD = (np.nan, np.inf, 0.0, -0.0, -np.inf, 1e-30)
"""Values at which functions have kinks, poles or no value."""


def special(x: Any, values: Sequence[float]) -> Any:
    """Return an array with some values in every second place."""
    x = np.array(x)
    x.flat[::2] = np.resize(values, x.flat[::2].size)
    return x[()]


SHAPES: list[Callable[[int], tuple[int, ...]]] = [lambda i: (), lambda i: (0, 3), lambda i: (2, 1) if i % 2 else (3,)]
"""Of the arguments of functions that broadcast, by their number."""


def items(entry: Any) -> Iterator[Item | None]:
    """Return the variants of an entry."""
    first: Call | None = None
    for dtype in (np.float32, np.complex128, np.float64):
        if dtype is np.complex128 and not getattr(entry, "complex", True):
            continue
        try:
            found = [call for call in calls(entry, dtype) if call.primals]
        except (TypeError, ValueError):  # samples that are only for real numbers
            continue
        call = next((call for call in found if any(map(np.ndim, call.primals))), found[0] if found else None)
        if call is not None and dtype is not np.float64:  # the source is checked for these, bit for bit
            yield item(np.dtype(dtype).name, call, call.primals)
        first = call
    if first is None:
        return
    yield item("strided", first, [strided(x) for x in first.primals])
    if not entry.name.startswith("special."):  # SciPy's hyp1f1, for one, takes hours for infinities
        yield item("special values", first, [special(x, ODD) for x in first.primals])
    yield item("empty", first, [x[:0] if np.ndim(x) else x for x in first.primals])
    if getattr(entry, "broadcasts", False):
        for shape in SHAPES:
            given = [np.resize(x, shape(i)) for i, x in enumerate(first.primals)]
            yield item(f"shape {shape(1)}", first, given)


CASES = [pytest.param(entry, "xla", id=label(entry)) for entry in ENTRIES[::SHARE] if "xla" in BACKENDS]


@pytest.mark.parametrize(("entry", "backend"), CASES)
def test_variants_of_every_entry(entry: Any, backend: str) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own: list[Item] = []
        for one in items(entry):
            if one is not None and not (backend == "xla" and one.name == "special values" and label(entry) in UNSAID):
                own.append(one)
                if sum(len(each.expressions.equations) for each in own) > LONGEST:
                    break
        if not own:
            return
        expressions = simplified(merged([one.expressions for one in own]), fused=backend != "numpy")
        found = iter(find(backend).compile(expressions)([x for one in own for x in one.primals]))
        for one in own:
            for expected in one.expected:
                check(next(found), expected, (label(entry), one.name, one.expressions))


def double_precision(backend: str) -> AbstractContextManager[Any]:
    """Return a context in which arrays of JAX, which a compiled function gives, are computed with in their own dtype."""
    if backend != "xla":
        return nullcontext()
    return importlib.import_module("jax").enable_x64(True)  # type: ignore[no-any-return]


few = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@pytest.mark.skipif("xla" not in BACKENDS, reason="the xla backend needs jax, of the extra `xla`")
def test_shapes_and_dtypes_of_entries_in_xla() -> None:
    """Without compiling: what XLA is given has the shapes and dtypes of the list, in each variant of one of 24 entries."""
    jax = importlib.import_module("jax")
    from functad.backends.xla.replay import replay

    for entry in ENTRIES[:: 1 if os.environ.get("FUNCTAD_EVERY_ENTRY") else 24]:
        with np.errstate(all="ignore"), warnings.catch_warnings(), jax.enable_x64(True):
            warnings.simplefilter("ignore")
            for one in filter(None, items(entry)):
                if len(one.expressions.equations) > LONGEST:
                    continue
                found = jax.eval_shape(lambda *own, one=one: tuple(replay(one.expressions, own)), *one.primals)
                specs = [(np.shape(x), np.asarray(x).dtype) for x in one.expected]
                assert [(x.shape, x.dtype) for x in found] == specs, (label(entry), one.name)


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_nests(backend: str) -> None:
    """Programs within derivatives, batches, loops, branches, tapes and accumulators, compiled inside and outside of them."""
    outcomes: collections.Counter[str] = collections.Counter()

    @settings(few, max_examples={"llvm": 10, "xla": 1}.get(backend, 25))  # LLVM and XLA take a second for a nest
    @given(st.integers(0, 2**32))
    def check_one(seed: int) -> None:
        rng = random.Random(seed)
        nest = draw_nest(lambda n: int(rng.random() * n), max_operations=4, compiled=backend)
        with double_precision(backend):
            found = examined(nest, ("nest", "over_reverse", "over_forward"))
        assert not [finding for finding in found if finding.fails], f"{nest}\n{found}"
        outcomes.update(finding.outcome for finding in found if finding.check == "nest")

    check_one()
    assert outcomes["compared"] >= {"llvm": 3, "xla": 1}.get(backend, 10), outcomes


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_programs(backend: str) -> None:
    """Values and cotangents of programs that write into arrays, against those that are not compiled."""
    compared = []

    @settings(few, max_examples=3 if backend == "xla" else 25)
    @given(programs(max_operations=6, mutation=True, layouts=True).filter(lambda program: not program.value_dependent))
    def check_one(program: Any) -> None:
        def both(*inputs: Any) -> Any:
            value, pullback = functad.vjp(program, *inputs)
            return value, pullback(functad.tree_map(lambda y: np.cos(np.arange(np.size(y))).reshape(np.shape(y))[()], value))

        with np.errstate(all="ignore"):
            expected = functad.tree_leaves(both(*program.inputs))
            try:
                found = list(map(np.asarray, functad.tree_leaves(functad.jit(both, backend=backend)(*program.inputs))))
            except FunctadError:  # an abstract trace refuses it
                return
        for a, b in zip(found, expected, strict=True):
            size = 1.0 + np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
            assert (np.shape(a), a.dtype) == (np.shape(b), b.dtype), program
            assert np.all((np.abs(a - b) <= 1e-9 * size) | ~np.isfinite(b)), (program, a, b)
        compared.append(program)

    check_one()
    assert len(compared) >= (1 if backend == "xla" else 10)
