"""Arrays of other libraries that wrap Tensors: xarray, pint, and classes that functad has never heard of."""

from __future__ import annotations

import operator
import subprocess
import sys

import numpy as np
import pytest

import functad
from functad.testing import check_grads

X = np.array([0.5, -1.5, 2.0])


# xarray

xr = pytest.importorskip("xarray", reason="xarray is in the extra `test`")


def labelled(data, **coords):
    return xr.DataArray(data, dims=["row", "x"][-np.ndim(data) :], coords=coords)


XARRAY = {
    "arithmetic": lambda t: ((labelled(t) * labelled(t) + 1) / 2).sum().data,
    "number on the left": lambda t: (2.0 - labelled(t)).sum().data,
    "array on the left": lambda t: (np.ones(3) * labelled(t) ** 2).sum().data,
    "ufunc": lambda t: np.exp(np.sin(labelled(t))).sum().data,
    "mean by name": lambda t: (labelled(t * np.ones((2, 1))) ** 2).mean("row").sum("x").data,
    "max": lambda t: labelled(t).max().data,
    "index by position": lambda t: (labelled(t).isel(x=slice(1, None)) ** 2).sum().data,
    "index by label": lambda t: labelled(t**2, x=["a", "b", "c"]).sel(x="b").data,
    "alignment by name": lambda t: (labelled(t) * xr.DataArray(np.arange(2.0), dims="row")).sum().data ** 2,
    "where": lambda t: (labelled(t) ** 2).where(labelled(t) > 0, 0.0).sum().data,
    "transpose": lambda t: (labelled(t[None] * np.ones((2, 1))).transpose("x", "row") ** 3).sum().data,
    "dot": lambda t: xr.dot(labelled(t), labelled(t)).data,
    "concat": lambda t: (xr.concat([labelled(t), labelled(2 * t)], "x") ** 2).sum().data,
    "dataset": lambda t: (xr.Dataset({"a": labelled(t), "b": labelled(t**2)}).sum()["b"]).data,
    "clip": lambda t: (labelled(t).clip(-1.0, 1.0) * labelled(t)).sum().data,
    "std": lambda t: labelled(t).std().data,
    "cumsum": lambda t: (labelled(t).cumsum("x") ** 2).sum().data,
    "shift of labels": lambda t: labelled(t, x=[1, 2, 3]).rename("t").sum().data ** 2,
}


@pytest.mark.parametrize("name", XARRAY)
def test_xarray_wraps_tensors(name):
    f = XARRAY[name]
    kinds = []

    def watched(t):
        out = f(t)
        kinds.append(type(out))
        return out

    functad.grad(watched)(X)
    assert kinds == [functad.Tensor]
    check_grads(f, [X])


def test_xarray_keeps_names_and_coordinates():
    def f(t):
        da = labelled(t, x=["a", "b", "c"]) * 2
        assert da.dims == ("x",)
        assert list(da.x.values) == ["a", "b", "c"]
        assert isinstance(da.data, functad.Tensor)
        return da.sum().data

    np.testing.assert_array_equal(functad.grad(f)(X), 2 * np.ones(3))


def test_xarray_values_would_lose_the_derivative_and_raise():
    with pytest.raises(functad.errors.ConversionError, match="Conversion to an array"):
        functad.grad(lambda t: labelled(t).values.sum())(X)


# pint

pint = pytest.importorskip("pint", reason="pint is in the extra `test`")
ureg = pint.UnitRegistry()

PINT = {
    "times unit": lambda t: ((t * ureg.meter) ** 2).sum().magnitude,
    "unit on the left": lambda t: ((ureg.meter * t) * 3).sum().magnitude,
    "quantity": lambda t: (ureg.Quantity(t, "m") / (2.0 * ureg.second)).sum().magnitude,
    "addition of units": lambda t: (t * ureg.meter + 5 * ureg.centimeter * np.ones(3)).to("mm").sum().magnitude,
    "ufunc": lambda t: np.sin(t * ureg.radian).sum().magnitude,
    "degrees": lambda t: np.cos(t * ureg.degree).sum().magnitude,
    "function": lambda t: np.sum(np.sqrt((t * ureg.meter) ** 2 + 1 * ureg.meter**2)).magnitude,
    "index": lambda t: (t * ureg.meter)[1:].sum().magnitude ** 2,
    "concatenate": lambda t: (np.concatenate([t * ureg.meter, t * ureg.km]) ** 2).sum().to("m^2").magnitude,
    "product of quantities": lambda t: ((t * ureg.newton) * (t * ureg.meter)).sum().to("joule").magnitude,
    "array on the left": lambda t: (np.arange(3.0) * (t * ureg.meter) ** 2).sum().magnitude,
    "dot": lambda t: np.dot(t * ureg.meter, t * ureg.meter).magnitude,
    "mean": lambda t: (t * ureg.meter).mean().magnitude,
    "max": lambda t: np.max(t * ureg.meter).magnitude,
    "without dimension": lambda t: np.exp(t * ureg.meter / ureg.meter).sum().magnitude,
}


@pytest.mark.parametrize("name", PINT)
def test_pint_wraps_tensors(name):
    f = PINT[name]
    kinds = []

    def watched(t):
        out = f(t)
        kinds.append(type(out))
        return out

    functad.grad(watched)(X)
    assert kinds == [functad.Tensor]
    check_grads(f, [X], modes=["rev", "fwd"])


def test_pint_refuses_wrong_units():
    with pytest.raises(pint.DimensionalityError):
        functad.grad(lambda t: (t * ureg.meter + 1.0 * ureg.second).sum().magnitude)(X)


def test_importing_functad_imports_no_wrapper():
    code = "import sys, functad; sys.exit(any(name in sys.modules for name in ('xarray', 'pint', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Classes that are unknown to functad


def _by(name):
    def method(self, other):
        return Tagged(getattr(operator, name)(self.inside, _bare(other)))

    def reflected(self, other):
        return Tagged(getattr(operator, name)(_bare(other), self.inside))

    return method, reflected


class Tagged:
    """A wrapper with both protocols: it unwraps its operands, calls again, and wraps the result."""

    __array_priority__ = 2000

    def __init__(self, inside):
        self.inside = inside

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return Tagged(getattr(ufunc, method)(*[_bare(x) for x in inputs], **kwargs))

    def __array_function__(self, function, types, args, kwargs):
        return Tagged(function(*_bare(args), **kwargs))

    __add__, __radd__ = _by("add")
    __sub__, __rsub__ = _by("sub")
    __mul__, __rmul__ = _by("mul")
    __truediv__, __rtruediv__ = _by("truediv")
    __pow__, __rpow__ = _by("pow")
    __matmul__, __rmatmul__ = _by("matmul")
    __mod__, __rmod__ = _by("mod")


def _bare(value):
    if isinstance(value, (list, tuple)):
        return type(value)(_bare(part) for part in value)
    return value.inside if isinstance(value, Tagged) else value


Y = np.array([0.7, 1.1, 0.4])
SYMBOLS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "@": operator.matmul,
    "%": operator.mod,
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("inside", ["plain", "tensor"])
@pytest.mark.parametrize("symbol", SYMBOLS)
def test_operators_leave_the_word_to_wrappers(symbol, inside, side):
    def f(t, y):
        wrapper = Tagged(y if inside == "tensor" else Y)
        out = SYMBOLS[symbol](t, wrapper) if side == "left" else SYMBOLS[symbol](wrapper, t)
        assert type(out) is Tagged
        assert isinstance(out.inside, functad.Tensor)
        return out.inside.sum()

    def plain(t, y):
        y = y if inside == "tensor" else Y
        return (SYMBOLS[symbol](t, y) if side == "left" else SYMBOLS[symbol](y, t)).sum()

    x = abs(X)
    found, expected = (functad.grad(g, argnums=(0, 1))(x, Y) for g in (f, plain))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


UFUNCS = [np.add, np.multiply, np.hypot, np.maximum, np.arctan2, np.matmul, np.divmod, np.logaddexp]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda f: f.__name__)
def test_ufuncs_leave_the_word_to_wrappers(ufunc, side):
    def f(t):
        args = (t, Tagged(Y)) if side == "left" else (Tagged(Y), t)
        out = ufunc(*args)
        assert type(out) is Tagged
        return np.sum(out.inside[1] if isinstance(out.inside, tuple) else out.inside)

    assert np.any(functad.grad(f)(abs(X)))


@pytest.mark.parametrize("side", ["left", "right"])
def test_methods_and_keywords_of_ufuncs_too(side):
    def f(t):
        args = (t, Tagged(Y)) if side == "left" else (Tagged(Y), t)
        outer = np.multiply.outer(*args)
        added = np.add(*args, dtype=np.float64)
        assert type(outer) is type(added) is Tagged
        return outer.inside.sum() + added.inside.sum()

    check_against = functad.grad(lambda t: np.multiply.outer(t, Y).sum() + (t + Y).sum())(X)
    np.testing.assert_allclose(functad.grad(f)(X), check_against, rtol=1e-14)


FUNCTIONS = {
    "concatenate": lambda t, w: np.concatenate([t, w]),
    "stack": lambda t, w: np.stack([w, t]),
    "where": lambda t, w: np.where(np.array([True, False, True]), t, w),
    "dot": lambda t, w: np.dot(w, t),
    "einsum": lambda t, w: np.einsum("i,i->", t, w),
    "interp": lambda t, w: np.interp(t, w, t),
    "append": lambda t, w: np.append(t, w),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_leave_the_word_to_wrappers(name):
    def f(t):
        out = FUNCTIONS[name](t, Tagged(np.sort(Y)))
        assert type(out) is Tagged
        return np.sum(out.inside)

    plain = functad.grad(lambda t: np.sum(FUNCTIONS[name](t, np.sort(Y))))(X)
    np.testing.assert_array_equal(functad.grad(f)(X), plain)


class Deaf:
    """A wrapper that knows nothing: it answers no call and no operator."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return NotImplemented

    def __array_function__(self, function, types, args, kwargs):
        return NotImplemented


@pytest.mark.parametrize(
    "call",
    [
        lambda t, w: np.add(t, w),
        lambda t, w: np.hypot(w, t),
        lambda t, w: t + w,
        lambda t, w: w * t,
        lambda t, w: np.concatenate([t, w]),
        lambda t, w: np.add.outer(t, w),
        lambda t, w: np.add(t, w, dtype=float),
    ],
    ids=["ufunc", "reflected ufunc", "operator", "reflected operator", "function", "method", "keyword"],
)
def test_what_nobody_can_answer_raises(call):
    with pytest.raises(TypeError, match=r"NotImplemented|unsupported operand|no implementation found"):
        functad.grad(lambda t: np.sum(call(t, Deaf())))(X)


def test_wrapper_that_refuses_ufuncs_keeps_its_operators():
    class Refusing:
        __array_ufunc__ = None

        def __rmul__(self, other):
            return ("mine", other)

    def f(t):
        word, inside = t * Refusing()
        assert word == "mine"
        return inside.sum()

    np.testing.assert_array_equal(functad.grad(f)(X), np.ones(3))


def test_second_derivatives_through_wrappers():
    f = XARRAY["ufunc"]
    found = functad.jacobian(functad.grad(f))(X)
    expected = functad.jacobian(functad.grad(lambda t: np.exp(np.sin(t)).sum()))(X)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
