"""Each row of the table of rewrites: both sides compute the same, up to what the row says that it changes."""

import functools
import itertools
import operator

import numpy as np
import pytest

import functad
from functad.compilation.passes.peephole import Index, Rewriter, is_constant, patterns_of
from functad.compilation.passes.rewrites import TABLE, index
from functad.expressions.expressions import evaluate
from functad.expressions.spec import spec_of
from functad.transforms.lists import trace

DTYPES = {"f": ("float64", "float32", "float16"), "i": ("int64", "int8"), "u": ("uint8",), "c": ("complex128",), "b": ("bool",)}
NUMBERS = (2.0, -3.0, 0.1, 7, np.float64(0.3), np.float32(0.3), -0.25, 2.0**16, 2.0**17, 2.0**-24, -(2.0**-16), 1e300, 1e-300)
SHAPES = ((2, 3), (0, 3), (), (1,), (2, 1, 3))
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 1.5, -2.25, 3.7e3, -1e-3)
EXTREME = (5e-324, 1e-310, -1.7e308, 4e38, 1e-45)


def name_of(row):
    code = row.before.__code__
    return f"{code.co_firstlineno}-{'-'.join(code.co_varnames)}"


def values(shape, dtype, seed, extreme):
    """Return an array with all kinds of special numbers in it; a number for shape ()."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "iub":
        low = -3 if dtype.kind == "i" else 0
        found = rng.integers(low, 4 if dtype.kind != "b" else 2, shape).astype(dtype)
        if dtype.kind in "iu" and found.size:
            found.flat[0] = np.iinfo(dtype).min
    else:
        pool = np.array(SPECIAL + (EXTREME if extreme else ()))
        found = np.where(rng.random(shape) < 0.5, rng.normal(size=shape), rng.choice(pool, shape))
        if dtype.kind == "c":
            found = found + 1j * rng.normal(size=shape)
        with np.errstate(over="ignore"):
            found = np.asarray(found).astype(dtype)
    return found if shape else found[()]


def calls(row):
    """Yield arguments by name for a row, of all kinds that it is for."""
    names = list(row.before.__code__.co_varnames)
    arrays = [n for n in names if not is_constant(n)]
    matrices = {n: np.eye(row.shapes[n][0]) for n in names if n.startswith("k")}
    constants = [n for n in names if n.startswith("c")]
    shapes = [{n: row.shapes.get(n, (2, 3)) for n in arrays}]
    if not row.shapes and not row.free and not matrices:
        shapes += [dict.fromkeys(arrays, shape) for shape in SHAPES[1:]]
    if len(arrays) > 1 and not row.free and not row.shapes:
        shapes += [{n: ((2, 1), (3,), ())[i % 3] for i, n in enumerate(arrays)}]
    extreme = "overflow" not in row.changes and row.error is not None
    for kind in row.kinds:
        for dtype, shape in itertools.product(DTYPES[kind], shapes):
            for number, seed in itertools.product(NUMBERS if constants else (None,), range(3)):
                given = {n: values(shape[n], dtype, seed * 7 + i, extreme) for i, n in enumerate(arrays)}
                if "do not become NaN" in row.changes:
                    given = {n: np.nan_to_num(a, posinf=1.0, neginf=2.0) for n, a in given.items()}
                fixed = {k: m.astype(dtype) for k, m in matrices.items()}
                yield given, {c: number if i == 0 else 0.7 for i, c in enumerate(constants)} | fixed


def rewritten(row, given, constants):
    """Return the list of the first side, and what the row makes of it; `None` if it does not hold."""
    before = trace("test", functools.partial(_given_order, row.before, list(given), constants), tuple(given.values()), {})
    rewriter = Rewriter(before, Index([row]))
    after = rewriter.run().check()
    return before, after if rewriter.applied else None


def _given_order(f, names, constants, *arrays):
    # Positive numbers are numbers, not arrays of shape (), as the results of operations are.
    return f(**{n: a if a.shape else +a for n, a in zip(names, arrays, strict=True)}, **constants)


def assert_same(row, first, second, scale):
    assert spec_of(first) == spec_of(second)
    first, second = np.asarray(first), np.asarray(second)
    if not row.changes or row.error == 0.0:
        assert np.array_equal(first, second, equal_nan=first.dtype.kind in "fc")
        if not row.changes and first.dtype.kind in "fc":
            parts = [(first.real, second.real), (first.imag, second.imag)]
            assert all(np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0])) for a, b in parts)
        return
    assert np.array_equal(np.isnan(first), np.isnan(second))
    finite = np.isfinite(first) & np.isfinite(second)
    ends = ~finite & ~np.isnan(first)
    assert np.array_equal(first[ends], second[ends])
    if row.error is None:
        tolerance = 8 * np.finfo(first.dtype).eps * scale
    else:
        tolerance = row.error * np.spacing(np.maximum(np.abs(first[finite]), np.abs(second[finite])))
    assert np.all(
        np.abs(first[finite] - second[finite]) <= (tolerance if row.error is not None else np.asarray(tolerance)[finite])
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("row", TABLE, ids=name_of)
def test_both_sides_of_a_row_compute_the_same(row):
    applied = 0
    for given, constants in calls(row):
        before, after = rewritten(row, given, constants)
        if after is None:
            continue
        applied += 1
        leaves = list(given.values())
        [first], [second] = evaluate(before, leaves), evaluate(after, leaves)
        scale = evaluate(before, [np.abs(leaf) for leaf in leaves])[0] if row.error is None else None
        assert_same(row, first, second, scale)
    assert applied


@pytest.mark.parametrize("row", TABLE, ids=name_of)
def test_rows_say_what_they_change(row):
    assert (row.error == 0.0) or row.changes
    assert set(row.kinds) <= set("biufc")
    assert list(patterns_of(row))


def test_exact_rows_are_a_part_of_the_table():
    exact = {id(p.row) for patterns in index(exact=True, fused=False).by_root.values() for p in patterns}
    assert exact == {id(row) for row in TABLE if not row.changes}
    fused = {id(p.row) for patterns in index(exact=False, fused=True).by_root.values() for p in patterns}
    assert fused == {id(row) for row in TABLE if row.fused}


OPERATIONS = (
    *(operator.eq, operator.lt, operator.ge, operator.add, operator.sub, operator.mul, operator.truediv, operator.pow),
    *(operator.mod, operator.floordiv, np.maximum, np.fmin, np.copysign, np.float_power, np.heaviside),
)
FORMS = {
    "array": lambda number, dtype: np.full(1000, number, dtype),
    "row": lambda number, dtype: np.full((1, 1000), number, dtype),
    "element": lambda number, dtype: np.array([number], dtype),
    "shape ()": lambda number, dtype: np.array(number, dtype),
    "scalar": lambda number, dtype: np.dtype(dtype).type(number),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
@pytest.mark.parametrize("form", FORMS)
def test_constants_of_one_number_promote_dtypes_as_those_of_numpy(form, operation):
    for dtype in ("float64", "float32", "float16", "int8"):
        x = np.resize(np.array([0.1, 3, 1, 2, 0.5, 0, 7, 0.3]).astype(dtype), 1000)
        x = np.where(x == 0.3, -np.inf, x) if x.dtype.kind == "f" else x
        for number, kind in ((0.1, "float64"), (0.1, "float32"), (0.5, "float64"), (2, "float64"), (3, "int64"), (4, "uint64")):
            constant = FORMS[form](number, kind)
            try:
                expected = operation(x, constant)
            except TypeError:
                continue
            found = functad.jit(lambda x, c=constant: operation(x, c), backend="numpy", exact=True)(x)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected, err_msg=f"{dtype} {number} {kind}", strict=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("exact", [False, True])
def test_square_roots_take_the_place_of_powers_where_numpy_takes_them(backend, exact):
    x = np.array([-np.inf, -0.0, 4.0])
    for exponent in (0.5, np.float64(0.5), np.array(0.5), np.full(3, 0.5)):
        found = functad.jit(lambda x, p=exponent: x**p, backend=backend, exact=exact)(x)
        np.testing.assert_array_equal(found, x**exponent, strict=True)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(x**exponent))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_the_derivative_of_a_compiled_root_is_the_derivative_of_the_power(backend):
    x = np.array([-np.inf, -2.5, -0.0, 0.0, 4.0, np.inf])
    compiled = functad.jit(lambda x: np.power(x, 0.5), backend=backend)
    expected = functad.grad(lambda x: np.sum(np.power(x, 0.5)))(x)
    np.testing.assert_array_equal(functad.grad(lambda x: np.sum(compiled(x)))(x), expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_divisors_whose_reciprocal_is_beyond_the_dtype_divide(backend, dtype):
    x = np.array([1, 100, 6e4, 6e-8, 1e-5, -3.5], dtype)
    for exponent in (15, 16, 17, 24, -14, -15, -16, -24, 59, -59, 127, -127):
        found = functad.jit(lambda x, c=2.0**exponent: x / c, backend=backend, exact=True)(x)
        np.testing.assert_array_equal(found, x / 2.0**exponent, strict=True)
