"""`functad.jit`: what is traced and kept, how it goes with the other transforms, Variables, errors."""

from __future__ import annotations

import gc
import inspect
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import functad
from functad import errors, optimizers, tree_flatten

rng = np.random.default_rng(0)
X = rng.normal(size=5)
ROWS = rng.normal(size=(3, 5))


def energy(x: Any) -> Any:
    return np.sum(np.tanh(x) ** 3 * x[::-1])


def network(params: Any, x: Any) -> Any:
    for w, b in params:
        x = np.tanh(x @ w + b)
    return np.sum(np.where(x > 0, np.sqrt(np.abs(x)), x))


PARAMS = [(rng.normal(size=(5, 4)), rng.normal(size=4)), (rng.normal(size=(4, 2)), np.zeros(2))]


def equal(found: Any, expected: Any) -> bool:
    a, b = tree_flatten(found)[0], tree_flatten(expected)[0]
    return len(a) == len(b) and all(
        type(u) is type(v) and np.shape(u) == np.shape(v) and np.allclose(u, v, rtol=1e-12, atol=1e-12)
        for u, v in zip(a, b, strict=True)
    )


COMPOSITIONS: dict[str, Any] = {
    "value": lambda j: lambda f: j(f)(X),
    "grad of jit": lambda j: lambda f: functad.grad(j(f))(X),
    "jit of grad": lambda j: lambda f: j(functad.grad(f))(X),
    "jit of grad of jit": lambda j: lambda f: j(functad.grad(j(f)))(X),
    "value and grad": lambda j: lambda f: j(functad.value_and_grad(j(f)))(X),
    "jvp of jit": lambda j: lambda f: functad.jvp(j(f), (X,), (X[::-1].copy(),)),
    "hessian of jit": lambda j: lambda f: functad.hessian(j(f))(X),
    "jit of hessian": lambda j: lambda f: j(functad.hessian(f))(X),
    "grad of grad of jit": lambda j: lambda f: functad.grad(lambda x: np.sum(functad.grad(j(f))(x) ** 2))(X),
    "jacfwd of grad of jit": lambda j: lambda f: functad.jacfwd(functad.grad(j(f)))(X),
    "hvp of jit": lambda j: lambda f: functad.hvp(j(f), (X,), (X,)),
    "vmap of jit": lambda j: lambda f: functad.vmap(j(f))(ROWS),
    "jit of vmap of grad": lambda j: lambda f: j(functad.vmap(functad.grad(f)))(ROWS),
    "vmap of grad of jit": lambda j: lambda f: functad.vmap(functad.grad(j(f)))(ROWS),
    "grad of vmap of jit": lambda j: lambda f: functad.grad(lambda x: np.sum(functad.vmap(j(f))(x)))(ROWS),
    "scan of jit": lambda j: lambda f: functad.scan(j(lambda c, x: (c * 0.5 + f(x), c)), 0.0, ROWS),
    "jit of scan": lambda j: lambda f: j(lambda x: functad.scan(lambda c, r: (c * 0.5 + f(r), c), 0.0, x))(ROWS),
    "grad of jit of scan": lambda j: (
        lambda f: functad.grad(j(lambda x: functad.scan(lambda c, r: (c * 0.5 + f(r), c), 0.0, x)[0]))(ROWS)
    ),
    "checkpoint": lambda j: lambda f: functad.grad(j(functad.checkpoint(f)))(X),
    "linearize": lambda j: lambda f: functad.linearize(j(f), X)[1](X),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_compositions_give_what_plain_functions_give(name: str) -> None:
    composed = COMPOSITIONS[name]
    assert equal(composed(functad.jit)(energy), composed(lambda f: f)(energy))


def test_trees_of_arguments_and_results() -> None:
    f = functad.jit(functad.value_and_grad(network))
    assert equal(f(PARAMS, ROWS), functad.value_and_grad(network)(PARAMS, ROWS))
    g = functad.jit(lambda tree: {"sum": tree["a"] + tree["b"][0], "pair": (tree["a"], None), "one": 1})
    found = g({"b": [2.0], "a": np.ones(2)})
    assert found["sum"].tolist() == [3.0, 3.0]
    assert found["pair"][1] is None
    assert found["one"] == 1


def test_gradients_by_some_arguments_compute_no_others() -> None:
    def f(w: Any, x: Any) -> Any:
        return np.sum(np.tanh(x @ w))

    jitted = functad.jit(f)
    functad.grad(jitted)(np.ones(5), ROWS)
    [entry] = jitted.compiler.entries.values()
    [(_, backward, _, wanted)] = entry.program._splits.values()
    assert wanted == [0]
    assert len(backward.expressions.outputs) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_dtypes_are_those_of_eager_functions(dtype: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        return x * 2 + y, x.sum(), np.abs(x)

    x = X.astype(dtype)
    for y in (1, 2.5, np.float32(1.5), np.arange(5)):
        assert equal(functad.jit(f)(x, y), f(x, y))


def test_numbers_of_python_cause_one_compilation_and_stay_weak() -> None:
    f = functad.jit(lambda x, s: x * s)
    results = [f(np.ones(2, np.float32), s) for s in (1.0, 2.0, -0.5)]
    assert [r.dtype for r in results] == [np.dtype(np.float32)] * 3
    assert results[2].tolist() == [-0.5, -0.5]
    assert f.cache_info() == (2, 1, 1)


def test_results_are_of_the_callers_own() -> None:
    constant = np.arange(3.0)
    f = functad.jit(lambda x: (x, x[1:], constant, np.broadcast_to(x[0], (2,)), x))
    x = np.ones(3)
    outs = f(x)
    for out in outs:
        assert not np.shares_memory(out, x)
        assert not np.shares_memory(out, constant)
        out += 1
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert f(x)[2].tolist() == [0.0, 1.0, 2.0]
    assert not np.shares_memory(outs[0], outs[4])


def test_functions_of_the_user_may_have_the_names_of_primitives() -> None:
    @functad.custom_vjp
    def product(x: Any, y: Any) -> Any:
        return 3 * x * y

    product.defvjp(lambda x, y: (3 * x * y, (x, y)), lambda kept, g: (3 * g * kept[1], 3 * g * kept[0]))
    f = functad.jit(lambda x: product(x, np.ones(3)))
    assert f(np.arange(3.0)).tolist() == [0.0, 3.0, 6.0]
    assert functad.jit(functad.grad(lambda x: f(x).sum()))(np.arange(3.0)).tolist() == [3.0, 3.0, 3.0]


def test_arguments_are_not_written_into() -> None:
    def f(x: Any) -> Any:
        y = np.exp(x)
        for _ in range(3):
            y = np.sin(y) * x + y
        return y

    x = rng.normal(size=(64, 64))
    before = x.copy()
    assert np.array_equal(functad.jit(f, backend="numpy")(x), f(x))
    assert np.array_equal(x, before)


def test_large_values_are_written_into_again() -> None:
    f = functad.jit(lambda x: np.sin(np.exp(x)) + x, backend="numpy")
    assert "np.sin(v1, v1)" in f.lower(np.zeros((64, 64))).source()
    assert "np.sin(v1, v1)" not in f.lower(np.zeros(4)).source()


# What is kept, and for what


def test_static_arguments() -> None:
    def power(x: Any, n: int, *, sign: str = "+") -> Any:
        for _ in range(n - 1):
            x = x * x
        return x if sign == "+" else -x

    f = functad.jit(power, static_argnums=1, static_argnames="sign")
    assert f(3.0, 2) == 9.0
    assert f(3.0, 3) == 81.0
    assert f(3.0, 2, sign="-") == -9.0
    assert f(2.0, 2) == 4.0
    assert f.cache_info() == (1, 3, 3)
    with pytest.raises(errors.InputError, match=r"cannot be hashed.*tuple"):
        functad.jit(lambda x, sizes: x, static_argnums=(1,))(1.0, [1, 2])


def test_static_arguments_are_static_however_they_are_passed() -> None:
    def power(x: Any, n: int = 2) -> Any:
        for _ in range(n - 1):
            x = x * x
        return x

    options: list[dict[str, Any]] = [{"static_argnames": "n"}, {"static_argnums": 1}, {"static_argnums": -1}]
    for option in options:
        f = functad.jit(power, **option)
        assert (f(3.0), f(3.0, 3), f(3.0, n=3), f(3.0)) == (9.0, 81.0, 81.0, 9.0)
        assert functad.grad(f)(3.0, 2) == 6.0
    with pytest.raises(errors.InputError, match=r"power, at .*'m'; its arguments are x, n\."):
        functad.jit(power, static_argnames="m")
    anything = functad.jit(lambda x, **options: x * options["n"], static_argnames="n")
    assert anything(3.0, n=2) == 6.0
    with pytest.raises(errors.InputError, match=r"power, at .* has -3; its positional arguments are 0 \(x\), 1 \(n\)\."):
        functad.jit(power, static_argnums=-3)


def test_negative_positions_of_static_arguments_count_from_the_end_of_a_call() -> None:
    def last(x: Any, *others: Any) -> Any:
        return x * "ab".index(others[-1]) + range(5)[others[-2]] if len(others) > 1 else x * range(5)[others[0]]

    class Unsigned:
        __signature__ = "unknown"

        def __call__(self, x: Any, n: int) -> Any:
            return x * range(5)[n]

    both = functad.jit(last, static_argnums=(-1, -2))
    assert (both(2.0, 1.0, 3, "b"), both(2.0, 1.0, 4, "a"), both(2.0, 1.0, 3, "b")) == (5.0, 4.0, 5.0)
    assert both.cache_info() == (1, 2, 2)
    single = functad.jit(last, static_argnums=-1)
    assert (single(2.0, 3), single(2.0, 4), functad.grad(single)(2.0, 3)) == (6.0, 8.0, 3.0)
    unsigned = functad.jit(Unsigned(), static_argnums=-1)
    assert (unsigned(2.0, 3), unsigned(2.0, 4), unsigned(5.0, 3)) == (6.0, 8.0, 15.0)
    assert functad.jit(lambda *xs: xs[0] * len(xs), static_argnums=-5)(2.0, 1.0) == 4.0


@pytest.mark.parametrize("argnums", [-3, 2, (0, -3), (1, 5)])
def test_positions_of_static_arguments_beyond_the_signature_are_refused(argnums: Any) -> None:
    with pytest.raises(
        errors.InputError, match=r"static_argnums has (-3|2|5); its positional arguments are 0 \(x\), 1 \(n\)\."
    ):
        functad.jit(lambda x, n: x * n, static_argnums=argnums)


def test_negative_positions_count_from_the_last_argument_of_a_call_with_any_number_of_arguments() -> None:
    f = functad.jit(lambda *args: sum(args[:-1]) if args[-1] else args[0], static_argnums=-1)
    assert (f(1.0, 2.0, True), f(1.0, 2.0, False), f(1.0, 2.0, 3.0, True), f(1.0, 5.0, True)) == (3.0, 1.0, 6.0, 6.0)
    assert f.cache_info() == (1, 3, 3)
    assert functad.grad(f)(1.0, 2.0, True) == 1.0


def test_what_is_lowered_says_what_it_is() -> None:
    shown = repr(functad.jit(lambda x: np.sin(x) + np.sin(x), backend="numpy").lower(1.0))
    assert shown.startswith("Lowered(3 operations as traced, 2 as compiled; ")
    assert all(f"`.{name}" in shown for name in ("expressions", "source()", "cost()"))


def test_what_is_no_number_is_static() -> None:
    f = functad.jit(lambda x, how: np.sum(x) if how == "sum" else np.prod(x))
    assert f(np.array([2.0, 5.0]), "sum") == 7.0
    assert f(np.array([2.0, 5.0]), "product") == 10.0


def test_recompilation_is_explained_and_warned_of() -> None:
    f = functad.jit(lambda x, y: x * y)
    assert "has not been compiled" in f.explain_recompile()
    f(np.ones(2), 1.0)
    assert "first call" in f.explain_recompile()
    f(np.ones(3), 1.0)
    assert "x was float64[2] and is float64[3]" in f.explain_recompile()
    f(np.ones(3, np.float32), 1.0)
    assert "x was float64[3] and is float32[3]" in f.explain_recompile()
    for n in range(4, 16):
        f(np.ones(n), 1.0)
    with pytest.warns(errors.RecompileWarning, match="y was a float of Python and is float64"):
        f(np.ones(15), np.ones(15))
    assert f.cache_info().size == 16


def test_memory_order_is_part_of_what_is_compiled_for() -> None:
    def f(x: Any) -> Any:
        flat = np.ravel(x)
        flat[1] = 10.0  # into the argument too, if that lies so that it can be viewed
        return x * 1

    a = np.arange(6.0).reshape(2, 3)
    assert functad.jit(f)(a)[0, 1] == 10.0
    g = functad.jit(f)
    g(np.zeros((3, 2)))
    with pytest.raises(errors.UnsupportedError, match="copy"):
        g(a.T)
    assert a[0, 1] == 1.0


def test_strict_derivatives_are_looked_up_in_each_call() -> None:
    f = functad.jit(functad.grad(lambda x: np.sum(np.where(x > 1, np.sqrt(x), 0.0))))
    with np.errstate(all="ignore"):
        assert f(np.array([-1.0])).tolist() == [0.0]
        with functad.strict_derivatives():
            assert np.isnan(f(np.array([-1.0])))
        assert f(np.array([-1.0])).tolist() == [0.0]


def test_values_closed_over_are_frozen_but_tensors_are_not() -> None:
    scale = 2.0
    f = functad.jit(lambda x: scale * x)
    assert f(3.0) == 6.0
    assert functad.grad(lambda s: functad.jit(lambda x: s * x)(3.0))(2.0) == 3.0

    def outer(s: Any) -> Any:
        nonlocal scale
        scale = s
        return f(3.0)  # compiled above for a plain number

    assert functad.grad(outer)(5.0) == 3.0


def test_random_numbers_are_frozen_and_shown_as_constants() -> None:
    source = np.random.default_rng(0)
    f = functad.jit(lambda x: x + source.normal(size=3))
    with pytest.warns(errors.FrozenRandomWarning):
        first = f(np.zeros(3))
    assert np.array_equal(f(np.zeros(3)), first)
    assert "<float64[3]>" in repr(f.lower(np.zeros(3)).expressions.after)


def test_signature_name_and_pickling() -> None:
    f = functad.jit(energy)
    assert inspect.signature(f) == inspect.signature(energy)
    assert f.__name__ == "energy"
    assert pickle.loads(pickle.dumps(f))(X) == f(X)

    @functad.jit(static_argnames="n")
    def g(x: Any, n: int = 2) -> Any:
        """Say what it does."""
        return x**n

    assert g.__doc__ == "Say what it does."
    assert g(3.0) == 9.0
    with pytest.raises(errors.InputError, match="numpy"):
        functad.jit(energy, backend="fortran")


def test_methods() -> None:
    class Line:
        def __init__(self, slope: float) -> None:
            self.slope = slope

        @functad.jit
        def at(self, x: Any) -> Any:
            return self.slope * x

    assert Line(2.0).at(3.0) == 6.0
    assert Line(5.0).at(3.0) == 15.0


def test_eight_threads_compile_and_call_one_function() -> None:
    f = functad.jit(functad.grad(network))
    expected = functad.grad(network)(PARAMS, ROWS)
    found: list[Any] = []

    def work() -> None:
        found.extend(f(PARAMS, ROWS) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40
    assert all(equal(each, expected) for each in found)


# Variables


def trained(jit: Any, make: Any) -> tuple[Any, ...]:
    w, optimizer = functad.Variable(np.zeros(5), name="w"), make()
    target = ROWS @ np.arange(5.0)

    def step(x: Any) -> Any:
        with functad.GradientTape() as tape:
            loss = np.mean((x @ w - target) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    f = jit(step)
    losses = [float(f(ROWS)) for _ in range(4)]
    return losses, w.numpy(), optimizer.variables


@pytest.mark.parametrize(
    "make",
    [
        lambda: optimizers.SGD(0.1, momentum=0.9),
        lambda: optimizers.Adam(0.1),
        lambda: optimizers.AdamW(lambda n: 0.1 / (1 + n), global_clipnorm=1.0),
    ],
    ids=["sgd", "adam", "schedule"],
)
def test_training_steps_compile_with_their_optimizers(make: Any) -> None:
    found, expected = trained(functad.jit, make), trained(lambda f: f, make)
    assert np.allclose(found[0], expected[0])
    assert np.allclose(found[1], expected[1])
    assert found[2].keys() == expected[2].keys()
    assert all(np.allclose(found[2][key], expected[2][key]) for key in found[2])


def test_variables_are_read_and_assigned_in_each_call() -> None:
    v, count = functad.Variable([1.0, 2.0]), functad.Variable(0, trainable=False)

    @functad.jit
    def f(x: Any) -> Any:
        count.assign_add(1)
        y = v * x
        v.assign(y)
        return y + v

    assert isinstance(f(2.0), functad.Tensor)
    assert v.numpy().tolist() == [2.0, 4.0]
    v.assign([1.0, 1.0])
    assert f(3.0).numpy().tolist() == [6.0, 6.0]
    assert int(count.numpy()) == 2
    assert f.cache_info().misses == 1
    with pytest.raises(errors.AssignmentError, match="shape"):
        functad.jit(lambda: v.assign(np.ones(3)))()


def test_tapes_look_through_and_into_compiled_functions() -> None:
    v, x = functad.Variable(X), functad.constant(X)
    f = functad.jit(lambda a: np.sum(np.sin(v) * a))
    with functad.GradientTape() as tape:
        tape.watch(x)
        y = f(x) * 2
    by_v, by_x = tape.gradient(y, [v, x])
    assert np.allclose(by_v, 2 * np.cos(X) * X)
    assert np.allclose(by_x, 2 * np.sin(X))
    assert np.allclose(functad.implicit_gradients(lambda: f(X))()[0][0], np.cos(X) * X)


class _Calling(functad.Module):
    def __init__(self, model: Any, f: Any) -> None:
        self.model = model
        self.f = f

    def __call__(self, x: Any) -> Any:
        return self.f(x)


def test_values_given_to_variables_are_those_that_are_read() -> None:
    class Model(functad.Module):
        def __init__(self) -> None:
            self.w = functad.Variable(2.0)

        def __call__(self, x: Any) -> Any:
            return self.w * x

    model = Model()
    f = functad.jit(lambda x: model(x) ** 2)
    assert float(f(3.0)) == 36.0
    assert float(functad.functional_call(model, {"w": 1.0}, 3.0)) == 3.0
    assert float(functad.functional_call(_Calling(model, f), {"model/w": 1.0}, 3.0)) == 9.0


# Errors


def test_branches_on_values_are_refused_without_guards() -> None:
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(errors.AbstractValueError, match=r"test_jit\.py:\d+.*np\.where"):
        functad.jit(f, guards=False)(1.0)
    with pytest.raises(errors.AbstractValueError, match=r"test_jit\.py"):
        functad.jit(lambda x: x[x > 0], guards=False)(X)
    with pytest.raises(errors.OutputError):
        functad.jit(lambda x: object())(1.0)


def test_a_refused_call_leaves_no_state() -> None:
    v = functad.Variable(1.0)
    f = functad.jit(lambda x, fail: (v.assign(x), float(x))[1] if fail else v + x)
    with pytest.raises(errors.AbstractValueError):
        f(2.0, "yes")
    assert float(v) == 1.0
    assert f.cache_info() == (0, 0, 0)
    assert float(f(2.0, "")) == 3.0


def test_nan_watch_sees_the_operations_inside() -> None:
    f = functad.jit(lambda x: np.log(x) * 2)
    with functad.debug_nans(), np.errstate(all="ignore"), pytest.raises(errors.NotFiniteError, match=r"test_jit\.py"):
        functad.grad(f)(-1.0)


def test_costs_are_counted() -> None:
    cost = functad.jit(lambda x: np.sum(np.sin(x))).lower(np.zeros(1000)).cost()
    assert cost == (2, 8000 * 2 + 8000 + 8, 8000 * 2 + 8)


def test_the_cycle_collector_waits_while_a_function_is_compiled():
    seen = []

    def f(x):
        seen.append(gc.isenabled())
        if x.shape == (3,):
            raise ValueError("three")
        return np.sin(x) * x

    functad.jit(f)(np.ones(2))
    assert gc.isenabled()
    with pytest.raises(ValueError, match="three"):
        functad.jit(f)(np.ones(3))
    assert gc.isenabled()
    functad.grad(functad.jit(lambda x: np.sum(f(x))))(np.ones(2))
    assert gc.isenabled()
    assert not any(seen)


def test_calls_without_results() -> None:
    empty = functad.jit(lambda x: ())
    for derive in (functad.grad, functad.jacfwd, functad.jacrev):
        assert derive(lambda x: np.sin(x) + len(empty(x * 2)))(0.0) == 1.0
    forward = functad.jvp(functad.grad(lambda x: np.sin(x) * len((empty(x), empty(x)))), (0.0,), (1.0,))
    assert forward == (2.0, 0.0)


def test_derivatives_of_examples_that_are_numbers() -> None:
    slopes = functad.jit(functad.vmap(functad.grad(lambda w: 1.0 - w**2)))
    assert slopes(np.arange(3.0)).tolist() == [0.0, -2.0, -4.0]


@pytest.mark.parametrize("backend", ["numpy", "llvm", "xla"])
def test_an_exact_zero_wins_over_infinite_constants_of_a_linear_function(backend):
    for module in {"llvm": ("llvmlite",), "xla": ("jax",)}.get(backend, ()):
        pytest.importorskip(module, reason="the extra of the backend")
    captured = np.array([np.inf, np.nan, 2.0])
    f = functad.jit(lambda w: np.sum(np.where([False, False, True], w * captured, 0.0)), backend=backend)
    assert (
        functad.grad(f)(np.ones(3)).tolist() == functad.jit(functad.grad(f), backend=backend)(np.ones(3)).tolist() == [0, 0, 2]
    )


# The compiled function of `lower`


def test_compile_returns_the_function_with_its_structure():
    f = functad.jit(lambda p, n=2: {"sum": np.sum(p["x"]) * n, "x": p["x"]})
    compiled = f.lower({"x": np.ones(3)}, n=3).compile()
    found = compiled({"x": np.arange(3.0)}, n=4)
    assert found["sum"] == 12.0
    assert found["x"].tolist() == [0.0, 1.0, 2.0]
    assert f.cache_info().misses == 1
    f.clear_cache()
    assert compiled({"x": np.ones(3)}, n=1)["sum"] == 3.0
    assert f.cache_info().misses == 0
    np.testing.assert_array_equal(functad.grad(lambda x: compiled({"x": x}, n=2)["sum"])(np.ones(3)), 2.0)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.ones(4), 2, "a"), r"x was float64\[3\] and is float64\[4\]"),
        ((np.ones(3, np.float32), 2, "a"), r"x was float64\[3\] and is float32\[3\]"),
        ((np.ones(3), 2.0, "a"), "n was an? int of Python and is a float of Python"),
        ((np.ones(3), 2**70, "a"), "n was an? int of Python and is an integer beyond int64"),
        ((np.ones(3), 2, "b"), "a static argument was 'a' and is 'b'"),
        (([np.ones(3)], 2, "a"), "the structure of the arguments was another"),
    ],
)
def test_a_compiled_function_refuses_other_arguments(args, message):
    compiled = functad.jit(lambda x, n, name: x * n).lower(np.ones(3), 2, "a").compile()
    with pytest.raises(functad.errors.InputError, match=message):
        compiled(*args)


def test_a_compiled_function_reads_tensors_of_a_transform():
    box = {"w": 2.0}
    compiled = functad.jit(lambda x: x * box["w"]).lower(3.0).compile()
    assert compiled(3.0) == 6.0

    def outer(w):
        box["w"] = w
        return compiled(3.0)

    assert functad.grad(outer)(2.0) == 3.0
