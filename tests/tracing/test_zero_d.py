"""Arrays of shape `()` can be written to and viewed; scalars are immutable. All transforms and backends tell them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad import ArraySpec
from functad.expressions.spec import spec_of
from functad.primitives.entry import ENTRIES
from functad.testing import Call, calls, every_entry
from tests.compilation.test_backends import BACKENDS
from tests.entries import label

X = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Enter a function of an array of five numbers; its results are compared with NumPy's in value and type."""
    PROGRAMS[f.__name__] = f
    return f


@program
def ellipsis(x: Any) -> Any:
    b = x[0, ...]
    b *= 2.0
    return np.sum(x), b


@program
def squeezed(x: Any) -> Any:
    b = np.squeeze(x[:1])
    b *= 2.0
    c = x[1:2].squeeze()
    c += b
    return np.sum(x), b, c


@program
def reshaped(x: Any) -> Any:
    b = x.reshape(-1)[:1].reshape(())
    b *= 2.0
    return np.sum(x * x), b


@program
def view_of_zero_d(x: Any) -> Any:
    z = np.zeros((), like=x)
    z[...] += x[0]
    b = z[...]
    b *= 2.0
    c = z.T
    c += 1.0
    d = z[None]
    d[0] *= 3.0
    e = z.reshape(())
    e -= 1.0
    return z, b, c, d, e


@program
def parts(x: Any) -> Any:
    b = x[0, ...].real
    b *= 2.0
    z = np.copy(x[1, ...] * 1j + x[2])
    z.imag = x[0]
    r = z.real
    r += 1.0
    return np.sum(x), b, r, z.imag


@program
def broadcast(x: Any) -> Any:
    b = np.broadcast_to(x[0, ...], (3,))
    x[0] = 5.0
    return np.sum(b), x[0, ...]


@program
def raveled(x: Any) -> Any:
    b = x[0, ...].ravel()
    b *= 2.0
    c = np.atleast_1d(x[1, ...])
    c *= 3.0
    d = np.expand_dims(x[2, ...], 0)
    d *= 4.0
    return np.sum(x), b, c, d


@program
def diagonal(x: Any) -> Any:
    m = x[:4].reshape(2, 2)
    d = np.diagonal(m)[0, ...]
    m[0, 0] = 7.0
    return d, np.sum(d)


@program
def output(x: Any) -> Any:
    b = x[0, ...]
    np.add(b, 1.0, out=b)
    z = np.zeros((), like=x)
    np.sum(x, out=z)
    np.multiply(z, 2.0, out=z)
    return np.sum(x), b, z


@program
def assigned(x: Any) -> Any:
    b = x[0, ...]
    b[()] = 9.0 * x[1]
    b[...] += x[2]
    b.fill(b * 2.0)
    np.put(b, 0, b + 1.0)
    np.copyto(b, b + 1.0)
    return np.sum(x), b[()], b


@program
def scalars(x: Any) -> Any:
    b = x[0]
    c = b
    b *= 2.0
    s = np.sum(x)
    t = s
    s += 1.0
    u = s.reshape(())
    u *= 3.0
    return np.sum(x), b, c, s, t, u


@program
def copies(x: Any) -> Any:
    found = []
    for b in (np.where(x[0] > 0, x[0], 0.0), x[0, ...].copy(), np.copy(x[0]), x[0, ...].astype(np.float64), np.sum(x).copy()):
        c = b
        b *= 2.0
        found += [b, c]
    return (*found, x[0].astype(np.float64))


@program
def functions(x: Any) -> Any:
    b = x[0, ...]
    return (
        *(
            b + 1,
            -b,
            np.sin(b),
            b.sum(),
            b.max(),
            abs(b),
            np.clip(b, 0, 10),
            np.round(b),
            np.real(b),
            b.conj(),
            np.where(b > 0, b, b),
        ),
        *(np.einsum("i,i->", x, x), np.tensordot(x, x, 1), np.dot(x, x), x @ x, np.inner(x, x), np.vdot(x, x), np.mean(x)),
        *(
            np.linalg.norm(x),
            np.linalg.det(np.diag(x)),
            np.interp(0.5, x, x),
            np.prod(x),
            np.argmax(x),
            np.median(x),
            np.std(x),
        ),
        *(np.take(x, 0), np.select([b > 0], [b], 0.0), np.sinc(b), np.trace(np.diag(x)), np.cumsum(x)[-1], np.squeeze(b), b.T),
    )


@program
def scan_of_array(x: Any) -> Any:
    def body(c: Any, row: Any) -> Any:
        d = c
        c += row
        return c, d

    return functad.scan(body, x[0, ...], x)


@program
def scan_of_scalar(x: Any) -> Any:
    def body(c: Any, row: Any) -> Any:
        d = c
        c += row
        return np.where(c > 0, c, 0.0), d * 1.0

    return *functad.scan(body, x[0], x), *functad.scan(body, 0.0, x)


@program
def scan_that_gives_scalars(x: Any) -> Any:
    def body(c: Any, row: Any) -> Any:
        d = c
        c *= row
        return c * 1.0, d

    return functad.scan(body, x[0, ...], x)


@program
def loops(x: Any) -> Any:
    def pair(i: Any, carry: Any) -> Any:
        a, b = carry
        c = a
        a += b
        return a, c * 1.0

    def grown(c: Any) -> Any:
        d = c
        c *= 2.0
        return (c + d) / 2.0

    return *functad.fori_loop(0, 3, pair, (x[0, ...], x[1])), functad.while_loop(lambda c: c < 30.0, grown, x[1, ...])


@program
def branches(x: Any) -> Any:
    def branch(c: Any) -> Any:
        d = c
        c *= 2.0
        return d + c

    return functad.cond(x[0] > 0, branch, branch, x[0, ...]), functad.cond(x[0] > 0, branch, branch, x[0])


@program
def calls_inside(x: Any) -> Any:
    def f(c: Any) -> Any:
        d = c
        c *= 2.0
        return d * c, np.where(c > 0, c, c)

    return *functad.jit(f)(x[0, ...]), *functad.jit(f)(x[1]), *functad.vmap(f)(x)


@program
def derivatives_inside(x: Any) -> Any:
    def f(r: Any) -> Any:
        b = r[...]
        b *= b
        return r * 1.0

    return functad.grad(f)(x[1, ...]), functad.jvp(f, (x[1, ...],), (x[0],))[0]


@program
def row_at_a_tensor(x: Any) -> Any:
    m = x * np.ones((3, 5))
    i = np.argmax(m[:, 0])
    row = m[i]
    row *= 2.0
    b = x[np.argmax(x), ...]
    b *= 3.0
    return m, row, x


@program
def views_of_a_row_at_a_tensor(x: Any) -> Any:
    m = x * np.arange(1.0, 4)[:, None]
    i = np.argmax(m[:, 1])
    row = m[i, 1:]
    row[0] += 1.0
    part = row[::2]
    part *= 3.0
    m[0] = x
    m[i, 2] = 9.0
    turned = m.T[np.argmin(m[0])]
    turned += 1.0
    m[i].sort()
    square = m[i][:4].reshape(2, 2)
    square[0] *= 5.0
    return m, row, part, turned, square


@program
def index_of_shape_that_copies(x: Any) -> Any:
    m = x * np.ones((3, 5))
    i = np.argmax(m[:, 0])[...]  # an array of shape () copies, a scalar does not
    row = m[i]
    row *= 2.0
    rows = m[np.argsort(m[:, 0])[:2]]
    rows *= 2.0
    return m, row, rows


@program
def rows_in_a_loop(x: Any) -> Any:
    def body(i: Any, m: Any) -> Any:
        row, following = m[i], m[i + 1]
        following[:] = row * 1.5
        following[i] += 1.0
        row[0] = 0.0
        return m

    m = np.zeros((5, 5), like=x)
    m[0] = x
    return functad.fori_loop(0, 4, body, m)


@program
def rows_of_examples(x: Any) -> Any:
    def f(i: Any, r: Any) -> Any:
        m = r * np.ones((5, 5))
        row = m[i]
        row *= r
        row[i] = 0.0
        return np.sum(m * m)

    return functad.vmap(f)(np.arange(5), x * np.ones((5, 5)))


def flat(result: Any) -> list[Any]:
    """Return the leaves of a result."""
    return [leaf for part in result for leaf in flat(part)] if isinstance(result, (tuple, list)) else [result]


def total(f: Callable[[Any], Any], x: Any) -> Any:
    """Return the sum of the real parts of all results, with different weights."""
    return sum(np.sum(np.real(leaf)) * (1.0 + 0.1 * i) for i, leaf in enumerate(flat(f(x * 1.0))))


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "value_and_grad": lambda f, x: functad.value_and_grad(lambda y: (np.sum(y) * 0.0, f(y)), has_aux=True)(x)[0][1],
    "vjp": lambda f, x: functad.vjp(f, x)[0],
    "jvp": lambda f, x: functad.jvp(f, (x,), (x,))[0],
    "list": lambda f, x: functad.make_expressions(f)(x)(x),
    **{
        f"jit {name}": lambda f, x, name=name: functad.jit(f, backend=name)(x)  # type: ignore[misc]
        for name in BACKENDS
    },
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_types_are_those_of_numpy(name: str, transform: str) -> None:
    f = PROGRAMS[name]
    expected = flat(f(X.copy()))
    found = flat(TRANSFORMS[transform](f, X.copy()))
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15, err_msg=f"{name}, result {i}")
        if transform != "jit xla":  # results of this backend are arrays of JAX
            assert type(a) is type(b), f"{name}, result {i}: {type(a).__name__}, NumPy {type(b).__name__}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_vmap_computes_each_example(name: str) -> None:
    f = PROGRAMS[name]
    xs = np.stack([X, X[::-1] + 0.5])
    expected = zip(*[flat(f(x.copy())) for x in xs], strict=True)
    for i, (a, b) in enumerate(zip(flat(functad.vmap(f)(xs)), expected, strict=True)):
        np.testing.assert_allclose(a, np.stack(b), rtol=1e-13, err_msg=f"{name}, result {i}")


@pytest.mark.parametrize("mode", ["eager", "list", *BACKENDS])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_agree_with_finite_differences(name: str, mode: str) -> None:
    f = PROGRAMS[name]
    gradient: Any = functad.grad(lambda x: total(f, x))
    if mode == "list":
        gradient = functad.make_expressions(gradient)(X)
    elif mode != "eager":
        gradient = functad.jit(gradient, backend=mode)
    direction = np.array([0.3, -0.2, 0.5, 0.1, -0.4])
    step = 1e-6
    slope = (total(f, X + step * direction) - total(f, X - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.dot(np.asarray(gradient(X)), direction), slope, rtol=1e-6)


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "xla"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.complex128])
def test_compiled_functions_know_an_array_from_a_scalar(dtype: Any, backend: str) -> None:
    def f(tree: Any) -> Any:
        a = b = tree["a"]
        b *= 2
        return a, b

    compiled = functad.jit(f, backend=backend)
    for value in (dtype(3), np.array(3, dtype), dtype(5), np.array(5, dtype)):
        found, expected = compiled({"a": value}), f({"a": value.copy()})
        assert [(type(a), a) for a in found] == [(type(a), a) for a in expected]


def test_a_scalar_does_not_support_assignment() -> None:
    def f(x: Any) -> Any:
        b = np.sum(x)
        b[()] = 1.0
        return b

    for transform in (functad.grad, functad.make_expressions, functad.jit):
        with pytest.raises(TypeError, match="does not support item assignment"):
            transform(f)(X)
    with pytest.raises(TypeError, match="does not support item assignment"):
        functad.vmap(f)(np.stack([X, X]))


def test_type_tests_answer_as_the_value_would() -> None:
    found = []

    def f(x: Any) -> Any:
        found.extend([isinstance(x[0, ...], np.ndarray), isinstance(x[0], np.ndarray), isinstance(x[0], np.float64)])
        return x

    functad.make_expressions(f)(X)
    functad.vmap(f)(X[None])
    functad.grad(lambda x: np.sum(f(x)))(X)
    assert found == [True, False, True] * 3


def test_specs() -> None:
    assert spec_of(np.array(1.0)).zero_d
    assert not spec_of(np.float64(1.0)).zero_d
    assert not spec_of(np.ones(1)).zero_d
    assert spec_of(np.array(1.0)) == spec_of(np.float64(1.0)) == ArraySpec((), np.dtype(float))


PUBLIC = [
    entry
    for entry in every_entry()
    if ENTRIES.get(entry.function) is entry
    and entry.status in ("primitive", "composite")
    and not (entry.in_place or entry.value_dependent)
]


def _are_arrays(results: Any) -> list[bool]:
    return [isinstance(a, np.ndarray) for a in results if getattr(a, "shape", None) == ()]


@pytest.mark.parametrize("zero_d", [True, False], ids=["arrays", "scalars"])
@pytest.mark.parametrize("entry", PUBLIC, ids=label)
def test_results_of_functions_are_arrays_or_scalars_as_in_eager_traces(entry: Any, zero_d: bool) -> None:
    """An abstract trace says of each result of shape `()` what an eager trace says of it."""
    call: Call
    for call in calls(entry, np.float64):
        primals = tuple([np.asarray(p) if zero_d else np.asarray(p)[()] for p in call.primals])
        eager: list[Any] = []
        functad.vjp(lambda *own, call=call, eager=eager: eager.extend(_are_arrays(call.arrays(*own))) or (), *primals)
        if not eager:
            continue
        listed: list[Any] = []
        try:
            functad.make_expressions(
                lambda *own, call=call, listed=listed: listed.extend(_are_arrays(call.arrays(*own))) or ()
            )(*primals)
        except functad.AbstractValueError:
            continue  # the function asks for values
        assert listed == eager, call
