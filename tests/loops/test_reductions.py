"""Reductions of the loop IR: the node, its check, and the accumulators, blocks and stores that replace it."""

import numpy as np
import pytest

from functad.loops.build import Code
from functad.loops.ir import Function, MalformedError, Reduce, check, walk
from functad.loops.reductions import combined, lowered, start_of
from tests.loops.evaluate import Address, Buffer, Evaluator


def nest(shape, how, kind, axes, *, n=1):
    """Return the code of a reduction of `n` equal copies of a C-contiguous array of a shape."""
    code = Code(fused=True)
    x, out = [code.constant(0, "ptr") for _ in range(2)]
    x.name, out.name = "%x", "%out"
    strides, own, step = [], [], 1
    for length in reversed(shape):
        strides.insert(0, step)
        step *= length
    step = 1
    for axis in reversed(range(len(shape))):
        own.insert(0, 0 if axis in axes else step)
        step *= 1 if axis in axes else shape[axis]

    def level(index):
        if len(index) == len(shape):
            value = code.load(x, code.linear(index, strides), kind)
            for _ in range(n):
                code.reduce(how, out, code.linear(index, own), value)
            return
        with code.loop(0, shape[len(index)], straight=len(index) + 1 == len(shape)) as i:
            level([*index, i])

    level([])
    return code


def function(code):
    return Function("@f", (("ptr", "%x"), ("ptr", "%out")), (*code.entry, *code.nodes))


@pytest.mark.parametrize("how", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_lowered_nests_have_no_reductions_and_are_well_formed(how, axes):
    for shape in ((3, 5, 7), (4, 2, 600), (600, 3, 20)):
        code = nest(shape, how, "double", axes)
        check(function(code))
        lowered(code)
        found = function(code)
        check(found)
        assert not any(isinstance(node, Reduce) for node in walk(found.body))


@pytest.mark.parametrize("how", ["sum", "prod", "max", "min"])
def test_lowered_nests_equal_numpy(how):
    for shape, axes in [
        ((3, 5, 7), (1,)),
        ((3, 5, 7), (0, 2)),
        ((3, 5, 7), (1, 2)),
        ((2, 300), (1,)),
        ((20, 17), (0,)),
        ((40, 17), (0, 1)),
    ]:
        x = np.random.default_rng(0).uniform(0.5, 1.5, shape)
        x[..., -1] *= -1
        code = nest(shape, how, "double", axes)
        lowered(code)
        expected = getattr(np, how)(x, axis=axes)
        out = np.full(expected.size + 1, 9.0)
        own = function(code)
        addresses = [Address(Buffer(0, array.ravel().view(np.uint8))) for array in (x, out)]
        Evaluator({own.name: own}, {}).call(own.name, *addresses)
        np.testing.assert_allclose(out[:-1], expected.ravel(), rtol=1e-14)
        assert out[-1] == 9.0


def test_products_in_order():
    """In NumPy's order no partial product leaves the range; a fast product of all elements would."""
    x = np.ravel([[1e-200] * 24, [1e200] * 24], order="F")
    code = nest(x.shape, "prod", "double", (0,))
    lowered(code)
    out, own = np.zeros(1), function(code)
    addresses = [Address(Buffer(0, array.view(np.uint8))) for array in (x, out)]
    with np.errstate(all="ignore"):
        Evaluator({own.name: own}, {}).call(own.name, *addresses)
    assert out[0] == np.multiply.reduce(x) != 0.0


def test_the_text_of_a_reduction():
    text = str(function(nest((3, 5), "sum", "double", (1,))))
    assert "out[i1] = sum of " in text


def test_an_unknown_reduction_is_malformed():
    code = nest((3, 5), "sum", "double", (1,))
    code.nodes.append(Reduce("mean", "double", "%out", "0", "0x0000000000000000"))
    with pytest.raises(MalformedError, match="no reduction mean"):
        check(function(code))


def test_a_reduction_that_one_iteration_completes_is_a_store():
    code = nest((30, 40), "sum", "double", (), n=3)
    lowered(code)
    text = str(function(code))
    assert "on the stack" not in text
    assert text.count("] = ") == text.count("out[") == 1


def test_long_sums_have_blocks_and_short_ones_do_not():
    for n, blocks in ((100, 0), (1000, 1)):
        code = nest((n,), "sum", "double", (0,))
        lowered(code)
        assert str(function(code)).count("step 256") == blocks


@pytest.mark.parametrize("kind", ["double", "float", "i64", "i32", "i1"])
def test_starts_are_neutral(kind):
    code = Code(fused=True)
    for how in ("max", "min", "any", "all", "sum", "prod"):
        if how in ("any", "all") and kind != "i1":
            continue
        value = combined(how, code.constant(start_of(how, kind), kind), code.constant(1, kind))
        assert value.kind == kind
    assert np.isfinite(start_of("max", "i64"))


def test_sums_over_separate_axes_are_as_accurate_as_sums_over_one():
    code = nest((2, 3, 20_000), "sum", "double", (0, 2))
    lowered(code)
    text = str(function(code))
    assert "step 256" in text
    assert text.count("out[") == 3  # cleared, and added to after the innermost loop
