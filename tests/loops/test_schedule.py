"""The schedule of loop nests gives equal results, node by node and as machine code, and changes the nests that it should."""

import ctypes
import itertools

import numpy as np
import pytest

from functad.loops import schedule
from functad.loops.build import Code
from functad.loops.ir import For, Function, Load, Store, check, walk
from functad.loops.schedule import accesses_of, flattened, may_exchange, nest_of, scheduled
from functad.loops.values import Value
from tests.loops.evaluate import Address, Buffer, Evaluator

SIZE = 400
"""The length of each buffer."""


def nest(lengths, reads, target, *, adds):
    """Return the function of a nest that stores, or adds, the sum of elements of `a` and `b` in `b` or `c`.

    A position is a buffer, a step per loop, and a constant term.
    """
    code = Code(fused=True)
    buffers = {name: Value(code, f"%{name}", "ptr") for name in "abc"}

    def level(index):
        if len(index) < len(lengths):
            with code.loop(0, lengths[len(index)], straight=len(index) + 1 == len(lengths)) as i:
                level([*index, i])
            return
        value = code.constant(0.5, "double")
        for number, (name, steps, first) in enumerate(reads):
            value = value * (0.75 + number) + code.load(buffers[name], code.linear(index, steps, first), "double")
        name, steps, first = target
        place = code.linear(index, steps, first)
        value = value + code.load(buffers[name], place, "double") if adds else value
        code.store(buffers[name], place, value)

    level([])
    return code.function("@nest", [("ptr", f"%{name}") for name in "abc"], local=True)


def drawn(seed):
    """Return a random nest."""
    rng = np.random.default_rng(seed)
    lengths = [int(n) for n in rng.integers(2, 6, rng.integers(2, 4))]
    strides = [int(np.prod(lengths[i + 1 :])) for i in range(len(lengths))]

    def place(name):
        steps = list(strides if rng.random() < 0.3 else rng.permutation(strides))
        if rng.random() < 0.4:
            steps[rng.integers(len(steps))] = int(rng.integers(0, 4))
        if rng.random() < 0.2:
            steps = [int(step) for step in rng.integers(0, 12, len(steps))]
        return name, [int(step) for step in steps], int(rng.integers(0, 8) * (rng.random() < 0.5))

    target = place("b" if rng.random() < 0.6 else "c")
    reads = [place("ab"[int(rng.random() < 0.5)]) for _ in range(rng.integers(1, 4))]
    if rng.random() < 0.5:  # a stencil: the steps of the target, at other elements
        reads.append((target[0], target[1], int(rng.integers(0, 30))))
    return nest(lengths, reads, target, adds=bool(rng.random() < 0.5))


def evaluated(function):
    """Return the buffers after a call, evaluated node by node."""
    arrays = [np.linspace(1.0, 2.0, SIZE) * (k + 1) for k in range(3)]
    Evaluator({function.name: function}, {}).call(
        function.name, *[Address(Buffer(0, array.view(np.uint8))) for array in arrays]
    )
    return arrays


def run(function):
    """Return the buffers after a call of the machine code."""
    module = pytest.importorskip("functad.backends.llvm.module")
    pytest.importorskip("llvmlite", reason="the emitter's text is compiled by llvmlite, of the extra `jit`")
    from functad.emitters.llvm import Text, joined

    machine = module.Machine(level=1)
    text = joined([Text(function._replace(local=False))]) + "\n!0 = distinct !{!0}"
    library = machine.loaded(machine.compiled(text), [function.name[1:]])
    arrays = [np.linspace(1.0, 2.0, SIZE) * (k + 1) for k in range(3)]
    library.function(function.name[1:], *[ctypes.c_void_p] * 3)(*[array.ctypes.data for array in arrays])
    return arrays


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let nests of any size be scheduled, with short strips."""
    monkeypatch.setattr(schedule, "LARGE", 1)
    monkeypatch.setattr(schedule, "STRIP", 2)
    monkeypatch.setattr(schedule, "LINE", 3)


@pytest.mark.parametrize("part", range(10))
def test_random_nests_compute_the_same(part):
    changed = 0
    for seed in range(40 * part, 40 * part + 40):
        function = drawn(seed)
        after = scheduled(function)
        check(after)
        changed += after != function
        for found, expected in zip(evaluated(after), evaluated(function), strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}\n{function}\n{after}")
    assert changed


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_machine_code_of_random_nests_computes_the_same(seed):
    function = drawn(seed)
    expected = evaluated(function)
    for own in (function, scheduled(function)):
        for found, value in zip(run(own), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-12)


def flat(function):
    """Return a function with merged and unrolled loops."""
    code = Code(fused=True)
    for _ in range(100):  # the names of the function
        code.fresh("i64")
    code.nodes = list(function.body)
    flattened(code)
    return function._replace(body=tuple(code.nodes))


def test_merged_and_unrolled_random_nests_compute_the_same(monkeypatch):
    changed = 0
    for seed in range(160):
        monkeypatch.setattr(schedule, "UNROLLED", seed % 5)
        function = drawn(seed)
        after = flat(function)
        check(after)
        changed += after != function
        for found, expected in zip(evaluated(after), evaluated(function), strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}\n{function}\n{after}")
    assert changed >= 30


def test_loops_that_all_arrays_traverse_alike_are_merged():
    function = nest([4, 5, 9], [("a", [45, 9, 1], 7), ("b", [9, 0, 1], 0)], ("c", [45, 9, 1], 0), adds=False)
    assert len(order(flat(function))) == 3
    function = nest([4, 5, 9], [("a", [45, 9, 1], 7)], ("c", [45, 9, 1], 0), adds=False)
    [loop] = flat(function).body
    assert (loop.first, loop.stop) == ("0", "180")
    function = nest([4, 5, 9], [("a", [45, 9, 1], 7), ("b", [9, 0, 0], 0)], ("c", [45, 9, 1], 0), adds=False)
    [outer] = flat(function).body
    [inner] = outer.body
    assert (outer.stop, inner.stop) == ("4", "45")


def test_short_innermost_loops_are_unrolled_and_share_operations():
    function = nest([50, 3], [("a", [1, 0], 0), ("b", [3, 1], 0)], ("c", [1, 50], 0), adds=False)
    [loop] = flat(function).body
    nodes = list(walk(loop.body))
    assert not any(isinstance(node, For) for node in nodes)
    loads = [node for node in nodes if isinstance(node, Load)]
    assert sorted(node.buffer for node in loads) == ["%a", "%b", "%b", "%b"]


def order(function):
    """Return the loops of a function, in the order of its text."""
    return [node.variable[1:] for node in walk(function.body) if isinstance(node, For)]


def test_the_loop_with_short_steps_becomes_the_innermost():
    function = nest([4, 5], [("a", [1, 4], 0)], ("c", [1, 4], 0), adds=False)
    [first, second] = order(function)
    assert order(scheduled(function)) == [second, first]


def test_arrays_that_disagree_are_read_in_strips():
    function = nest([8, 8], [("a", [1, 8], 0)], ("c", [8, 1], 0), adds=False)
    [first, second] = order(function)
    after = scheduled(function)
    assert order(after) == [f"{second}.strip", first, second]
    a, c = np.linspace(1.0, 2.0, SIZE)[:64].reshape(8, 8), evaluated(after)[2][:64].reshape(8, 8)
    np.testing.assert_array_equal(c, a.T + 0.375)


@pytest.mark.parametrize(
    ("lengths", "steps", "first", "expected"),
    [
        ([4, 5], [5, 1], 0, True),  # each element once
        ([4, 5], [5, 1], 6, False),  # one row and one column later, or two rows later and four columns earlier
        ([4, 5], [5, 1], 4, False),  # one row later, one column earlier
        ([4, 5], [5, 1], 5, True),  # one row later
        ([4, 5], [5, 1], 1, False),  # one column later, or a row later and four columns earlier
        ([4, 5], [1, 1], 0, False),
        ([4, 5], [0, 1], 0, True),
        ([4, 5], [0, 1], 2, False),
        ([4, 5], [0, 0], 0, False),
    ],
)
def test_legal_exchanges(lengths, steps, first, expected):
    function = nest(lengths, [("b", steps, first)], ("b", steps, 0), adds=False)
    loops = nest_of(function.body[0])
    found = may_exchange(loops[0], loops[1], loops, accesses_of(loops))
    assert found is expected
    assert not (found and _is_reversed(lengths, steps, first))


def _is_reversed(lengths, steps, first):
    """Return `True` if two accesses to an element change their order, by a look at all pairs of iterations."""
    every = list(itertools.product(*map(range, lengths)))
    for store, other in itertools.product(every, every):
        for gap in {0, first}:
            at, there = [int(np.dot(steps, index)) for index in (store, other)]
            if at == there + gap and (store[0] - other[0]) * (store[1] - other[1]) < 0:
                return True
    return False


def test_gathered_elements_and_calls_are_left_alone():
    loop = nest([4, 5], [("a", [1, 4], 0)], ("c", [1, 4], 0), adds=False)
    [outer] = loop.body
    [inner] = outer.body
    gathered = inner._replace(
        body=(Load("%g", "i64", "%a", inner.variable), *inner.body[:-1], Store("double", "%c", "%g", "0x0"))
    )
    function = Function("@nest", loop.parameters, (outer._replace(body=(gathered,)),))
    assert scheduled(function) == function
