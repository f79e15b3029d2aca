"""Writing through `reshape`, where the layout of an array decides what is a view and a trace has no values to ask.

Every program gives what NumPy gives, or is refused: never anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import UnsupportedError

Program = Callable[[Any], Any]

RNG = np.random.default_rng(0)
X = RNG.uniform(1, 2, (2, 3, 4))
FORTRAN = np.asfortranarray(RNG.uniform(1, 2, (4, 3)))
DOUBT = r"made a view or a copy: a trace without values.* is read, at \S*test_layouts.py:\d+"

# Ways to make an array of an array of shape (3, 4).
MAKES: dict[str, Program] = {
    "sine": np.sin,
    "product": lambda x: x.T * 2,
    "both orders": lambda x: x.T + np.zeros((4, 3)),
    "other order": lambda x: x.T + FORTRAN,
    "constant in other order": lambda x: x + FORTRAN.T,
    "row and column": lambda x: x[:, :1] * x[0],
    "part": lambda x: x[:, 1:] * 2,
    "backwards": lambda x: x[::-1, ::-1] * 2,
    "copy": lambda x: np.copy(x.T),
    "copy in C order": lambda x: (x.T * 2).copy(),
    "copy in Fortran order": lambda x: np.copy(x, order="F"),
    "copy of what was broadcast": lambda x: np.copy(np.broadcast_to(x[0], (3, 4))),
    "what was broadcast": lambda x: np.broadcast_to(x[:, :1], (3, 4)) * 2,
    "buffer": lambda x: np.zeros((3, 4), like=x),
    "buffer in Fortran order": lambda x: np.zeros((3, 4), order="F", like=x),
    "buffer like": lambda x: np.zeros_like(x.T),
    "buffer like a product": lambda x: np.ones_like(x.T * 2),
    "full like": lambda x: np.full_like(x.T, 2.0),
    "buffer added to": lambda x: np.zeros((4, 3), like=x) + x.T,
    "columns": lambda x: x[:, [0, 2]],
    "rows": lambda x: x[[0, 2]],
    "places": lambda x: x[np.array([[0, 1], [2, 0]])],
    "take": lambda x: np.take(x, [0, 2], axis=1),
    "take along": lambda x: np.take_along_axis(x, np.array([[1, 0]] * 3), axis=1),
    "fft": lambda x: np.real(np.fft.fft(x, axis=0)) * 1.0,
    "fft of rows": lambda x: np.abs(np.fft.fft(x)),
    "einsum": lambda x: np.einsum("ij,kj->ki", x, x),
    "einsum of a product": lambda x: np.einsum("ij,j->ji", x, x[0]),
    "matmul": lambda x: x.T @ x,
    "dot": lambda x: np.dot(x.T, x),
    "tensordot": lambda x: np.tensordot(x, x, axes=([1], [1])),
    "outer": lambda x: np.outer(x[0], x[1]),
    "ufunc outer": lambda x: np.add.outer(x[:, 0], x[0]),
    "solve": lambda x: np.linalg.solve(x[:, :3] + 5 * np.eye(3), x),
    "inverse": lambda x: np.linalg.inv((x[:, :3] + 5 * np.eye(3)).T),
    "cholesky": lambda x: np.linalg.cholesky(x @ x.T + np.eye(3)),
    "singular vectors": lambda x: np.linalg.svd(x, full_matrices=False)[0] ** 2,
    "eigenvectors": lambda x: np.linalg.eigh(x @ x.T)[1] ** 2,
    "sum": lambda x: np.sum(x[:, :, None] * x[0, :2], axis=0),
    "sum of a product": lambda x: np.sum(x.T[:, :, None] * x[0, :2], axis=1),
    "maximum": lambda x: np.max(x.T[:, None] * x[:2, :1], axis=2),
    "cumsum": lambda x: np.cumsum(x, axis=0),
    "cumsum of a product": lambda x: np.cumsum(x.T * 2, axis=0),
    "sort": lambda x: np.sort(x, axis=0),
    "concatenate": lambda x: np.concatenate([x, x], axis=1),
    "concatenate turned": lambda x: np.concatenate([x.T, x.T * 2]),
    "stack": lambda x: np.stack([x, x], axis=1),
    "stack turned": lambda x: np.stack([x.T, x.T], axis=-1),
    "where": lambda x: np.where(FORTRAN.T > 1.5, x, 0.0),
    "where turned": lambda x: np.where(FORTRAN > 1.5, x.T, 0.0),
    "roll": lambda x: np.roll(x.T, 1, axis=0),
    "turned by 90 degrees": lambda x: np.rot90(x) * 2,
    "pad": lambda x: np.pad(x.T, 1),
    "pad with edges": lambda x: np.pad(x.T, ((1, 0), (0, 2)), "edge"),
    "pad of rows": lambda x: np.pad(x, 1, "reflect"),
    "astype in Fortran order": lambda x: x.astype(np.float32, order="F"),
    "copy in Fortran order, in lower case": lambda x: np.copy(x, "f"),  # type: ignore[call-overload]
    "repeat": lambda x: np.repeat(x.T, 2, axis=1),
    "tile": lambda x: np.tile(x.T, (1, 2)),
    "triangle": lambda x: np.tril(x.T),
    "differences": lambda x: np.diff(x.T, axis=0),
    "kron": lambda x: np.kron(x[:2, :2], x[:2, :2].T),
    "clip": lambda x: np.clip(x.T, 1.2, 1.8),
    "float32": lambda x: x.T.astype(np.float32),
    "three axes": lambda x: np.moveaxis(x[:, :, None] * x[0, :2], 0, 1) * 2,
    "one row": lambda x: x[:1].T * 2,
    "out": lambda x: np.multiply(x, 2.0, out=np.zeros((3, 4), order="F", like=x)),
    "added in place": lambda x: _added_in_place(x.T * 2, x),
    "written": lambda x: _written(x.T * 2, x),
    "real part": lambda x: np.real(x.T * (1 + 2j)) * 1.0,
}


def _added_in_place(t: Any, x: Any) -> Any:
    t += np.zeros((4, 3)) + x[0, 0]
    return t


def _written(t: Any, x: Any) -> Any:
    t[0] = x[0, :3]
    return t


# Ways to view one.
VIEWS: dict[str, Program] = {
    "reshape": lambda y: y.reshape(-1),
    "ravel": lambda y: y.ravel(),
    "np.ravel": np.ravel,
    "turned": lambda y: y.T.reshape(-1),
    "turned and kept": lambda y: y.T.reshape(y.shape[1], -1),
    "Fortran order": lambda y: y.reshape(-1, order="F"),
    "rows": lambda y: y[1:].reshape(-1),
    "columns": lambda y: y[:, 1:].reshape(-1),
    "first row": lambda y: y[0].reshape(-1, 1),
    "longer": lambda y: y.reshape((1, *y.shape, 1)),
    "split": lambda y: y.reshape(*y.shape[:-1], 1, y.shape[-1]),
    "elements of it": lambda y: y.reshape(-1)[1:],
    "ravel of a part": lambda y: y[:, ::2].ravel(),
    "ravel of a stride": lambda y: y[0, ::2].ravel(),
    "reshaped again": lambda y: y.reshape(-1).reshape(y.shape).T,
    "no reshape": lambda y: y.T[1:],
}


def _into_view(y: Any, view: Program) -> Any:
    view(y)[1:] = -5.0
    return y


def _returned(y: Any, view: Program) -> Any:
    z = view(y)
    part = z[:1]
    z[1:] = -5.0
    part[...] = 2.0
    return z


def _added_to_view(y: Any, view: Program) -> Any:
    z = view(y)
    z += 3.0
    return y


def _into_base(y: Any, view: Program) -> Any:
    z = view(y)
    y[0] = -3.0
    return z * 1.0


def _into_sibling(y: Any, view: Program) -> Any:
    z = view(y)
    y.T[:1] = -3.0
    view(y)[:1] = -2.0
    return z * 1.0


def _at(y: Any, view: Program) -> Any:
    z = view(y)
    np.add.at(z, np.array([0, 0][: z.size], int), 1.0)
    return y


WRITES = [_into_view, _returned, _added_to_view, _into_base, _into_sibling, _at]

FEW_VIEWS = ["reshape", "turned", "rows", "elements of it"]
FEW_WRITES = [_into_view, _returned, _into_base]

TRACES: dict[str, Callable[[Program, Any], Any]] = {
    "vmap": lambda f, x: functad.vmap(f)(x)[0],
    "vmap of vjp": lambda f, x: functad.vmap(lambda x: functad.vjp(f, x)[0])(x)[0],
    "vmap of jvp": lambda f, x: functad.vmap(lambda x: functad.jvp(f, (x,), (x,))[0])(x)[0],
    "vmap of vmap": lambda f, x: functad.vmap(functad.vmap(f))(np.stack([x, x]))[1, 0],
    "vjp of vmap": lambda f, x: functad.vjp(functad.vmap(f), x)[0][0],
    "list": lambda f, x: functad.make_expressions(f)(x[0])(x[0]),
}


def _program(make: Program, view: Program, write: Callable[[Any, Program], Any]) -> Program:
    return lambda x: write(make(x), view)


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("make", MAKES)
def test_as_numpy_or_refused(make, trace):
    every = trace in ("vmap", "list")
    for name in VIEWS if every else FEW_VIEWS:
        for write in WRITES if every else FEW_WRITES:
            f = _program(MAKES[make], VIEWS[name], write)
            expected = f(X[0].copy())
            try:
                found = TRACES[trace](f, X)
            except UnsupportedError:
                continue
            np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=f"{name} {write.__name__}")


EAGER: dict[str, Callable[[Program, Any], Any]] = {
    "vjp": lambda f, x: functad.vjp(f, x)[0],
    "jvp": lambda f, x: functad.jvp(f, (x,), (x,))[0],
}


@pytest.mark.parametrize("trace", EAGER)
@pytest.mark.parametrize("make", MAKES)
def test_where_values_are_known_nothing_is_refused(make, trace):
    for name, view in VIEWS.items():
        for write in WRITES:
            f = _program(MAKES[make], view, write)
            np.testing.assert_allclose(EAGER[trace](f, X[0]), f(X[0].copy()), rtol=1e-5, err_msg=f"{name} {write.__name__}")


# What is surely in C order, however it was written.
SURE = [
    *("sine", "row and column", "part", "backwards", "copy in C order", "what was broadcast", "buffer", "where", "one row"),
    *("outer", "sum", "cumsum", "concatenate", "stack"),
]


@pytest.mark.parametrize("make", SURE)
def test_what_surely_lies_in_c_order_is_not_refused(make):
    for name in FEW_VIEWS:
        for write in WRITES:
            f = _program(MAKES[make], VIEWS[name], write)
            np.testing.assert_allclose(functad.vmap(f)(X)[0], f(X[0].copy()))


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("make", MAKES)
def test_one_side_alone_is_not_refused(make, trace):
    def views(x: Any) -> Any:
        y = MAKES[make](x)
        return np.concatenate([view(y).reshape(-1) for view in VIEWS.values()])

    def bases(x: Any) -> Any:
        y = MAKES[make](x)
        z = y.reshape(-1) * 2
        y[0] = z[0]
        y += 1
        return y

    for f in (views, bases, _program(MAKES[make], VIEWS["elements of it"], _returned)):
        np.testing.assert_allclose(TRACES[trace](f, X), f(X[0].copy()), rtol=1e-5)


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("write", [_into_view, _into_base])
@pytest.mark.parametrize("make", ["product", "copy in Fortran order", "buffer like", "columns", "added in place"])
def test_refused_where_both_are_read(make, write, trace):
    with pytest.raises(UnsupportedError, match=DOUBT):
        TRACES[trace](_program(MAKES[make], VIEWS["reshape"], write), X)
    cured = _program(lambda x: MAKES[make](x).copy(), VIEWS["reshape"], write)
    np.testing.assert_allclose(TRACES[trace](cured, X), cured(X[0].copy()))


@pytest.mark.parametrize("write", FEW_WRITES)
@pytest.mark.parametrize("make", MAKES)
def test_derivatives(make, write):
    for name in FEW_VIEWS:
        f = _program(MAKES[make], VIEWS[name], write)
        gradient = functad.grad(lambda x: np.sum(f(x) ** 2))  # noqa: B023 (called before f changes)
        try:
            found = functad.vmap(gradient)(X)
        except UnsupportedError:
            continue
        np.testing.assert_allclose(found, np.stack([gradient(x) for x in X]), rtol=1e-4)


def test_positions_in_c_order_are_written_whatever_the_layout():
    def f(x: Any) -> Any:
        y = x.T * 2
        np.put(y, [0, 5], 1.0)
        np.fill_diagonal(y, x[0, 0])
        y.flat[[3, 7]] = x[0, :2]
        np.place(y, X[0].T > 1.9, [1.0, 2.0])
        np.putmask(y, X[0].T < 1.1, -y)
        np.add.at(y, ([0], [1]), 1.0)
        return y + y.flat[0]

    for trace in TRACES.values():
        np.testing.assert_allclose(trace(f, X), f(X[0].copy()))


@pytest.mark.parametrize("in_axes", [0, 1, 2])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_layout_of_the_examples_counts(order, in_axes):
    for batch in (np.array(X, order=order), np.array(X, order=order)[:, 1:, ::2]):
        for read in (lambda x: x, lambda x: x * 2, lambda x: x.T * 2, np.copy):
            for name, view in VIEWS.items():
                f = _program(read, view, _into_base)
                try:
                    found = functad.vmap(f, in_axes=in_axes)(batch)
                except UnsupportedError:
                    continue
                examples = np.moveaxis(batch.copy(order="K") if batch.base is None else _same_strides(batch), in_axes, 0)
                np.testing.assert_allclose(found, [f(x) for x in examples], err_msg=name)


def _same_strides(batch: Any) -> Any:
    return batch.base.copy(order="K")[:, 1:, ::2]


def test_in_place_operators_keep_the_layout_outside_of_batches_too():
    def f(x: Any) -> Any:
        y = x.T * 2
        y += np.zeros((4, 3))
        y.reshape(-1)[1] = 5.0
        return y

    np.testing.assert_allclose(functad.vjp(f, X[0])[0], f(X[0].copy()))


def _second_written(make: Program, view: Program) -> Program:
    def f(x: Any) -> Any:
        y = make(x)
        view(y)[1] = 9.0
        return y

    return f


SQUARE = X[0, :, :3] @ X[0, :, :3].T

# Own computations of functad and compositions, whose results once lay in another order than NumPy's.
COMPOSED: dict[str, Program] = {
    "insert": lambda x: np.insert(x, 0, 1.0, axis=1),
    "delete": lambda x: np.delete(x, 0, axis=1),
    "quantile": lambda x: np.quantile(x, [0.2, 0.6], axis=0),
    "median": lambda x: np.median(np.stack([x, x]), axis=0),
    "vander": lambda x: np.vander(x[0]),
    "stack": lambda x: np.stack([x, x], axis=-1)[0],
    "meshgrid": lambda x: np.meshgrid(x[0], x[1])[0],
    "gradient": lambda x: np.gradient(x, axis=0),
    "sort": lambda x: np.sort(x, axis=0),
    "partition": lambda x: np.partition(x, 1, axis=0),
    "select": lambda x: np.select([SQUARE > 1.0], [x]),
    "piecewise": lambda x: np.piecewise(x, [SQUARE > 1.0], [lambda v: v * 2, 0.5]),
    "cholesky": lambda x: np.linalg.cholesky(x, upper=True),
    "full": lambda x: np.full((3, 3), x[0], like=x),
    "full_like": lambda x: np.full_like(x, x[0, 0]),
    "repeat": lambda x: np.repeat(x, [1, 2, 1], axis=1),
    "broadcast": lambda x: np.broadcast_to(x[0], (2, 3)).ravel("K"),
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("make", COMPOSED)
def test_writes_to_composed_results_go_where_numpy_puts_them(make, order):
    x = np.array(SQUARE, order=order)
    for view in (np.ravel, lambda y: y.reshape(-1), lambda y: y.ravel("K"), lambda y: y.reshape(-1, order="A")):
        f = _second_written(COMPOSED[make], view)
        np.testing.assert_allclose(functad.vjp(f, x)[0], f(x))
        np.testing.assert_allclose(functad.jvp(f, (x,), (x,))[0], f(x))


def test_a_write_to_what_insert_gave():
    def f(x: Any) -> Any:
        a = np.insert(x, 0, 1.0, axis=1)
        a.ravel()[1] = 9.0
        return np.sum(a)

    value, gradient = functad.value_and_grad(f)(np.ones((2, 2)))
    assert (value, gradient.tolist()) == (14.0, [[0.0, 1.0], [1.0, 1.0]])


ARGUMENTS = {
    "Fortran": np.asfortranarray(X[0]),
    "transposed": X.transpose(1, 2, 0)[..., 0],
    "backwards": X[0][::-1],
    "gaps": X[0][:, ::2],
    "three axes": X.transpose(2, 0, 1),
}
READS: dict[str, Program] = {
    "ravel K": lambda x: x.ravel("K"),
    "flatten A": lambda x: x.flatten("A"),
    "reshape A": lambda x: x.reshape(-1, order="A"),
    "copy": lambda x: np.copy(x).ravel("K"),
    "written through reshape": lambda x: _into_view(x, lambda y: y.reshape(-1)),
    "written through ravel": lambda x: _into_view(x, lambda y: y.ravel("K")),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_arguments_keep_their_order_where_they_are_copied(argument, read):
    x, f = ARGUMENTS[argument], READS[read]
    expected = f(_as_it_lies(x))
    for found in (functad.vjp(f, x)[0], functad.linearize(f, x)[0], functad.vjp(lambda x: functad.vjp(f, x)[0], x)[0]):
        np.testing.assert_array_equal(found, expected)


def _as_it_lies(x: Any) -> Any:
    memory = np.copy(X)
    start = x.__array_interface__["data"][0] - X.__array_interface__["data"][0]
    return np.ndarray(x.shape, x.dtype, memory, start, x.strides) if 0 <= start < X.nbytes else x.copy("K")


def test_what_was_broadcast_is_written_into_as_a_copy():
    def f(x: Any) -> Any:
        x[0] = 1.0
        return x * x

    x = np.broadcast_to(1.5, (3,))
    value, pull = functad.vjp(f, x)
    assert value.tolist() == [1.0, 2.25, 2.25]
    assert pull(np.ones(3))[0].tolist() == [0.0, 3.0, 3.0]
    assert x.tolist() == [1.5, 1.5, 1.5]


def test_a_number_has_no_views():
    def f(s: Any) -> Any:
        views = [np.atleast_1d(s), np.ravel(s), s[None], np.reshape(s, (1, 1)), np.expand_dims(s, 0)]
        for view in views:
            view[0] = 5.0
        return s + sum(np.sum(view) for view in views)

    assert functad.vmap(f)(np.arange(3.0)).tolist() == [f(s) for s in np.arange(3.0)]
    assert functad.make_expressions(f)(1.0)(1.0) == f(np.float64(1.0))


@pytest.mark.parametrize(
    "call", ["np.median(x)", "np.quantile(x, 0.3)", "np.interp(x[0], x, x)", "np.nanvar(x)", "np.copy(x[0])"]
)
def test_numbers_are_numbers_and_arrays_arrays(call):
    """`t += v` makes a new number, and changes an array for all who hold it."""
    code = compile(call, "call", "eval")

    def f(x: Any) -> Any:
        a = b = eval(code, {"np": np, "x": x})
        a += 1.0
        return b

    x = np.arange(1.0, 6.0)
    for trace in (functad.vjp(f, x)[0], functad.vjp(lambda x: functad.vjp(f, x)[0], x)[0]):
        assert trace == f(x)


def test_a_write_is_not_lost_where_the_order_is_not_known():
    def f(x: Any) -> Any:
        v = np.take(x, [0, 0], axis=1)
        v.ravel()[...] = 9.0
        return np.sum(v)

    with pytest.raises(UnsupportedError, match=DOUBT):
        functad.vmap(functad.value_and_grad(f))(np.ones((1, 3, 2)))

    def cured(x: Any) -> Any:
        v = np.take(x, [0, 0], axis=1).copy()
        v.ravel()[...] = 9.0
        return np.sum(v)

    assert functad.vmap(functad.value_and_grad(cured))(np.ones((1, 3, 2)))[0] == 54.0


@pytest.mark.parametrize("trace", TRACES)
def test_elements_are_written_by_flat_whatever_made_the_array(trace):
    makes = (lambda x: np.kron(x, x), lambda x: np.quantile(x, [0.1, 0.2], axis=0), lambda x: np.take(x, [0, 0], axis=1))
    for make in makes:

        def f(x: Any, make: Program = make) -> Any:
            v = make(x)
            v.flat[1] = 50.0
            v[0, 0] = 20.0
            return v

        np.testing.assert_allclose(TRACES[trace](f, X), f(X[0]))


def test_flags_of_a_view_are_those_of_numpy_where_its_value_is_a_copy() -> None:
    a = np.arange(18.0).reshape(3, 3, 2)

    def f(x: Any) -> Any:
        diagonal = np.where(x > -1.0, x, x).diagonal(1)
        assert diagonal.flags.f_contiguous == a.diagonal(1).flags.f_contiguous
        return diagonal.ravel("A")

    np.testing.assert_array_equal(functad.vjp(f, a)[0], a.diagonal(1).ravel("A"))


def test_roll_of_a_repeated_row_lies_as_numpys() -> None:
    row = np.broadcast_to(np.array([[1.0, 2.0]]), (2, 2))

    def f(np: Any, x: Any) -> Any:
        rolled = np.roll(x, 1, axis=-2)
        rolled.ravel()[-1] = 5.0  # a copy, since the rows are the inner axis
        return rolled

    np.testing.assert_array_equal(functad.vjp(lambda x: f(np, x), row)[0], f(np, row))


@pytest.mark.parametrize("order", ["A", "K"])
def test_order_of_a_number_needs_no_value(order: Any) -> None:
    def f(x: Any) -> Any:
        return x.copy().flatten(order)

    assert functad.vmap(f)(np.arange(3.0)).tolist() == [[0.0], [1.0], [2.0]]
    assert functad.make_expressions(f)(2.0)(2.0).tolist() == [2.0]


def test_flags_in_a_batch_are_those_of_an_array_in_c_order() -> None:
    found = functad.vmap(lambda x: x.T * float((x.T + 1).flags.c_contiguous))(np.ones((2, 3, 4)))
    np.testing.assert_array_equal(found, np.ones((2, 4, 3)))


def test_integers_made_after_an_array_of_another_order_are_refused() -> None:
    def written(x: Any) -> Any:
        y = np.full_like(x, 1)
        first = y.reshape(-1)[:1]
        np.add(y, y, out=y)
        return first

    x = np.broadcast_to(np.arange(6, dtype=np.uint8).reshape(2, 3)[:1], (4, 3))
    assert written(x).tolist() == [1]
    assert functad.jit(written, backend="numpy")(np.ascontiguousarray(x)).tolist() == [2]
    with pytest.raises(UnsupportedError, match=DOUBT):
        functad.jit(written, backend="numpy")(x)
