"""`doctor`: healthy functions get no warning, and each sick one the finding for its sickness, with its line."""

from __future__ import annotations

import dataclasses
import importlib
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad.checkup import doctor as module

ROOT = Path(__file__).parents[2]


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


# Healthy functions


def gaussian_process(theta, x, y):
    length, scale, noise = np.exp(theta)
    k = scale**2 * np.exp(-0.5 * (x[:, None] - x) ** 2 / length**2) + noise**2 * np.eye(len(x))
    factor = np.linalg.cholesky(k)
    return 0.5 * y @ np.linalg.solve(k, y) + np.sum(np.log(np.diag(factor)))


def oscillator(p, steps):
    y, v = 1.0, 0.0
    for _ in range(steps):
        y, v = y + 0.01 * v, v - 0.01 * (p[0] * y + p[1] * v)
    return y**2 + v**2


def network(p, x):
    return np.mean((np.maximum(x @ p["a"] + p["c"], 0) @ p["b"]) ** 2)


def network_arguments():
    p = {"a": random(8, 16), "c": random(16, seed=1), "b": random(16, 3, seed=2)}
    p = {name: value.astype(np.float32) for name, value in p.items()}
    return p, random(32, 8, seed=3).astype(np.float32)


@dataclasses.dataclass
class Line:
    slope: Any
    offset: Any


def straight_line(line, x, y):
    return np.sum((line.slope * x + line.offset - y) ** 2)


POINTS = np.arange(5.0)
LAYER = functad.nn.Dense(4, inputs=3, rng=0)
HEALTHY = {
    "sum of squares": (lambda x: np.sum(x**2), [np.ones(3)]),
    "at a minimum": (lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), [np.ones(5)]),
    "a fit that is exact": (straight_line, [Line(2.0, 1.0), POINTS, 2 * POINTS + 1]),
    "a rectified network in single precision": (network, network_arguments()),
    "a branch not taken": (lambda x: np.sum(np.where(x > 0, np.log(x), 0)), [np.array([1.0, -2.0, 3.0])]),
    "a pole that is no overflow": (lambda x: np.sum(np.where(x > 0.5, 1 / x, 0)), [np.array([1.0, 0.0, 3.0])]),
    "logarithm of a sum of exponentials": (lambda x: np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x), [random(10)]),
    "a linear system": (lambda a, b: np.sum(np.linalg.solve(a, b)), [3 * np.eye(5) + random(5, 5), np.ones(5)]),
    "a Gaussian process": (
        gaussian_process,
        [np.array([0.0, 0.0, -2.0]), np.linspace(0, 5, 30), np.sin(np.linspace(0, 5, 30))],
    ),
    "a differential equation": (oscillator, [np.array([1.0, 0.1]), 50]),
    "norms and spreads": (lambda x: np.std(x) + np.linalg.norm(x), [random(9)]),
    "abs far from its corner, and smooth there": (lambda x: np.sum(np.abs(x) * x), [np.array([0.0, 1.0])]),
    "complex numbers": (lambda z: np.abs(np.sum(z * z)) ** 2, [random(3) + 1j * random(3, seed=1)]),
    "an array as result": (lambda x: np.cumsum(np.sin(x)), [random(7)]),
    "a layer": (lambda x: np.mean(LAYER(x) ** 2), [random(5, 3)]),
    "values of a layer": (lambda w: np.mean(functad.functional_call(LAYER, w, POINTS[:3])), [functad.values_of(LAYER)]),
    "a loop that is one operation": (lambda x: functad.fori_loop(0, 30, lambda i, y: np.sin(y), x), [0.7]),
    "softmax": (lambda x: -functad.nn.log_softmax(x)[1], [random(4)]),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_functions_get_no_finding(name):
    f, args = HEALTHY[name]
    found = functad.doctor(f, *args)
    assert found.findings == ()
    assert found.healthy
    assert repr(found).startswith(f"{found.function}: nothing found")
    assert "compiling; batching" in " ".join(repr(found).split())


def test_programs_of_the_benchmarks_are_healthy(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    programs = importlib.import_module("tests.benchmarks.programs").PROGRAMS
    functions = importlib.import_module("tests.benchmarks.functad_programs").FUNCTIONS
    for name in ("logistic", "mixture", "network"):
        found = functad.doctor(functions[name], *programs[name].arguments(), argnums=programs[name].argnums)
        assert found.findings == (), name


# Sick ones

GENERATOR = np.random.default_rng(1)


@functad.custom_vjp
def wrong_rule(x):
    return np.sin(x)


wrong_rule.defvjp(lambda x: (np.sin(x), x), lambda x, g: (g * np.sin(x),))


def small_angle(x):
    c = np.cos(x)
    return np.sum((1 - c) / x**2)  # here


def variance(x):
    return np.mean(x**2) - np.mean(x) ** 2  # here


def hilbert(scale):
    i = np.arange(12.0)
    return np.sum(np.linalg.solve(scale / (i[:, None] + i + 1), np.sin(i)))  # here


def distance(x):
    squares = x * x
    return np.sqrt(np.sum(squares) - np.sum(squares))


SICK = {
    "a corner": (lambda x: np.sum(np.abs(x)), [np.array([0.0, 1.0])], "warning", "kinks", r"1 of 2 .* kink of np.abs"),
    "a tie": (lambda x: np.sum(np.maximum(x, 0)), [np.zeros(2)], "warning", "kinks", r"2 of 2 .* kink of np.maximum"),
    "equal largest": (lambda x: np.max(x), [np.ones(3)], "warning", "kinks", "kink of np.max"),
    "a bound": (lambda x: np.sum(np.clip(x, 0, 1)), [np.array([0.5, 1.0])], "warning", "kinks", "kink of np.clip"),
    "a step": (lambda x: np.sum(x * np.floor(x)), [np.array([0.5, 2.0])], "warning", "kinks", "jump of np.floor"),
    "a hair": (lambda x: np.where(x > 1, 2 * x, x), [1 + 1e-9], "warning", "kinks", "np.greater decides it by less than"),
    "cancellation": (small_angle, [np.array([1e-7, 2e-7])], "warning", "precision", "np.subtract of numbers that nearly agree"),
    "a bad matrix": (hilbert, [1.0], "warning", "precision", r"np.linalg.solve of a matrix with condition number \de\+1\d"),
    "a nearly singular one": (
        lambda a: np.sum(np.linalg.inv(a)), [np.array([[1, 1], [1, 1 + 1e-11]])], "warning", "precision", "condition number 4e"
    ),
    "single precision": (variance, [(1000 + 0.1 * random(50)).astype(np.float32)], "warning", "precision", "single"),
    "mixed precision": (lambda x: np.sum(x * np.ones(3)), [np.ones(3, np.float32)], "note", "precision", "makes float64"),
    "overflow": (lambda x: np.sum(1 / (1 + np.exp(-x))), [np.array([-800.0, 1.0])], "note", "overflow", "np.exp .* 1 of 2"),
    "overflow of a ratio": (
        lambda x: np.sum(1 / (1 + x / 1e-300)), [np.array([1e10, 1.0])], "note", "overflow", "np.divide .* 1 of 2"
    ),
    "a divisor near zero": (
        lambda x: np.sum(1 / (x - 1)), [np.array([1 + 1e-11, 2.0, 3.0])], "note", "division", "near zero, down to 1e-11"
    ),
    "not used": (lambda p: p["a"] ** 2, [{"a": 1.0, "b": 2.0}], "warning", "arguments", r"args\[0\]\['b'\] .* not used"),
    "cut": (lambda x: np.sum(np.round(x) + 0.25), [np.array([0.3, 0.7])], "warning", "arguments", "cut by np.round"),
    "partly cut": (lambda x: np.sum(x + np.floor(x)), [np.array([0.3, 0.7])], "note", "arguments", "cut by np.floor"),
    "dead": (lambda x: np.sum(np.maximum(x - 10, 0)), [np.ones(2)], "note", "arguments", "exactly zero here: .*np.maximum"),
    "integers": (lambda n: n * 1.0, [3], "error", "differentiating", r"args\[0\] is int"),
    "integers beside": (lambda p: p["n"] * p["x"], [{"n": np.arange(3), "x": 2.0}], "warning", "arguments", "array of int64"),
    "not a number": (distance, [np.ones(2)], "error", "not finite", "born in the derivative of sqrt"),
    "infinite": (lambda x: np.sqrt(x), [0.0], "error", "not finite", "infinity"),
    "a branch": (lambda x: x * x if x > 0 else -x, [2.0], "note", "compiling", "bool.* of a Tensor"),
    "a branch, batched": (lambda x: x * x if x > 0 else -x, [2.0], "note", "batching", "bool.* of a Tensor"),
    "random numbers": (lambda x: np.sum(x * np.random.rand(3)), [np.ones(3)], "note", "random", "with other numbers"),  # noqa: NPY002
    "a generator": (lambda x: np.sum(x * GENERATOR.random(3)), [np.ones(3)], "note", "random", "with other numbers"),
    "a wrong rule": (lambda x: wrong_rule(x), [0.7], "warning", "gradient", "wrong_rule has a derivative rule of its own"),
    "a part that is stopped": (
        lambda x: np.sum(x * functad.stop_gradient(x)), [np.ones(3)], "note", "gradient", "since stop_gradient"
    ),
    "a loop": (lambda x: [x := np.sin(x) for _ in range(1000)][-1], [0.3], "note", "loops", "records 1000 operations"),
    "a conversion": (lambda x: float(x) * 2, [2.0], "error", "differentiating", "float.* of a Tensor"),
    "no array": (lambda x: "text", [2.0], "error", "differentiating", "result is a str"),
    "an error": (lambda x: x[3], [np.ones(2)], "error", "differentiating", "IndexError: index 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", SICK)
def test_each_sickness_has_its_finding(name):
    f, args, severity, check, text = SICK[name]
    found = functad.doctor(f, *args)
    matching = [finding for finding in found.findings if finding.check == check]
    assert matching, found
    assert matching[0].severity == severity
    assert re.search(text, matching[0].message), matching[0].message
    assert matching[0].advice
    others = {finding.check for finding in found.findings if finding.severity != "note"} - {check}
    assert others == set(), found  # one sickness, and no other
    assert found.healthy == (severity == "note")
    assert max(map(len, repr(found).splitlines())) <= 80


@pytest.mark.parametrize("f", [small_angle, variance, hilbert])
def test_lost_digits_are_told_with_their_line(f):
    args = {small_angle: np.array([1e-7, 2e-7]), variance: (1000 + 0.1 * random(50)).astype(np.float32), hilbert: 1.0}
    [finding] = functad.doctor(f, args[f]).of("warning")
    assert finding.code.endswith("# here")
    number = f.__code__.co_firstlineno
    assert number < int(finding.line.rpartition(":")[2]) <= number + 3


def test_the_line_of_a_branch_is_that_of_the_user():
    def branching(x):
        y = x * 2
        return y if y > 3 else x

    compiling, batching = functad.doctor(branching, 2.0).findings
    assert compiling.code == batching.code == "return y if y > 3 else x"
    assert compiling.line.endswith(f"{Path(__file__).name}:{branching.__code__.co_firstlineno + 2}")


def test_each_branch_that_a_value_decides_is_told():
    v = functad.Variable(2.0)

    def wandering(x, n):
        total = 0.0 if v > 1 else v * 1.0  # 2
        for i in range(n):
            if x[i] > 0:  # 4
                total = total + x[i] * v
            elif np.all(x < 10):  # 6
                total = total - x[i] ** 2
        while total > 1:  # 8
            total = total / 2
        if n > 2:
            total = total * 2
        return total * x[int(functad.stop_gradient(total) * 2) % 2]  # 12

    found = functad.doctor(wandering, np.array([1.0, 2.0, -3.0]), 3).findings
    assert {finding.severity for finding in found} == {"note"}
    first = wandering.__code__.co_firstlineno - 1
    lines = [(f.check, int(f.line.rpartition(":")[2]) - first) for f in found if f.check in ("compiling", "branches")]
    assert lines == [("compiling", 2), ("branches", 4), ("branches", 6), ("branches", 8), ("branches", 12)]
    messages = [finding.message + finding.advice for finding in found if finding.check == "branches"]
    assert all("decided by a value" in text and "functad.cond" in text for text in messages[:3])
    assert "by int()" in messages[3]


def test_branches_that_no_value_decides_are_not_told():
    def quiet(x, n):
        y = x.reshape(-1)
        return np.sum(y * n) if y.size > 1 and n > 2 and x.dtype.kind == "f" else y[0]

    assert functad.doctor(quiet, np.ones(3), 3).findings == ()


def test_a_value_kept_from_an_earlier_call_is_a_wrong_gradient():
    kept = {}

    def f(x):
        key = float(np.round(functad.stop_gradient(x), 6))
        return kept.setdefault(key, 1.0) * x * functad.stop_gradient(x)

    assert [finding.check for finding in functad.doctor(f, 0.7).findings if finding.check == "gradient"] == ["gradient"]


def test_registered_wrong_rules_are_errors():
    from functad.expressions.spec import spec_of
    from functad.primitives.entry import ENTRIES
    from functad.primitives.kinds import elementwise

    def hyperbolic(x):
        return ENTRIES[hyperbolic](x) if isinstance(x, functad.Tensor) else np.sinh(x)

    elementwise(hyperbolic, lambda g, x: g * np.sinh(x), spec=spec_of, doc="cosh' in place of sinh'")
    try:
        [finding] = functad.doctor(lambda x: np.sum(hyperbolic(x) ** 2), np.array([0.3, 0.8]), argnums=0).of("error")
    finally:
        del ENTRIES[hyperbolic]
    assert finding.check == "gradient"
    assert "differences" in finding.message


def test_nothing_of_the_users_changes():
    generator = np.random.default_rng(0)
    state, x, average = generator.bit_generator.state, np.ones(3), functad.Variable(np.zeros(3), trainable=False)

    def f(x, generator):
        x *= 2.0
        average.assign(average + 1.0)
        return np.sum(x * generator.normal(size=3))

    found = functad.doctor(f, x, generator)
    assert found.healthy
    assert (x == 1).all()
    assert (average.numpy() == 0).all()
    assert generator.bit_generator.state == state
    assert "random" not in {finding.check for finding in found.findings}  # the generator is an argument


def test_warnings_of_the_function_are_not_repeated(recwarn):
    functad.doctor(lambda x: np.sum(np.where(x > 0, np.log(x), 0)), np.array([1.0, -2.0]))
    assert len(recwarn) == 0


def test_long_lists_are_not_compiled(monkeypatch):
    monkeypatch.setattr(module, "TOO_MANY", 3)
    found = functad.doctor(lambda x: np.sum(np.sin(np.cos(np.exp(x)))), np.ones(2))
    assert "compiling and batching, which take long with 4 operations" in found.left_out[-1]


def test_a_notebook_sees_a_table():
    found = functad.doctor(lambda p: np.abs(p["a"]), {"a": 0.0, "b": 1.0})
    page = ET.fromstring(found._repr_html_())
    [body] = page.iter("tbody")
    assert len(body) == len(found.findings) == 2
    assert [row[0][0].get("class") for row in body] == ["ftd-orange", "ftd-orange"]
    assert "nothing found" in functad.doctor(lambda x: x * x, 2.0)._repr_html_()
