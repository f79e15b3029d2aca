"""Digests of expression lists: equal for equal lists, in all processes, and different for different ones."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import functad
from functad import digest
from tests.expressions.test_pickling import LISTS, X

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
if {early}:
    import functad.optimize, functad.control.loops, functad.control.scan
from tests.expressions.test_pickling import LISTS, X
from functad.expressions.digest import digest
import functad
for name, f in LISTS.items():
    print(name, digest(functad.make_expressions(f)(X)))
"""


def made(f, *args):
    return functad.make_expressions(f)(*args)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_made_again_or_copied_has_the_same_digest(name):
    first = made(LISTS[name], X)
    again = pickle.loads(pickle.dumps(first))
    assert digest(made(LISTS[name], X + 1)) == digest(first) == digest(again) == digest(copy.deepcopy(first))
    assert (first == again) <= (hash(first) == hash(again))


def test_digests_do_not_depend_on_the_process():
    found = []
    for seed, early in ("1", False), ("2", True):
        command = [sys.executable, "-c", PROGRAM.format(early=early)]
        run = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=ROOT, env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        )
        found.append(run.stdout)
    assert found[0] == found[1]
    assert dict(line.split() for line in found[0].splitlines()) == {name: digest(made(f, X)) for name, f in LISTS.items()}


def weigh(factor):
    return lambda x: np.sum(x * factor)


DIFFERENT = {
    "primitive": (np.sin, np.cos),
    "constant": (weigh(2.0), weigh(3.0)),
    "sign of zero": (weigh(0.0), weigh(-0.0)),
    "weak constant": (weigh(2.0), weigh(np.float64(2.0))),
    "array": (weigh(np.array([1.0, 2.0, 3.0])), weigh(np.array([1.0, 2.0, 4.0]))),
    "array's dtype": (weigh(np.array([1.0, 2.0, 3.0])), weigh(np.array([1.0, 2.0, 3.0], np.float32))),
    "parameter": (lambda x: np.sum(x, axis=0), lambda x: np.sum(x, axis=0, keepdims=True)[0]),
    "index": (lambda x: x[0:2], lambda x: x[1:3]),
    "order of inputs": (lambda x: x - np.sin(x), lambda x: np.sin(x) - x),
    "structure": (lambda x: (x, x), lambda x: [x, x]),
    "keys": (lambda x: {"a": x}, lambda x: {"b": x}),
    "body": (
        lambda x: functad.scan(lambda c, r: (c * r, c), 1.0, x)[1],
        lambda x: functad.scan(lambda c, r: (c + r, c), 1.0, x)[1],
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_lists_have_different_digests(name):
    first, second = (digest(made(f, X)) for f in DIFFERENT[name])
    assert first != second


def test_shapes_and_dtypes_are_part_of_it():
    found = [made(np.sin, x) for x in (X, X[:2], X.astype(np.float32), 1.0, np.float64(1.0))]
    assert len(set(map(digest, found))) == len(found)


def ruled_by(factor):
    @functad.custom_vjp
    def f(x):
        return factor * x

    f.defvjp(lambda x: (f(x), None), lambda kept, g: (factor * g,))
    return f


def test_functions_with_rules_are_told_by_their_code_and_what_they_close_over():
    first, same, other = (digest(made(ruled_by(factor), X)) for factor in (2.0, 2.0, 3.0))
    assert first == same != other


def test_globals_that_only_an_inner_function_reads_are_part_of_it():
    rules = "lambda x: sum([(lambda a: a * SCALE)(v) for v in (x,)]), lambda g, x: g * SCALE"
    source = f"import functad\ndouble = functad.primitive({rules})"
    found = set()
    for scale in (2.0, 3.0):
        space = {"SCALE": scale, "__name__": "rules"}
        exec(source, space)
        found.add(digest(made(space["double"], 1.0)))
    assert len(found) == 2


def test_what_has_no_digest_says_so():
    with pytest.raises(functad.errors.UnsupportedError, match="the same in no other process"):
        made(functad.grad(lambda x: digest(made(lambda y: x * y, 1.0)) and x), 2.0)
