"""The traits of all entries, compared with their functions on samples, and on NaN, infinities and zeros."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import AbstractValueError, FunctadError
from functad.expressions.expressions import Constant, evaluate
from functad.expressions.spec import spec_of
from functad.primitives.entry import Branches, Primitive
from functad.testing import calls, every_entry
from functad.testing.primitive_checks import InputSource
from tests.entries import is_public

SPECIAL = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan])
EVERY = {p.name: p for p in sorted(every_entry(), key=is_public) if isinstance(p, Primitive)}
PRIMITIVES = {name: p for name, p in EVERY.items() if p.kind == "elementwise"}
PASSING = sorted(name for name, p in PRIMITIVES.items() if p.passes_nan and p.reads_all)
PLAIN = sorted(name for name, p in PRIMITIVES.items() if p.plain is not None)
BY_UFUNC = sorted(name for name, p in PRIMITIVES.items() if p.ufunc is not None and p.ufunc is not p.function)
FRESH = sorted(name for name, p in EVERY.items() if p.fresh and p.ufunc is None)
OTHERWISE = {"nextafter", "pad"}  # which depends on the precision, and whose front computes means and ramps too
EXACT = sorted(name for name, p in EVERY.items() if p.exact and p.kind != "constant" and name not in OTHERWISE)
UFUNCS = {
    name: p
    for name, p in EVERY.items()
    if p.function is getattr(np, name, None)
    and "d" in "".join(getattr(p.function, "types", ""))
    and name not in ("spacing", "ldexp")
}
ROUNDED = sorted(name for name, p in UFUNCS.items() if p.kind == "elementwise" and not p.exact and name != "float_power")
CORNERED = sorted(name for name, p in EVERY.items() if p.kinks is not None or p.jumps is not None)
DECOMPOSED = sorted(name for name, p in EVERY.items() if p.decomposition is not None)
CONDITIONED = sorted(name for name, p in EVERY.items() if p.conditioned)
GRID = np.linspace(-2.5, 2.5, 41)
"""Points that include integers, halves, zero, and the second argument of `on_a_line`."""
PYTHON = sorted(name for name, p in EVERY.items() if p.python is not None)
DECOMPOSED = sorted(name for name, p in EVERY.items() if p.decomposition is not None)
SCALAR = sorted(name for name, p in EVERY.items() if p.zero_d is False and p.ufunc is None)


def arguments(primitive: Primitive) -> list[Any]:
    """Return arrays that combine all special values, one for each argument."""
    return list(np.meshgrid(*[SPECIAL] * len(primitive.names), indexing="ij"))


def test_there_are_such_entries() -> None:
    assert {"add", "multiply", "exp", "arctan2"} <= set(PASSING)
    assert {"product", "quotient", "kept"} <= set(PLAIN)
    assert BY_UFUNC == ["product", "quotient"]
    assert {"sum", "mean", "scatter"} <= set(FRESH)
    assert {"sum", "mean", "any", "dot"} <= set(SCALAR)
    assert {"mean", "var", "diff", "euclidean_norm"} <= set(DECOMPOSED)


@pytest.mark.parametrize("name", PASSING)
def test_nan_passes(name: str) -> None:
    primitive = PRIMITIVES[name]
    for position in primitive.passes_nan:
        values = arguments(primitive)
        values[position] = np.full_like(values[position], np.nan)
        if name == "mended":
            values[0] = values[0] * values[1]  # its first argument was computed from the second
        with np.errstate(all="ignore"):
            out = primitive.compute(*values)
        for result in out if primitive.multiple else (out,):
            hidden = ~np.isnan(result)
            if primitive.plain is not None:  # an exact zero in another argument wins; the plain function passes the NaN
                hidden &= ~np.any([v == 0 for v in values], axis=0)
            assert not np.any(hidden), (position, [v[hidden] for v in values])


@pytest.mark.parametrize("name", PLAIN)
def test_plain_functions_agree_where_no_nan_occurs(name: str) -> None:
    primitive = PRIMITIVES[name]
    values = arguments(primitive)
    if name in ("kept", "dropped"):
        values[1] = values[1] > 0
    with np.errstate(all="ignore"):
        found, expected = primitive.plain(*values), primitive.compute(*values)
    known = ~np.isnan(found)
    assert np.any(known)
    np.testing.assert_allclose(found[known], expected[known], rtol=1e-15, atol=0)


def decomposed(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Sequence[Any] | None:
    """Return the results of the decomposition of a primitive, traced without values; `None` if it needs values."""
    parts = primitive.decomposition
    if isinstance(parts, Branches):
        parts = parts.then if parts.condition(*values, **params) else parts.otherwise
    assert callable(parts)
    try:
        return evaluate(functad.make_expressions(functools.partial(parts, **params))(*map(spec_of, values)), values)
    except AbstractValueError:
        return None


@pytest.mark.parametrize("name", DECOMPOSED)
def test_decompositions_compute_the_same(name: str) -> None:
    compared = 0
    for call in calls(EVERY[name], np.float64):
        try:
            expressions = functad.make_expressions(call.arrays)(*call.primals)
        except FunctadError:
            continue
        slots: dict[int, Any] = dict(enumerate(call.primals))
        for equation in expressions.equations:
            values = [s.value if isinstance(s, Constant) else slots[s] for s in equation.inputs]
            out = equation.primitive.compute(*values, **equation.params)
            outs = out if equation.primitive.multiple else (out,)
            slots.update(zip(equation.outputs, outs, strict=True))
            if equation.primitive is EVERY[name]:
                found = decomposed(equation.primitive, values, dict(equation.params))
                compared += found is not None
                for a, b in zip(found or outs, outs, strict=True):
                    assert np.shape(a) == np.shape(b)
                    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    assert compared


@pytest.mark.parametrize("name", BY_UFUNC)
def test_ufuncs_agree_where_no_nan_occurs(name: str) -> None:
    primitive = PRIMITIVES[name]
    values = arguments(primitive)
    with np.errstate(all="ignore"):
        found, expected = primitive.ufunc(*values), primitive.compute(*values)
    known = ~np.isnan(found)
    np.testing.assert_array_equal(found[known], expected[known])


def in_double(primitive: Primitive) -> list[tuple[Any, Any]]:
    """Return pairs of results of sample calls in single precision, and of the same numbers in double precision."""
    pairs = []
    for call in calls(primitive, np.float32):
        single, double = [
            primitive.front(*args, **kwargs)
            for dtype in (np.float32, np.float64)
            for args, kwargs in [call.structure.unflatten([_to(leaf, dtype) for leaf in call.leaves])]
        ]
        pairs += list(zip(single, double, strict=True)) if primitive.multiple else [(single, double)]
    return pairs


def _to(leaf: Any, dtype: Any) -> Any:
    return leaf.astype(dtype) if isinstance(leaf, (np.ndarray, np.floating)) and leaf.dtype == np.float32 else leaf


@pytest.mark.parametrize("name", EXACT)
def test_exact_results_are_the_same_in_all_precisions(name: str) -> None:
    for single, double in in_double(EVERY[name]):
        np.testing.assert_array_equal(np.asarray(single, np.complex128), double)


@pytest.mark.parametrize("name", ROUNDED)
def test_other_functions_round(name: str) -> None:
    with np.errstate(all="ignore"):
        pairs = in_double(PRIMITIVES[name])
    assert any(np.any(np.asarray(single, np.complex128) != double) for single, double in pairs)


def on_a_line(primitive: Primitive, points: Any) -> tuple[Any, Any]:
    """Return the results and the first derivatives at points of the first argument; the second argument is 0.625."""
    others = [np.full_like(points, 0.625)] * (primitive.function.nin - 1)
    with np.errstate(all="ignore"):
        return functad.jvp(lambda x: primitive.front(x, *others) * 1.0, (points,), (np.ones_like(points),))


@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_kinks_and_jumps_are_where_derivatives_and_values_jump(name: str) -> None:
    primitive = UFUNCS[name]
    near = 1e-9 * (1 + np.abs(GRID))
    (low, low_slope), (high, high_slope) = on_a_line(primitive, GRID - near), on_a_line(primitive, GRID + near)
    known = np.isfinite(low + high) & (np.abs(low_slope) + np.abs(high_slope) < 1e6)  # no poles
    size = 1e-6 * (1 + np.abs(low) + np.abs(low_slope) + np.abs(high_slope))
    jumps, kinks = known & (np.abs(high - low) > size), known & (np.abs(high_slope - low_slope) > size)
    others = [np.full_like(GRID, 0.625)] * (primitive.function.nin - 1)
    for found, distance in ((jumps, primitive.jumps), (kinks & ~jumps, primitive.kinks)):
        at = np.abs(distance(GRID, *others)) < 1e-12 if distance is not None else np.zeros(GRID.shape, bool)
        assert not np.any(found & ~at), GRID[found & ~at]
        assert distance is None or np.any(found & at) or name == "copysign"


@pytest.mark.parametrize("name", CONDITIONED)
def test_condition_numbers_amplify_errors(name: str) -> None:
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    matrix = rotation @ np.diag([1.0, 0.5, 1e-6]) @ rotation.T
    matrix = (matrix + matrix.T) / 2
    nearby = matrix * (1 + 1e-10 * np.eye(3))
    if name == "triangular_solve":  # substitution does not amplify relative errors of single elements
        matrix = np.linalg.qr(matrix).R.T
        nearby = matrix + 1e-10
    columns = np.ones((3, 1))
    given = {"solve": (columns[:, 0],), "pinv": (1e-15,)} | dict.fromkeys(("triangular_solve", "least_squares"), (columns,))
    params = {
        "triangular_solve": {"lower": True},
        "least_squares": {"rcond": 1e-15},
        "inverse": {"of": "it", "limit": np.inf},
    }.get(name, {})
    primitive = EVERY[name]

    def result(a: Any) -> Any:
        out = primitive.compute(a, *given.get(name, ()), **params)
        return out[1] if primitive.multiple else out

    change = np.max(np.abs(result(nearby) - result(matrix))) / np.max(np.abs(result(matrix)))
    assert change > 1e-8


def results(primitive: Primitive) -> list[tuple[list[Any], list[Any]]]:
    """Return the arguments and the results of the sample calls of a primitive, with numbers as arrays of shape `()` too."""
    found = []
    for call in calls(primitive, np.float64):
        for leaves in (call.leaves, [np.asarray(leaf) if isinstance(leaf, np.floating) else leaf for leaf in call.leaves]):
            args, kwargs = call.structure.unflatten(leaves)
            with np.errstate(all="ignore"):
                out = primitive.front(*args, **kwargs)
            found.append((leaves, list(out) if primitive.multiple else [out]))
    return found


@pytest.mark.parametrize("name", FRESH)
def test_results_share_no_memory_with_arguments(name: str) -> None:
    for leaves, found in results(EVERY[name]):
        arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
        assert not any(isinstance(out, np.ndarray) and np.may_share_memory(out, a) for out in found for a in arrays)


@pytest.mark.parametrize("name", SCALAR)
def test_results_of_shape_0_are_scalars(name: str) -> None:
    for _, found in results(EVERY[name]):
        assert not any(type(out) is np.ndarray and not out.shape for out in found)


def test_functions_of_python_are_known() -> None:
    assert {"add", "less", "power", "product", "mended", "square", "exp", "arctan2", "copy"} <= set(PYTHON)


@pytest.mark.parametrize("name", PYTHON)
def test_function_of_python_numbers(name: str) -> None:
    primitive = EVERY[name]
    tried = 0
    for args, kwargs in primitive.samples(InputSource(np.float64, 0)):
        arrays = np.broadcast_arrays(*args)
        if kwargs or not arrays[0].size or (name == "copy" and len(args) > 1):  # the order of the axes in memory
            continue
        expected = primitive.compute(*arrays)
        for index in np.ndindex(expected.shape):
            found = primitive.python(*[a[index].item() for a in arrays])
            assert np.allclose(found, expected[index], rtol=1e-14, atol=0)
            tried += 1
    assert tried
