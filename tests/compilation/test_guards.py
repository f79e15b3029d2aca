"""Compiled functions that need values while they are traced: guards and paths."""

from __future__ import annotations

import gc
import logging
import pickle
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad import errors
from tests.compilation.branching_programs import BranchingProgram
from tests.compilation.guarded_programs import PROGRAMS
from tests.compilation.test_backends import BACKENDS as INSTALLED

BACKENDS = [name for name in INSTALLED if name != "xla"]  # the backend `xla` returns arrays of JAX


COLUMNS: list[Any] = []
CONSTANTS = np.array([1.0, 2.0])


def sign(x: Any) -> Any:
    """Return the absolute value by a branch."""
    return x if x > 0 else -x


def root(a: Any) -> Any:
    """Return the square root by Newton's method."""
    x = a
    while abs(x * x - a) > 1e-9 * a:
        x = 0.5 * (x + a / x)
    return x


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a function, or its error."""
    try:
        return f(*args)
    except Exception as error:  # noqa: BLE001 - the errors are compared
        return error


def assert_same(found: Any, expected: Any, *, exact: bool = False) -> None:
    """Compare two results, or two errors."""
    if isinstance(expected, Exception):
        assert type(found) is type(expected), found
        assert str(found) == str(expected)
        return
    assert not isinstance(found, Exception), found
    a, b = functad.tree_leaves(found), functad.tree_leaves(expected)
    for own, other in zip(a, b, strict=True):
        assert type(own) is type(other)
        assert np.shape(own) == np.shape(other)
        np.testing.assert_allclose(own, other, rtol=0 if exact else 1e-9, atol=0 if exact else 1e-11)


# Equal to eager execution


@pytest.mark.filterwarnings("ignore::functad.errors.RecompileWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_equal_eager(name: str, backend: str) -> None:
    f, draw = PROGRAMS[name]
    rng = np.random.default_rng(len(name))
    compiled = functad.jit(f, backend=backend, max_paths=4)
    both = functad.jit(functad.value_and_grad(f), backend=backend, max_paths=4)
    points = [draw(rng) for _ in range(5)]
    for x in [*points, *points[::-1]]:
        expected = outcome(f, x)
        assert_same(outcome(compiled, x), expected)
        value, slope = functad.value_and_grad(f)(x)
        assert_same(outcome(both, x), (value, slope))
    for x in points[:2]:
        assert_same(functad.grad(compiled)(x), functad.grad(f)(x))


@pytest.mark.filterwarnings("ignore::functad.errors.RecompileWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_exact_programs_equal_eager_bit_for_bit(name: str) -> None:
    f, draw = PROGRAMS[name]
    rng = np.random.default_rng(7)
    compiled = functad.jit(f, exact=True)
    for _ in range(4):
        x = draw(rng)
        assert_same(compiled(x), f(x), exact=True)
        assert_same(compiled(x), f(x), exact=True)


@pytest.mark.filterwarnings("ignore::functad.errors.RecompileWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(24))
def test_random_programs_equal_eager(seed: int) -> None:
    f = BranchingProgram(seed).function
    options: dict[str, Any] = {"exact": True} if seed % 3 else {}
    compiled = functad.jit(f, max_paths=4, **options)
    rng = np.random.default_rng(seed)
    number, integer = (float, np.float64)[seed % 2], (int, np.int64)[seed // 2 % 2]
    points = [(rng.normal(size=4), number(rng.normal()), integer(rng.integers(0, 4))) for _ in range(5)]
    for point in [*points, *points[::-1]]:
        assert_same(outcome(compiled, *point), outcome(f, *point), exact=bool(options))

    def total(x: Any, s: Any, n: Any) -> Any:
        return sum(np.sum(leaf) for leaf in functad.tree_leaves(f(x, s, n)) if not isinstance(leaf, int)) * 1.0

    both = functad.jit(functad.value_and_grad(total, argnums=(0, 1)), max_paths=4, **options)
    for point in [*points[:3], *points[:3]]:
        assert_same(outcome(both, *point), outcome(functad.value_and_grad(total, argnums=(0, 1)), *point))


def test_one_path_serves_all_values_that_take_it() -> None:
    f = functad.jit(sign)
    assert [f(x) for x in (1.0, 2.0, 3.0, -1.0, -2.0, 4.0)] == [1.0, 2.0, 3.0, 1.0, 2.0, 4.0]
    assert f.cache_info() == (4, 2, 2)


def test_a_function_without_questions_has_one_list_for_all_values() -> None:
    f = functad.jit(lambda x: np.where(x > 0, x, -x))
    assert [float(f(x)) for x in (1.0, -1.0, 2.0)] == [1.0, 1.0, 2.0]
    assert f.cache_info() == (2, 1, 1)
    assert "guard" not in f.explain_recompile()


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_infinity_and_zero_take_the_paths_of_eager_execution(backend: str) -> None:
    def f(x: Any) -> Any:
        if not x:
            return x + 10
        if x > 1 or x != x:
            return x * 2
        return -x

    compiled = functad.jit(f, backend=backend)
    for x in [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, 2.0, np.nan, 0.0] * 2:
        np.testing.assert_equal(compiled(x), f(x))
        np.testing.assert_equal(compiled(np.float32(x)), f(np.float32(x)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_of_python_and_of_numpy_have_lists_of_their_own(backend: str) -> None:
    def f(n: Any) -> Any:
        return [n * k for k in range(n)] if n % 2 else (n, n + 1)

    compiled = functad.jit(f, backend=backend)
    for n in (3, np.int64(3), np.int8(3), True, 4, np.int64(4), np.uint64(5), 3, 0, np.int8(3)):
        assert_same(compiled(n), f(n))


def test_integers_beyond_int64_run_the_function_itself() -> None:
    f = functad.jit(lambda n: n * n if n > 0 else -n)
    assert f(2**62) == 2**124
    assert f(3) == 9
    assert f(2**62) == 2**124
    assert f(2**70) == 2**140


@pytest.mark.parametrize("backend", BACKENDS)
def test_paths_may_return_other_structures_shapes_and_dtypes(backend: str) -> None:
    def f(x: Any) -> Any:
        if x.sum() > 1:
            return {"a": x, "b": [x[0], None]}
        return x.astype(int) if x.sum() > 0 else x[x > 0]

    compiled = functad.jit(f, backend=backend)
    for x in ([1.0, 2.0], [0.2, 0.3], [-1.0, 0.5], [-1.0, -0.5], [2.0, 2.0], [0.3, 0.1], [-2.0, 0.5]):
        assert_same(compiled(np.array(x)), f(np.array(x)))


# Errors


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_on_a_branch_are_those_of_the_function(backend: str) -> None:
    def f(x: Any) -> Any:
        if x < 0:
            raise ValueError(f"{x} is negative")
        if x > 10:
            raise KeyError(x)
        return np.sqrt(x)

    compiled = functad.jit(f, backend=backend)
    for x in (4.0, -1.0, 9.0, -2.0, 11.0, 4.0, -1.0):
        assert_same(outcome(compiled, x), outcome(f, x))
    assert compiled.cache_info().size == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operation_that_raises_on_another_path_does_not_raise(backend: str) -> None:
    def f(a: Any) -> Any:
        if np.abs(np.linalg.det(a)) < 1e-12:
            return a * 0.0
        return np.linalg.inv(a)

    compiled = functad.jit(f, backend=backend)
    for scale in (2.0, 0.0, 2.0, 0.0, 3.0, 0.0):
        assert_same(compiled(scale * np.eye(2)), f(scale * np.eye(2)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operation_that_raises_on_its_path_raises(backend: str) -> None:
    f = functad.jit(lambda a: np.linalg.inv(a) if a[0, 0] >= 0 else a, backend=backend)
    for _ in range(3):
        f(np.eye(2))
        with pytest.raises(np.linalg.LinAlgError):
            f(np.zeros((2, 2)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_of_operations_that_the_function_catches(backend: str) -> None:
    def f(a: Any) -> Any:
        try:
            lower = np.linalg.cholesky(a)
            return lower if lower[0, 0] > 1 else 2 * lower
        except np.linalg.LinAlgError:
            return a if a[0, 1] > 0 else -a

    compiled = functad.jit(f, backend=backend)
    for scale in (4.0, 0.5, -1.0, 4.0, -1.0, 0.5, -2.0):
        a = np.array([[scale, 0.1], [0.1, scale]])
        assert_same(compiled(a), f(a))
        assert_same(compiled(-a), f(-a))


@pytest.mark.parametrize("backend", BACKENDS)
def test_operations_on_values_of_another_path_do_not_warn(backend: str) -> None:
    f = functad.jit(lambda x: np.log(x) + 1 / x if x > 0 else x, backend=backend)
    for x in (1.0, 2.0, 0.0, 2.0, -1.0, 0.0, 3.0, 0.0):
        x = np.float64(x)
        assert_same(f(x), f.__wrapped__(x))


def test_floats_have_no_guards() -> None:
    for f in (float, complex, lambda x: x.item(), lambda x: int(x), lambda x: np.unique(x)):
        with pytest.raises(errors.AbstractValueError):
            functad.jit(lambda x, f=f: f(x))(np.float64(1.5))
    with pytest.raises(errors.AbstractValueError, match=r"if t < tol"):
        functad.jit(lambda x: x if float(x) > 0 else -x)(1.5)


def test_the_truth_of_several_elements_raises_as_in_numpy() -> None:
    f = functad.jit(lambda x: x if x > 0 else -x)
    assert_same(outcome(f, np.ones(2)), outcome(f.__wrapped__, np.ones(2)))
    assert_same(f(np.ones(1)), np.ones(1))


def test_an_interrupted_trace_leaves_the_paths_usable() -> None:
    fail = [False]

    def f(x: Any) -> Any:
        if x > 0:
            if fail[0]:
                raise KeyboardInterrupt
            return x * 2
        return -x

    compiled = functad.jit(f)
    assert compiled(-1.0) == 1.0
    fail[0] = True
    with pytest.raises(KeyboardInterrupt):
        compiled(1.0)
    fail[0] = False
    assert [compiled(x) for x in (1.0, -2.0, 3.0)] == [2.0, 2.0, 6.0]
    assert compiled.cache_info().size == 2


def test_masks_that_do_not_fit_raise_as_in_numpy() -> None:
    f = functad.jit(lambda x, mask: x[mask > 0])
    for shape in ((3,), (5,), (2, 2), (4, 1), ()):
        mask = np.ones(shape)
        assert_same(outcome(f, np.ones(4), mask), outcome(lambda x, mask: x[mask > 0], np.ones(4), mask))


# Options


def test_without_guards_a_branch_is_refused() -> None:
    f = functad.jit(sign, guards=False)
    with pytest.raises(errors.AbstractValueError, match=r"test_guards\.py:\d+.*np\.where"):
        f(1.0)
    with pytest.raises(errors.AbstractValueError):
        functad.jit(lambda x: x[x > 0], guards=False)(np.ones(2))
    with pytest.raises(errors.AbstractValueError):
        functad.jit(lambda x: np.nonzero(x), guards=False)(np.ones(2))


def test_beyond_max_paths_the_function_runs_itself_with_one_warning() -> None:
    f = functad.jit(lambda n: sum(range(n)) * 2.5, max_paths=3)
    assert [f(n) for n in (1, 2, 3)] == [0.0, 2.5, 7.5]
    with pytest.warns(errors.RecompileWarning, match=r"3 paths.*test_guards\.py:\d+.*np\.where.*while_loop"):
        assert f(4) == 15.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [f(n) for n in (1, 5, 3, 2)] == [0.0, 25.0, 7.5, 2.5]
    assert f.cache_info().size == 3


@pytest.mark.parametrize("paths", [0, -1, 1.5, None, True])
def test_max_paths_is_a_positive_integer(paths: Any) -> None:
    with pytest.raises(errors.InputError, match="max_paths"):
        functad.jit(sign, max_paths=paths)


def test_the_guards_of_the_newest_path_are_shown() -> None:
    f = functad.jit(sign)
    f(1.0)
    assert "`return x if x > 0 else -x` at" in f.explain_recompile()
    assert "gave True" in f.explain_recompile()
    f(-1.0)
    assert "Path 2" in f.explain_recompile()
    assert "gave False, and on the path before" in f.explain_recompile()
    f.clear_cache()
    assert f.cache_info() == (0, 0, 0)
    assert f(-1.0) == 1.0


def test_the_cache_shows_all_paths_with_their_lines() -> None:
    f = functad.jit(sign)
    assert f.cache_info().paths == ()
    for x in (1.0, -1.0, 2.0):
        f(x)
    line = sign.__code__.co_firstlineno + 2
    texts = [f"`return x if x > 0 else -x` at {__file__}:{line} gave {answer}" for answer in (True, False)]
    assert f.cache_info().paths == ((texts[0],), (texts[1],))
    assert f.cache_info() == (1, 2, 2)
    assert repr(f.cache_info()) == "CacheInfo(hits=1, misses=2, size=2)"
    assert functad.jit(lambda x: x * 2).cache_info().paths == ()


@pytest.mark.parametrize("backend", BACKENDS)
def test_lists_of_paths_check_their_guards(backend: str, tmp_path: Any) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sort(x[x > 0]) ** 2) if x[0] < 5 else x[0]

    x = np.array([1.0, -1.0, 2.0])
    lowered = functad.jit(f, backend=backend).lower(x)
    functad.save_expressions(lowered.expressions.before, tmp_path / "list")
    for own in (lowered.expressions.before.check(), functad.load_expressions(tmp_path / "list")):
        assert "guard[" in str(own)
        for g in (own, functad.jit(own, backend=backend)):
            np.testing.assert_allclose(g(x), [f(x)])
            np.testing.assert_allclose(functad.grad(lambda x, g=g: g(x)[0])(x), [2.0, 0.0, 4.0])
            for other in ([1.0, 1.0, 2.0], [6.0, -1.0, 2.0]):
                with pytest.raises(errors.GuardError, match=r"test_guards\.py:\d+ gave"):
                    g(np.array(other))
    assert "guard" not in lowered.source()
    for source in (functad.to_source(own, x), functad.to_source(f, x)):
        space: dict[str, Any] = {}
        exec(source, space)
        g = list(space.values())[-1]
        np.testing.assert_allclose(np.ravel(g(x)), [f(x)])
        for other in ([1.0, 1.0, 2.0], [6.0, -1.0, 2.0]):
            with pytest.raises(ValueError, match=r"another path than this code, for which .*test_guards\.py:\d+ gave"):
                g(np.array(other))
    with pytest.raises(errors.AbstractValueError):
        functad.jit(f, backend=backend).lower(functad.ArraySpec((3,), np.dtype(float)))


def test_lists_for_all_values_have_no_guards() -> None:
    spec = functad.ArraySpec((), np.dtype(float))
    source = lambda x: functad.to_source(sign, spec)  # noqa: E731 - short
    for make in (functad.make_expressions(sign), lambda x: functad.eval_shape(sign, x), source):
        with pytest.raises(errors.AbstractValueError):
            make(1.0)


def test_sources_name_each_line_that_asks_for_a_value() -> None:
    def f(x: Any, scale: Any) -> Any:
        if x[0] > 0:
            return scale * x[: int(np.argmax(x))]
        return x

    source = functad.to_source(functad.grad(lambda x, scale: np.sum(f(x, scale))), np.array([1.0, 2.0]), 3.0)
    first = f.__code__.co_firstlineno
    assert f"{__file__}:{first + 1} gave 1" in source
    assert f"{__file__}:{first + 2} gave 1" in source
    space: dict[str, Any] = {}
    exec(source, space)
    assert space["function"](np.array([3.0, 4.0]), 5.0).tolist() == [5.0, 0.0]
    with pytest.raises(errors.UnsupportedError, match="after or before an operation"):
        functad.to_source(lambda x: functad.debug.print("{}", x) or (x if x > 0 else -x), 1.0)


def test_static_arguments_need_no_guards() -> None:
    f = functad.jit(lambda x, n, kind: x * n if n > 2 and kind == "a" else x[x > 0], static_argnames=["n"])
    for n in (3, 3, 1):
        for kind in ("a", "b"):
            assert_same(f(np.array([1.0, -1.0]), n, kind), f.__wrapped__(np.array([1.0, -1.0]), n, kind))


# Transforms


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("a", [2.0, 9.0, 150.0])
def test_derivatives_of_compiled_and_compiled_derivatives(a: float, backend: str) -> None:
    f = functad.jit(root, backend=backend)
    slope, curve = 0.5 / a**0.5, -0.25 / a**1.5
    for _ in range(2):
        np.testing.assert_allclose(functad.grad(f)(a), slope, rtol=1e-6)
        np.testing.assert_allclose(functad.jit(functad.grad(f), backend=backend)(a), slope, rtol=1e-6)
        np.testing.assert_allclose(functad.grad(functad.grad(f))(a), functad.grad(functad.grad(root))(a), rtol=1e-9)
        np.testing.assert_allclose(functad.jit(functad.grad(functad.grad(root)))(a), curve, rtol=1e-3)
        value, tangent = functad.jvp(f, (a,), (1.0,))
        np.testing.assert_allclose([value, tangent], [a**0.5, slope], rtol=1e-6)


def test_a_derivative_that_decides_a_branch() -> None:
    def f(x: Any) -> Any:
        slope = functad.grad(lambda y: np.sum(y**3 - y))(x)
        for _ in range(20):
            if np.max(np.abs(slope)) < 1e-3:
                break
            x = x - 0.1 * slope
            slope = functad.grad(lambda y: np.sum(y**3 - y))(x)
        return np.sum(x)

    compiled = functad.jit(f)
    both = functad.jit(functad.grad(f))
    for x in ([1.0, 2.0], [0.7, 0.6], [1.5, 1.2], [1.0, 2.0]):
        assert_same(compiled(np.array(x)), f(np.array(x)))
        assert_same(both(np.array(x)), functad.grad(f)(np.array(x)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_nan_of_a_quick_derivative_decides_no_branch(backend: str) -> None:
    """The derivative of `where(x > 0, sqrt(x), 0)` is zero at zero: zero times infinity must not become a NaN."""

    def f(x: Any) -> Any:
        slope = functad.grad(lambda y: np.sum(np.where(y > 0, np.sqrt(np.where(y > 0, y, 0.0) * y), 0.0)))(x)
        return (x * 2, slope) if np.sum(slope) > 0.5 else (x * 3, slope)

    compiled = functad.jit(f, backend=backend)
    for x in ([1.0, 4.0], [0.0, 1.0], [0.0, 0.0], [1.0, 4.0], [0.0, 1.0], [0.0, -1.0]):
        assert_same(compiled(np.array(x)), f(np.array(x)))


def test_a_guard_on_a_batched_value_raises_with_the_fix() -> None:
    f = functad.jit(sign)
    for _ in range(2):
        with pytest.raises(errors.AbstractValueError, match=r"2 examples.*test_guards\.py.*np\.where"):
            functad.vmap(f)(np.ones(2))
        f(1.0)
    g = functad.jit(lambda x, y: x * 2 if y > 0 else x)
    assert_same(functad.vmap(g, in_axes=(0, None))(np.ones(2), 1.0), np.full(2, 2.0))
    g(1.0, 1.0)
    assert_same(functad.vmap(g, in_axes=(0, None))(np.ones(2), -1.0), np.ones(2))


def test_jit_of_vmap_guards_values_that_are_not_batched() -> None:
    def f(x: Any, y: Any) -> Any:
        return functad.vmap(lambda row: row * 2 if y > 0 else row)(x)

    compiled = functad.jit(f)
    for y in (1.0, -1.0, 2.0):
        assert_same(compiled(np.ones((2, 3)), y), f(np.ones((2, 3)), y))


def test_compiled_functions_within_compiled_functions() -> None:
    inner = functad.jit(lambda x: x * 2 if x.sum() > 0 else x * 3)
    outer = functad.jit(lambda x: inner(x) + (1 if x[0] > 0 else 2))
    for x in ([1.0, 2.0], [1.0, -2.0], [-1.0, 2.0], [-1.0, -2.0], [1.0, 2.0], [-1.0, -2.0]):
        a = np.array(x)
        expected = a * (2 if a.sum() > 0 else 3) + (1 if a[0] > 0 else 2)
        assert_same(outer(a), expected)
        assert_same(inner(a), a * (2 if a.sum() > 0 else 3))
        assert_same(functad.grad(lambda a: outer(a).sum())(a), np.full(2, 2.0 if a.sum() > 0 else 3.0))
    with pytest.raises(errors.AbstractValueError, match=r"outer|lambda"):
        functad.jit(lambda x: inner(x), guards=False)(np.ones(2))


def test_captured_tensors_keep_their_derivatives() -> None:
    def f(x: Any) -> Any:
        inner = functad.jit(lambda y: y * x if y > 1 else y + x)
        return inner(2.0) + inner(0.5) + inner(2.5) * x

    shared = functad.jit(lambda y: y * holder[0] if y > 1 else y + holder[0])
    holder: list[Any] = [1.0]

    def g(x: Any) -> Any:
        holder[0] = x
        return shared(2.0) + shared(0.5) * x

    for x in (3.0, 4.0, 3.0):
        assert_same(functad.grad(f)(x), functad.grad(lambda x: 2 * x + 0.5 + x + 2.5 * x * x)(x))
        assert_same(functad.grad(g)(x), functad.grad(lambda x: 2 * x + (0.5 + x) * x)(x))


def test_tapes_follow_the_path_that_is_taken() -> None:
    f = functad.jit(lambda x: x * x if x > 0 else -x)
    for value, slope in ((3.0, 6.0), (-3.0, -1.0), (2.0, 4.0), (-1.0, -1.0), (5.0, 10.0)):
        x = functad.constant(value)
        with functad.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert float(tape.gradient(y, x)) == slope


def test_in_the_steps_of_a_scan() -> None:
    f = functad.jit(lambda x: x * 2 if x > 0 else x * 3)

    def eager(x: Any) -> Any:
        for _ in range(3):
            x = x * 2 if x > 0 else x * 3
        return x

    for x in (1.0, -1.0, 2.0):
        f(x)
        with pytest.raises(errors.AbstractValueError, match="test_guards"):
            functad.jit(lambda x: functad.scan(lambda c, _: (f(c), None), x, None, length=3)[0])(x)
        assert float(functad.scan(lambda c, _: (f(c), None), x, None, length=3)[0]) == eager(x)


def test_bodies_of_control_flow_may_ask_for_values_outside() -> None:
    def f(x: Any, n: Any) -> Any:
        return functad.scan(lambda c, _: (c * 2 if n > 1 else c + 1, None), x, None, length=3)[0]

    compiled = functad.jit(f)
    for n in (1.0, 2.0, 1.0):
        assert_same(compiled(1.5, n), f(1.5, n))


def test_custom_rules_may_ask_for_values() -> None:
    @functad.custom_vjp
    def rule(x: Any, n: Any) -> Any:
        return x * n

    rule.defvjp(lambda x, n: (x * n, n), lambda n, g: (g * n, None))
    compiled = functad.jit(lambda x, n: rule(x, n) if n > 0 else x)
    slope = functad.jit(functad.grad(lambda x, n: rule(x, n) if n > 0 else x))
    for n in (2.0, -1.0, 3.0, -2.0):
        assert_same(compiled(1.5, n), 1.5 * n if n > 0 else 1.5)
        assert_same(slope(1.5, n), np.float64(n if n > 0 else 1.0))


# State


def test_variables_select_paths_and_are_assigned_only_by_the_path_taken() -> None:
    level, count = functad.Variable(1.0), functad.Variable(0)

    def f(x: Any) -> Any:
        if level > 2:
            count.assign(count + 1)
            return x * level
        level.assign(level + x)
        return x - level

    compiled = functad.jit(f)
    found = []
    for g in (compiled, f):
        level.assign(1.0)
        count.assign(0)
        found.append([(float(g(x)), float(level), int(count)) for x in (0.5, 0.7, 0.2, 3.0, 0.1, -1.0)])
        level.assign(0.0)
        found[-1] += [(float(g(x)), float(level), int(count)) for x in (0.5, 3.0, 0.2)]
    assert found[0] == found[1]
    assert compiled.cache_info().size == 2


class Holder:
    """An object with a value."""

    value: Any = None


def test_branches_on_a_tensor_of_a_running_transform_are_decided_in_each_call() -> None:
    holder = Holder()
    inner = functad.jit(lambda y: y if holder.value > 1 else -y)
    both = functad.jit(lambda y: (y if y > 0 else 2 * y) if holder.value > 1 else -y)

    def f(x: Any) -> Any:
        holder.value = x * 2
        return (inner(3.0) + both(2.0)) * x

    for x in (1.0, -1.0, 1.0, 0.4, 2.0):
        assert float(functad.grad(f)(x)) == (5.0 if 2 * x > 1 else -5.0)
        assert float(functad.jvp(f, (x,), (1.0,))[1]) == (5.0 if 2 * x > 1 else -5.0)
        assert float(functad.jit(functad.grad(f))(x)) == (5.0 if 2 * x > 1 else -5.0)
    compiled = functad.jit(f)
    for x in (1.0, -1.0, 1.0, 0.4):
        assert float(compiled(x)) == (5.0 if 2 * x > 1 else -5.0) * x


def test_a_tensor_that_is_stored_while_a_path_is_traced_raises_when_it_is_used() -> None:
    holder = Holder()

    def f(x: Any) -> Any:
        if x > 0:
            holder.value = x * 2
        return x

    functad.jit(f)(1.0)
    with pytest.raises(errors.EscapedTensorError, match=rf"test_guards\.py:{f.__code__.co_firstlineno + 2}"):
        holder.value + 1


def test_adopted_code_branches_on_values(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
import numpy as np

def reduced(a):
    a = np.asarray(a, dtype=float)
    if a[0] < 0:
        raise ValueError("negative")
    total = 0.0
    for v in a:
        if v > 1:
            break
        total = total + v**2
    return total + np.mean(a[a > 0.5])
"""
    (tmp_path / "adopted_branches.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with functad.adopt("adopted_branches"):
        import adopted_branches  # type: ignore[import-not-found]

        f = functad.jit(functad.value_and_grad(adopted_branches.reduced))
        for x in ([0.5, 0.7, 2.0], [0.1, 2.0, 0.2], [0.7, 0.9, 0.1], [-1.0, 0.1, 0.2], [0.2, 0.3, 3.0]):
            expected = outcome(functad.value_and_grad(adopted_branches.reduced), np.array(x))
            assert_same(outcome(f, np.array(x)), expected)
            assert_same(outcome(f, np.array(x)), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_of_integers(backend: str) -> None:
    def count(x: Any) -> Any:
        return np.count_nonzero(x > 0)

    table = {0: 1.5, 1: 2.5, 2: -1.0, 3: 0.5}
    functions: list[Callable[[Any], Any]] = [
        lambda x: np.arange(count(x)) * x[0],
        lambda x: np.arange(1, 1 + count(x), 2) + x[0],
        lambda x: np.arange(np.argmax(x), 5),
        lambda x: np.mgrid[0 : count(x)] * x[0],
        lambda x: np.linspace(0.0, x[0], count(x)),
        lambda x: table[count(x)] * x,
        lambda x: len({np.argmax(x), np.argmin(x), 0}) * x,
        lambda x: np.delete(x, np.argmax(x)),
        lambda x: np.insert(x, np.argmax(x), x[0]),
        lambda x: np.repeat(x, x > 0),
        lambda x: np.repeat(x[0], x[0] > 0),
        lambda x: np.zeros((count(x), 2)) + x[0],
        lambda x: float(count(x) / 2) * x,
        lambda x: np.split(x, [count(x)])[0],
        lambda x: x[int(np.floor(np.abs(x[0]) / 1.5))],
        lambda x: sum(x * k for k in range(int(np.round(x[1])))),
        lambda x: int(np.ceil(x[0] * 1e30)) * 1.0,
        lambda x: int(np.trunc(x[0] if x[0] > 0 else x[0] * np.nan)),
        lambda x: x * int(np.sign(x[0])),
        lambda x: x[int(x[1] // 2)],
    ]
    for number, f in enumerate(functions):
        compiled = functad.jit(f, backend=backend)
        for x in ([1.0, 2.0, -1.0], [1.0, 2.0, 3.0], [-1.0, -2.0, 0.5], [3.0, 1.0, -1.0]):
            for _ in range(2):
                assert_same(outcome(compiled, np.array(x)), outcome(f, np.array(x))), number


def test_side_effects_happen_while_a_path_is_traced() -> None:
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.append("positive" if x > 0 else "negative")
        return x

    compiled = functad.jit(f)
    for x in (1.0, 2.0, -1.0, 3.0, -2.0):
        compiled(x)
    assert seen == ["positive", "negative"]


def test_results_share_no_memory_with_arguments() -> None:
    f = functad.jit(lambda x: (x, x[1:], x) if x[0] > 0 else x.reshape(1, -1))
    for x in (np.ones(3), np.ones(3), -np.ones(3), -np.ones(3)):
        leaves = functad.tree_leaves(f(x))
        for i, leaf in enumerate(leaves):
            assert leaf.flags.writeable
            assert not any(np.shares_memory(leaf, other) for other in [x, *leaves[:i]])


def test_results_that_are_no_arrays() -> None:
    def f(x: Any) -> Any:
        if x > 1:
            return None
        return {"empty": ()} if x > 0 else (True, 3, CONSTANTS)

    compiled = functad.jit(f)
    for x in (2.0, 0.5, -1.0) * 3:
        assert_same(compiled(x), f(x))
        assert functad.tree_structure(compiled(x)) == functad.tree_structure(f(x))
    compiled(-1.0)[2][0] = 7.0
    assert compiled(-1.0)[2].tolist() == CONSTANTS.tolist() == [1.0, 2.0]


def test_arrays_that_python_code_has_do_not_miss_writes() -> None:
    def f(x: Any) -> Any:
        flags = x > 0
        plain = np.asarray(flags)
        flags[0] = True
        return [x * k for k, flag in enumerate(plain) if flag]

    def g(x: Any) -> Any:
        flags = x > 0
        np.asarray(flags)[0] = True
        return np.where(flags, x, 0.0)

    for x in (np.array([-1.0, 1.0]), np.array([1.0, -1.0]), np.array([-1.0, 1.0])):
        assert_same(functad.jit(f)(x), f(x))
        with pytest.raises(ValueError, match="read-only"):
            functad.jit(g)(x)


def test_arguments_are_not_written_to() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        if y[0] > 0:
            y[0] = 7.0
        y[y < 0] = 0.0
        return y

    compiled = functad.jit(f)
    for x in ([1.0, -1.0], [-1.0, 1.0], [2.0, -1.0], [-1.0, -1.0]):
        a = np.array(x)
        assert_same(compiled(a), f(a))
        assert a.tolist() == x


def test_a_value_asked_for_before_a_write_guards_the_old_value() -> None:
    def f(x: Any) -> Any:
        flags = x.copy()
        first = flags[:1]
        answers = bool(first > 0)
        flags[0] = -flags[0]
        return flags * (2 if answers else 3) * (5 if first[0] > 0 else 7)

    compiled = functad.jit(f)
    for x in ([1.0, 2.0], [-1.0, 2.0], [1.0, 3.0], [0.0, 1.0], [-2.0, 1.0]):
        assert_same(compiled(np.array(x)), f(np.array(x)))


def test_threads_share_paths() -> None:
    f = functad.jit(lambda n, x: sum((x * k for k in range(n)), x))
    wrong: list[Any] = []

    def run(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            n, x = int(rng.integers(1, 8)), float(rng.normal())
            found, expected = f(n, x), sum((x * k for k in range(n)), x)
            if abs(found - expected) > 1e-12:
                wrong.append((n, x, found, expected))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [f(n, 1.0) for n in range(1, 8)] == [1.0 + n * (n - 1) / 2 for n in range(1, 8)]
    assert f.cache_info().size == 7


def test_paths_keep_no_array_of_a_call_alive() -> None:
    f = functad.jit(lambda x: x[x > 0].sum())
    x = np.ones(1000)
    alive = weakref.ref(x)
    f(x)
    del x
    gc.collect()
    assert alive() is None


def test_pickled_functions_have_paths_too() -> None:
    f = pickle.loads(pickle.dumps(functad.jit(sign)))
    assert [f(x) for x in (1.0, -1.0, 2.0, -2.0)] == [1.0, 1.0, 2.0, 2.0]


def test_too_many_guards_are_not_compiled() -> None:
    f = functad.jit(lambda x: sum(1 for v in x if v > 0))
    x = np.where(np.arange(1500) % 3 == 0, 1.0, -1.0)
    assert f(x) == 500
    with pytest.warns(errors.RecompileWarning, match=r"more than 1,000 of them, the last one at .*test_guards\.py:\d+"):
        assert f(-x) == 1000
    assert f(x) == 500
    assert f.cache_info() == (0, 1, 0)


# Backends


@pytest.mark.skipif("xla" not in INSTALLED, reason="JAX is not installed")
def test_guards_are_checked_on_the_host_for_xla() -> None:
    f = functad.jit(root, backend="xla")
    for a in (2.0, 50.0, 3.0, 2.0, 50.0):
        np.testing.assert_allclose(np.asarray(f(a)), root(a), rtol=1e-5)
    assert f.cache_info().size == 1


def test_dask_arrays_run_the_function_itself() -> None:
    da = pytest.importorskip("dask.array")
    f = functad.jit(lambda x: x * 2 if x.sum() > 0 else x)
    x = da.ones(6, chunks=3)
    for _ in range(2):
        assert np.asarray(f(x)).tolist() == [2.0] * 6
        assert np.asarray(f(-x)).tolist() == [-1.0] * 6
    g = functad.jit(lambda x, n: x * 2 if n > 0 else x * COLUMNS[0])
    COLUMNS.append(3 * x)
    for n in (1, -1, 2, -2):
        assert np.asarray(g(x, n)).tolist() == [2.0 if n > 0 else 3.0] * 6
        assert np.asarray(g(np.ones(6), n)).tolist() == [2.0 if n > 0 else 3.0] * 6


def test_functions_of_dask_chunks() -> None:
    da = pytest.importorskip("dask.array")
    f = functad.jit(lambda x: x * 2 if x.sum() > 0 else x)
    x = da.from_array(np.array([1.0, 1.0, -1.0, -1.0]), chunks=2)
    assert x.map_blocks(f, dtype=float, meta=np.empty(0)).compute().tolist() == [2.0, 2.0, -1.0, -1.0]


def test_the_log_names_the_guards_of_a_path(caplog):
    f = functad.jit(lambda x: x * 2 if x > 0 else x, backend="numpy")
    with caplog.at_level(logging.INFO, "functad.compile"):
        assert [f(1.0), f(2.0)] == [2.0, 4.0]
    message = caplog.records[0].getMessage()
    assert "jit of" in message
    assert "Its first path of 1 has 1 guard: " in message


@pytest.mark.parametrize("backend", INSTALLED)
def test_prints_happen_once_and_on_the_path_taken_only(backend, capfd):
    def f(x):
        y = x * 2
        if x > 1:
            functad.debug.print("above {}", y)
        elif x > 0:
            functad.debug.print("between {}", y)
            if y > 1.5:
                y = y + 1
        return y

    compiled = functad.jit(f, backend=backend)
    points = (2.0, 3.0, -1.0, 0.5, 0.9, 2.5, 0.8)
    expected = [f(x) for x in points]
    printed = capfd.readouterr().out
    assert [compiled(x) for x in points] == expected
    assert capfd.readouterr().out == printed
