"""The backend `numpy`: its source computes what the list computes, for every entry of the registry."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functad
from functad import Expressions
from functad.backends.numpy_source import NumpyProgram
from functad.backends.source import Definitions, NoTextError
from functad.compilation.passes import simplified
from functad.errors import FunctadError
from functad.expressions.expressions import evaluate
from functad.primitives.entry import INTERNAL, Primitive
from functad.testing import Call, calls, every_entry
from tests.entries import is_constant, label

ENTRIES = [entry for entry in every_entry() if entry.samples is not None and entry.status != "refused"]


def list_of(call: Call) -> Expressions | None:
    """Return the list of a call and its pull-back; `None` if an abstract trace refuses the call."""

    def both(*primals: Any) -> Any:
        if is_constant(call.entry) or not call.smooth(*call.primals):
            return call.arrays(*primals)
        values, pullback = functad.vjp(call.smooth, *primals)
        return values, pullback(tuple([np.sin(v) + 1 for v in values]))

    try:
        with np.errstate(all="ignore"):
            return functad.make_expressions(both)(*call.primals)
    except FunctadError:
        return None


def same(found: Any, expected: Any) -> bool:
    return type(found) is type(expected) and found.dtype == expected.dtype and np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize("entry", ENTRIES, ids=label)
def test_source_computes_what_the_list_computes(entry: Any) -> None:
    for number, call in enumerate(itertools.islice(calls(entry, np.float64), 3)):
        expressions = list_of(call)
        if expressions is None or not call.primals:
            continue
        with np.errstate(all="ignore"):
            expected = evaluate(expressions, call.primals)
            for own in (expressions, *([] if number else [simplified(expressions, exact=True)])):
                found = NumpyProgram(own)(call.primals)
                assert all(same(np.asarray(a), np.asarray(b)) for a, b in zip(found, expected, strict=True)), call
                assert [type(a) for a in found] == [type(b) for b in expected]


def test_most_primitives_have_a_text() -> None:
    texts, without = 0, []
    for entry in every_entry():
        if isinstance(entry, Primitive) and entry not in INTERNAL:  # of those, programs make more while they run
            try:
                Definitions().literal(entry.compute)
                texts += 1
            except NoTextError:
                without.append(entry.name)
    assert texts > 12 * len(without), without


def test_values_are_dropped_after_their_last_reader() -> None:
    source = functad.jit(lambda x: np.sum(np.sin(x) * 2.0), backend="numpy").lower(np.zeros(3)).source()
    assert source.index("del v1") < source.index("v3 =")


def test_views_of_dead_values_are_not_written_into() -> None:
    def f(x: Any) -> Any:
        y = np.exp(x)
        view = y[::-1]
        z = np.sin(y)  # y has no other reader, but its memory has
        return view + z

    x = np.linspace(0.0, 1.0, 5000)
    assert np.array_equal(functad.jit(f, backend="numpy")(x), f(x))


def test_values_of_one_operation_that_may_keep_them_have_memory_of_their_own() -> None:
    def f(x: Any) -> Any:
        y, z = np.exp(x), np.sin(x)
        both = np.concatenate([y, z])  # for all that is known it may share the memory of either
        return np.sum(both * both) + z * 2.0

    x = np.linspace(0.0, 1.0, 5000)
    assert np.array_equal(functad.jit(f, backend="numpy", exact=True)(x), f(x))


def test_negative_constants_keep_their_sign() -> None:
    f = functad.jit(lambda x: (-2.0) ** x - (-1) * x)
    assert f(np.array([2.0, 3.0])).tolist() == [6.0, -5.0]


def test_shapes_and_places_are_written_as_methods_and_brackets() -> None:
    def f(x: Any, i: Any) -> Any:
        y = np.reshape(x, (3, 4)).T[1:, ::-1]
        return np.sum(y, axis=0), np.mean(y @ x[:3]), y[..., 0], x[i], x.astype(np.float32)

    x, i = np.linspace(-1.0, 2.0, 12), np.array([3, -1])
    compiled = functad.jit(f, backend="numpy")
    for found, expected in zip(compiled(x, i), f(x, i), strict=True):
        assert same(np.asarray(found), np.asarray(expected))
    source = compiled.lower(x, i).source()
    for text in (
        "x.reshape((3, 4))",
        ".T",
        "[1:, ::-1]",
        "np.add.reduce(v4, (0,))",
        ".dot(",
        "[..., 0]",
        "x[i,]",
        "np.float32",
    ):
        assert text in source
    assert "def " not in source.replace("def run", "")


def test_pieces_that_do_not_overlap_are_written_into_zeros() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x[:, :2]) * x[:, 2:4]) + np.sum(x[1:, 4] ** 3)

    x = np.linspace(0.0, 1.0, 30).reshape(6, 5)
    compiled = functad.jit(functad.grad(f), backend="numpy")
    assert np.allclose(compiled(x), functad.grad(f)(x), rtol=1e-14)
    assert "scatter" not in compiled.lower(x).source()
    overlapping = functad.grad(lambda x: np.sum(x[1:] * x[:-1]))
    assert np.allclose(functad.jit(overlapping, backend="numpy")(x), overlapping(x), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_systems_with_a_cholesky_factor_are_solved_by_substitution(dtype: Any) -> None:
    def f(a: Any, b: Any, turn: bool) -> Any:
        factor = np.linalg.cholesky(a)
        return np.linalg.solve(factor.T if turn else factor, b), np.linalg.solve(np.tril(factor), b[:, :1])

    rng = np.random.default_rng(0)
    x, b = rng.normal(size=(7, 5)).astype(dtype), np.asfortranarray(rng.normal(size=(5, 3)).astype(dtype))
    a = x.T @ x
    for turn in (False, True):
        compiled = functad.jit(lambda a, b, turn=turn: f(a, b, turn), backend="numpy")
        assert "substituted(" in compiled.lower(a, b).source()
        for found, expected in zip(compiled(a, b), f(a, b, turn), strict=True):
            assert found.dtype == dtype
            assert np.allclose(found, expected, rtol=1e-4 if dtype is np.float32 else 1e-11)
    whole = functad.grad(lambda a: np.sum(np.log(np.diagonal(np.linalg.cholesky(a)))) + np.sum(f(a, b, False)[0] ** 2))
    found = functad.jit(whole, backend="numpy")(a)
    assert np.allclose(found, whole(a), rtol=1e-2 if dtype is np.float32 else 1e-9)
    assert "substituted" not in functad.to_source(whole, a)


def test_a_coordinate_that_never_repeats_makes_an_assignment() -> None:
    def f(x: Any, labels: Any) -> Any:
        return np.sum(np.sin(x[np.arange(4), labels])), np.sum(np.cos(x[labels[:2], labels[2:]]))

    x, labels = np.linspace(0.0, 1.0, 12).reshape(4, 3), np.array([2, 0, 2, 0])
    for part, text in ((0, "] ="), (1, "compute(")):
        slope = functad.grad(lambda x, labels, part=part: f(x, labels)[part])
        compiled = functad.jit(slope, backend="numpy")
        assert np.allclose(compiled(x, labels), slope(x, labels), rtol=1e-14)
        assert text in compiled.lower(x, labels).source()


def test_ties_of_a_maximum_are_halved_if_there_are_any() -> None:
    slope = functad.grad(lambda x, y: np.sum(np.maximum(x, y) ** 2) + np.sum(np.minimum(x, 0.5)), argnums=(0, 1))
    compiled = functad.jit(slope, backend="numpy")
    for y in (np.array([3.0, -1.0, 0.25]), np.array([1.0, 0.5, 0.0]), np.array([np.nan, 0.5, 1.0])):
        x = np.array([1.0, 0.5, 0.0])
        for found, expected in zip(compiled(x, y), slope(x, y), strict=True):
            assert np.array_equal(found, expected, equal_nan=True)
    assert ".any() else" in compiled.lower(x, y).source()


def test_a_comparison_with_a_half_at_ties_is_no_halving() -> None:
    def f(g: Any, a: Any, b: Any) -> Any:
        return np.where(a == b, g == 0.5, g)

    given = np.array([0.5, 2.0, 3.0]), np.array([1.0, 1.0, 2.0]), np.array([1.0, 1.0, 3.0])
    assert np.array_equal(functad.jit(f, backend="numpy")(*given), f(*given))


def test_products_with_weights_take_square_roots_if_no_weight_is_negative() -> None:
    def f(x: Any, w: Any) -> Any:
        return (x.T * w * 0.5) @ x, x.T @ w

    x, w = np.linspace(-1.0, 2.0, 60_000).reshape(3000, 20), np.linspace(0.0, 1.0, 3000)
    compiled = functad.jit(f, backend="numpy")
    assert "gram(" in compiled.lower(x, w).source()
    with np.errstate(all="ignore"):
        for weights in (w, w - 0.5, w / 0):
            for found, expected in zip(compiled(x, weights), f(x, weights), strict=True):
                assert np.allclose(found, expected, rtol=1e-12, atol=1e-10, equal_nan=True)
    assert "gram(" not in functad.jit(f, backend="numpy", exact=True).lower(x, w).source()
    assert "gram(" not in functad.to_source(f, x, w)


scale = 100.0
"""A global that inner scopes of the functions below bind again."""


def _doubled(x: Any) -> Any:
    return np.array([v * 2 for v in x])


def _with_inner_names(x: Any) -> Any:
    each = np.array(list(map(lambda scale: scale + 1, [float(scale) for scale in x])))  # noqa: C417

    def inner(scale: Any) -> Any:
        scale = scale * 2
        return scale + 1

    return each + inner(x) + scale


def _with_a_local_like_a_helper(x: Any) -> Any:
    doubled = 1.0
    return _doubled(x) + doubled


@pytest.mark.parametrize("function", [_with_inner_names, _with_a_local_like_a_helper])
def test_names_that_inner_scopes_bind_keep_their_meaning(function: Any) -> None:
    x = np.array([0.5, -2.0])
    made = functad.primitive(function, lambda g, x: 3 * g, name="made")
    assert np.array_equal(functad.jit(made, backend="numpy")(x), function(x))
    definitions = Definitions()
    name = definitions.text(function, "function")
    texts = "\n".join(definitions.functions.values())
    names = {"np": np, **definitions.objects}
    exec(texts, names)
    assert np.array_equal(names[name](x), function(x))


@pytest.mark.parametrize(
    ("f", "count"),
    [
        (lambda x: np.broadcast_to(np.sin(x), (2, 3)), 1),
        (lambda x: np.broadcast_to(np.sin(x), (2, 3)).T[1:], 1),
        (functad.vmap(lambda x, y: y + 1.0, in_axes=(0, None)), 2),
    ],
)
def test_results_can_be_written_to(f: Any, count: int) -> None:
    arguments = [np.array([0.5, 1.0, 2.0])] * count
    found = functad.jit(f, backend="numpy")(*arguments)
    assert np.array_equal(found, f(*arguments))
    assert found.flags.writeable
    assert all(found.strides)
