"""Transforms as decorators, with options and without: what they keep of a function, and what options they have in common."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import functad
from functad.errors import InputError, OutputError

ROOT = Path(__file__).parents[2]
W, X = 0.7, 1.5

# A transform, and an option that changes nothing here, or else what is computed in both forms.
OPTIONS = {
    "checkpoint": {"policy": "contractions"},
    "custom_gradient": {},
    "custom_jvp": {"nondiff_argnums": ()},
    "custom_vjp": {"nondiff_argnums": ()},
    "deriv": {"n": 2},
    "divergence": {"argnums": 1},
    "elementwise_grad": {"argnums": 1},
    "grad": {"argnums": 1},
    "grad_pass_through": {},
    "gradients_function": {"params": ["w"]},
    "hessian": {"argnums": (0, 1)},
    "hessian_diagonal": {"argnames": "x"},
    "implicit_gradients": {},
    "implicit_value_and_gradients": {},
    "jacfwd": {"argnums": 1},
    "jacobian": {"mode": "forward"},
    "jacrev": {"argnums": 1},
    "jit": {"backend": "numpy"},
    "laplacian": {"argnums": (0, 1)},
    "make_expressions": {},
    "make_vjp": {"params": "x", "persistent": False},
    "recompute_grad": {},
    "sparse_hessian": {"argnums": 1},
    "sparse_jacobian": {"mode": "row"},
    "value_and_grad": {"argnames": ["w", "x"]},
    "value_and_gradients_function": {"params": [1]},
    "value_and_jacobian": {"argnums": 1},
    "value_grad_and_hessian": {"argnums": 1},
    "vmap": {"in_axes": None, "axis_size": 2},
}

# Functions that take a function first and return one, and are no decorators of it.
OTHERS = {
    "argmin": "decorates the solver, not the function",
    "checkpoint_sequence": "the number of steps belongs to what it returns",
    "custom_fixed_point": "decorates the solver, not the function",
    "custom_root": "decorates the solver, not the function",
    "linear_transpose": "takes the arguments of the function too",
    "linearize": "takes the arguments of the function too",
    "to_jax": "gives a function of another library, which functad does not take",
    "to_torch": "gives a function of another library, which functad does not take",
    "vjp": "takes the arguments of the function too",
}

DERIVATIVES = [name for name in OPTIONS if "has_aux" in inspect.signature(getattr(functad, name)).parameters]
SPEED = functad.Variable(3.0, name="speed")


def force(w: float, x: float = 2.0) -> float:
    """Say what it does."""
    return w * np.sin(w * x) + 0.0 * SPEED


def for_gradient(w: float, x: float = 2.0) -> float:
    """Say what it does."""
    return w * x, lambda dy: (dy * x, dy * w)


def function_for(name):
    return for_gradient if name == "custom_gradient" else force


def plain(result):
    """Return a result as what can be compared."""
    if callable(result) or isinstance(result, (functad.Expressions, functad.Variable)):
        return str(type(result))
    if isinstance(result, (tuple, list, dict)):
        return [plain(part) for part in (result.values() if isinstance(result, dict) else result)]
    result = result.toarray() if hasattr(result, "toarray") else result
    return np.asarray(getattr(result, "numpy", lambda: result)()).tolist()


@pytest.mark.parametrize("name", OPTIONS)
def test_all_forms_are_the_same_transform(name):
    transform, f, options = getattr(functad, name), function_for(name), OPTIONS[name]
    with_options = [transform(f, **options), transform(**options)(f), transform(None, **options)(f)]
    results = [plain(made(W, X)) for made in with_options]
    assert results == results[:1] * 3
    if name != "vmap":  # which needs to know of an axis
        without = [plain(made(W, X)) for made in (transform(f), transform()(f))]
        assert without == without[:1] * 2


@pytest.mark.parametrize("name", OPTIONS)
def test_name_documentation_and_signature_are_kept(name):
    transform, f = getattr(functad, name), function_for(name)
    for made in (transform(f), transform(**OPTIONS[name])(f)):
        assert made.__name__ == f.__name__
        assert made.__doc__ == f.__doc__
        assert inspect.signature(made) == inspect.signature(f)
        assert inspect.unwrap(made) is f


@pytest.mark.parametrize("name", OPTIONS)
def test_transforms_look_like_functions(name):
    transform = getattr(functad, name)
    first, *rest = inspect.signature(transform).parameters.values()
    assert first.default is None
    assert all(p.default is not p.empty for p in rest)
    assert {p.name for p in rest} >= set(OPTIONS[name])
    assert (transform.__name__, inspect.isfunction(transform)) == (name, True)
    assert "decorator" in transform.__doc__


@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_no_function_is_refused_by_name(name):
    transform = getattr(functad, name)
    with pytest.raises(InputError, match=rf"^{name} needs a function, not a float, at .*test_decorators.py:\d+.*@{name}\("):
        transform(2.5)
    with pytest.raises(InputError, match=rf"^{name} needs a function, not a NoneType"):
        transform(**OPTIONS[name])(None)


@pytest.mark.parametrize("name", OPTIONS)
def test_unknown_options_are_refused_where_they_are_given(name):
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'nonsense'"):
        getattr(functad, name)(nonsense=1)


def test_every_transform_of_functions_is_a_decorator():
    """A public function whose first parameter is a function, and which returns one."""
    found = set()
    for name in functad.__all__:
        value = getattr(functad, name)
        parameters = list(inspect.signature(value).parameters.values()) if inspect.isfunction(value) else []
        returned = str(inspect.signature(value).return_annotation) if parameters else ""
        takes = parameters and str(parameters[0].annotation).startswith("Callable[")
        gives = returned.startswith(("Callable[", "Decorator", "CustomFunction[", "CompiledFunction[", "SparseFunction["))
        if takes and (gives or "pullback" in (value.__doc__ or "") or "linear(" in (value.__doc__ or "")):
            found.add(name)
    assert found == {*OPTIONS, *OTHERS}


def test_methods_can_be_decorated():
    class Spring:
        stiffness = 3.0

        @functad.grad(argnums=1)
        def force(self, x):
            return self.stiffness * x**2 / 2

        @functad.hessian(argnums=1)
        def curvature(self, x):
            return self.stiffness * x**2 / 2

    assert Spring().force(2.0) == 6.0
    assert Spring().curvature(2.0) == 3.0


def test_decorators_stack():
    @functad.vmap(in_axes=(None, 0))
    @functad.deriv(n=2, argnums=1)
    @functad.checkpoint(policy="contractions")
    def f(a, x):
        return a * x**3

    np.testing.assert_allclose(f(2.0, np.array([1.0, 2.0])), [12.0, 24.0])


# Options in common


def test_derivatives_of_functions_choose_arguments_alike():
    for name in DERIVATIVES:
        parameters = list(inspect.signature(getattr(functad, name)).parameters)
        start = parameters.index("argnums")
        assert parameters[start : start + 3] == ["argnums", "argnames", "has_aux"], name
    assert len(DERIVATIVES) == 15


def shaped(name):
    """Return a function with a result that a transform takes, and its arguments."""
    if name == "deriv":
        return (lambda a, b, *, c=1.0: a * np.sin(b) * c), (1.5, 0.5)
    if name in ("divergence", "elementwise_grad", "jacfwd", "jacobian", "jacrev", "sparse_jacobian", "value_and_jacobian"):
        return (lambda a, b, *, c=1.0: a**2 * np.sin(b) * c), (np.array([1.5, -0.5, 2.0]), np.array([0.5, 1.0, 1.5]))
    return (lambda a, b, *, c=1.0: np.sum(a**2 * np.sin(b)) * c), (np.array([1.5, -0.5, 2.0]), np.array([0.5, 1.0, 1.5]))


@pytest.mark.parametrize("name", DERIVATIVES)
def test_arguments_by_name_are_those_by_position(name):
    transform, (f, args) = getattr(functad, name), shaped(name)
    expected = plain(transform(f, argnums=1)(*args))
    assert plain(transform(f, argnames="b")(*args)) == expected
    assert plain(transform(f, argnames="b")(args[0], b=args[1])) == expected
    assert plain(transform(f, argnums=0)(*args)) != expected
    # Of arguments that can be given by name only too: the derivative by `c` is that by a third one by position.
    third = transform(lambda a, b, c: f(a, b, c=c), argnums=2)
    c = 1.25 if name == "deriv" else np.array([1.25, 1.5, 0.5])
    if name not in ("divergence", "elementwise_grad", "sparse_jacobian", "jacobian", "jacrev", "jacfwd", "value_and_jacobian"):
        c = 1.25
    assert plain(transform(f, argnames="c")(*args, c=c)) == plain(third(*args, c))


@pytest.mark.parametrize("name", DERIVATIVES)
def test_auxiliary_results_are_handed_through(name):
    transform, (f, args) = getattr(functad, name), shaped(name)

    def with_aux(a, b, *, c=1.0):
        value = f(a, b, c=c)
        return value, {"twice": 2.0 * value, "text": "kept"}

    expected = plain(transform(f)(*args))
    result = transform(with_aux, has_aux=True)(*args)
    if name.startswith("value_"):
        (value, aux), *rest = result
        assert plain((value, *rest)) == expected
    else:
        found, aux = result
        assert plain(found) == expected
    assert aux["text"] == "kept"
    assert isinstance(aux["twice"], (np.ndarray, np.generic))
    np.testing.assert_array_equal(aux["twice"], 2.0 * f(*args))


@pytest.mark.parametrize("name", DERIVATIVES)
def test_auxiliary_results_that_are_not_there(name):
    f, args = shaped(name)
    with pytest.raises(OutputError, match=rf"^{name} of .* with has_aux=True, called at .*must return a pair"):
        getattr(functad, name)(f, has_aux=True)(*args)


def test_auxiliary_results_under_other_transforms():
    """They are values of the transform around, not of the one that is done."""

    def f(x):
        return np.sum(x**3), x**2

    def second(x):
        found, aux = functad.laplacian(f, has_aux=True)(x)
        return found + np.sum(aux)

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(functad.grad(second)(x), 6.0 + 2 * x)
    for name, expected in (("hessian_diagonal", 6 * x), ("hessian", np.diag(6 * x))):
        found, aux = functad.vmap(getattr(functad, name)(f, has_aux=True))(np.stack([x, x]))
        np.testing.assert_allclose(found, np.stack([expected, expected]))
        np.testing.assert_allclose(aux, np.stack([x**2, x**2]))


def test_products_with_auxiliary_results():
    def f(x, y):
        return np.sum(x**3 * y), {"sum": x + y}

    x, y, t = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([0.5, -1.0])
    products, aux = functad.hvp(f, (x, y), (t, t), has_aux=True)
    for found, expected in zip(products, functad.hvp(lambda x, y: f(x, y)[0], (x, y), (t, t)), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(aux["sum"], x + y)
    product, aux = functad.gauss_newton_product(lambda x: (x**2, x), (x,), (t,), has_aux=True)
    np.testing.assert_allclose(product, 4 * x**2 * t)
    np.testing.assert_array_equal(aux, x)
    terms, aux = functad.taylor(lambda x: (x**2, -x), (3.0,), ([1.0],), order=2, has_aux=True)
    assert (terms, aux) == ([9.0, 6.0, 1.0], -3.0)


def test_patterns_of_functions_with_auxiliary_results():
    def f(a, b):
        return a[1:] * b[:-1], "text"

    x = np.ones(4)
    expected = functad.jacobian_sparsity(lambda a, b: f(a, b)[0], x, x, argnums=1)
    assert functad.jacobian_sparsity(f, x, x, argnames="b", has_aux=True) == expected
    assert functad.jacobian_sparsity(f, x, b=x, argnames="b", has_aux=True) == expected
    spec = functad.ArraySpec((4,), np.dtype(float))
    assert functad.jacobian_sparsity(lambda a, b: (f(a, b)[0], a), spec, spec, argnums=1, has_aux=True) == expected
    second = functad.hessian_sparsity(lambda a: (np.sum(a[1:] * a[:-1]), "text"), x, has_aux=True)
    assert second.toarray().sum() == 6


# Types

CALLS = "\n".join(
    f"""
@functad.{name}
def plain_{name}(w: float, x: float = 2.0) -> float: ...
@functad.{name}({", ".join(f"{key}={value!r}" for key, value in options.items())})
def with_options_{name}(w: float, x: float = 2.0) -> float: ...
reveal_type(plain_{name})
reveal_type(with_options_{name})
functad.{name}(force, nonsense=1)
"""
    for name, options in OPTIONS.items()
)
PROGRAM = f"""
import functad
def force(w: float, x: float = 2.0) -> float: ...
{CALLS}
"""
SEEDED = {"gradients_function", "value_and_gradients_function"}  # a parameter more: the types leave parameters open
RETURNED = {
    "custom_jvp": "float",
    "gradients_function": "list[Any]",
    "grad": "Any",
    "implicit_gradients": "list[tuple[Any, functad.eager.variable.Variable]]",
    "make_expressions": "functad.expressions.expressions.Expressions",
    "jit": "float",
    "value_and_grad": "tuple[Any, Any]",
    "value_and_jacobian": "tuple[Any, Any]",
    "value_grad_and_hessian": "tuple[Any, Any, Any]",
}


@pytest.mark.slow
def test_types_of_decorated_functions(tmp_path):
    pytest.importorskip("mypy", reason="mypy is in the extra `dev`, which not every run of the tests installs")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    options = ["--config-file=", "--disable-error-code=empty-body", "--cache-dir", str(tmp_path / "cache")]
    command = [sys.executable, "-m", "mypy", *options, str(program)]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    lines = subprocess.run(command, check=False, capture_output=True, text=True, env=environment).stdout.splitlines()
    revealed = [line.split("Revealed type is ")[1].strip('"') for line in lines if "Revealed type is" in line]
    assert len(revealed) == 2 * len(OPTIONS)
    for name, plainly, optional in zip(OPTIONS, revealed[::2], revealed[1::2], strict=True):
        for text in (plainly, optional):
            assert "w: float, x: float =" in text or name in SEEDED, (name, text)
            assert RETURNED.get(name, "") in text, (name, text)
    wrong = [number for number, line in enumerate(PROGRAM.splitlines(), 1) if "nonsense" in line]
    assert wrong == sorted({int(line.split(":")[1]) for line in lines if "program.py" in line and ": error: " in line})
