"""Nobody's memory but one's own: results share none with what the caller has, and functions may write into what they get."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from tests.differences import numerical_jacobian

Case = Callable[[Any, Any, Any], Any]


def same(x: Any) -> Any:
    return x


def pulled(f: Any, g: Any, *primals: Any) -> Any:
    value, pullback = functad.vjp(f, *primals)
    return value, pullback(g)


def linear(x: Any, t: Any) -> Any:
    value, of = functad.linearize(same, x)
    return value, of(t), of.transpose(t)


def ravelled(tree: Any, other: Any) -> Any:
    flat, unravel = functad.ravel(tree)
    return flat, unravel(flat), unravel(other)


def passing() -> Any:
    rule = functad.custom_vjp(lambda x, y: x + y)
    rule.defvjp(lambda x, y: (x + y, None), lambda _, g: (g, g))
    return rule


RESULTS: dict[str, Case] = {
    "vjp": lambda x, t, c: pulled(same, t, x),
    "vjp of a sum": lambda x, t, c: pulled(lambda x, y: x + y, t, x, c),
    "vjp of a view": lambda x, t, c: pulled(lambda x: x.reshape(3, 1), t.reshape(3, 1), x),
    "jvp": lambda x, t, c: functad.jvp(same, (x,), (t,)),
    "jvp of a view": lambda x, t, c: functad.jvp(lambda x: x[::-1], (x,), (t,)),
    "jvp of a constant": lambda x, t, c: functad.jvp(lambda x: c, (x,), (t,)),
    "jvp, aux": lambda x, t, c: functad.jvp(lambda x: (x, x), (x,), (t,), has_aux=True),
    "grad, aux": lambda x, t, c: functad.grad(lambda x: (x @ c, (x, c)), has_aux=True)(x),
    "linearize": lambda x, t, c: linear(x, t),
    "linear_transpose": lambda x, t, c: functad.linear_transpose(same, x)(t),
    "vmap": lambda x, t, c: functad.vmap(same)(x),
    "vmap of a view": lambda x, t, c: functad.vmap(lambda x: x[None])(x),
    "vmap, one for all": lambda x, t, c: functad.vmap(lambda x, c: c, (0, None), None)(x, c),
    "vmap, twice the same": lambda x, t, c: functad.vmap(lambda x: {"a": x, "b": x})(x),
    "vmap of vmap": lambda x, t, c: functad.vmap(functad.vmap(same))(x.reshape(3, 1)),
    "vmap of jvp": lambda x, t, c: functad.vmap(lambda x, t: functad.jvp(same, (x,), (t,)))(x, t),
    "cond": lambda x, t, c: functad.cond(True, same, np.cos, x),
    "switch": lambda x, t, c: functad.switch(0, [same, np.cos], x),
    "while_loop": lambda x, t, c: functad.while_loop(lambda x: np.sum(x) > 1e9, same, x),
    "scan": lambda x, t, c: functad.scan(lambda c, x: (c, x), c, x),
    "scan of nothing": lambda x, t, c: functad.scan(lambda c, x: (c, x), c, x[:0])[0],
    "associative_scan of one": lambda x, t, c: functad.associative_scan(np.add, x[:1]),
    "checkpoint_sequence": lambda x, t, c: functad.checkpoint_sequence(lambda i, s: s, 3)(x),
    "no steps": lambda x, t, c: functad.checkpoint_sequence(lambda i, s: s, 0)(x),
    "taylor": lambda x, t, c: functad.taylor(same, (x,), ([t, t],)),
    "ravel": lambda x, t, c: ravelled({"a": x}, t),
    "custom_vjp": lambda x, t, c: pulled(passing(), t, x, c),
    "primitive": lambda x, t, c: pulled(functad.primitive(lambda x: x, lambda g: g), t, x),
    "odeint": lambda x, t, c: functad.odeint(lambda y, t: -y, x, np.zeros(1)),
    "root": lambda x, t, c: functad.custom_root(lambda x, a: x - a)(lambda x, a: a)(c, x),
    "linear solve": lambda x, t, c: functad.custom_linear_solve(same, x, lambda product, b: b),
}


def data() -> tuple[Any, Any, Any]:
    return np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, 0.125]), np.ones(3)


def arrays(tree: Any) -> list[Any]:
    return [leaf for leaf in functad.tree_leaves(tree) if isinstance(leaf, (np.ndarray, functad.Tensor)) and np.ndim(leaf)]


@pytest.mark.parametrize("name", RESULTS)
def test_results_share_no_memory(name: str) -> None:
    given = data()
    results = arrays(RESULTS[name](*given))
    assert results
    for i, result in enumerate(results):
        assert result.flags.writeable
        assert not any(np.shares_memory(result, a) for a in (*given, *results[:i]))


@pytest.mark.filterwarnings("ignore::functad.errors.LoopWarning")
@pytest.mark.parametrize("outer", ["grad", "jvp", "vmap of grad"])
@pytest.mark.parametrize("name", RESULTS)
def test_writes_into_results_and_arguments_inside_transforms(name: str, outer: str) -> None:
    def into_results(write: bool, *given: Any) -> Any:
        own = [a * 1.0 for a in given]
        for result in arrays(RESULTS[name](*own)):
            if write:
                result[...] = 7.0
        return sum((np.sum(a * a * w) for a, w in zip(own, (1.0, 10.0, 100.0), strict=True)), 0.0)

    def into_arguments(write: bool, *given: Any) -> Any:
        own = [a * 1.0 for a in given]
        results = arrays(RESULTS[name](*own))
        for a in own:
            if write:
                a[...] = 7.0
        return sum((np.sum(result * (i + 1.0)) for i, result in enumerate(results)), 0.0)

    def run(f: Any, write: bool) -> Any:
        def of(*given: Any) -> Any:
            return f(write, *given)

        if outer == "jvp":
            return functad.jvp(of, data(), data())
        gradient = functad.value_and_grad(of, (0, 1, 2))
        return gradient(*data()) if outer == "grad" else functad.vmap(gradient)(*[np.stack([a, a]) for a in data()])

    for f in (into_results, into_arguments):
        for a, b in zip(functad.tree_leaves(run(f, True)), functad.tree_leaves(run(f, False)), strict=True):
            np.testing.assert_allclose(a, b)


def test_evaluated_lists_keep_their_constants() -> None:
    constant = np.ones(3)
    expressions = functad.make_expressions(lambda x: (x, constant))(np.zeros(3))
    x = np.zeros(3)
    for _ in range(2):
        first, second = expressions(x)
        first += 1
        second += 1
    np.testing.assert_array_equal(x, 0.0)
    np.testing.assert_array_equal(constant, 1.0)
    np.testing.assert_array_equal(second, 2.0)


def test_a_copy_of_a_view_is_a_copy_at_all_levels() -> None:
    def f(x: Any) -> Any:
        x = x * 1.0
        copy = functad.cond(True, lambda y: y, np.cos, x[1:])
        copy[...] = 7.0
        return np.sum(x * x)

    np.testing.assert_allclose(functad.vmap(functad.grad(f))(np.ones((2, 3))), 2.0)


# Functions that write into their arguments, with the same written without.


def doubled(x: Any) -> Any:
    x *= 2.0
    return x


def squared(x: Any) -> Any:
    x *= x
    return x


def grown(i: int, s: Any, w: Any) -> Any:
    s *= w
    s += 1.0
    return s


def grown_purely(x: Any) -> Any:
    s = x
    for _ in range(7):
        s = s * x + 1.0
    return np.sum(s) + np.sum(x)


def slope(y: Any, t: Any, p: Any) -> Any:
    y[0] = y[0] * p[0]
    return -y


def slope_purely(y: Any, t: Any, p: Any) -> Any:
    return -np.concatenate([y[:1] * p[0], y[1:]])


def residual(y: Any, p: Any) -> Any:
    y -= p * p
    return y


def halfway(y: Any, p: Any) -> Any:
    y *= 0.5
    y += p * p / 2
    return y


def distance(y: Any, p: Any) -> Any:
    y -= p * p
    return np.sum(y * y)


def solver(y: Any, p: Any) -> Any:
    y[:] = p * p
    p[:] = 0.0
    return y


def plain_square(y: Any, p: Any) -> Any:
    return p * p


def halved(product: Any, b: Any) -> Any:
    b /= 2.0
    return b


def accumulated(a: Any, b: Any) -> Any:
    a += b
    return a


TIMES = np.array([0.0, 0.5])
START = np.zeros(3)
numerical = functad.numerical_primitive(lambda x: squared(x))
WRITERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "cond": (lambda x: np.sum(functad.cond(x[0] > 0, squared, np.cos, x) + x), lambda x: np.sum(x * x + x)),
    "switch": (lambda x: np.sum(functad.switch(1, [np.cos, squared], x) + x), lambda x: np.sum(x * x + x)),
    "map": (lambda x: np.sum(functad.map(squared, x[:, None])) + np.sum(x), lambda x: np.sum(x * x + x)),
    "associative_scan": (
        lambda x: np.sum(functad.associative_scan(accumulated, x) ** 2 + x),
        lambda x: np.sum(np.cumsum(x) ** 2 + x),
    ),
    "steps by square root": (lambda x: np.sum(functad.checkpoint_sequence(grown, 7)(x, x)) + np.sum(x), grown_purely),
    "steps by snapshots": (lambda x: np.sum(functad.checkpoint_sequence(grown, 7, 2)(x, x)) + np.sum(x), grown_purely),
    "odeint": (
        lambda x: np.sum(functad.odeint(slope, x, TIMES, x * 2)[-1] ** 2),
        lambda x: np.sum(functad.odeint(slope_purely, x, TIMES, x * 2)[-1] ** 2),
    ),
    "root": (lambda x: np.sum(functad.custom_root(residual)(plain_square)(START, x) ** 3), lambda x: np.sum(x**6)),
    "fixed point": (lambda x: np.sum(functad.custom_fixed_point(halfway)(plain_square)(START, x) ** 3), lambda x: np.sum(x**6)),
    "argmin": (lambda x: np.sum(functad.argmin(distance)(plain_square)(START, x) ** 3), lambda x: np.sum(x**6)),
    "solver": (
        lambda x: np.sum(functad.custom_root(lambda y, p: y - p * p)(solver)(START, x) ** 3) + np.sum(x),
        lambda x: np.sum(x**6) + np.sum(x),
    ),
    "linear solver": (
        lambda x: np.sum(functad.custom_linear_solve(lambda v: 2.0 * v, x, halved) ** 3) + np.sum(x),
        lambda x: np.sum((x / 2) ** 3) + np.sum(x),
    ),
    "primitive": (
        lambda x: np.sum(functad.primitive(squared, lambda g, x: 2 * g * x)(x) ** 2) + np.sum(x),
        lambda x: np.sum(x**4) + np.sum(x),
    ),
    "numerical_primitive": (lambda x: np.sum(numerical(x) ** 2) + np.sum(x), lambda x: np.sum(x**4) + np.sum(x)),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.filterwarnings("ignore::functad.errors.LoopWarning")
def test_functions_may_write_into_their_arguments(name: str) -> None:
    f, pure = WRITERS[name]
    x = np.array([0.4, 0.6, 0.3])
    before = x.copy()
    wanted = numerical_jacobian(pure, x)
    np.testing.assert_allclose(f(x), pure(x), rtol=1e-6)
    found = {
        "grad": functad.grad(f)(x),
        "jacfwd": functad.jacfwd(f)(x),
        "vmap": functad.vmap(functad.grad(f))(np.stack([x, x]))[1],
        "checkpoint": functad.grad(functad.checkpoint(f))(x),
        "list": functad.make_expressions(functad.grad(f))(x)(x),
    }
    for way, gradient in found.items():
        np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-5, err_msg=way)
    np.testing.assert_array_equal(x, before)


def test_steps_cannot_write_into_what_all_steps_get() -> None:
    w = np.ones(3)
    with pytest.raises(ValueError, match="read-only"):
        functad.checkpoint_sequence(lambda i, s, w: s * doubled(w), 3)(w.copy(), w)
    np.testing.assert_array_equal(w, 1.0)


def shared(rule: Any) -> Callable[[Any], Any]:
    """Return a function in which two operations get the same cotangent, or tangent."""

    def f(x: Any) -> Any:
        z = np.sin(x) + rule(x)
        return np.sum(z * z * np.array([1.0, 2.0, 3.0]))

    return f


def with_rules(kind: str) -> Any:
    """Return the square with rules that write into what they are given."""
    if kind == "vjp":
        rule: Any = functad.custom_vjp(lambda a: a * a)
        rule.defvjp(lambda a: (a * a, a), lambda a, g: (doubled(g) * a,))
    elif kind == "residual":
        rule = functad.custom_vjp(lambda a: a * a)
        rule.defvjp(lambda a: (a * a, a.copy()), lambda a, g: (doubled(a) * g,))
    elif kind == "jvp":
        rule = functad.custom_jvp(lambda a: a * a)
        rule.defjvp(lambda primals, tangents: (primals[0] * primals[0], doubled(tangents[0]) * primals[0]))
    elif kind == "primitive, g":
        rule = functad.primitive(lambda a: a * a, lambda g, a: doubled(g) * a)
    elif kind == "primitive, a":
        rule = functad.primitive(lambda a: a * a, lambda g, a: doubled(a) * g)
    elif kind == "primitive, t":
        rule = functad.primitive(lambda a: a * a, lambda g, a: 2 * g * a, jvps=[lambda t, a: doubled(t) * a])
    else:
        rule = functad.custom_gradient(lambda a: (a * a, lambda g: doubled(g) * a))
    return rule


@pytest.mark.parametrize("kind", ["vjp", "residual", "jvp", "primitive, g", "primitive, a", "primitive, t", "custom_gradient"])
@pytest.mark.filterwarnings("ignore::functad.errors.LoopWarning")
def test_rules_that_write_are_right_or_refused(kind: str) -> None:
    """A cotangent belongs to several operations, and what a rule keeps to several calls of a pullback."""
    x = np.array([0.4, 0.6, 0.3])
    f, pure = shared(with_rules(kind)), shared(lambda a: a * a)
    wanted = numerical_jacobian(pure, x)
    right = 0
    for way in (
        lambda: functad.grad(f)(x),
        lambda: functad.jacfwd(f)(x),
        lambda: functad.vmap(functad.grad(f))(np.stack([x, x]))[0],
        lambda: functad.make_expressions(functad.grad(f))(x)(x),
        lambda: [functad.vjp(f, x)[1](1.0)[0] for _ in range(2)][1],
    ):
        try:
            found = way()
        except (ValueError, functad.errors.ConversionError, functad.errors.UnsupportedError) as error:
            assert "read-only" in str(error) or "writes a Tensor" in str(error) or "out=" in str(error)  # noqa: PT017
        else:
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
            right += 1
    assert right or kind.startswith("primitive")


def test_the_kept_argument_of_a_rule_is_not_repeated_for_each_example() -> None:
    shapes = []
    rule = functad.custom_vjp(lambda x, w: w @ x)

    def backward(kept: Any, g: Any) -> Any:
        x, w = kept
        shapes.append(np.shape(w))
        return w.T @ g, np.outer(g, x)

    rule.defvjp(lambda x, w: (w @ x, (x, w)), backward)
    w, xs = np.ones((2, 3)), np.ones((5, 3))
    found = functad.grad(lambda w: np.sum(functad.vmap(rule, (0, None))(xs, w)))(w)
    np.testing.assert_allclose(found, 5.0)
    assert shapes == [(2, 3)]


@pytest.mark.parametrize("lasting", [functad.vjp, functad.linearize])
def test_a_derivative_that_lasts_copies_arguments_of_array_subclasses(lasting: Any, tmp_path: Path) -> None:
    x = np.memmap(tmp_path / "x", dtype=float, mode="w+", shape=(3,))
    x[:] = 1.0
    derivative = lasting(np.square, x)[1]
    x[:] = 5.0
    np.testing.assert_array_equal(np.ravel(derivative(np.ones(3))), 2.0)


@pytest.mark.parametrize("name", RESULTS)
def test_results_share_no_memory_with_array_subclasses(name: str, tmp_path: Path) -> None:
    given = [np.memmap(tmp_path / str(i), dtype=float, mode="w+", shape=(3,)) for i in range(3)]
    found = arrays(RESULTS[name](*given))
    assert not any(np.shares_memory(result, a) for result in found for a in given)


def test_loops_do_not_write_into_array_subclasses_of_the_user(tmp_path: Path) -> None:
    x = np.memmap(tmp_path / "x", dtype=float, mode="w+", shape=(3,))

    def body(i: int, carry: Any) -> Any:
        carry[i] = 1.0
        return carry

    np.testing.assert_array_equal(functad.fori_loop(0, 3, body, x), 1.0)
    np.testing.assert_array_equal(x, 0.0)
