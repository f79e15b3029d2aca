"""`check_rules`: the promises of functions with rules, and of linear functions, each broken once."""

import numpy as np
import pytest

import functad
from functad import errors
from functad.testing import check_rules

X = np.array([0.3, 0.7])


def test_rules_that_are_right_pass():
    @functad.custom_vjp(nondiff_argnums=(0,))
    def predict(activation, params, x, scale=2.0):
        return {"out": activation(params["w"] * x) * scale, "count": 3}

    def forward(activation, params, x, scale=2.0):
        return predict(activation, params, x, scale), (params["w"], x, scale)

    def backward(activation, kept, g):
        w, x, scale = kept
        slope = g["out"] * scale * np.cos(w * x)
        return {"w": np.sum(slope * x)}, slope * w, np.sum(g["out"] * activation(w * x))

    predict.defvjp(forward, backward)
    check_rules(predict, np.sin, {"w": 1.5}, X, order=2)
    check_rules(predict, np.sin, {"w": 1.5}, X, 3.0)


FORWARDS = {
    "value": (
        lambda x: (np.cos(x), np.cos(x)),
        r"gives \[0.540302 0.540302\] as result, but the function gives \[0.841471 0.841471\]",
    ),
    "shape": (lambda x: (np.sin(x)[None], np.cos(x)), r"gives float64\[1,2\] as result, but the function gives float64\[2\]"),
    "dtype": (lambda x: (np.sin(x).astype(np.float32), np.cos(x)), r"gives float32\[2\] as result"),
    "structure": (lambda x: ((np.sin(x),), np.cos(x)), r"the value should be a leaf, not a tuple of 1"),
    "pair": (lambda x: np.sin(x), r"must return a pair"),
}


@pytest.mark.parametrize("case", FORWARDS)
def test_forward_rule_must_return_the_value(case):
    forward, message = FORWARDS[case]
    f = functad.custom_vjp(lambda x: np.sin(x))
    f.defvjp(forward, lambda kept, g: (g * kept,))
    with pytest.raises(errors.CustomRuleError, match=r"the forward rule of .*" + message):
        check_rules(f, np.ones(2))


def test_values_that_overflow_are_not_compared():
    f = functad.custom_vjp(lambda x: np.log1p(np.exp(x)))
    f.defvjp(lambda x: (np.logaddexp(0.0, x), x), lambda x, g: (g / (1 + np.exp(-x)),))
    check_rules(f, np.array([1.0, 1000.0]))


@pytest.mark.parametrize("rule", [lambda t: np.abs(t), lambda t: t + 1.0, lambda t: t * t, lambda t: np.maximum(t, 0.0)])
@pytest.mark.parametrize("x", [1.0, np.float64(1.0), X], ids=["number", "scalar", "array"])
def test_jvp_rule_must_be_linear(rule, x):
    f = functad.custom_jvp(lambda x: np.sin(x))
    f.defjvp(lambda primals, tangents: (np.sin(primals[0]), rule(tangents[0])))
    with pytest.raises(
        errors.CustomRuleError, match=r"the JVP rule of .*test_rule_checks.py:\d+\) is not linear in the tangents"
    ):
        check_rules(f, x)


def test_jvp_rule_must_return_the_value():
    f = functad.custom_jvp(lambda x: np.sin(x))
    f.defjvp(lambda primals, tangents: (np.cos(primals[0]), tangents[0]))
    with pytest.raises(errors.CustomRuleError, match=r"the JVP rule of .* gives 0.5\d* as result, but the function gives 0.8"):
        check_rules(f, 1.0)


def test_derivatives_are_compared_with_differences():
    f = functad.custom_jvp(lambda x: np.sin(x))
    f.defjvp(lambda primals, tangents: (np.sin(primals[0]), np.sin(primals[0]) * tangents[0]))
    with pytest.raises(errors.WrongDerivativeError, match=r"the JVP rule of .* is wrong"):
        check_rules(f, X)


A = np.array([[1.0, 2.0, 0.5], [0.0, 3.0, -1.0]])


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: A @ x, (np.ones(3),)),
        (lambda x, y: {"a": 2 * x[::-1], "b": y - 3.0 * x[0]}, (np.ones(3), 2.0)),
        (lambda z: (1 + 2j) * z, (np.ones(2, complex),)),
        (lambda z: np.real(z), (np.ones(2, complex),)),
        (lambda x, i: x[i] * 2.0, (np.ones(3), np.array([0, 2]))),
        (functad.numerical_primitive(lambda x: np.asarray(x).cumsum()), (np.ones(3),)),
    ],
    ids=["matrix", "tree", "complex", "real part", "index", "numerical"],
)
def test_linear_functions_pass(f, args):
    check_rules(f, *args, linear=True)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * x,
        lambda x: x + 1.0,
        lambda x: np.where(x > 0, x, 2 * x),
        functad.primitive(lambda x: np.abs(np.asarray(x)), lambda g: g, name="wrong"),
        functad.numerical_primitive(lambda x: np.abs(np.asarray(x))),
    ],
    ids=["square", "constant", "branch", "primitive", "numerical"],
)
def test_functions_that_are_not_linear_are_named(f):
    with pytest.raises(errors.CustomRuleError, match=r"is not linear, at .*test_rule_checks.py"):
        check_rules(f, np.ones(2), linear=True)


def test_a_wrong_transpose_is_named():
    f = functad.primitive(lambda x: np.asarray(x).cumsum(), lambda g: g.cumsum(), name="sums")
    with pytest.raises(errors.CustomRuleError, match=r"the transpose of sums is wrong, at .*test_rule_checks.py"):
        check_rules(f, np.ones(3), linear=True)
