"""Tensors, Variables and modules as notebooks and terminals show them."""

import functools

import numpy as np
import pytest

import functad
from functad import GradientTape, Module, Variable, nn

from .structure import fits, structure


def shown_within(transform, f, *args):
    """Return the display and the text of a Tensor that a function meets under a transform."""
    found = []

    def watched(*given):
        out = f(*given)
        found.append((out._repr_html_(), repr(out)))
        return np.sum(out)

    transform(watched)(*args)
    return found[-1]


def test_tensor_of_a_transform_tells_value_dtype_shape_bytes_and_line():
    markup, text = shown_within(functad.grad, lambda x: x * 2, np.arange(6.0).reshape(2, 3))
    found = structure(markup)
    assert found.text.startswith(
        "Tensor · float64 · (2, 3) · 48 B [[ 0. 2. 4.] [ 6. 8. 10.]] Followed by grad of shown_within.watched."
    )
    assert "test_tensors.py:" in found.text
    assert text == "Tensor(array([[ 0.,  2.,  4.],\n              [ 6.,  8., 10.]]))"


def test_names_of_functions_are_escaped():
    found = []
    functad.grad(lambda x: (found.append(x._repr_html_()), x * x)[1])(3.0)
    assert "escaped.&lt;lambda&gt;." in found[0]
    structure(found[0])


def test_tensor_of_several_levels_names_each():
    found = []

    def outer(x):
        def inner(y):
            found.append((x * y)._repr_html_())
            found.append(repr(x * y))
            return x * y

        return functad.grad(inner)(x)

    functad.grad(outer)(3.0)
    assert "grad of" in found[0]
    assert "inner." in found[0]
    assert "outer." in found[0]
    assert found[1] == "Tensor(Tensor(9.0))"


def test_abstract_tensors_have_no_value():
    markup, text = shown_within(functad.make_expressions, lambda x: x * 2, np.ones((4, 3)))
    assert structure(markup).text.startswith("Tensor · float64 · (4, 3) · 96 B Of make_expressions of")
    assert text == "Tensor(float64[4,3])"


def test_tensor_of_a_batch_is_one_of_the_examples():
    markup, _ = shown_within(functad.vmap, lambda x: x * 2, np.ones((7, 3)))
    assert "float64 · (3,)" in structure(markup).text
    assert ": one of 7 examples." in structure(markup).text


def test_tensor_that_has_left_its_transform_says_so():
    kept = []
    functad.grad(lambda x: (kept.append(x * 2), x * 2)[1])(3.0)
    assert "which has ended" in structure(kept[0]).text
    assert repr(kept[0]) == "Tensor(6.0)"


def test_showing_records_nothing_and_changes_no_tape():
    x = functad.constant(np.arange(4.0))
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * 2
        view = y[1:]
        y[2] = 7.0  # `view` is to be read anew
        before = tape.stats()
        shown = structure(view), repr(view), structure(y), repr(y), repr(tape)
        assert tape.stats() == before
    assert shown[0].text.startswith("Tensor · float64 · (3,) · 24 B [2. 7. 6.]")
    assert shown[1] == "Tensor(array([2., 7., 6.]))"
    assert tape.gradient(view, x).numpy().tolist() == [0.0, 2.0, 0.0, 2.0]


def test_showing_a_stale_view_in_an_abstract_trace_records_nothing():
    found = []

    def f(x, shows):
        y = x * 2
        view = y[1:]
        y[1] = 5.0
        if shows:
            found.append((repr(view), structure(view).text))
        return np.sum(y)

    lists = [repr(functad.make_expressions(functools.partial(f, shows=shows))(np.ones(3))) for shows in (True, False)]
    assert lists[0] == lists[1]
    assert found[0][0] == "Tensor(float64[2])"
    assert "float64 · (2,)" in found[0][1]


def test_followed_and_left_tensors_of_tapes():
    x = Variable([1.0, 2.0])
    with GradientTape(persistent=True):
        y = x * 2
        assert "Followed by a GradientTape that records." in structure(y).text
    assert "Of a GradientTape that records no more." in structure(y).text
    assert "A constant: no transform and no tape follows it." in structure(functad.constant(1.0)).text


def test_tensors_of_dask_are_not_computed():
    da = pytest.importorskip("dask.array")  # the extra `dask`

    def refuse(block):
        raise AssertionError("computed")

    lazy = da.ones(4, chunks=2).map_blocks(refuse, dtype=float, meta=np.zeros(0))
    found = []
    functad.vjp(lambda x: (found.append((repr(x * 2), (x * 2)._repr_html_())), np.sum(x))[1], lazy)
    assert found[0][0].startswith("Tensor(dask.array<")
    assert "dask.array<" in structure(found[0][1]).text


@pytest.mark.parametrize("value", [np.random.default_rng(0).normal(size=(40, 30)), np.arange(30.0) / 7, np.float32(1) / 3])
def test_texts_fit_in_80_columns(value):
    assert fits(repr(functad.constant(value)))
    assert fits(repr(Variable(value, name="v")))


def test_variable_tells_name_and_whether_it_is_trained():
    v = Variable(np.ones((2, 3), np.float32), name="<w>")
    found = structure(v)
    assert found.text.startswith("Variable <w> · float32 · (2, 3) · 24 B · trainable [[1. 1. 1.]")
    assert "· not trainable" in structure(Variable(3)).text


def test_variable_with_a_given_value_says_so():
    model = nn.Dense(1, inputs=1)
    found = []

    class Shows(Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def __call__(self, x):
            found.append(model.kernel._repr_html_())
            return np.sum(self.model(x))

    holder = Shows()
    functad.grad(lambda values: functad.functional_call(holder, values, np.ones((2, 1))))(
        {"model/kernel": np.full((1, 1), 5.0)}
    )
    assert "[[5.]]" in structure(found[0]).text
    assert "functional_call has given it this value" in structure(found[0]).text
    assert "functional_call" not in structure(model.kernel).text


class Block(Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Dense(4, inputs=4, name="inner")
        self.scale = Variable(np.ones(4), name="scale")


class Net(Module):
    def __init__(self):
        super().__init__()
        self.blocks = [Block(), Block()]
        self.count = Variable(3, name="count")
        self.blocks[1].trainable = False


def test_module_shows_its_variables_and_folds_the_modules_in_it():
    found = structure(Net())
    assert found.text.startswith("Net · net · 7 Variables of 49 numbers, 392 B, 24 trainable")
    assert found.rows[1] == ["count", "int64", "()", "1", "8 B", "not trainable", "3"]
    assert found.summaries == [
        "blocks/0 Block · 3 Variables of 24 numbers, 192 B",
        "inner Dense · 2 Variables of 20 numbers, 160 B",
        "blocks/1 Block · 3 Variables of 24 numbers, 192 B, 0 trainable · frozen",
        "inner Dense · 2 Variables of 20 numbers, 160 B, 0 trainable · frozen",
    ]
    assert [row[0] for row in found.rows].count("kernel") == 2
    assert structure(Module()).rows == []


def test_module_as_text_fits():
    assert fits(repr(Net()))
    model = Module()
    model.parts = {"a_long_name_of_a_layer" * 3: Variable(np.ones((100, 200, 300)), trainable=False)}
    assert fits(repr(model))
    model.parts = [Variable(0.0) for _ in range(1000)]
    assert repr(model).splitlines()[-1] == "  ... and 800 more"
