"""`vmap` itself: axes, trees, chunks, errors, and what it does with the other transforms; rules have generated tests."""

from __future__ import annotations

import inspect
import re
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
import functad.numpy
from functad import grad, jacobian, jvp, value_and_grad, vjp, vmap
from functad.errors import AbstractValueError, InputError, OutputError, StructureError
from tests.differences import numerical_jacobian

GENERATOR = np.random.default_rng(11)
XS = GENERATOR.normal(size=(4, 3))
YS = GENERATOR.normal(size=(4, 3))
W = GENERATOR.normal(size=(3, 2))


def _loss(w: Any, x: Any) -> Any:
    return (np.tanh(x @ w) ** 2).sum()


def _close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-12, atol=1e-14)


# Axes


@pytest.mark.parametrize("in_axes", [(0, 0), (1, 0), (-1, 1), (0, None), (None, -1), [0, -2]])
@pytest.mark.parametrize("out_axes", [0, 1, -1])
def test_axes(in_axes: Any, out_axes: int) -> None:
    def f(x: Any, y: Any) -> Any:
        return np.outer(x, np.sin(y)) + x.sum()

    given = [XS[0] if axis is None else np.moveaxis(XS, 0, axis) for axis in in_axes]
    found = vmap(f, in_axes, out_axes)(*given)
    expected = [f(XS[0] if in_axes[0] is None else XS[i], XS[0] if in_axes[1] is None else XS[i]) for i in range(4)]
    _close(found, np.stack(expected, out_axes))


def test_trees_of_axes() -> None:
    class Pair(NamedTuple):
        a: Any
        b: Any

    def f(params: Any, pair: Pair) -> Any:
        return {"sum": params["w"] @ pair.a + params["b"], "all": (pair.b, pair)}

    params = {"w": GENERATOR.normal(size=(2, 4, 3)), "b": np.arange(2.0)}
    pair = Pair(XS, np.arange(4.0))
    found = vmap(f, ({"w": 1, "b": None}, 0), {"sum": 1, "all": 0})(params, pair)
    assert type(found["all"][1]) is Pair
    for i in range(4):
        one = f({"w": params["w"][:, i], "b": params["b"]}, Pair(XS[i], pair.b[i]))
        _close(found["sum"][:, i], one["sum"])
        _close(found["all"][0][i], one["all"][0])
        _close(found["all"][1].a[i], one["all"][1].a)


def test_axes_of_a_part_of_a_tree() -> None:
    tree = {"a": (XS, XS[0]), "b": W}
    found = vmap(lambda t: t["a"][0] * t["a"][1] @ t["b"], ({"a": (0, None), "b": None},))(tree)
    _close(found, [XS[i] * XS[0] @ W for i in range(4)])


def test_result_that_is_the_same_for_all() -> None:
    batched, same = vmap(lambda x: (x * 2, W), out_axes=(0, None))(XS)
    _close(batched, XS * 2)
    assert same.shape == W.shape
    found = vmap(lambda x: W)(XS)
    assert found.shape == (4, 3, 2)
    found[0] = 0.0  # an array of its own
    assert W.any()


def test_axis_size() -> None:
    assert vmap(lambda x: x.sum(), None, axis_size=3)(XS).shape == (3,)
    assert vmap(lambda: np.ones(2), (), axis_size=3)().shape == (3, 2)


def test_keyword_arguments() -> None:
    def f(x: Any, *, scale: Any = 1.0) -> Any:
        return x * scale

    _close(vmap(f)(XS, scale=np.arange(4.0)), XS * np.arange(4.0)[:, None])
    _close(vmap(f)(XS), XS)


def test_lists_and_numbers() -> None:
    _close(vmap(lambda x, s: x * s, (0, None))(XS, 2.5), XS * 2.5)
    _close(vmap(lambda a, b: a + b, in_axes=(0, None))(XS, [1.0, 2.0, 3.0][0]), XS + 1.0)


def test_decorator_and_signature() -> None:
    @vmap(in_axes=(None, 0))
    def f(w: Any, x: Any) -> Any:
        """Say what it does."""
        return x @ w

    assert list(inspect.signature(f).parameters) == ["w", "x"]
    assert (f.__name__, f.__doc__) == ("f", "Say what it does.")
    _close(f(W, XS), XS @ W)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.float64])
def test_dtypes(dtype: Any) -> None:
    xs = (XS * (1 + 2j)).astype(dtype) if np.dtype(dtype).kind == "c" else XS.astype(dtype)
    found = vmap(lambda x: np.exp(x) / 3 + x.sum())(xs)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, [np.exp(x) / 3 + x.sum() for x in xs], rtol=1e-6)
    slopes = vmap(grad(lambda x: abs(np.exp(x) * x).sum()))(xs)
    assert slopes.dtype == dtype
    np.testing.assert_allclose(slopes, [grad(lambda x: abs(np.exp(x) * x).sum())(x) for x in xs], rtol=1e-5)


def test_integers_and_booleans() -> None:
    numbers = np.arange(12).reshape(4, 3)
    np.testing.assert_array_equal(vmap(lambda i: i % 2 == 0)(numbers), numbers % 2 == 0)
    places = np.array([2, 0, 1])
    np.testing.assert_array_equal(vmap(lambda x, i: functad.numpy.array(x)[i], (None, 0))(XS, places), XS[places])
    np.testing.assert_array_equal(vmap(lambda x, i: x[i])(XS, np.array([2, 0, 1, 2])), XS[range(4), [2, 0, 1, 2]])


def test_no_examples() -> None:
    out = vmap(lambda x: (np.sin(x) @ W, x.max(), np.linalg.norm(x)))(XS[:0])
    assert [a.shape for a in out] == [(0, 2), (0,), (0,)]
    assert vmap(grad(_loss, argnums=1), (None, 0))(W, XS[:0]).shape == (0, 3)


# Nesting


def test_nested() -> None:
    table = vmap(vmap(lambda x, y: x @ np.cos(y), (None, 0)), (0, None))(XS, YS)
    _close(table, [[x @ np.cos(y) for y in YS] for x in XS])
    both = vmap(vmap(lambda x, y: x * y))(XS, YS)
    _close(both, XS * YS)


def test_inner_function_sees_outer_examples() -> None:
    """A closure over a batched Tensor is followed through an inner transform."""

    def f(x: Any, ys: Any) -> Any:
        return vmap(lambda y: (x * y).sum() + grad(lambda z: (z * x * y).sum())(y).sum())(ys)

    expected = [[(x * y).sum() + (x * y).sum() for y in YS] for x in XS]
    _close(vmap(f, (0, None))(XS, YS), expected)


def test_inner_constant_of_an_outer_trace() -> None:
    def f(w: Any) -> Any:
        return vmap(lambda x: np.tanh(x @ w).sum())(XS).sum()

    np.testing.assert_allclose(grad(f)(W), numerical_jacobian(f, W), rtol=1e-7)
    _close(grad(f)(W), sum(grad(lambda w, x=x: np.tanh(x @ w).sum())(W) for x in XS))


# Chunks


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 4, 9])
def test_chunks_give_the_same(chunk_size: int) -> None:
    def f(x: Any, y: Any) -> Any:
        return {"a": x * y.sum(), "b": (x @ W, 2.0)}

    axes = {"a": 1, "b": (-1, None)}
    whole = vmap(f, (0, 1), axes)(XS, YS.T)
    parts = vmap(f, (0, 1), axes, chunk_size=chunk_size)(XS, YS.T)
    _close(parts["a"], whole["a"])
    _close(parts["b"][0], whole["b"][0])
    assert parts["b"][1] == whole["b"][1] == 2.0


def test_chunks_bound_the_memory() -> None:
    xs = np.ones((64, 200))

    def f(x: Any) -> Any:
        return np.outer(x, x).sum(0)[:2]

    def peak(chunk_size: int | None) -> int:
        tracemalloc.start()
        vmap(f, chunk_size=chunk_size)(xs)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(8) < 0.3 * peak(None)


# Errors


def _message(error: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert __file__ in text
    return text


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: [x for _ in range(int(x[0]))],
        lambda x: np.ones(3)[x[0].astype(int) :],
        lambda x: float(x[0]),
        lambda x: np.asarray(x),
        lambda x: x.item(),
        lambda x: np.nonzero(x),
        lambda x: x[x > 0],
        lambda x: np.unique(x),
        lambda x: 1 if x[0] else 0,
        lambda x: np.roots(x),
    ],
)
def test_values_that_are_asked_for(body: Callable[[Any], Any]) -> None:
    text = _message(AbstractValueError, lambda: vmap(body)(XS))
    assert "np." in text or "functad." in text


def test_control_flow_says_what_to_write() -> None:
    def f(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    text = _message(AbstractValueError, lambda: vmap(f)(XS))
    assert "bool() of a Tensor that stands for 4 examples in vmap of test_control_flow_says_what_to_write.f" in text
    assert "np.where" in text
    assert "functad.cond" in text


def test_a_plain_array_is_not_indexed_with_a_batched_place() -> None:
    assert "functad.numpy.array(a)[t]" in _message(AbstractValueError, lambda: vmap(lambda i: XS[i])(np.array([2, 0])))


def test_numbers_of_examples_differ() -> None:
    text = _message(InputError, lambda: vmap(lambda x, y: x + y)(XS, YS[:3]))
    assert "args[0] has 4 examples, args[1] has 3" in text
    text = _message(InputError, lambda: vmap(lambda x: x, axis_size=3)(XS))
    assert "axis_size has 3 examples, args[0] has 4" in text
    text = _message(InputError, lambda: vmap(lambda x, *, scale: x * scale)(XS, scale=np.ones(2)))
    assert "argument ['scale'] has 2" in text


def test_no_such_axis() -> None:
    assert "args[0] is float64[4,3], which has no axis 2" in _message(InputError, lambda: vmap(np.sin, 2)(XS))
    assert "has no axis 0" in _message(InputError, lambda: vmap(np.sin)(2.0))
    assert "in_axes=None" in _message(InputError, lambda: vmap(lambda x, s: x * s)(XS, 2.0))
    assert "out_axes=3" in _message(InputError, lambda: vmap(lambda x: x, out_axes=3)(XS))
    with pytest.raises(InputError, match="no array"):
        vmap(lambda x: x)("text")


def test_no_argument_is_batched() -> None:
    assert "Give in_axes for one of them, or axis_size" in _message(InputError, lambda: vmap(np.sin, None)(XS))
    assert "2 entries for 1 positional" in _message(InputError, lambda: vmap(np.sin, (0, 0))(XS))
    with pytest.raises(InputError, match="a float in it"):
        vmap(np.sin, in_axes=(0.5,))(XS)
    with pytest.raises(InputError, match="chunk_size is 0"):
        vmap(np.sin, chunk_size=0)
    with pytest.raises(InputError, match="needs a function"):
        vmap(3)  # type: ignore[type-var]


def test_axes_that_do_not_begin_like_the_tree() -> None:
    with pytest.raises(StructureError, match=r"in_axes\[0\]"):
        vmap(lambda t: t["a"], ({"b": 0},))({"a": XS})
    with pytest.raises(StructureError, match="out_axes"):
        vmap(lambda x: (x, x), out_axes=(0, 0, 0))(XS)


def test_batched_result_with_axis_none() -> None:
    text = _message(StructureError, lambda: vmap(lambda x: (x, W), out_axes=None)(XS))
    assert "result[0] is batched, but its out_axes is None" in text


def test_result_that_is_no_array() -> None:
    with pytest.raises(OutputError, match="a str"):
        vmap(lambda x: "text")(XS)


def test_escaped_tensor() -> None:
    kept: list[Any] = []
    vmap(lambda x: kept.append(x) or x)(XS)
    with pytest.raises(functad.errors.EscapedTensorError, match="vmap"):
        kept[0] + 1


@pytest.mark.parametrize("f", [lambda x: np.sum(np.exp(x)), lambda x: np.sum(x * np.sin(x)), lambda x: np.sum((x @ W) ** 2)])
def test_escaped_cotangents_name_the_line_that_asked_for_them(f: Any) -> None:
    kept: list[Any] = []

    def slope(x: Any) -> Any:
        kept.append(grad(f)(x))
        kept.append(np.exp(kept[0]))
        return kept[0]

    line = slope.__code__.co_firstlineno + 1
    for derive, given in ((vmap(slope), XS), (vmap(vmap(slope)), np.stack([XS, YS]))):
        kept.clear()
        derive(given)
        for tensor, place in zip(kept, (line, line + 1), strict=True):
            with pytest.raises(functad.errors.EscapedTensorError, match=rf"made at {__file__}:{place}\."):
                tensor + 1


def test_escaped_cotangents_of_a_rule_name_its_line() -> None:
    kept: list[Any] = []

    @functad.custom_vjp
    def square(x: Any) -> Any:
        return x * x

    def forward(x: Any) -> Any:
        return x * x, x

    def backward(x: Any, g: Any) -> Any:
        kept.append(2 * x * g)
        return (kept[0],)

    square.defvjp(forward, backward)
    vmap(lambda x: np.sum(kept.append(grad(lambda x: np.sum(np.sin(square(3 * x))))(x)) or x))(XS)
    for tensor, line in zip(kept, (backward.__code__.co_firstlineno + 1, backward.__code__.co_firstlineno + 5), strict=True):
        with pytest.raises(functad.errors.EscapedTensorError, match=rf"made at {__file__}:{line}\."):
            tensor + 1


# Together with derivatives


def _per_example() -> list[Any]:
    return [grad(_loss)(W, x) for x in XS]


def test_per_example_gradients() -> None:
    _close(vmap(grad(_loss), (None, 0))(W, XS), _per_example())
    values, slopes = vmap(value_and_grad(_loss), (None, 0))(W, XS)
    _close(values, [_loss(W, x) for x in XS])
    _close(slopes, _per_example())
    _close(slopes.sum(0), grad(lambda w: (np.tanh(XS @ w) ** 2).sum())(W))


def test_aux() -> None:
    slopes, aux = vmap(grad(lambda w, x: (_loss(w, x), {"x": x * 2}), has_aux=True), (None, 0))(W, XS)
    _close(slopes, _per_example())
    _close(aux["x"], XS * 2)


def test_gradient_of_vmap() -> None:
    _close(grad(lambda w: vmap(_loss, (None, 0))(w, XS).sum())(W), sum(_per_example()))
    by_x = grad(lambda xs: vmap(_loss, (None, 0))(W, xs).sum())(XS)
    _close(by_x, [grad(_loss, 1)(W, x) for x in XS])


@pytest.mark.parametrize("mode", ["vjp", "jvp", "jacobian"])
def test_inside_and_outside(mode: str) -> None:
    def f(x: Any) -> Any:
        return np.tanh(x @ W) * x[:2]

    def derived(x: Any) -> Any:
        if mode == "vjp":
            return vjp(f, x)[1](np.array([0.3, -0.7]))[0]
        if mode == "jvp":
            return jvp(f, (x,), (np.array([0.3, -0.7, 1.1]),))[1]
        return jacobian(f)(x)

    _close(vmap(derived)(XS), [derived(x) for x in XS])
    if mode not in ("vjp", "jvp"):
        whole = jacobian(vmap(f))(XS)
        for i in range(4):
            for j in range(4):
                _close(whole[i, :, j], derived(XS[i]) if i == j else np.zeros((2, 3)))
    else:
        out, pull = vjp(vmap(f), XS)
        _close(out, [f(x) for x in XS])
        _close(pull(out)[0], [vjp(f, x)[1](f(x))[0] for x in XS])
        _close(jvp(vmap(f), (XS,), (YS,))[1], [jvp(f, (x,), (y,))[1] for x, y in zip(XS, YS, strict=True)])


def test_hessian_vector_products() -> None:
    def product(w: Any, x: Any, v: Any) -> Any:
        return jvp(lambda w: grad(_loss)(w, x), (w,), (v,))[1]

    vs = GENERATOR.normal(size=(4, 3, 2))
    _close(vmap(product, (None, 0, 0))(W, XS, vs), [product(W, x, v) for x, v in zip(XS, vs, strict=True)])


def test_third_order() -> None:
    f = grad(grad(grad(lambda x: np.sin(x) * x)))
    _close(vmap(f)(XS[:, 0]), [f(x) for x in XS[:, 0]])
    _close(grad(lambda xs: vmap(grad(grad(lambda x: np.sin(x) * x)))(xs).sum())(XS[:, 0]), [f(x) for x in XS[:, 0]])


def test_abstract_traces() -> None:
    listed = functad.make_expressions(vmap(_loss, (None, 0)))(W, XS)
    _close(listed(W, XS), [_loss(W, x) for x in XS])
    _close(grad(lambda w: listed(w, XS).sum())(W), sum(_per_example()))
    listed = functad.make_expressions(vmap(grad(_loss), (None, 0)))(W, XS)
    _close(listed(W, XS), _per_example())
    one = functad.make_expressions(_loss)(W, XS[0])
    _close(vmap(one, (None, 0))(W, XS), [_loss(W, x) for x in XS])
    _close(vmap(grad(one), (None, 0))(W, XS), _per_example())
    assert functad.eval_shape(vmap(_loss, (None, 0)), W, XS).shape == (4,)


# Together with variables, modules and tapes


def test_tape_inside() -> None:
    def slope(x: Any) -> Any:
        with functad.GradientTape() as tape:
            tape.watch(x)
            y = (np.sin(x) * x).sum()
        return tape.gradient(y, x)

    _close(vmap(slope)(XS), [np.cos(x) * x + np.sin(x) for x in XS])


def test_variables_are_constants() -> None:
    w = functad.Variable(W)
    _close(vmap(lambda x: x @ w)(XS), XS @ W)
    with functad.GradientTape() as tape:
        loss = vmap(lambda x: _loss(w, x))(XS).sum()
    _close(tape.gradient(loss, w), sum(_per_example()))


def test_functional_call() -> None:
    model = functad.nn.Sequential([functad.nn.Dense(5, "tanh", rng=np.random.default_rng(0)), functad.nn.Dense(2)])
    model(XS)  # makes the variables
    params = functad.values_of(model)

    def loss(params: Any, x: Any) -> Any:
        return (functad.functional_call(model, params, x) ** 2).sum()

    found = vmap(grad(loss), (None, 0))(params, XS)
    rows = [grad(loss)(params, x) for x in XS]
    for name, slopes in found.items():
        _close(slopes, [row[name] for row in rows])


def test_stop_gradient_and_random_numbers() -> None:
    noise = np.random.default_rng(5)

    def f(x: Any) -> Any:
        return (functad.stop_gradient(x) * x * noise.normal(size=3)).sum()

    found = vmap(grad(f))(XS)
    drawn = np.random.default_rng(5).normal(size=3)  # once: the examples are computed together
    _close(found, XS * drawn)


def test_values_are_freed() -> None:
    """Nothing is kept of what a body computes: memory does not grow with the number of operations."""
    xs = np.ones((10, 10_000))

    def f(x: Any, steps: int) -> Any:
        for _ in range(steps):
            x = np.sin(x) + 0.1
        return x

    def peak(steps: int) -> int:
        tracemalloc.start()
        vmap(lambda x: f(x, steps))(xs)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(40) < 1.2 * peak(5)


TABLE = np.arange(12.0) ** 2
PLACES = np.array([[1, 2], [3, 0], [5, 5]])


@pytest.mark.parametrize(
    "read",
    [
        lambda v, i: v[i],
        lambda v, i: np.take(v, i),
        lambda v, i: v.take(i),
        lambda v, i: np.take_along_axis(v, i, 0),
        lambda v, i: v.reshape(6, 2)[i, 1],
        lambda v, i: v.reshape(6, 2)[i[0]],
        lambda v, i: v[2:][i],
        lambda v, i: v[[i, i + 1]] if isinstance(i, int) else v[np.stack([i, i + 1])],
        lambda v, i: np.repeat(v, 2)[i],
        lambda v, i: (v * 2.0)[i] + v.copy()[i],
        lambda v, i: np.choose(i % 2, v.reshape(2, 6)[:, :2]),
        lambda v, i: functad.grad(lambda s: np.sum(v[i] * s))(2.0),
        lambda v, i: functad.grad(lambda w: np.sum(w[i] ** 3))(v),
        lambda v, i: functad.cond(i[0] > 2, lambda v, i: v[i], lambda v, i: 2.0 * v[i], v, i),
        lambda v, i: functad.scan(lambda v, k: (v, v[i + k]), v, np.arange(3))[1],
        lambda v, i: functad.scan(lambda c, row: (c, row[i % 3]), 0.0, v.reshape(4, 3))[1],
        lambda v, i: functad.fori_loop(0, 3, lambda k, c: (c[0], c[1] + c[0][i + k]), (v, np.zeros(2)))[1],
        lambda v, i: functad.while_loop(lambda c: c[1] < i[1], lambda c: (c[0], c[1] + 1, c[2] + c[0][c[1]]), (v, 0, 0.0)),
    ],
)
def test_an_argument_that_is_not_batched_is_read_at_batched_places(read) -> None:
    found = functad.tree_leaves(vmap(read, in_axes=(None, 0))(TABLE, PLACES))
    each = zip(*[functad.tree_leaves(read(TABLE, places)) for places in PLACES], strict=True)
    for batch, examples in zip(found, each, strict=True):
        assert type(batch) is np.ndarray
        _close(batch, np.stack(examples))


def test_an_argument_that_is_not_batched_is_an_array_in_all_else() -> None:
    seen = []

    def f(w: Any, x: Any) -> Any:
        seen.append(isinstance(w, np.ndarray) and w.flags.writeable and bool(w[0] >= 0.0) and float(w[1]) == 1.0)
        own = w.copy()
        own[0] = 5.0
        return own @ x + w.sum() * x[0] + np.dot(w, x) + np.concatenate([w, x])[1], w

    found, same = vmap(f, in_axes=(None, 0), out_axes=(0, None))(np.arange(3.0), XS)
    assert seen == [True]
    assert type(same) is np.ndarray
    _close(found, [np.array([5.0, 1.0, 2.0]) @ x + 3.0 * x[0] + np.arange(3.0) @ x + 1.0 for x in XS])


def test_an_array_of_a_closure_is_refused_with_the_cure() -> None:
    for read in (lambda i: TABLE[i], lambda i: np.take(TABLE, i), lambda i: TABLE.take(i)):
        with pytest.raises(AbstractValueError, match=re.escape("functad.numpy.array(a)[t]")):
            vmap(read)(PLACES)
    _close(vmap(lambda i: functad.numpy.array(TABLE)[i])(PLACES), TABLE[PLACES])


def test_a_number_is_told_from_one_in_a_container():
    with pytest.raises(functad.errors.InputError, match=r"args\[0\] is float\[\], which has no axis 0"):
        functad.vmap(lambda x: x)(0.3)
    with pytest.raises(functad.errors.InputError, match=r"args\[0\]\['a'\] is a number in a container"):
        functad.vmap(lambda x: x)({"a": 0.3})
