"""Nested lists of Tensors in place of arrays: every function of NumPy with an entry, in adopted code and beside a Tensor."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import functad
from functad import tree_flatten
from functad.testing import calls, every_entry
from tests.adoption.stand_ins import replacement
from tests.entries import is_public, label
from tests.values import dtype_of, is_array


def listed(a):
    """Return an array or a Tensor as nested lists of its elements."""
    return [listed(a[i]) for i in range(np.shape(a)[0])] if np.shape(a) else a


def run(call, function, convert, positions, primals):
    """Return the arrays among the results of a sample call in which some arguments are converted."""
    leaves = list(call.leaves)
    for i, primal in zip(call.positions, primals, strict=True):
        leaves[i] = convert(primal) if i in positions else primal
    args, kwargs = call.structure.unflatten(leaves)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* is deprecated", DeprecationWarning)
        return tuple([leaf for leaf in tree_flatten(function(*args, **kwargs))[0] if is_array(leaf)])


def forms(entry):
    """List the sample calls of an entry, each with positions of arguments for which NumPy takes a list as it takes an array."""
    found = []
    for call in calls(entry, np.float64):
        arrays = [i for i in call.positions if call.leaves[i].ndim and call.leaves[i].size]
        for positions in [{i} for i in arrays] + ([set(arrays)] if len(arrays) > 1 else []):
            try:
                expected = run(call, entry.function, lambda a: a, positions, call.primals)
                plain = run(call, entry.function, listed, positions, call.primals)
            except Exception:  # noqa: BLE001 - whatever NumPy raises for a list
                continue
            if [np.shape(a) for a in plain] == [np.shape(a) for a in expected]:
                found.append((call, positions))
    return found


ENTRIES = {
    label(entry): entry
    for entry in every_entry()
    if is_public(entry) and not (entry.status == "refused" or entry.in_place or entry.name.startswith("special."))
}
NOT_IN_NUMPY = {"umath.clip"}  # `np._core.umath.clip` is private, so no name of a module of NumPy leads to it


def agree(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (np.shape(a), dtype_of(a)) == (np.shape(b), dtype_of(b))
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def inexact(arrays):
    return tuple([a for a in arrays if dtype_of(a).kind in "fc"])


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in NOT_IN_NUMPY])
def test_adopted_code_passes_nested_lists_of_tensors(name):
    entry = ENTRIES[name]
    function = replacement(entry.function)
    for call, positions in forms(entry):

        def of_lists(*primals):
            return run(call, function, listed, positions, primals)  # noqa: B023

        def of_arrays(*primals):
            return run(call, function, lambda a: a, positions, primals)  # noqa: B023

        primals = tuple(call.primals)
        agree(run(call, function, listed, positions, primals), run(call, entry.function, listed, positions, primals))
        expected = functad.vjp(lambda *given: ((), of_arrays(*given)), *primals, has_aux=True)[2]
        agree(functad.vjp(lambda *given: ((), of_lists(*given)), *primals, has_aux=True)[2], expected)
        ones = tuple([np.ones_like(primal) for primal in primals])
        for transform in (
            lambda f: functad.jvp(lambda *given: inexact(f(*given)), primals, ones)[1],  # noqa: B023
            lambda f: functad.jit(f, backend="numpy")(*primals),  # noqa: B023
            lambda f: functad.vmap(f)(*[np.stack([primal, primal]) for primal in primals]),  # noqa: B023
        ):
            try:
                expected = transform(of_arrays)
            except functad.errors.FunctadError:  # the shape of the result depends on values, for arrays too
                continue
            agree(transform(of_lists), expected)


BESIDE_A_TENSOR = {
    "dot": lambda t: np.dot([[t[0], 2.0], [t[1], t[0]]], t),
    "inner": lambda t: np.inner(t, [t[0], 2.0]),
    "outer": lambda t: np.outer([t[0], 2.0, t[1]], t),
    "tensordot": lambda t: np.tensordot(t, [[t[0], 2.0], [t[1], t[0]]], axes=1),
    "kron": lambda t: np.kron([[t[0], 2.0]], t),
    "solve": lambda t: np.linalg.solve([[t[0], 2.0], [1.0, t[1]]], t),
    "where": lambda t: np.where([True, False], [t[0], 2.0], t),
    "einsum": lambda t: np.einsum("ij,j->i", [[t[0], 2.0], [t[1], t[0]]], t),
    "cross": lambda t: np.cross([t[0], 2.0, t[1]], np.append(t, 1.0)),
    "interp": lambda t: np.interp(t, [0.0, 2.0, 5.0], [t[0], 2.0, t[1]]),
    "stack": lambda t: np.stack([t, [t[1], 2.0]]),
    "concatenate": lambda t: np.concatenate([t, [t[1]], [2.0, t[0], 1.0]]),
    "select": lambda t: np.select([t > 2, t > 1], [t, [t[1], 2.0]], 0.0),
    "multi_dot": lambda t: np.linalg.multi_dot([t, [[t[0], 2.0], [1.0, t[1]]], [t[0], 3.0]]),
    "matmul": lambda t: t @ [[t[0], 2.0], [1.0, t[1]]],
    "subtract": lambda t: t - (t[0], 2.0),
}


@pytest.mark.parametrize("name", BESIDE_A_TENSOR)
def test_functions_take_nested_lists_beside_a_tensor(name):
    f, x = BESIDE_A_TENSOR[name], np.array([1.5, 4.0])
    functad.testing.check_grads(f, [x])
    for found in (functad.vjp(f, x)[0], functad.jit(f)(x), functad.vmap(f)(np.stack([x, x]))[1]):
        agree([found], [f(x)])


def test_rows_of_different_lengths_stay_apart():
    fnp, x = functad.numpy, np.array([1.5, 4.0])

    def f(t):
        joined = fnp.concatenate([[t[0], 2.0], [t[1]], [[1.0, t[0]]][0]])
        counts, edges = fnp.histogramdd([[0.2, 0.4], [0.1, 0.9]], bins=[[0.0, t[0]], [0.0, 0.5, t[1]]])
        assert counts.shape == (1, 2)
        return np.sum(joined**2) * edges[1][2]

    assert functad.vjp(f, x)[0] == f(x)
    functad.testing.check_grads(f, [x])
    for message in (r"np\.concatenate\(\[\[t\[0\]", r"functad\.numpy"):
        with pytest.raises(functad.errors.ConversionError, match=message):
            functad.grad(lambda t: np.sum(np.concatenate([[t[0], 2.0], [t[1]]])))(x)
