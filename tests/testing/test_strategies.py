"""The Hypothesis strategies draw what they say."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import functad
from functad import tree_flatten
from functad.testing.strategies import SPECIAL, arrays, programs, trees

quick = settings(max_examples=50, deadline=None)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.complex64])
@pytest.mark.parametrize("options", [{}, {"separated": True}, {"special": True}], ids=["plain", "separated", "special"])
def test_arrays_have_the_dtype_and_limits(dtype, options):
    @quick
    @given(arrays(dtype, max_rank=2, max_side=3, low=-1.0, high=3.0, **options))
    def check(x):
        assert isinstance(x, np.ndarray)
        assert x.dtype == dtype
        assert x.ndim <= 2
        assert all(n <= 3 for n in x.shape)
        if "special" not in options:
            for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
                assert np.all((part >= -1) & (part <= 3))

    check()


@quick
@given(arrays(shape=(3, 4), separated=True))
def test_separated_arrays_have_no_ties(x):
    assert np.min(np.diff(np.sort(x.ravel()))) > 4 / 5000
    assert np.all(np.abs(x) > 1e-4)


def test_special_values_and_ties_occur():
    assert np.isnan(find(arrays(shape=(2,), special=True), lambda x: np.isnan(x).any())).any()
    assert np.isinf(find(arrays(np.float32, shape=(2,), special=True), lambda x: np.isinf(x).any())).any()
    x = find(arrays(shape=(2,)), lambda x: x[0] == x[1] != 0)
    assert x[0] == x[1]
    assert 0.0 in SPECIAL


def test_shape_may_be_a_strategy():
    @quick
    @given(arrays(shape=st.sampled_from([(2, 3), ()])))
    def check(x):
        assert x.shape in ((2, 3), ())

    check()


def test_shapes_to_rank_and_size():
    assert find(arrays(max_rank=4), lambda x: x.ndim == 4).ndim == 4
    assert find(arrays(), lambda x: x.size == 0).size == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"dtype": int}, "no derivative"), ({"separated": True, "special": True}, "cannot be kept apart")],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        arrays(**arguments)


@quick
@given(trees(arrays(shape=(2,), separated=True)))
def test_gradients_have_the_structure_of_trees(tree):
    leaves, structure = tree_flatten(tree)
    gradient = functad.grad(lambda t: sum((np.sum(leaf**2) for leaf in tree_flatten(t)[0]), 0.0))(tree) if leaves else tree
    found, same = tree_flatten(gradient)
    assert same == structure
    for ct, x in zip(found, leaves, strict=True):
        np.testing.assert_allclose(ct, 2 * x)


def test_trees_nest():
    nested = find(trees(), lambda t: isinstance(t, dict) and any(isinstance(part, (list, tuple)) for part in t.values()))
    assert nested


def test_programs_shrink_to_few_lines():
    program = find(
        programs(families=["reductions", "shaping"]),
        lambda p: "np.prod" in p.source,
        settings=settings(max_examples=4000, database=None),
        random=random.Random(0),  # from some programs no shorter one is found
    )
    assert len(program.lines) <= 3
    assert "np.prod" in program.source


def test_a_failing_program_is_shown_as_source():
    @settings(max_examples=100, deadline=None, database=None)
    @given(programs(families=["reductions"]))
    def check(program):
        assert not program.lines

    with pytest.raises(AssertionError) as caught:
        check()
    shown = "\n".join(caught.value.__notes__)
    assert "def program(x0" in shown
    assert "inputs = [np." in shown


def test_programs_of_rank_four_occur():
    program = find(programs(), lambda p: any(np.ndim(x) == 4 for x in p.inputs))
    assert max(np.ndim(x) for x in program.inputs) == 4


def test_missing_hypothesis_is_told_in_one_line():
    code = """
import sys
sys.modules["hypothesis"] = None
import functad.testing
import functad.testing.strategies
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().splitlines()[-1] == (
        "ImportError: functad.testing.strategies needs Hypothesis: pip install 'functad[testing]'."
    )


def test_checks_do_not_import_hypothesis():
    code = "import sys, functad.testing; sys.exit(any(name in sys.modules for name in ('hypothesis', 'pytest')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
