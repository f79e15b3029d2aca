"""Compiled programs that are kept: how many, for how long, and how to drop them."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import functad
from functad.errors import InputError

X = np.linspace(0.1, 1.0, 3)


class Model:
    """An object whose class compares by identity."""

    def __init__(self, scale):
        self.scale = scale
        self.layers = [Layer(self)]

    @functad.jit
    def loss(self, x):
        return np.sum(np.sin(x) * self.scale)

    @functad.jit(static_argnums=1)
    def power(self, n, x):
        return np.sum(x**n) * self.scale

    @functad.jit(static_argnames="other")
    def sum_of(self, x, *, other):
        return np.sum(x) * (self.scale + other.scale)


class Layer:
    def __init__(self, owner):
        self.owner = owner  # a cycle


def test_the_program_that_was_used_longest_ago_is_dropped():
    double = functad.jit(lambda x: 2 * x, max_entries=2)
    shapes = [np.ones(n) for n in (1, 2, 3)]
    for x in (shapes[0], shapes[1], shapes[0], shapes[2]):  # the third drops the one for two elements
        assert np.array_equal(double(x), 2 * x)
    assert double.cache_info()[1:] == (3, 2)
    double(shapes[0])
    assert double.cache_info().misses == 3
    double(shapes[1])
    assert double.cache_info()[1:] == (4, 2)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_the_program_of_the_quickest_calls_counts_as_used(backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")
    double = functad.jit(lambda x: 2 * x, max_entries=2, backend=backend)
    a, b, c = [np.ones(n) for n in (1, 2, 3)]
    for x in (a, b, a, a, a, a, c):
        assert np.array_equal(double(x), 2 * x)
    before = double.cache_info().misses
    double(a)
    assert double.cache_info().misses == before


def test_a_dropped_program_is_not_found_by_its_quick_key():
    double = functad.jit(lambda x: 2 * x, max_entries=1)
    for n in (1, 2, 1, 2):
        for _ in range(3):
            assert np.array_equal(double(np.ones(n)), np.full(n, 2.0))
    compiler = double.compiler
    assert double.cache_info()[1:] == (4, 1)
    assert set(compiler.quick.values()) <= set(compiler.entries.values())


@pytest.mark.filterwarnings("ignore::functad.errors.RecompileWarning")
def test_a_function_keeps_256_programs_unless_it_is_told_another_number():
    limited, unlimited = [
        functad.jit(lambda x, n: x * n, static_argnums=1, backend="numpy", **o) for o in ({}, {"max_entries": None})
    ]
    for n in range(258):
        limited(1.0, n)
        unlimited(1.0, n)
    assert (limited.cache_info().size, unlimited.cache_info().size) == (256, 258)


def test_many_compilations_warn_also_if_few_programs_are_kept():
    f = functad.jit(lambda x, n: x * n, static_argnums=1, backend="numpy", max_entries=2)
    for n in range(15):
        f(1.0, n)
    with pytest.warns(functad.errors.RecompileWarning, match="compiled 16 times"):
        f(1.0, 15)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_other_limits_than_positive_integers_are_refused(wrong):
    with pytest.raises(InputError, match="max_entries is"):
        functad.jit(np.sin, max_entries=wrong)


def test_the_limit_is_kept_when_a_function_is_pickled_and_copied():
    f = functad.jit(np.sin, max_entries=3)
    again, args = f.__reduce__()
    assert again(*args).compiler.max_entries == copy.deepcopy(f).compiler.max_entries == 3


def test_clear_cache_of_a_function_drops_its_programs_alone():
    f, g = functad.jit(np.sin), functad.jit(np.cos)
    for _ in range(3):
        f(X), g(X)
    f.clear_cache()
    assert f.cache_info() == (0, 0, 0)
    assert "has not been compiled" in f.explain_recompile()
    assert g.cache_info().size == 1
    assert np.allclose(f(X), np.sin(X), rtol=1e-15)
    assert f.cache_info() == (0, 1, 1)


def test_clear_cache_drops_all_programs_of_the_process():
    f, g = functad.jit(np.sin), functad.jit(functad.grad(lambda x: np.sum(x * x)))
    for _ in range(3):
        f(X), g(X), functad.grad(lambda x: np.sum(f(x)))(X)
    programs = [weakref.ref(next(iter(j.compiler.entries.values())).program) for j in (f, g)]
    functad.clear_cache()
    assert f.cache_info() == g.cache_info() == (0, 0, 0)
    gc.collect()
    assert [program() for program in programs] == [None, None]
    assert np.allclose(g(X), 2 * X, rtol=1e-15)


def test_functions_that_are_gone_are_not_kept_for_clear_cache():
    f = functad.jit(lambda x: x * x)
    f(X)
    compiler = weakref.ref(f.compiler)
    del f
    gc.collect()
    assert compiler() is None
    functad.clear_cache()


def used(call):
    """Return a weak reference to a model after a call with it."""
    model = Model(2.0)
    call(model)
    return weakref.ref(model)


CALLS = {
    "method": lambda model: model.loss(X),
    "method twice": lambda model: [model.loss(X), model.loss(X)],
    "with a static argument": lambda model: model.power(2, X),
    "static by name": lambda model: model.sum_of(X, other=Model(1.0)),
    "within a transform": lambda model: functad.grad(lambda x: model.loss(x))(X),
    "twice within a transform": lambda model: [functad.grad(lambda x: model.loss(x))(X) for _ in range(2)],
    "plain within a transform": lambda model: [functad.grad(lambda x: x * model.loss(X))(2.0) for _ in range(3)],
    "outermost transform compiled": lambda model: functad.jit(functad.grad(lambda x: model.loss(x)))(X),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_compiled_method_does_not_keep_its_object_alive(call):
    ref = used(call)
    gc.collect()
    assert ref() is None


def test_programs_of_an_object_that_is_gone_are_dropped():
    Model.loss.clear_cache()
    models = [Model(float(n)) for n in range(3)]
    assert [round(float(m.loss(X)), 12) for m in models] == [round(float(np.sum(np.sin(X) * n)), 12) for n in range(3)]
    assert Model.loss.cache_info().size == 3
    del models[1]
    gc.collect()
    assert Model.loss.cache_info().size == 2
    assert [round(float(m.loss(X)), 12) for m in models] == [round(float(np.sum(np.sin(X) * n)), 12) for n in (0, 2)]
    assert Model.loss.cache_info()[1:] == (3, 2)


def test_the_reason_of_a_compilation_names_an_object_that_is_gone():
    Model.loss.clear_cache()
    first = Model(1.0)
    first.loss(X)
    second = Model(2.0)
    second.loss(X)
    del first
    gc.collect()
    assert "a static argument was an object that is gone and is <" in Model.loss.explain_recompile()


@pytest.mark.filterwarnings("ignore::functad.errors.RecompileWarning")
def test_each_object_has_its_own_program_though_another_had_its_address():
    for n in range(50):
        assert np.isclose(Model(float(n)).loss(X), np.sum(np.sin(X)) * n, rtol=1e-12)


def test_tensors_in_an_object_are_found_again_after_a_collection():
    model = Model(2.0)
    assert np.isclose(functad.grad(lambda x: x * model.loss(X))(1.0), 2.0 * np.sum(np.sin(X)))
    gc.collect()

    def outer(scale):
        model.scale = scale
        return model.loss(X)

    assert np.isclose(functad.grad(outer)(3.0), np.sum(np.sin(X)))


@pytest.mark.filterwarnings("ignore::functad.errors.RecompileWarning")
def test_caches_are_cleared_while_threads_compile():
    f = functad.jit(lambda x, n: x * n, static_argnums=1, backend="numpy", max_entries=4)
    errors = []

    def work(start):
        try:
            for n in range(start, start + 60):
                assert f(2.0, n) == 2.0 * n
        except BaseException as error:  # noqa: BLE001 - the test fails by it
            errors.append(error)

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        functad.clear_cache()
        gc.collect()
    for thread in threads:
        thread.join()
    for n in range(20):
        f(3.0, n + 0.5)
    assert errors == []
    assert f.cache_info().size == 4


# Programs that functions share


def sharing(f):
    """Return a function that shares its programs as if it had been unpickled."""
    f.compiler.shares = True
    return f


def program_of(f, *args):
    return f.lower(*args).compile().program


@pytest.fixture
def nothing_shared():
    functad.clear_cache()
    yield
    functad.clear_cache()


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_a_pickled_function_uses_the_program_that_the_process_has(backend, nothing_shared):
    if backend == "llvm":
        pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")
    f = functad.jit(functad.grad(_loss), backend=backend)
    first, second = [pickle.loads(pickle.dumps(f)) for _ in range(2)]
    assert np.array_equal(first(X), f(X))
    assert np.array_equal(second(X), f(X))
    assert program_of(first, X) is program_of(second, X)
    assert program_of(f, X) is not program_of(first, X)
    functad.clear_cache()


def _loss(x):
    return np.sum(np.sin(x) * x)


def test_derivatives_of_a_pickled_function_are_compiled_once(nothing_shared):
    compiled = []

    def of(f):
        compiler = f.compiler
        original = compiler.backend
        compiler.backend = original._replace(compile=lambda *args, **o: compiled.append(args) or original.compile(*args, **o))
        return f

    first, second = [of(pickle.loads(pickle.dumps(functad.jit(_loss)))) for _ in range(2)]
    assert np.array_equal(functad.grad(first)(X), functad.grad(second)(X))
    assert len(compiled) == 2  # the forward and the backward list


DIFFERENT = {
    "constants": lambda: [lambda x, c=c: x * c for c in (np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))],
    "signs of zero": lambda: [lambda x, c=c: np.copysign(x, c) for c in (0.0, -0.0)],
    "types of numbers": lambda: [lambda x, c=c: x.astype(np.float32) * c for c in (2.0, np.float64(2.0))],
    "layouts of constants": lambda: [
        lambda x, c=c: np.sum(c @ x) for c in (np.arange(9.0).reshape(3, 3), np.asfortranarray(np.arange(9.0).reshape(3, 3)))
    ],
    "kinds of shape ()": lambda: [lambda x: np.sum(x), lambda x: np.where(True, np.sum(x), 0.0)],
}


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("make", DIFFERENT.values(), ids=DIFFERENT)
def test_lists_that_differ_share_no_program(make, backend, nothing_shared):
    if backend == "llvm":
        pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")
    for f in make():
        expected, found = f(X), sharing(functad.jit(f, backend=backend))(X)
        assert type(found) is type(expected)
        assert found.dtype == expected.dtype
        assert np.array_equal(np.signbit(found), np.signbit(expected))
        assert np.allclose(found, expected, rtol=1e-12)


def _derivative(w, x):
    return functad.grad(lambda w: np.sum(np.where(x > 0, w * np.log(x), 0.0)))(w)


def _product(w, x):
    """Return the same product in a quick pass. The second factor belongs to no derivative, so zero times infinity is NaN."""
    mask = x > 0
    logarithm = np.log(x)
    return functad.grad(lambda w: np.sum(np.where(mask, w, 0.0)))(w) * logarithm


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("order", [(_derivative, _product), (_product, _derivative)], ids=["derivative", "product"])
def test_lists_that_differ_in_the_careful_pass_share_no_program(order, backend, nothing_shared):
    if backend == "llvm":
        pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")
    w, x = np.ones(3), np.array([0.0, 1.0, 2.0])
    for f in order:
        compiled = pickle.loads(pickle.dumps(functad.jit(f, backend=backend)))
        np.testing.assert_allclose(compiled(w, x), f(w, x), rtol=1e-12)


def test_the_exact_backend_shares_no_program_with_the_other(nothing_shared):
    f = sharing(functad.jit(_loss, backend="numpy"))
    g = sharing(functad.jit(_loss, exact=True))
    assert program_of(f, X) is not program_of(g, X)


def test_functions_of_the_user_in_a_list_are_not_shared(nothing_shared):
    def make():
        calls = []

        @functad.custom_vjp
        def f(x):
            return x * 2.0

        def forward(x):
            return f(x), x

        def backward(kept, g):
            calls.append(1)
            return (g * 2.0,)

        f.defvjp(forward, backward)
        return f, calls

    for _ in range(2):
        f, calls = make()
        assert np.array_equal(sharing(functad.jit(functad.grad(lambda x, f=f: np.sum(f(x)))))(X), np.full(3, 2.0))
        assert calls


class TestLimitOfAllFunctions:
    @pytest.fixture(autouse=True)
    def _limits(self):
        functad.clear_cache()
        yield
        functad.set_program_limit()

    def functions(self, count, backend):
        return [functad.jit(lambda x, n=n: x * n, backend=backend) for n in range(count)]

    @staticmethod
    def sizes(functions):
        return [f.cache_info().size for f in functions]

    @pytest.mark.parametrize("backend", ["numpy", "llvm"])
    def test_the_least_recently_used_programs_of_all_functions_are_dropped(self, backend):
        functad.set_program_limit(3)
        functions = self.functions(5, backend)
        for f in functions[:3]:
            f(1.0)
        for _ in range(3):  # the third call takes the quickest path
            functions[0](1.0)
        functions[3](1.0)
        assert self.sizes(functions) == [1, 0, 1, 1, 0]
        functions[2](1.0)
        functions[4](1.0)
        assert self.sizes(functions) == [0, 0, 1, 1, 1]
        assert [f(2.0) for f in functions] == [0.0, 2.0, 4.0, 6.0, 8.0]
        assert sum(self.sizes(functions)) == 3

    @pytest.mark.parametrize("backend", ["numpy", "llvm"])
    def test_kinds_of_arguments_and_paths_are_counted(self, backend):
        functad.set_program_limit(3)
        f, g = functad.jit(lambda x: x + 1, backend=backend), functad.jit(lambda x: x if x > 0 else -x, backend=backend)
        for n in range(1, 5):
            assert f(np.ones(n)).shape == (n,)
        assert f.cache_info().size == 3
        assert [g(2.0), g(-2.0), g(2.0), g(-2.0)] == [2.0] * 4
        assert self.sizes([f, g]) == [1, 2]
        f(np.ones(9))
        assert self.sizes([f, g]) == [1, 2]

    @pytest.mark.parametrize("backend", ["numpy", "llvm"])
    def test_a_smaller_limit_drops_programs_at_once(self, backend):
        functions = self.functions(4, backend)
        for f in functions:
            f(1.0)
        functad.set_program_limit(2)
        assert self.sizes(functions) == [0, 0, 1, 1]
        functad.set_program_limit(None)
        for f in functions:
            f(1.0)
        assert self.sizes(functions) == [1] * 4

    @pytest.mark.parametrize("backend", ["numpy", "llvm"])
    def test_bytes_of_constants_and_code(self, backend):
        arrays = [np.full(50_000, 1.5 + n) for n in range(4)]
        large = [functad.jit(lambda x, a=a: x + np.cumsum(a), backend=backend) for a in arrays]
        functad.set_program_limit(nbytes=1_000_000)
        for f in large:
            f(1.0)
        assert self.sizes(large) == [0, 0, 1, 1]
        small = functad.jit(lambda x: x * 7.0, backend=backend)
        small(1.0)
        assert small.lower(1.0)._program.nbytes > 10
        functad.set_program_limit(nbytes=1)
        assert sum(self.sizes([*large, small])) == 0
        assert small(1.0) == 7.0

    @pytest.mark.parametrize("wrong", [0, -1, 2.0, "many", True])
    def test_limits_are_positive_integers(self, wrong):
        for options in ({"count": wrong}, {"nbytes": wrong}):
            with pytest.raises(InputError, match="positive integer or None"):
                functad.set_program_limit(**options)
