"""Variables: construction, assignment, operators, NumPy's functions, and what tapes make of them."""

import copy
import pickle

import numpy as np
import pytest

import functad
from functad import GradientTape, Variable, errors

# Construction


@pytest.mark.parametrize(
    ("initial", "dtype"),
    [
        (1.0, np.float64),
        (1, np.int64),
        (True, np.bool_),
        ([1.0, 2.0], np.float64),
        (np.float32(2), np.float32),
        (np.ones((2, 3), np.float32), np.float32),
        (1j, np.complex128),
        (lambda: np.zeros(3), np.float64),
        (functad.constant(1.0, dtype=np.float32), np.float32),
        (Variable(np.float32(1)), np.float32),
    ],
)
def test_dtype_comes_from_the_value(initial, dtype):
    v = Variable(initial)
    assert v.dtype == dtype
    assert v.trainable == (np.dtype(dtype).kind in "fc")
    assert Variable(initial, dtype=np.complex64).dtype == np.complex64


def test_initial_values_that_are_refused():
    with pytest.raises(ValueError, match="initial value"):
        Variable(None)
    with pytest.raises(TypeError):
        Variable("text")
    with pytest.raises(TypeError):
        Variable([object()])


def test_input_is_copied():
    a = np.ones(2)
    v = Variable(a)
    a[0] = 5.0
    assert np.array_equal(v.numpy(), [1, 1])
    out = v.numpy()
    out[0] = 7.0
    assert np.array_equal(v.numpy(), [1, 1])
    w = Variable(v)
    w.assign([3.0, 3.0])
    assert np.array_equal(v.numpy(), [1, 1])
    assert w.trainable


def test_attributes():
    v = Variable(np.ones((2, 3)), name="weights")
    assert (v.name, v.shape, v.dtype, v.ndim, v.size) == ("weights", (2, 3), np.float64, 2, 6)
    assert Variable(1.0).name == Variable(2.0).name == "Variable"
    with pytest.raises(AttributeError):
        v.trainable = False
    with pytest.raises(AttributeError):
        v.nonsense  # noqa: B018
    assert repr(Variable(1.5, name="x")) == "Variable(np.float64(1.5), name='x')"


def test_copies_and_pickles():
    v = Variable([1.0, 2.0], trainable=False, name="v")
    for other in (copy.copy(v), copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
        assert other is not v
        assert (other.name, other.trainable) == ("v", False)
        other.assign([0.0, 0.0])
        assert np.array_equal(v.numpy(), [1, 2])


# Assignment


def test_assignments_chain():
    v = Variable(1.0)
    assert v.assign(2.0).assign_add(3.0).assign_sub(1.0) is v
    assert float(v) == 4
    assert v.assign(1.0, read_value=False) is None
    assert v.assign_add(1.0, read_value=False) is None
    assert v.assign_sub(1.0, read_value=False) is None
    assert float(v) == 1


@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
def test_shapes_must_be_exact(method):
    v = Variable([1.0, 2.0], name="v")
    for value in (1.0, [1.0], [[1.0, 2.0]], np.ones(3)):
        with pytest.raises(errors.AssignmentError, match=rf"{method} of a value of shape .* 'v' of shape \(2,\)"):
            getattr(v, method)(value)
    assert np.array_equal(v.numpy(), [1, 2])


def test_dtypes_that_can_be_assigned():
    v = Variable(np.zeros(2, np.float32))
    for value in ([1.0, 2.0], np.array([1.0, 2.0]), np.array([1, 2]), functad.constant([1.0, 2.0]), Variable([1.0, 2.0])):
        v.assign(value)
        assert v.dtype == np.float32
        assert np.array_equal(v.numpy(), [1, 2])
    n = Variable([1, 2])
    with pytest.raises(TypeError, match="lose information"):
        n.assign([1.5, 2.5])
    with pytest.raises(TypeError, match="lose information"):
        n.assign_add([1.5, 2.5])
    with pytest.raises(TypeError, match="lose information"):
        v.assign([1j, 1j])
    assert np.array_equal(n.assign_add([1, 1]).numpy(), [2, 3])


def test_assigned_array_is_copied():
    v, a = Variable(np.zeros(2)), np.ones(2)
    v.assign(a)
    a[0] = 5.0
    assert np.array_equal(v.numpy(), [1, 1])
    assert a.flags.writeable


def test_parts_are_assigned_by_index():
    v = Variable(np.zeros((2, 3)))
    assert v[0].assign([1.0, 2.0, 3.0]) is v
    v[1, 0].assign(9.0)
    v[:, 2].assign_add([10.0, 10.0])
    v[1, 1:].assign_sub([1.0, 1.0])
    assert np.array_equal(v.numpy(), [[1, 2, 13], [9, -1, 9]])
    with pytest.raises(TypeError, match=r"v\[i\].assign"):
        v[0] = 1.0
    assert np.array_equal(np.asarray(v[0] * 2), [2, 4, 26])
    v[1].assign(7.0)  # repeated, as in TensorFlow
    assert np.array_equal(v.numpy()[1], [7, 7, 7])


@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
@pytest.mark.parametrize(
    ("initial", "value", "error", "text"),
    [
        (np.array([1, 2]), 1.5, TypeError, "of int64, at .* of a value of float64, would lose information"),
        (np.array([1.0, 2.0]), 1j, TypeError, "of float64, at .* of a value of complex128, would lose information"),
        (np.array([1.0, 2.0]), "a", TypeError, "would lose information"),
        (np.array([1.0, 2.0]), [3.0, 4.0], ValueError, r"of a value of shape \(2,\): the part has shape \(\)"),
    ],
)
def test_parts_refuse_what_the_whole_refuses(method, initial, value, error, text):
    v = Variable(initial, name="v")
    with pytest.raises(error, match=rf"assign to a part of the Variable 'v'.*{text}"):
        getattr(v[0], method)(value)
    assert np.array_equal(v.numpy(), initial)


@pytest.mark.parametrize(
    "statement", ["v += 1.0", "v -= 1.0", "v *= 2.0", "v /= 2.0", "v **= 2", "v //= 2.0", "v %= 2.0", "v @= 2.0"]
)
def test_in_place_operators_are_refused(statement):
    names = {"v": Variable(1.0)}
    with pytest.raises(TypeError, match="could mean an assignment or a new Tensor"):
        exec(statement, names)
    assert float(names["v"]) == 1


def test_reads_are_not_changed_by_later_assignments():
    v = Variable([1.0, 2.0])
    saved, plain = v.read_value(), v * 1.0
    value = v.value()
    v.assign([5.0, 5.0])
    for old in (saved, plain, value):
        assert np.array_equal(old.numpy(), [1, 2])


# Tapes


def test_assignment_cuts_the_path_and_each_read_has_its_own_value():
    v = Variable(3.0)
    with GradientTape() as tape:
        a = v * v
        v.assign(10.0)
        y = a + v * v
    assert float(tape.gradient(y, v)) == 26


def test_assigning_after_the_operations_changes_nothing():
    v, w = Variable([1.0, 2.0]), Variable([3.0, 4.0])
    with GradientTape() as tape:
        y = np.sum(v * w * w)
    v.assign([0.0, 0.0])
    w.assign([0.0, 0.0])
    v[0].assign(7.0)
    g, h = tape.gradient(y, [v, w])
    assert np.array_equal(g.numpy(), [9, 16])
    assert np.array_equal(h.numpy(), [6, 16])


def test_assigning_what_is_followed():
    v, w = Variable(3.0), Variable(2.0)
    with GradientTape(persistent=True) as tape:
        v.assign(w * w)
        with pytest.warns(errors.UnconnectedWarning, match="of a value that a GradientTape follows"):
            y = v * w
    assert float(y) == 8
    assert float(tape.gradient(y, w)) == 4
    assert float(tape.gradient(y, v)) == 2
    assert tape.gradient(v * 1.0, w) is None
    assert "left the tape by assign" in tape.explain(v * 1.0, w)


CUT = {
    "assign": lambda v, x: v.assign(x),
    "assign_add": lambda v, x: v.assign_add(x),
    "assign_sub": lambda v, x: v.assign_sub(x * 2.0),
    "a part": lambda v, x: v[...].assign(x),
    "rows": lambda v, x: v.assign_add(functad.RowSlices(np.array([0]), np.ones((1,)) * x, (1,))),
}


@pytest.mark.parametrize("case", CUT)
def test_a_value_that_is_followed_and_comes_back_from_a_variable_is_warned_of(case):
    v = Variable([1.0] if case == "rows" else 1.0)

    def f(x):
        CUT[case](v, x)
        return np.sum(v * 2.0)

    with pytest.warns(errors.UnconnectedWarning, match=r"'Variable', read at .*test_variable.py:[0-9]+, holds a copy, made at"):
        assert functad.grad(f)(3.0) == 0.0
    assert "is assigned to a Variable at" in " ".join(str(functad.explain(f, 3.0)).split())
    assert "is assigned to a Variable at" in " ".join(str(functad.explain(lambda x: Variable(x) * 2.0, 3.0)).split())
    with pytest.warns(errors.UnconnectedWarning):
        functad.grad(lambda x: Variable(x) * 2.0)(3.0)


def test_values_that_are_assigned_and_used_elsewhere_are_not_warned_of():
    v = Variable(1.0)

    def kept(x):
        v.assign(x)
        return x * 2.0

    assert functad.grad(kept)(3.0) == 2.0
    assert float(v * 1.0) == 3.0
    with GradientTape() as tape:
        y = v * v
        v.assign(y)
    assert float(tape.gradient(y, v)) == 6.0
    assert float(v * 1.0) == 9.0

    def meant(x):
        v.assign(functad.stop_gradient(x))
        return v * 2.0

    assert functad.grad(meant)(3.0) == 0.0
    with pytest.warns(errors.UnconnectedWarning):
        functad.grad(lambda x: (v.assign(x), v * 2.0)[1])(3.0)
    v.assign(1.0)
    with GradientTape() as tape:
        y = v * v
    assert float(tape.gradient(y, v)) == 2.0


MASKED = np.ma.masked_array([1.0, 2.0], mask=[False, True])
DROPS_A_MASK = {
    "constant": lambda: functad.constant(MASKED),
    "constant of a list": lambda: functad.constant([[1.0, 2.0], MASKED]),
    "Variable": lambda: Variable(MASKED),
    "assign": lambda: Variable(np.zeros(2)).assign(MASKED),
    "assign_add": lambda: Variable(np.zeros(2)).assign_add(MASKED),
    "a part": lambda: Variable(np.zeros(2))[:].assign(MASKED),
    "tangent": lambda: functad.ForwardAccumulator(functad.constant([1.0, 2.0]), MASKED),
    "argument": lambda: functad.gradients_function(np.sum)(MASKED),
    "seed": lambda: functad.gradients_function(lambda x: x * 2.0)(np.ones(2), dy=MASKED),
}


@pytest.mark.parametrize("case", DROPS_A_MASK)
def test_masks_are_not_dropped(case):
    with pytest.raises(errors.InputError, match="leave elements out") as raised:
        DROPS_A_MASK[case]()
    assert "test_variable.py" in str(raised.value)


def test_training_loop():
    v = Variable(5.0)
    for _ in range(50):
        with GradientTape() as tape:
            loss = (v - 2.0) ** 2
        v.assign_sub(0.1 * tape.gradient(loss, v))
    assert float(v) == pytest.approx(2 + 3 * 0.8**50)


def test_assign_to_the_source_before_the_gradient_is_asked_for():
    v = Variable(3.0)
    with GradientTape(persistent=True) as tape:
        y = v**3
    v.assign(100.0)
    assert float(tape.gradient(y, v)) == 27
    assert tape.gradient(y, v).dtype == v.dtype


# Operators and NumPy


def _product(a, b):
    return a * b


OPERATORS = {
    "add": lambda v: v + 1.0,
    "radd": lambda v: 1.0 + v,
    "sub": lambda v: v - np.array([1.0, 2.0]),
    "rsub": lambda v: np.array([1.0, 2.0]) - v,
    "mul": lambda v: v * v,
    "div": lambda v: v / 3.0,
    "rdiv": lambda v: 3.0 / v,
    "pow": lambda v: v**2,
    "rpow": lambda v: 2.0**v,
    "mod": lambda v: v % 2.0,
    "neg": lambda v: -v,
    "abs": lambda v: abs(v),
    "matmul": lambda v: v @ v,
    "rmatmul": lambda v: np.ones((3, 2)) @ v,
    "index": lambda v: v[1] * v[0],
    "negative-index": lambda v: v[-1] + v[:1],
    "mask": lambda v: v[np.array([True, False])] * 2.0,
    "iteration": lambda v: sum(a * a for a in v),
    "unpacking": lambda v: _product(*v),
    "ufunc": lambda v: np.sin(v),
    "function": lambda v: np.sum(v * v),
    "list": lambda v: np.stack([v, v]),
    "concatenate": lambda v: np.concatenate([v, np.ones(1), v * 2]),
    "method": lambda v: v.sum() * v.mean(),
    "reshape": lambda v: v.reshape(2, 1).T,
    "attribute": lambda v: v.T * 2.0,
    "where": lambda v: np.where(v > 1.5, v, 0.0),
    "einsum": lambda v: np.einsum("i,i->", v, v),
    "out-of-order": lambda v: np.add(np.ones(2), v),
    "reduce": lambda v: np.multiply.reduce(v),
    "norm": lambda v: np.linalg.norm(v),
    "two": lambda v: np.dot(v, Variable([3.0, 4.0])),
    "compose": lambda v: Variable([1.0, 1.0]) * v + v,
}


@pytest.mark.parametrize("case", OPERATORS)
def test_variables_work_like_arrays_and_stay_differentiable(case):
    f, values = OPERATORS[case], np.array([1.25, 2.5])
    v = Variable(values)
    with GradientTape() as tape:
        y = f(v)
    assert isinstance(y, functad.Tensor)
    assert np.allclose(y.numpy(), np.asarray(f(values)), rtol=1e-15)
    expected = [(np.sum(np.asarray(f(values + e))) - np.sum(np.asarray(f(values - e)))) / 2e-6 for e in 1e-6 * np.eye(2)]
    assert np.allclose(tape.gradient(y, v).numpy(), expected, rtol=1e-7, atol=1e-7)


def test_comparisons_are_elementwise_and_variables_unhashable():
    v = Variable([1.0, 2.0])
    assert np.array_equal(np.asarray(v == 2.0), [False, True])
    assert np.array_equal(np.asarray(v != 2.0), [True, False])
    assert np.array_equal(np.asarray(v < 2.0), [True, False])
    assert np.array_equal(np.asarray(v > 1.5), [False, True])
    with pytest.raises(TypeError, match="unhashable"):
        hash(v)
    assert 2.0 in v
    with pytest.raises(ValueError, match="ambiguous"):
        bool(v)


def test_conversions():
    v = Variable(2.5)
    assert (float(v), int(v), bool(v), complex(v)) == (2.5, 2, True, 2.5)
    assert np.asarray(v) == 2.5
    assert f"{v:.2f}" == "2.50"
    assert round(Variable(2.6)).numpy() == 3
    assert len(Variable([1.0, 2.0])) == 2
    with pytest.raises(TypeError):
        len(v)
    assert [10, 20, 30][Variable(1)] == 20
    assert np.array_equal(np.asarray(Variable([1.0, 2.0])), [1, 2])


def test_results_outside_tapes_are_tensors():
    v = Variable([1.0, 2.0])
    y = np.sin(v) * 2 + v[0]
    assert isinstance(y, functad.Tensor)
    assert np.array_equal(y.numpy(), np.sin([1.0, 2.0]) * 2 + 1)


def test_mixed_precision_follows_numpy():
    v = Variable(np.ones(2, np.float32))
    w = Variable(np.ones(2))
    with GradientTape() as tape:
        y = v * w * 2
    assert y.dtype == np.float64
    assert (v * 2.0).dtype == np.float32
    g, h = tape.gradient(y, [v, w])
    assert (g.dtype, h.dtype) == (np.float32, np.float64)


def test_variables_under_transforms_are_constants_with_values():
    v = Variable(3.0)
    assert functad.grad(lambda x: x * v * v)(2.0) == 9
    assert functad.jvp(lambda x: x * v, (2.0,), (1.0,))[1] == 3
    assert float(functad.make_expressions(lambda x: x * v)(1.0)(2.0)) == 6


def test_numbers_count_creations():
    first, second = Variable(1.0), Variable(2.0)
    assert first.number < second.number


@pytest.mark.parametrize("value", ["a", ["a"], np.datetime64("2020"), object(), None])
def test_constants_are_numbers(value):
    with pytest.raises(TypeError, match=r"constant\(\) of .* pass numbers"):
        functad.constant(value)
