"""Random programs under `vmap`: their values and derivatives are those of a loop over the examples."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import functad
from functad import tree_flatten
from functad.errors import AbstractValueError, ConversionError, FunctadError, UnsupportedError
from functad.testing import Program
from functad.testing.strategies import programs
from tests.differences import error

SIZE = 3
few = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.large_base_example,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)

GROUPS = [
    (["elementwise", "reductions", "selection"], False),
    (["shaping", "indexing", "joining"], False),
    (["contractions", "linalg", "shaping"], False),
    (["scans", "ordering", "nan", "fft"], False),
    (["registry", "elementwise"], False),
    (["elementwise", "shaping", "indexing"], True),
]


def _examples(program: Program) -> list[tuple[Any, ...]]:
    """Return the inputs of each example: the elements of the first, moved on and made smaller."""
    return [tuple([np.roll(x, i) * 0.9**i for x in program.inputs]) for i in range(SIZE)]


def _slopes(program: Program, *inputs: Any) -> Any:
    """Return the cotangents of the inputs; those of the results are all different."""
    out, pull = functad.vjp(program, *inputs)
    leaves, structure = tree_flatten(out)
    return pull(structure.unflatten([(np.cos(np.arange(leaf.size)) + 0.5).reshape(leaf.shape) for leaf in leaves]))


def _compare(found: Any, rows: list[Any]) -> None:
    columns = zip(*[tree_flatten(row)[0] for row in rows], strict=True)
    for a, column in zip(tree_flatten(found)[0], columns, strict=True):
        b = np.stack(column)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        kept = np.isfinite(b)
        assert (np.isfinite(a) == kept).all()
        assert error(np.where(kept, a, 0), np.where(kept, b, 0)) < 1e-8


def _refused_too(program: Program) -> bool:
    """Say whether an abstract trace is refused as well: its values are asked for, or NumPy does not look for Tensors."""
    try:
        functad.make_expressions(program)(*program.inputs)
    except (FunctadError, ValueError):
        return True
    return False


@pytest.mark.parametrize(
    ("families", "mutation"), GROUPS, ids=lambda value: "-".join(value) if isinstance(value, list) else "writes" * value
)
def test_random_programs(families: list[str], mutation: bool) -> None:
    compared: collections.Counter[str] = collections.Counter()

    @few
    @given(programs(families=families, mutation=mutation).filter(lambda program: not program.value_dependent))
    def check(program: Program) -> None:
        examples = _examples(program)
        stacked = [np.stack(column) for column in zip(*examples, strict=True)]
        alone = [stacked[0], *program.inputs[1:]]
        with np.errstate(all="ignore"):
            try:
                rows = [(functad.vjp(program, *inputs)[0], _slopes(program, *inputs)) for inputs in examples]
            except (FunctadError, np.linalg.LinAlgError, ValueError):
                compared["refused"] += 1  # the values of an example are none that the program takes
                return
            try:
                found = functad.vmap(lambda *inputs: (functad.vjp(program, *inputs)[0], _slopes(program, *inputs)))(*stacked)
            except (AbstractValueError, ConversionError, UnsupportedError, ValueError):
                assert _refused_too(program), str(program)
                compared["refused"] += 1
                return
            _compare(found, rows)
            axes = (0, *[None] * (len(program.inputs) - 1))
            found = functad.vmap(lambda *inputs: _slopes(program, *inputs), axes)(*alone)
            _compare(found, [_slopes(program, inputs[0], *program.inputs[1:]) for inputs in examples])
        compared["compared"] += 1

    check()
    assert compared["compared"] > 40


@pytest.mark.parametrize("rows", [[[1.0, 2.0, -1.0], [0.0, 1.0, 1.0], [2.0, -2.0, 0.5]], [[1.0, 2.0, -1.0], [0.5, 1.0, 3.0]]])
def test_ties_in_some_examples_or_in_none(rows: Any) -> None:
    xs = np.array(rows)

    def f(x: Any) -> Any:
        return np.sum(np.maximum(x, 0.0) * np.arange(3.0)) + np.max(x * x)

    for derive in (functad.grad(f), functad.hessian(f), functad.jacobian(functad.grad(f))):
        one_by_one = np.stack([derive(x) for x in xs])
        assert np.array_equal(functad.vmap(derive)(xs), one_by_one)
        assert np.array_equal(functad.vmap(functad.vmap(derive))(xs[None]), one_by_one[None])
        assert np.array_equal(functad.make_expressions(functad.vmap(derive))(np.ones_like(xs))(xs), one_by_one)
