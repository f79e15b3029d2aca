"""The machine code of LLVM gives the results of an evaluation node by node."""

import numpy as np
import pytest

import functad

pytest.importorskip("llvmlite", reason="the backend llvm needs llvmlite, of the extra `jit`")

from functad.backends.llvm.ufunc import compile_ufunc
from functad.loops.elementary.table import ELEMENTARY, called, definition
from functad.loops.ir import check
from tests.loops.evaluate import Address, Buffer, Evaluator

HEADER = object.__basicsize__


def as_argument(array):
    """Return the address of an array object whose data are the bytes of `array`."""
    array_object, data = Buffer(HEADER + 8), Buffer(0, array.reshape(-1).view(np.uint8))
    array_object.addresses[HEADER] = Address(data)
    return Address(array_object)


def evaluated(function, *arrays):
    """Return the results of the only native function of a compiled function, evaluated node by node, and the evaluator."""
    program = functad.jit(function, backend="llvm").lower(*arrays).compile().program
    [step], module = program._steps, program._module
    functions = {own.name: own for own in module.functions}
    definitions = list(module.definitions.values())
    for name, kind in module.called.values():
        definitions += called(name, kind, fused=True)
    functions |= {own.function.name: own.function for own in definitions}
    tables = module.tables | {table.name: table for own in definitions for table in own.tables}
    for own in functions.values():
        check(own)
    results = [np.empty(p.spec.shape, p.spec.dtype) for p in step.outputs]
    given = []
    for parameter in step.inputs:
        value = arrays[parameter.source] if type(parameter.source) is int else parameter.source.value
        given.append(parameter.spec.dtype.type(value) if parameter.by_value else as_argument(np.ascontiguousarray(value)))
    extra = [
        as_argument(np.zeros(max(size, 1), np.uint8)) for size in (step.space, 32 * (step.code.refused is not None)) if size
    ]
    evaluator = Evaluator(functions, tables)
    with np.errstate(all="ignore"):
        evaluator.call(f"@{step.name}", *given, *map(as_argument, results), *extra)
    whole = {parameter.source: result for parameter, result in zip(step.outputs, results, strict=True)}
    numbers = {s: results[array].reshape(-1)[place] for s, (array, place) in step.places.items()}
    return [numbers[s] if s in numbers else whole[s] for s in step.results], evaluator


def _grow(x):
    return functad.while_loop(lambda v: np.sum(v) < 50.0, lambda v: v * 1.5 + np.abs(x), x)


X, Y = np.linspace(-1.5, 2.0, 12), np.linspace(0.2, 3.0, 12)
PROGRAMS = {
    "formula": (lambda x, y: np.sin(x) * y + np.where(x > 0, np.exp(-y), x / y), (X, Y)),
    "sums": (lambda x, y: np.sum(np.tanh(x) * y), (np.tile(X, 50), np.tile(Y, 50))),
    "matrix": (lambda x, y: np.max(x.reshape(3, 4) * y.reshape(3, 4).sum(axis=1, keepdims=True), axis=0), (X, Y)),
    "product": (lambda x, y: x.reshape(3, 4) @ y.reshape(4, 3), (X, Y)),
    "prod": (lambda x, y: np.prod(x * y), (np.tile(X, 3), np.tile(Y, 3))),
    "integers": (lambda x, y: np.floor(x * 4).astype(int) % 3 + (y * 7).astype(int) // 2, (X, Y)),
    "scan": (lambda x, y: functad.scan(lambda c, row: (c * 0.9 + row, np.sin(c)), x, np.outer(y, y))[0], (X, Y)),
    "while": (lambda x, y: _grow(x) + y, (X, Y)),
    "while gradient": (functad.grad(lambda x, y: np.sum(_grow(x) * y)), (np.abs(X) + 0.1, Y)),
    "float32": (lambda x, y: np.log(x * x + 1) - np.cos(y), (X.astype(np.float32), Y.astype(np.float32))),
    "gradient": (functad.grad(lambda x, y: np.mean(np.tanh(x.reshape(3, 4)) @ y[:4])), (X, Y)),
    "running sums": (lambda x, y: np.cumsum(x * y), (X, Y)),
    "powers": (lambda x, y: np.power(y, x) + np.hypot(x, y), (X, Y)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_native_code_computes_what_the_nodes_mean(name):
    function, arrays = PROGRAMS[name]
    found, _ = evaluated(function, *arrays)
    expected = functad.jit(function, backend="llvm")(*arrays)
    plain = function(*arrays)
    tolerance = 1e-5 if arrays[0].dtype == np.float32 else 1e-12
    for value, native, numpy in zip(found, *[v if isinstance(v, tuple) else (v,) for v in (expected, plain)], strict=True):
        np.testing.assert_allclose(value, np.asarray(native).reshape(np.shape(value)), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(value, np.asarray(numpy).reshape(np.shape(value)), rtol=tolerance, atol=tolerance)


def test_a_wrong_node_is_found():
    """The comparison sees one changed operation."""
    function, arrays = PROGRAMS["formula"]
    found, evaluator = evaluated(function, *arrays)
    assert {"For", "Load", "Store", "mul", "select"} <= evaluator.used
    assert not np.allclose(found[0], function(*arrays) * (1 + 1e-9), rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_are_functions_of_the_loop_ir(name, kind):
    row = ELEMENTARY[name]
    parts = [definition(name, kind, fused=True), *called(name, kind, fused=True)]
    functions = {own.function.name: own.function for own in parts}
    for own in functions.values():
        check(own)
    evaluator = Evaluator(functions, {table.name: table for own in parts for table in own.tables})
    number = {"double": np.float64, "float": np.float32}[kind]
    native = compile_ufunc(name, number)
    for values in [(0.3, 0.7), (0.9, -0.4), (2.5, 1.5), (-0.8, 2.0)]:
        given = [number(value) for value in values[: row.arguments]]
        with np.errstate(all="ignore"):
            found = [evaluator.call(own.function.name, *given) for own in (parts[0], parts[-1])]
        expected = native(*given)
        np.testing.assert_allclose(found, [expected] * 2, rtol=3e-16 if kind == "double" else 2e-7, atol=0)
