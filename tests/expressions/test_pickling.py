"""Copies and pickles of expression lists, functions with rules, and what transforms return."""

import copy
import inspect
import pickle

import numpy as np
import pytest

import functad

X = np.array([0.5, 1.0, 1.5])


def wavy(x):
    return np.sum(np.sin(x) * x)


def waves(x):
    return np.sin(x) * x


@functad.grad
def decorated(x):
    return np.sum(x**2)


@functad.custom_vjp
def ruled(x):
    return np.sin(x)


def ruled_forward(x):
    return ruled(x), np.cos(x)


def ruled_backward(kept, g):
    return (kept * g,)


ruled.defvjp(ruled_forward, ruled_backward)


def cubed(x):
    return x**3


cube = functad.primitive(cubed, lambda g, x: g * 3 * x**2, kind="elementwise")


class Methods:
    @functad.grad
    def slope(self):
        return self


def again(value):
    return pickle.loads(pickle.dumps(value))


LISTS = {
    "operations": wavy,
    "einsum": lambda x: np.einsum("i,i,i->", x, x, x),
    "indices": lambda x: x[np.array([0, 1])] * x[1:],
    "scan": lambda x: functad.scan(lambda c, r: (c * r, c), 1.0, x)[1],
    "cond": lambda x: functad.cond(x[0] > 0, lambda x: x, lambda x: 2 * x, x),
    "while_loop": lambda x: functad.while_loop(lambda x: x[0] < 3, lambda x: x * 2, x),
    "switch": lambda x: functad.switch(np.argmax(x), [np.sin, np.cos, np.exp], x),
    "fori_loop": lambda x: functad.fori_loop(0, 5, lambda i, s: s + i * x, x),
    "scan_in_cond": lambda x: functad.cond(x[0] > 0, lambda x: functad.scan(lambda c, r: (c * r, c), 1.0, x)[1], np.sin, x),
    "gradient_of_a_scan": functad.grad(lambda x: np.sum(functad.scan(lambda c, r: (c * np.sin(r), c), 1.0, x)[1])),
    "vmap_of_a_scan": lambda x: functad.vmap(lambda a: functad.scan(lambda c, r: (c * r + a, c), 1.0, x)[1])(x),
    "custom_linear_solve": lambda x: functad.custom_linear_solve(lambda v: v * 2, x),
    "checkpoint": functad.checkpoint(lambda x: np.sin(x)),
    "gradient": functad.grad(np.prod),
    "custom_vjp": ruled,
    "primitive": cube,
}


@pytest.mark.parametrize("made", [again, copy.deepcopy, copy.copy])
@pytest.mark.parametrize("name", LISTS)
def test_expression_lists(name, made):
    expressions = functad.make_expressions(LISTS[name])(X)
    found = made(expressions).check()
    assert repr(found) == repr(expressions)
    np.testing.assert_array_equal(found(X), expressions(X))
    slopes = [functad.grad(lambda x, e=e: np.sum(e(x)))(X) for e in (found, expressions)]
    np.testing.assert_array_equal(*slopes)


TRANSFORMS = [
    "grad", "value_and_grad", "jacobian", "jacrev", "jacfwd", "value_and_jacobian", "hessian", "vmap",
    "make_expressions", "checkpoint", "elementwise_grad", "laplacian", "divergence", "hessian_diagonal", "deriv",
    "value_grad_and_hessian", "sparse_jacobian", "sparse_hessian", "custom_gradient", "recompute_grad",
    "grad_pass_through", "gradients_function", "implicit_gradients", "value_and_gradients_function",
    "implicit_value_and_gradients", "custom_vjp", "custom_jvp",
]  # fmt: skip


@pytest.mark.parametrize("made", [again, copy.deepcopy, copy.copy])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_transforms_return(name, made):
    function = getattr(functad, name)(wavy)
    found = made(function)
    assert type(found) is type(function)
    assert inspect.signature(found) == inspect.signature(function)
    if name in ("grad", "jacobian", "hessian", "value_grad_and_hessian", "elementwise_grad"):
        np.testing.assert_equal(found(X), function(X))


def test_options_and_nested_transforms_come_along():
    function = functad.vmap(functad.grad(np.multiply, 1), (0, None))
    np.testing.assert_array_equal(again(function)(X, 2.0), function(X, 2.0))


def test_what_a_module_holds_is_pickled_by_its_name():
    for function in (decorated, ruled, cube, Methods.slope):
        assert again(function) is function
    assert Methods().slope.__self__.__class__ is Methods


def test_rules_come_along_with_functions_that_no_module_holds():
    function = functad.custom_vjp(waves)
    function.defvjp(ruled_forward, ruled_backward)
    for found in (again(function), copy.deepcopy(function)):
        assert found is not function
        np.testing.assert_allclose(functad.grad(found)(1.0), np.cos(1.0))


def test_a_lambda_is_named():
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(functad.grad(lambda x: x))
