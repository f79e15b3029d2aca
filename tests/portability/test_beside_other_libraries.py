"""Tensors beside arrays of other libraries: library x operation x side x transform.

The reference is the same call with a NumPy array in place of the Tensor: its values, and its derivative by finite differences.
Each cell must agree with it, or raise an error of functad that names the line, as `refuses` says. If the plain call raises, an
error of the same type is right too.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad.errors import FunctadError

pd = pytest.importorskip("pandas", reason="pandas is in the extra `test`, and no dependency")
pl = pytest.importorskip("polars", reason="polars is in the extra `test`, and no dependency")
xr = pytest.importorskip("xarray", reason="xarray is in the extra `test`, and no dependency")
pint = pytest.importorskip("pint", reason="pint is in the extra `test`, and no dependency")
units = pytest.importorskip("astropy.units", reason="astropy is in the extra `test`, and no dependency")

X = np.array([1.25, 2.5, 3.75])
VALUES = np.array([1.5, 2.0, 0.5])
WEIGHTS = np.array([0.7, -1.1, 1.9])
UNITS = pint.UnitRegistry()
LEFT, RIGHT = "Tensor on the left", "Tensor on the right"


class Renamed(np.ndarray):
    """A subclass without rules of its own."""


class OwnRules(np.ndarray):
    """A subclass with its own ufuncs."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [np.asarray(value) if isinstance(value, OwnRules) else value for value in inputs]
        if "out" in kwargs:
            kwargs["out"] = tuple([np.asarray(out) if isinstance(out, OwnRules) else out for out in kwargs["out"]])
        out = getattr(ufunc, method)(*plain, **kwargs)
        return np.asarray(out).view(OwnRules) if np.ndim(out) else out


class Convertible:
    """An object that NumPy converts by `__array__`, and that has no operators."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.values, dtype)


class Preferred(Convertible):
    """An object with a high `__array_priority__`: NumPy calls its operators first."""

    __array_priority__ = 10.0

    def __add__(self, other: Any) -> Any:
        return Preferred(self.values + other)

    __radd__ = __add__


class Library(NamedTuple):
    """A kind of arrays.

    Attributes:
        make: returns such an array of given values.
        numbers: returns the array, or Tensor, that holds the values of a result.
        refuses: returns `True` if an operation of a group on a side must raise.
    """

    make: Callable[[Any], Any]
    numbers: Callable[[Any], Any]
    refuses: Callable[[str, str], bool]


def _never(group: str, side: str) -> bool:
    return False


def _operands(group: str, side: str) -> bool:
    return (group, side) != ("assignment", LEFT)  # NumPy writes the plain values of every library


def _pandas_cannot(group: str, side: str) -> bool:
    return side == RIGHT and group in ("matmul", "in place", "assignment")


def _polars_cannot(group: str, side: str) -> bool:
    return side == RIGHT and group != "function"


def _writes(group: str, side: str) -> bool:
    return side == RIGHT and group in ("in place", "assignment")


def _own_rules(group: str, side: str) -> bool:
    return _operands(group, side) and (side == LEFT or group not in ("matmul", "comparison"))


def _values(out: Any) -> Any:
    out = out.values if isinstance(out, Preferred) else out
    return out if type(out) is functad.Tensor else np.asarray(out)


def _data(out: Any) -> Any:
    return out["a"].data if isinstance(out, xr.Dataset) else out.data if isinstance(out, xr.DataArray) else _values(out)


def _magnitude(out: Any) -> Any:
    return out.magnitude if isinstance(out, UNITS.Quantity) else _values(out)


LIBRARIES = {
    "pandas Series": Library(pd.Series, _values, _pandas_cannot),
    "pandas Series of Float64": Library(lambda v: pd.Series(v, dtype="Float64"), _values, _pandas_cannot),
    "pandas Series of a column": Library(lambda v: pd.DataFrame({"a": v})["a"], _values, _pandas_cannot),
    "pandas Series with labels": Library(lambda v: pd.Series(v, index=list("cab")), _values, _operands),
    "pandas Index": Library(pd.Index, _values, lambda g, s: s == RIGHT and g in ("ufunc", "assignment")),
    "pandas array": Library(lambda v: pd.array(v, dtype="Float64"), _values, lambda g, s: s == RIGHT and g == "assignment"),
    "pandas DataFrame": Library(lambda v: pd.DataFrame({"a": v, "b": v, "c": v}), _values, _operands),
    "polars Series": Library(pl.Series, _values, _polars_cannot),
    "polars DataFrame": Library(lambda v: pl.DataFrame({"a": v, "b": v, "c": v}), _values, _operands),
    "xarray DataArray": Library(lambda v: xr.DataArray(v, dims="t"), _data, _writes),
    "xarray Dataset": Library(lambda v: xr.Dataset({"a": ("t", v)}), _data, _never),
    "pint Quantity": Library(lambda v: np.array(v) * UNITS.dimensionless, _magnitude, _writes),
    "astropy Quantity": Library(lambda v: np.array(v) * units.dimensionless_unscaled, _values, _operands),
    "masked array": Library(lambda v: np.ma.masked_array(v, [False, True, False]), _values, _operands),
    "matrix": Library(lambda v: np.array(v).view(np.matrix), _values, _operands),
    "subclass": Library(lambda v: np.array(v).view(Renamed), _values, _writes),
    "subclass with its own ufuncs": Library(lambda v: np.array(v).view(OwnRules), _values, _own_rules),
    "class with __array__": Library(Convertible, _values, _never),
    "class with __array_priority__": Library(Preferred, _values, _never),
}


def _assigned(a: Any, b: Any) -> Any:
    if isinstance(a, (pd.Series, pd.DataFrame)):
        a.iloc[:] = b
    else:
        a[...] = b
    return a


def _written(op: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: op(a.copy() if hasattr(a, "copy") else a, b)


_MASK = np.array([True, False, True])
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "np.where": lambda a, b: np.where(_MASK, a, b),
    "np.dot": np.dot,
    "np.concatenate": lambda a, b: np.concatenate([a, b], axis=None),
    "np.stack": lambda a, b: np.stack([a, b]),
    "np.outer": np.outer,
    "np.einsum": lambda a, b: np.einsum("i,i->i", a, b),
    "np.interp": lambda a, b: np.interp(a, np.array([0.0, 1.6, 5.0]), b),
}
_UFUNCS = (np.add, np.subtract, np.maximum, np.arctan2, np.logaddexp, np.greater)
OPERATIONS: dict[str, dict[str, Callable[[Any, Any], Any]]] = {
    "arithmetic": {n: getattr(operator, n) for n in ("add", "sub", "mul", "truediv", "pow", "mod", "floordiv")},
    "comparison": {n: getattr(operator, n) for n in ("lt", "le", "gt", "ge", "eq", "ne")},
    "matmul": {"matmul": operator.matmul},
    "in place": {n: _written(getattr(operator, n)) for n in ("iadd", "isub", "imul", "itruediv")},
    "ufunc": {f"np.{ufunc.__name__}": ufunc for ufunc in _UFUNCS},
    "function": _FUNCTIONS,
    "assignment": {"assignment": _written(_assigned)},
}
CALLS = [(group, name) for group, calls in OPERATIONS.items() for name in calls]


def _by_grad(f: Callable[[Any], Any]) -> tuple[Any, Any]:
    value, gradient = functad.value_and_grad(f)(X)
    return value, gradient @ WEIGHTS


def _by_jvp(f: Callable[[Any], Any]) -> tuple[Any, Any]:
    return functad.jvp(f, (X,), (WEIGHTS,))


def _by_tape(f: Callable[[Any], Any]) -> tuple[Any, Any]:
    x = functad.constant(X)
    with functad.GradientTape() as tape:
        tape.watch(x)
        value = f(x)
    return value, np.asarray(tape.gradient(value, x, unconnected_gradients="zero")) @ WEIGHTS


STYLES = {"grad": _by_grad, "jvp": _by_jvp, "tape": _by_tape}


def _summed(call: Callable[[Any], Any], library: Library) -> Callable[[Any], Any]:
    """Return a function of one number, the weighted sum of the values of a call."""

    def f(x: Any) -> Any:
        out = library.numbers(call(x * 1.0))
        assert out.dtype != object
        return np.sum(out * np.cos(np.arange(out.size)).reshape(out.shape)) + 0.0 * np.sum(x)

    return f


def _outcome(run: Callable[..., Any], f: Callable[[Any], Any]) -> tuple[Any, BaseException | None]:
    """Return the result of a transform, or the error that it raised."""
    try:
        return run(f), None
    except Exception as error:  # noqa: BLE001 - the test compares it with the error of the plain call
        return None, error


@pytest.mark.parametrize("side", [LEFT, RIGHT])
@pytest.mark.parametrize(("group", "name"), CALLS, ids=[name for _, name in CALLS])
@pytest.mark.parametrize("library", LIBRARIES)
def test_each_operation_is_right_or_refused(library: str, group: str, name: str, side: str) -> None:
    kind, op = LIBRARIES[library], OPERATIONS[group][name]

    def call(x: Any) -> Any:
        other = kind.make(VALUES)
        return op(x, other) if side == LEFT else op(other, x)

    f = _summed(call, kind)
    expected: BaseException | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, about calls that they will refuse one day
        try:
            value, slope = f(X), (f(X + 1e-6 * WEIGHTS) - f(X - 1e-6 * WEIGHTS)) / 2e-6
        except Exception as error:  # noqa: BLE001 - the library lacks the operation; the Tensor may compute with the values
            expected = error
            f = _summed(lambda x: op(x, VALUES) if side == LEFT else op(VALUES, x), kind)
            value, slope = f(X), (f(X + 1e-6 * WEIGHTS) - f(X - 1e-6 * WEIGHTS)) / 2e-6
            f = _summed(call, kind)
        for style, run in STYLES.items():
            found, raised = _outcome(run, f)
            if isinstance(raised, FunctadError):
                assert kind.refuses(group, side) or expected is not None, (style, raised)
                assert __file__ in str(raised), (style, raised)
                continue
            if raised is not None:
                assert expected is not None, (style, raised)
                assert isinstance(raised, (type(expected), TypeError)), (style, raised, expected)
                continue
            np.testing.assert_allclose(np.asarray(found[0]), value, rtol=1e-12, err_msg=style)
            np.testing.assert_allclose(np.asarray(found[1]), slope, rtol=1e-6, atol=1e-8, err_msg=style)
            constant = group == "comparison" or name in ("floordiv", "np.greater")
            assert not kind.refuses(group, side) or constant, (style, "works")


# Labels, missing values, tables

REFUSED_DATA = {
    "other labels": (lambda: pd.Series(VALUES, index=[2, 0, 1]), r"labels other than 0, 1, 2.*s\.to_numpy\(\)"),
    "a selection": (lambda: pd.Series(VALUES)[[True, False, True]], r"labels other than 0, 1, 2"),
    "NaN": (lambda: pd.Series([1.0, np.nan, 2.0]), r"missing values.*fillna"),
    "NA": (lambda: pd.Series([1, None, 2], dtype="Int64"), r"missing values"),
    "null": (lambda: pl.Series([1.0, None, 2.0]), r"missing values"),
    "text": (lambda: pd.Series(["a", "b", "c"]), r"dtype (object|str).*pass numbers"),
    "table": (lambda: pd.DataFrame({"a": VALUES}), r"columns have labels.*df\.to_numpy\(\)"),
    "Tensors": (lambda: pd.Series([X, X, X]), r"dtype object"),
}


@pytest.mark.parametrize("name", REFUSED_DATA)
def test_data_whose_labels_or_gaps_count_are_refused(name: str) -> None:
    make, advice = REFUSED_DATA[name]
    for call in (
        lambda t: t * make(),
        lambda t: t < make(),
        lambda t: np.maximum(t, make()),
        lambda t: np.where(t > 2.0, t, make()),
        lambda t: np.concatenate([t, make()]),
    ):
        with pytest.raises(functad.errors.UnsupportedError, match=advice):
            functad.grad(lambda t, call=call: np.sum(call(t)))(X)


def test_a_series_inside_a_function_has_a_gradient() -> None:
    s = pd.Series([1.0, 2.0])
    assert functad.grad(lambda a: np.sum(a * s))(1.0) == 3.0
    gradient = functad.grad(lambda p: np.sum((p - s) ** 2))(np.array([1.0, 0.5]))
    assert type(gradient) is np.ndarray
    np.testing.assert_array_equal(gradient, [0.0, -3.0])
    np.testing.assert_array_equal(functad.jit(functad.grad(lambda p: np.sum((p - s) ** 2)))(np.array([1.0, 0.5])), [0.0, -3.0])


def _set_column(t: Any) -> None:
    pd.DataFrame({"a": VALUES})["a"] = t


def _set_element(t: Any) -> None:
    pd.Series(VALUES).at[0] = t[0]


def _set_some(t: Any) -> None:
    s = pd.Series(VALUES)
    s.loc[s > 1.0] = t[:2]


STORING: dict[str, Callable[[Any], Any]] = {
    "pd.Series": pd.Series,
    "pd.Index": pd.Index,
    "pd.DataFrame": lambda t: pd.DataFrame({"a": t}),
    "pd.array": pd.array,
    "pd.concat": lambda t: pd.concat([pd.Series(VALUES), pd.Series(t)]),
    "df.assign": lambda t: pd.DataFrame({"a": VALUES}).assign(b=t),
    "s.where": lambda t: pd.Series(VALUES).where(VALUES > 1.0, t),
    "s.dot": lambda t: pd.Series(VALUES).dot(t),
    "df[...] =": _set_column,
    "s.at[...] =": _set_element,
    "s.loc[...] =": _set_some,
    "pl.Series": pl.Series,
    "pl.Series of a list": lambda t: pl.Series(list(t)),
    "pl.DataFrame": lambda t: pl.DataFrame({"a": t}),
    "pl.lit": pl.lit,
    "df.with_columns": lambda t: pl.DataFrame({"a": VALUES}).with_columns(b=t),
    "p * number": lambda t: pl.Series(VALUES) * t[0],
    "np.ma.array": np.ma.array,
    "np.matrix": lambda t: t.view(np.matrix),
    "unit of astropy": lambda t: t * units.m,
    "units.Quantity": lambda t: units.Quantity(t, "m"),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", STORING)
def test_a_tensor_is_never_stored_as_a_constant(name: str, style: str) -> None:
    def f(t: Any) -> Any:
        STORING[name](t)
        return np.sum(t)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(FunctadError) as caught:
            STYLES[style](f)
    assert __file__ in str(caught.value)


def test_other_names_of_operations_reach_the_tensor() -> None:
    s = pd.Series(VALUES)
    for call in (
        lambda t: s.mul(t),
        lambda t: np.multiply.outer(s, t)[0] + 0 * t,
        lambda t: np.multiply(s, t, out=np.zeros_like(t)),
    ):
        gradient = functad.grad(lambda t, call=call: np.sum(call(t)))(X)
        assert type(gradient) is np.ndarray
        assert np.all(gradient != 0.0)


# Arguments and results of transforms

ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda a: functad.grad(lambda x: np.sum(x * x))(a),
    "jvp": lambda a: functad.jvp(lambda x: x * x, (a,), (a,)),
    "vmap": lambda a: functad.vmap(lambda x: x * x)(a),
    "jacobian": lambda a: functad.jacobian(lambda x: x * x)(a),
    "hessian": lambda a: functad.hessian(lambda x: np.sum(x * x))(a),
    "linearize": lambda a: functad.linearize(lambda x: x * x, a),
    "jit": lambda a: functad.jit(lambda x: x * x, backend="numpy")(a),
    "pullback": lambda a: functad.vjp(lambda x: x * x, X)[1](a),
    "scan": lambda a: functad.scan(lambda carry, x: (carry + x, x), 0.0, a),
}
NUMPYS_OWN = ("subclass", "class with __array__", "class with __array_priority__")


@pytest.mark.parametrize("transform", ARGUMENTS)
@pytest.mark.parametrize("library", [name for name in LIBRARIES if name not in NUMPYS_OWN])
def test_arguments_are_refused_with_advice(library: str, transform: str) -> None:
    with pytest.raises(FunctadError):
        ARGUMENTS[transform](LIBRARIES[library].make(VALUES))


@pytest.mark.parametrize("library", [name for name in LIBRARIES if not LIBRARIES[name].refuses("arithmetic", LEFT)])
def test_constants_work_in_every_transform(library: str) -> None:
    kind = LIBRARIES[library]
    operation = operator.add if library == "class with __array_priority__" else operator.mul  # it has no other operator

    def f(x: Any, c: Any) -> Any:
        return np.sum(np.sin(kind.numbers(operation(x, c))))

    def captured(x: Any) -> Any:
        return f(x, kind.make(VALUES))

    value, slope = f(X, VALUES), (f(X + 1e-6 * WEIGHTS, VALUES) - f(X - 1e-6 * WEIGHTS, VALUES)) / 2e-6
    for gradient in (
        functad.grad(f)(X, kind.make(VALUES)),
        functad.jit(functad.grad(captured), backend="numpy")(X),
        functad.vmap(functad.grad(captured))(X[None])[0],
    ):
        np.testing.assert_allclose(gradient @ WEIGHTS, slope, rtol=1e-7)
    np.testing.assert_allclose(functad.jit(captured, backend="numpy")(X), value)


def test_a_wrapper_around_a_tensor_is_no_result() -> None:
    wrapped: dict[str, Callable[[Any], Any]] = {
        "out.data": lambda t: (xr.DataArray(t) ** 2).sum(),
        "out.magnitude": lambda t: (t * UNITS.meter).sum(),
    }
    for advice, f in wrapped.items():
        for call in (functad.grad(f), functad.jacobian(f), functad.jit(f, backend="numpy")):
            with pytest.raises(functad.errors.ConversionError, match=advice):
                call(X)
    constant = functad.grad(lambda t: (np.sum(t), xr.DataArray(VALUES)), has_aux=True)(X)[1]
    assert type(constant) is xr.DataArray


def test_what_draws_is_told_to_draw_a_plain_array() -> None:
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is in the extra `examples`, and no dependency")
    calls: tuple[Callable[[Any], Any], ...] = (plt.plot, plt.hist, lambda t: plt.scatter(t, t), lambda t: plt.imshow(t[None]))
    for call in calls:
        with pytest.raises(functad.errors.ConversionError, match=r"Draw functad\.stop_gradient\(t\)") as caught:
            functad.grad(lambda t, call=call: call(t) and np.sum(t))(X)
        assert __file__ in str(caught.value)
        for transform, x in ((functad.jit, X), (functad.make_expressions, X), (functad.vmap, X[None])):
            with pytest.raises(functad.errors.AbstractValueError, match=r"Draw the result of the call") as caught:
                transform(lambda t, call=call: call(t) and np.sum(t))(x)
            assert __file__ in str(caught.value)
    with pytest.raises(functad.errors.ConversionError, match=r"Draw functad\.stop_gradient\(t\)"):
        functad.grad(lambda t: plt.xlim(t, 3.0) and t)(1.0)
    plt.close("all")
