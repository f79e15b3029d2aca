"""`make_expressions` and `eval_shape`: printing, checking, evaluating, tracing without values."""

import copy
import math
import pickle
import re

import numpy as np
import pytest

import functad
from functad import ArraySpec, errors


def test_printed_list():
    expressions = functad.make_expressions(lambda x: np.sum(np.sin(x) * x))(np.zeros(3))
    lines = [
        "{ lambda x:float64[3].",
        "  a:float64[3] = sin x",
        "  b:float64[3] = multiply a x",
        "  c:float64[] = sum b",
        "  return c }",
    ]
    assert repr(expressions).splitlines() == lines


def test_printing_of_constants_parameters_and_trees():
    def f(params, *, scale):
        return {"y": np.sum(params["w"] @ np.ones((3, 2), np.float32), axis=0) * scale + np.float32(0.5), "n": 7}

    expressions = functad.make_expressions(f)({"w": np.zeros((4, 3), np.float32)}, scale=2.0)
    text = repr(expressions)
    assert "lambda params['w']:float32[4,3] scale:float[]." in text
    assert "matmul params['w'] <float32[3,2]>" in text
    assert re.search(r"sum\[axis=\(?0,?\)?\]", text)
    assert "0.5:float32" in text
    assert re.search(r"return 7, [a-z]", text)


def test_names_do_not_collide():
    text = repr(functad.make_expressions(lambda a, b: np.sin(a) + b)(1.0, 2.0))
    assert "c:float64[] = sin a" in text
    assert "d:float64[] = add c b" in text


def test_evaluation_equals_the_function():
    def f(x, tree):
        return {"p": x @ tree["m"], "q": (np.exp(tree["s"]) * x, 3)}

    args = np.ones(2), {"m": np.arange(4.0).reshape(2, 2), "s": 0.5}
    expressions = functad.make_expressions(f)(*args).check()
    found, expected = expressions(*args), f(*args)
    np.testing.assert_array_equal(found["p"], expected["p"])
    np.testing.assert_array_equal(found["q"][0], expected["q"][0])
    assert found["q"][1] == 3
    with pytest.raises(errors.StructureError):
        expressions(np.ones(2))


def test_lists_can_be_differentiated_and_gradients_listed():
    def f(x):
        return np.sum(np.sin(x) * x)

    x = np.array([0.3, 1.0, -2.0])
    gradient = functad.make_expressions(functad.grad(f))(x).check()
    np.testing.assert_allclose(gradient(x), functad.grad(f)(x), rtol=1e-15)
    np.testing.assert_allclose(functad.grad(functad.make_expressions(f)(x))(x), functad.grad(f)(x), rtol=1e-15)
    hessian = functad.make_expressions(functad.jacobian(functad.grad(f)))(x).check()
    np.testing.assert_allclose(hessian(x), functad.jacobian(functad.grad(f))(x), rtol=1e-15)


def test_jacobian_through_elements_and_maxima():
    def f(x):
        return np.stack([x[0] * x[1], np.max(x) * np.sin(x[0]), np.log(x[1])])

    x = np.array([0.3, 1.5])
    found = functad.make_expressions(functad.jacobian(f))(x).check()
    np.testing.assert_allclose(found(x), functad.jacobian(f)(x), rtol=1e-15)
    np.testing.assert_allclose(functad.jacobian(functad.jacobian(f))(x).shape, (3, 2, 2))


def test_abstract_indices():
    expressions = functad.make_expressions(lambda x, i: x[i])(np.arange(4.0), np.array([1, 2])).check()
    np.testing.assert_array_equal(expressions(np.arange(4.0), np.array([3, 0])), [3.0, 0.0])


def test_outer_tensors_are_captured():
    def f(x):
        return functad.make_expressions(lambda y: x * y)(2.0)(2.0)

    assert functad.grad(f)(3.0) == 2.0


def test_immutable():
    expressions = functad.make_expressions(np.sin)(1.0)
    with pytest.raises(AttributeError, match="cannot be changed"):
        expressions.equations = ()
    with pytest.raises(AttributeError, match="cannot be changed"):
        functad.make_expressions(np.sin)(1.0).equations[0].inputs = ()
    with pytest.raises(AttributeError, match="cannot be changed"):
        del expressions.specs
    with pytest.raises(TypeError):
        functad.make_expressions(lambda x: np.sum(x))(np.ones(2)).equations[0].params["axis"] = 0


def test_lists_are_copied_and_specs_pickled():
    expressions = functad.make_expressions(lambda x: {"s": np.sum(np.sin(x) * 2.0)})(np.ones(3))
    for other in (
        copy.copy(expressions),
        copy.deepcopy(expressions.specs[0]),
        pickle.loads(pickle.dumps(expressions.specs[0])),
    ):
        assert repr(other) == repr(expressions if isinstance(other, type(expressions)) else expressions.specs[0])
    structure = pickle.loads(pickle.dumps(expressions.output_structure))
    assert structure == expressions.output_structure
    assert hash(structure) == hash(expressions.output_structure)
    assert structure != expressions.input_structure


def test_check_finds_faults():
    good = functad.make_expressions(lambda x: np.sin(x) * x)(np.ones(3))
    first, second = good.equations
    wrong_specs = (good.specs[0], ArraySpec((4,), np.dtype(float)), good.specs[2])
    wrong = type(first)(first.primitive, (0,), {}, (1,))
    cases = [
        (good.replace(equations=(second, first)), "reads slot 1 before it is made"),
        (good.replace(equations=(first, first)), "makes slot 1, which is taken"),
        (good.replace(outputs=(9,)), "returns slot 9"),
        (good.replace(equations=(wrong, second), specs=wrong_specs), "but the list says"),
    ]
    for bad, message in cases:
        with pytest.raises(errors.CheckError, match=message):
            bad.check()


def test_eval_shape():
    big = ArraySpec((10**6, 10**3), np.dtype(np.float32))
    found = functad.eval_shape(
        lambda a, x: {"y": np.tanh(a @ x), "n": np.sum(a, axis=1) > 0}, big, np.ones((10**3, 2), np.float32)
    )
    assert found == {"y": ArraySpec((10**6, 2), np.dtype(np.float32)), "n": ArraySpec((10**6,), np.dtype(bool))}
    assert functad.eval_shape(lambda: 2.0) == ArraySpec((), np.dtype(float), weak=True)


def test_values_are_refused_with_the_cure():
    def branching(x):
        return x if x > 0 else -x

    with pytest.raises(errors.AbstractValueError, match=r"np\.where.*\[abstract-value\]") as caught:
        functad.make_expressions(branching)(1.0)
    assert "test_abstract.py" in str(caught.value)
    for convert in (float, int, bool, np.asarray):
        with pytest.raises(errors.AbstractValueError):
            functad.make_expressions(convert)(1.0)


def _choosing(x, order=1):
    return x if x > 0 else -x * order


def _repeating(x):
    while x < 3.0:
        x = 2.0 * x
    return x


@pytest.mark.parametrize(
    ("transform", "fixes"),
    [
        (lambda f: functad.jit(f, guards=False)(1.0), ("jit of", "functad.jit(f, static_argnames=...)")),
        (lambda f: functad.jit(functad.grad(f), guards=False)(1.0), ("jit of", "functad.jit(f, static_argnames=...)")),
        (lambda f: functad.make_expressions(f)(1.0), ("make_expressions of", "concrete values (grad, vjp, jvp)")),
    ],
)
def test_a_branch_names_the_condition_the_transform_and_the_fix(transform, fixes):
    for f, snippet, fix in ((_choosing, "`x > 0` at", "functad.cond"), (_repeating, "`x < 3.0` at", "functad.while_loop")):
        with pytest.raises(errors.AbstractValueError) as caught:
            transform(f)
        for part in (snippet, fix, f.__name__, *fixes):
            assert part in str(caught.value)
    assert ("np.where(condition, a, b)" in str(caught.value)) == (f is _choosing)
    assert functad.jit(lambda x, flag: _choosing(x) if flag else x, static_argnames="flag")(1.0, False) == 1.0


TABLE = np.array([3.0, 5.0, 8.0, 1.0])


def _written(place, value):
    y = np.zeros(3)
    y[place] = value
    return y


@pytest.mark.parametrize("transform", [lambda f: functad.make_expressions(f)(1), lambda f: functad.vmap(f)(np.array([1, 0]))])
@pytest.mark.parametrize(
    ("f", "cure"),
    [
        (lambda i: TABLE[i], r"Read from an array that takes Tensors as places: functad\.numpy\.array\(a\)\[t\]"),
        (lambda i: np.take(TABLE, i), r"functad\.numpy\.array\(a\)\[t\]"),
        (lambda i: np.take(TABLE, [0, i]), r"np\.stack\(\[t0, t1\]\) for each list of Tensors, or functions of functad\.numpy"),
        (lambda i: TABLE.take(i), r"functad\.numpy\.array\(a\)\[t\]"),
        (lambda i: [1.0, 2.0][i], r"functad\.numpy\.array\(a\)\[t\]"),
        (
            lambda i: TABLE[i : i + 2],
            r"A length must be known: functad\.numpy\.array\(a\)\[t \+ np\.arange\(n\)\] reads",
        ),
        (lambda i: np.array([i, 2 * i]), r"np\.stack\(\[t0, t1\]\)"),
        (lambda i: np.asarray(i), "Use t itself"),
        (lambda i: np.full(3, i), r"np\.broadcast_to\(t, shape\)"),
        (lambda i: TABLE.dot(i), "Use A @ t"),
        (lambda i: math.sin(i), "functions of np in place of those of math"),
        (lambda i: TABLE[i > np.arange(4)], r"Choose between values with np\.where"),
        (lambda i: _written(0, i), r"np\.zeros\(shape, like=t\)"),
        (lambda i: _written(i, 1.0), r"np\.zeros\(shape, like=t\)"),
    ],
)
def test_the_cure_is_for_what_the_line_does(f, cure, transform):
    with pytest.raises(errors.AbstractValueError, match=rf"test_abstract\.py:\d+.*{cure}"):
        transform(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda i: functad.numpy.array(TABLE)[i],
        lambda i: functad.numpy.array(TABLE)[i + np.arange(2)],
        lambda i: np.take(functad.numpy.array(TABLE), np.stack([0 * i, i])),
    ],
)
def test_the_cures_for_places_work(f):
    np.testing.assert_array_equal(functad.make_expressions(f)(1)(1), f(1))
    np.testing.assert_array_equal(functad.jit(f)(2), f(2))
    np.testing.assert_array_equal(functad.vmap(f)(np.array([1, 0])), [f(1), f(0)])


def test_bad_inputs_and_outputs_are_named():
    with pytest.raises(errors.InputError, match=r"p\['w'\]\[1\] is a str"):
        functad.make_expressions(lambda p: 0.0)({"w": [1.0, "x"]})
    with pytest.raises(errors.OutputError, match=r"result\[1\] is a str"):
        functad.make_expressions(lambda x: (x, "y"))(1.0)


def test_weak_scalars():
    assert functad.eval_shape(lambda x: x * 2 + 1, 1.0).weak
    assert functad.eval_shape(lambda x: np.ones(2, np.float32) * x, 1.0) == ArraySpec((2,), np.dtype(np.float32))
    assert functad.eval_shape(np.sin, 1.0) == ArraySpec((), np.dtype(float))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones(4), r"made for float64\[2\] as x was called with float64\[4\] there, at .*Make a list for this shape"),
        (np.ones(2, np.float32), r"made for float64\[2\] as x was called with float32\[2\] there, .*astype\('float64'\)"),
        (np.ones(2, int), r"called with int64\[2\] there"),
        (2.0, r"called with float\[\] there"),
        ("text", r"called with a str there"),
        ([1.0, 2.0], r"other arguments than it was made for \(x\), at .*should be a leaf, not a list of 2"),
    ],
)
def test_a_list_refuses_what_it_was_not_made_for(given, message):
    expressions = functad.make_expressions(lambda x: np.sum(x) / len(x))(np.ones(2))
    assert expressions(np.array([1.0, 3.0])) == 2.0
    with pytest.raises(functad.errors.StructureError, match=message):
        expressions(given)
    if isinstance(given, np.ndarray) and given.dtype.kind == "f":
        for transformed in (
            functad.grad(expressions),
            functad.jacobian(expressions),
            functad.vmap(expressions, None, axis_size=2),
        ):
            with pytest.raises(functad.errors.StructureError, match=message):
                transformed(given)


def test_a_list_takes_numbers_of_the_same_kind():
    strong = functad.make_expressions(lambda x: x * x)(np.float32(1.0))
    assert strong(2.0).dtype == strong(2).dtype == np.float32
    weak = functad.make_expressions(lambda x, y: x * y)(1.0, np.ones(2, np.float32))
    y = np.ones(2, np.float32)
    assert weak(2.0, y).dtype == weak(2, y).dtype == np.float32
    for wrong in (np.float64(2.0), 2j, True):  # NumPy would give another dtype
        with pytest.raises(functad.errors.StructureError, match=r"made for float\[\] as x .* pass float\(x\)"):
            weak(wrong, y)
    double = functad.make_expressions(lambda x: x * 2)(1.0)  # here it makes no difference
    assert double(np.float64(3.0)) == 6.0
    np.testing.assert_array_equal(functad.vmap(double)(np.ones(3)), 2 * np.ones(3))


@pytest.mark.parametrize(
    "make", [np.zeros, np.ones, np.empty, lambda n: np.ones(6).reshape(n), np.random.default_rng(0).normal]
)
def test_a_tensor_as_a_length_is_refused(make):
    """NumPy raises a TypeError of its own in place of what `__index__` says."""
    call = (lambda n: make(size=n)) if getattr(make, "__name__", "") == "normal" else make
    for trace in (lambda: functad.eval_shape(call, 5), lambda: functad.vmap(call)(np.array([2, 3]))):
        with pytest.raises(errors.AbstractValueError, match=r"length of an array.*test_abstract\.py"):
            trace()


def test_a_number_as_a_length_is_refused_under_a_derivative():
    with pytest.raises(errors.ConversionError, match=r"test_abstract\.py.*int\(functad\.stop_gradient\(t\)\)"):
        functad.grad(lambda x: x * np.sum(np.ones(x)))(3.0)
    with pytest.raises(TypeError, match="no length of mine"):
        functad.grad(lambda x: _raise(TypeError("no length of mine")))(3.0)


def _raise(error):
    raise error


def test_specs_convert_dtypes_and_refuse_shapes_of_negative_lengths():
    assert ArraySpec((2, 3), float) == ArraySpec([2, 3], np.dtype(float)) == ArraySpec((2, 3), "float64")
    assert ArraySpec(3, np.float32).shape == (3,)
    for shape in ((-1,), (2, -3), [1.5], "2", 1.5):
        with pytest.raises(errors.InputError, match=r"test_abstract\.py.*Pass a tuple of lengths"):
            ArraySpec(shape, float)
