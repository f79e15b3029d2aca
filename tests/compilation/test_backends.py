"""Every backend computes what the lists of all entries say: in both precisions, complex, empty, without axes, for arrays that
broadcast or do not lie in order, for NaN and infinities. What a backend does not know it hands to NumPy, which counts too.
"""

from __future__ import annotations

import collections
import importlib
import os
import random
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import functad
from functad.backends.backend import find
from functad.compilation.passes import simplified
from functad.errors import FunctadError, MissingPackageError
from functad.testing import every_entry
from functad.testing.fuzz import examined
from functad.testing.programs.nests import draw_nest
from functad.testing.strategies import programs
from tests.compilation.test_every_entry import Form, check, epsilon_of, forms, merged
from tests.entries import label


def installed(name: str) -> bool:
    try:
        find(name)
    except MissingPackageError:
        return False
    return True


BACKENDS = [name for name in ("numpy", "llvm", "xla") if installed(name)]
ENTRIES = [entry for entry in every_entry() if entry.samples is not None and entry.status != "refused"]


SHARE = 1 if os.environ.get("FUNCTAD_EVERY_ENTRY") else 96
"""One of so many entries is checked. XLA takes a second for one, ten minutes for all: FUNCTAD_EVERY_ENTRY=1 checks all."""

LONGEST = 500 if os.environ.get("FUNCTAD_EVERY_ENTRY") else 100
"""Equations after which no more forms of an entry are added."""


UNSAID = {
    "searchsorted": "NumPy says nothing of searches among elements that are not sorted, as those beside a NaN",
    "numpy.fft.ihfft": "an infinity reaches all elements of a transform, by ways of its own",
    "functad.primitives.elementwise.conversion.astype_integer": "a NaN is no integer",
    "functad.primitives.linalg.solve.rank_of": "a NaN is no integer",
    "numpy.linalg.slogdet": "the sign of a determinant that is NaN",
    "power": "powers of and to a complex infinity",
    "float_power": "powers of and to a complex infinity",
    "complex_sign": "the direction of a complex infinity is NaN",
    "sign": "the same, of complex numbers",
    "sparse_matmul": "a dense array in place of a sparse matrix: its zeros are left out, also where they meet a NaN",
}
"""What XLA computes of NaN and infinities in its own way, and why that is nowhere said."""


CANCELS = {"special.nbdtrin": 4.0}
"""By how much results may be further off than the rounding of each operation explains: differences of digammas cancel."""


CASES = [pytest.param(entry, id=label(entry)) for entry in ENTRIES[::SHARE] if "xla" in BACKENDS]


def some_forms(entry: Any) -> list[Form]:
    """Return forms of an entry until there are many equations, without values of which nothing is said."""
    found: list[Form] = []
    for one in filter(None, forms(entry)):
        count = 2 if {entry.name, label(entry)} & set(UNSAID) else None
        found.append(one._replace(inputs=one.inputs[:count], expected=one.expected[:count]))
        if sum(len(each.expressions.equations) for each in found) > LONGEST:
            break
    return found


def finite(found: Any, expected: Any) -> tuple[Any, Any]:
    """Return complex results with zeros for what has a part that is no finite number in both: which part it is, is not said."""
    a, b = np.asarray(found), np.asarray(expected)
    if a.dtype.kind != "c" or (a.dtype, a.shape) != (b.dtype, b.shape):
        return a, b
    known = np.isfinite(b)
    return np.where(np.isfinite(a) | known, a, 0), np.where(known, b, 0)


@pytest.mark.parametrize("entry", CASES)
def test_xla_computes_all_forms_of_an_entry(entry: Any) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = some_forms(entry)
        if not every:
            return
        expressions = simplified(merged([one.expressions for one in every]))
        program = find("xla").compile(expressions)
        for k in range(max(len(one.inputs) for one in every)):
            found = iter(program([x for one in every for x in one.inputs[k % len(one.inputs)]]))
            for one in every:
                for expected in one.expected[k % len(one.inputs)]:
                    both = finite(next(found), expected)
                    epsilon = CANCELS.get(label(entry), 1.0) * epsilon_of(one.expressions)
                    check(*both, (label(entry), one.name, k, one.expressions), epsilon)


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
    """Without compiling: what XLA is given has the shapes and dtypes of the list, in each form of one of 24 entries."""
    jax = importlib.import_module("jax")
    from functad.backends.xla.replay import replay

    for entry in ENTRIES[:: 1 if os.environ.get("FUNCTAD_EVERY_ENTRY") else 24]:
        with np.errstate(all="ignore"), warnings.catch_warnings(), jax.enable_x64(True):
            warnings.simplefilter("ignore")
            for one in some_forms(entry):
                found = jax.eval_shape(lambda *own, one=one: tuple(replay(one.expressions, own)), *one.inputs[0])
                specs = [(np.shape(x), np.asarray(x).dtype) for x in one.expected[0]]
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
