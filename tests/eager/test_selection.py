"""Compiled functions that select elements by a mask, and only map, reduce or write them: one list for all masks."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad import errors
from functad.eager.selection import Selection
from tests.compilation.test_guards import BACKENDS, assert_same, outcome

PROGRAMS: dict[str, Callable[[Any], Any]] = {}
"""Programs of an array of six numbers that need no guard, or one on whether there are elements."""

GUARDED: dict[str, Callable[[Any], Any]] = {}
"""Programs that need the number of elements."""


def _program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[f.__name__.removeprefix("_").replace("_", " ")] = f
    return f


def _guarded(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    GUARDED[f.__name__.removeprefix("_").replace("_", " ")] = f
    return f


@_program
def _a_power_written_back(x: Any) -> Any:
    y, m = x.copy(), x > 0
    y[m] = y[m] ** 0.5
    return y * x


@_program
def _a_sum(x: Any) -> Any:
    return np.sum(x[x > 0])


@_program
def _a_mean_of_a_product(x: Any) -> Any:
    return np.mean(x[x > -9] * np.exp(x)[x > -9])


@_program
def _extremes(x: Any) -> Any:
    return np.max(x[x > 0]) + x[x > 0].min(), x[x < 9].max()


@_program
def _functions_with_a_domain(x: Any) -> Any:
    return np.sum(np.log(x[x > 0])) + np.sum(1 / np.sqrt(x[x > 0.0] * 2.0)) + np.sum(np.arccosh(x[x > 1]))


@_program
def _updates_in_place(x: Any) -> Any:
    y = x * 1.0
    y[x > 0.2] += 1.0
    y[x > 0.2] *= x[x > 0.2]
    y[x < -1] -= 2
    return y


@_program
def _a_number_of_elements(x: Any) -> Any:
    s = x[x > 0]
    return np.sum(s) / s.size if s.size > 0 else 0.0 * x[0]


@_program
def _a_shape_that_is_compared(x: Any) -> Any:
    return np.sum(x[x > 0]) if x[x > 0].shape[0] else x[0]


@_program
def _selections_of_selections(x: Any) -> Any:
    s = x[x > -0.5]
    return np.sum(s[s < 1] ** 2) + s[s > 0][s[s > 0] < 1.5].sum()


@_program
def _rows(x: Any) -> Any:
    z = x.reshape(-1, 2)
    r = z[np.sum(z, 1) > 0]
    return np.sum(r, axis=0), np.sum(r * r), r[:, 0].sum(), np.sum(r * np.array([1.0, 2.0]), axis=0), (r @ np.ones(2)).sum()


@_program
def _a_mask_of_two_axes(x: Any) -> Any:
    z = np.outer(x, x)
    z[z > 0] = np.sqrt(z[z > 0])
    return z, np.sum(np.log1p(z[z > 0]))


@_program
def _writes_into_the_selection(x: Any) -> Any:
    s = x[x > 0]
    s[s > 1] = 0.5
    s[s < 0.3] = s[s < 0.3] ** 2
    s *= 2
    s -= 1
    y = x.copy()
    y[x > 0] = s
    return y, np.sum(s), s @ s, np.dot(s, s), np.linalg.norm(s + 3.0)


@_program
def _truths_and_choices(x: Any) -> Any:
    ok = (x > 0.1) | (x < -2)
    s = x[ok]
    return np.sum(np.where(s > 1, s, 2.0)), np.any(s > 1), np.all(s > 0), np.count_nonzero(s > 1), np.sum(~(s > 1))


@_program
def _functions_that_are_no_ufuncs(x: Any) -> Any:
    s = x[x > 0]
    return np.clip(s, 0.2, 0.7).sum(), np.round(s, 1).sum(), s.astype(np.float32).sum(dtype=float), np.sinc(s).sum()


@_program
def _operators(x: Any) -> Any:
    s = x[np.abs(x) > 0.5]
    return np.sum(2.0 - s), np.sum(1 / s), np.sum(2**s), np.sum(abs(-s)), np.sum(s // 1 + s % 2), np.sum(np.modf(s)[0])


@_program
def _integers(x: Any) -> Any:
    n = np.floor(x * 3).astype(int)
    m = n[n != 0]
    n[n > 0] = n[n > 0] ** 2
    return np.sum(m * m), np.sum(12 // m), np.any(m > 2), n


@_program
def _elements_overwritten_afterwards(x: Any) -> Any:
    y = x.copy()
    s, m = y[y > 0], y > 0
    y[0] = 100.0
    m[1] = True
    return np.sum(s), np.sum(y[m]), y


@_guarded
def _a_running_sum(x: Any) -> Any:
    return np.sum(np.cumsum(x[x > 0]) ** 2)


@_guarded
def _the_elements(x: Any) -> Any:
    return x[x > 0]


@_guarded
def _numbers(x: Any) -> Any:
    return x[x > 0].shape, x[x > 0].size * 2, len(x[x > 0]), np.zeros(x[x > 0].shape)


@_guarded
def _a_loop(x: Any) -> Any:
    return sorted(x[x > 0]), [v * k for k, v in enumerate(x[x > 0])], max(x[x > -9])


@_guarded
def _weights_of_their_own(x: Any) -> Any:
    return np.sum(x[x > 0] * np.arange(1, 1 + np.count_nonzero(x > 0)))


@_guarded
def _another_mask(x: Any) -> Any:
    return x[x > 0] + x[np.roll(x, 1) > 0]


def points(seed: int, number: int) -> list[Any]:
    """Return arrays of six numbers with different numbers of positive elements; one array has none."""
    rng = np.random.default_rng(seed)
    return [*[rng.normal(size=6) for _ in range(number)], -np.abs(rng.normal(size=6))]


def total(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the sum of all floats that a function returns."""
    return lambda x: sum(np.sum(v) for v in functad.tree_leaves(f(x)) if getattr(v, "dtype", np.dtype(int)).kind == "f") * 1.0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*PROGRAMS, *GUARDED])
def test_values_and_gradients_equal_eager(name: str, backend: str) -> None:
    f = PROGRAMS.get(name) or GUARDED[name]
    compiled = functad.jit(f, backend=backend)
    both = functad.jit(functad.value_and_grad(total(f)), backend=backend)
    for x in points(len(name), 5):
        for _ in range(2):
            assert_same(outcome(compiled, x), outcome(f, x))
            assert_same(outcome(both, x), outcome(functad.value_and_grad(total(f)), x))
    if name in PROGRAMS:
        assert max(compiled.cache_info().size, both.cache_info().size) <= 2


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*PROGRAMS, *GUARDED])
def test_exact_programs_equal_eager_bit_for_bit(name: str) -> None:
    f = PROGRAMS.get(name) or GUARDED[name]
    compiled = functad.jit(f, exact=True)
    for x in points(3, 3):
        assert_same(outcome(compiled, x), outcome(f, x), exact=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_of_masks(name: str) -> None:
    """The function that `vmap` maps has a mask for each example."""
    f = PROGRAMS[name]
    if name in ("extremes", "a number of elements", "a shape that is compared"):
        with pytest.raises(errors.AbstractValueError):  # an example may have no elements
            functad.vmap(f)(np.ones((2, 6)))
        return
    x = np.array(points(5, 4))
    for g in (functad.vmap(f), functad.jit(functad.vmap(f)), functad.vmap(functad.jit(f))):
        for own, other in zip(
            functad.tree_leaves(g(x)), zip(*[functad.tree_leaves(f(row)) for row in x], strict=True), strict=True
        ):
            np.testing.assert_allclose(own, np.array(other), rtol=1e-12, atol=1e-13)
    slope = functad.vmap(functad.grad(total(f)))(x)
    np.testing.assert_allclose(slope, [functad.grad(total(f))(row) for row in x], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_that_are_not_selected_cause_no_warning_and_no_nan(backend: str) -> None:
    def f(x: Any, s: Any) -> Any:
        y = np.log(x)
        return np.sum(np.sqrt(x[x > 0]) * np.log(x[x > 0]) / x[x > 0]) + np.sum(s * y[x > 0.5]) + s * np.mean(1 / x[x != 0])

    compiled = functad.jit(functad.value_and_grad(f, argnums=(0, 1)), backend=backend)
    for x in ([1.0, 4.0, 0.0], [0.0, 0.3, 2.0], [1.0, 0.0, 0.0]):
        with np.errstate(all="ignore"):
            expected = functad.value_and_grad(f, argnums=(0, 1))(np.array(x), 2.0)
        for _ in range(2):
            with np.errstate(divide="ignore", invalid="ignore"):  # of the first line
                found = compiled(np.array(x), 2.0)
            assert_same(found, expected)
            assert not any(np.isnan(leaf).any() for leaf in functad.tree_leaves(found))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g = functad.jit(lambda x: np.sum(np.log(x[x > 0]) / np.sqrt(x[x > 0])), backend=backend)
        assert [round(float(g(np.array(x))), 12) for x in ([1.0, -1.0, 0.0], [0.0, 1.0, -2.0])] == [0.0, 0.0]


def test_masks_without_elements_are_as_in_numpy() -> None:
    none = -np.ones(3)
    with pytest.raises(ValueError, match="no identity"):
        functad.jit(lambda x: np.max(x[x > 0]))(none)
    mean = functad.jit(lambda x: np.mean(x[x > 0]))
    assert mean(np.ones(3)) == 1.0
    assert np.isnan(mean(none))
    assert functad.jit(lambda x: np.prod(x[x > 0]))(none) == 1.0
    assert functad.jit(lambda x: np.sum(1 // x[x > 0]))(np.zeros(2, int)) == 0


def test_results_of_exact_functions_have_guards_on_sums_only() -> None:
    sums, extremes = functad.jit(lambda x: np.sum(x[x > 0]), exact=True), functad.jit(lambda x: np.max(x[x > 0]), exact=True)
    for x in points(1, 4)[:-1]:
        sums(x)
        extremes(x)
    assert sums.cache_info().size > 1
    assert extremes.cache_info().size == 1


@pytest.mark.parametrize("transform", ["make", "unguarded"])
def test_traces_without_guards_name_the_line_of_the_mask(transform: str) -> None:
    def f(x: Any) -> Any:
        chosen = x[x > 0]
        return (chosen,)

    line = f.__code__.co_firstlineno + 1
    compiled = functad.make_expressions(f) if transform == "make" else functad.jit(f, guards=False)
    with pytest.raises(errors.AbstractValueError, match=re.escape(f"{__file__}:{line}: an abstract trace has no values")):
        compiled(np.ones(2))


def test_guards_name_the_line_of_the_mask() -> None:
    def f(x: Any) -> Any:
        chosen = x[x > 0]
        return (chosen,)

    compiled = functad.jit(f)
    compiled(np.ones(2))
    assert f"`chosen = x[x > 0]` at {__file__}:{f.__code__.co_firstlineno + 1} gave 2" in compiled.explain_recompile()


def test_bodies_of_loops_select_elements() -> None:
    def f(x: Any) -> Any:
        return functad.scan(lambda c, _: (c + np.sum(x[x > c]), None), x[0], None, length=3)[0]

    x = np.array([1.0, 2.0, -1.0])
    for g in (f, functad.jit(f)):
        assert float(g(x)) == 3.0
        assert functad.grad(lambda x, g=g: float(0) + g(x))(x).tolist() == [1.0, 1.0, 0.0]


def test_selections_are_arguments_of_other_functions() -> None:
    inner = functad.jit(lambda y: np.sum(y) * len(y))
    held: list[Any] = []
    captured = functad.jit(lambda y: np.sum(held[-1]) * y)

    def f(x: Any) -> Any:
        s = x[x > 0]
        held.append(s)
        slope = functad.grad(lambda w: np.sum(w * s**2))(3.0)
        rows = functad.vmap(lambda v: v * 2)(s)
        branch = functad.cond(x[0] > 0, np.sum, lambda v: np.sum(v) * 2, s)
        return inner(s), captured(2.0), slope, functad.grad(lambda w: np.sum(w**2))(s), rows, branch, np.concatenate([s, s])

    compiled = functad.jit(f)
    for x in points(2, 3):
        expected = f(x)
        held.clear()
        assert_same(compiled(x), expected[:1] + compiled(x)[1:2] + expected[2:])
        assert compiled(x)[1] == pytest.approx(2 * np.sum(x[x > 0]))


def test_the_attributes_of_a_selection() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        s = x[x > 0]
        seen.append((type(s), isinstance(s, np.ndarray), s.dtype, s.ndim, repr(s), s.T is s))
        assert not hasattr(s, "undefined")
        size = s.size
        assert size == 2
        assert size < 3
        assert (size + 1, size * 2, size // 2, hash(size), repr(size), range(size)) == (3, 4, 1, hash(2), "2", range(2))
        return np.sum(s.real) + np.sum(s.imag)

    functad.jit(f)(np.array([1.0, 2.0, -1.0]))
    assert seen[-1] == (Selection, True, np.dtype(float), 1, "Tensor(float64[3] at a mask)", True)


def test_second_derivatives_and_tapes() -> None:
    f = functad.jit(lambda x: np.sum(x[x > 0] ** 3))
    x = np.array([1.0, 2.0, -1.0])
    assert functad.hessian(f)(x).tolist() == np.diag([6.0, 12.0, 0.0]).tolist()
    assert functad.jit(functad.hessian(f))(x).tolist() == np.diag([6.0, 12.0, 0.0]).tolist()
    watched = functad.constant(x)
    with functad.GradientTape() as tape:
        tape.watch(watched)
        y = f(watched)
    assert tape.gradient(y, watched).numpy().tolist() == [3.0, 12.0, 0.0]
    weights = functad.Variable(x)
    assert float(functad.jit(lambda level: np.sum(weights[weights > level]))(0.0)) == 3.0
