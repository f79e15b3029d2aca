"""Optimisers that move variables: parameters after five steps against Keras', missing gradients, mistakes, saved state."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import functad
from functad import errors, optimizers
from functad.optimizers import SGD, Adagrad, Adam, AdamW, RMSprop

# The variables begin at START and have in each of five steps the gradient CURVATURE * variable + SLOPE.
CURVATURE = {"w": np.array([[1.0, 0.5, 2.0], [3.0, 0.1, 0.7]]), "b": np.array([0.2, 1.5, 0.9]), "s": np.array(0.4)}
SLOPE = {"w": np.array([[0.3, -0.1, 0.0], [0.2, 1.0, -0.4]]), "b": np.array([-0.5, 0.05, 0.6]), "s": np.array(-2.0)}
START = {"w": np.array([[1.0, -2.0, 0.5], [0.3, 4.0, -1.5]]), "b": np.array([0.1, -0.7, 2.0]), "s": np.array(3.0)}
STEPS = 5

# The variables after it in float64: w row by row, b, s. From Keras 3.15.1 on PyTorch 2.13.0 with `floatx` float64.
KERAS = {
    "SGD": [
        -0.10104678743461037,
        -0.9928453091204021,
        -0.22016086551669725,
        -0.3672779077893622,
        2.6376359843846817,
        -0.21281979010127616,
        0.5600873789009458,
        0.08185025655270758,
        -0.06496150394875583,
        3.7438042144767363,
    ],
    "SGD nesterov": [
        -0.22711238702491418,
        -0.7791567190826686,
        -0.20779395845332876,
        -0.2781499187213565,
        2.223477943411336,
        -0.004619953321823849,
        0.6482031271370723,
        0.11966867424836101,
        -0.33213839749173374,
        3.7875377267418164,
    ],
    "Adam": [
        0.7521873140334591,
        -1.7515613635078873,
        0.25634638635050977,
        0.05973075647495292,
        3.750653879784016,
        -1.251459851480793,
        0.347652989312362,
        -0.4544826128778803,
        1.7510267074909942,
        3.248086223752544,
    ],
    "AdamW": [
        0.7300924662120734,
        -1.7047291213770739,
        0.24680158314710138,
        0.055122204774314294,
        3.6541810803709347,
        -1.2169647450170464,
        0.3427257042212534,
        -0.4399528936946391,
        1.704158471521126,
        3.171686249897916,
    ],
    "RMSprop": [
        -0.25036449741036965,
        -0.6578225455037836,
        -0.3610852803028538,
        -0.3791137792059371,
        2.572004783352814,
        -0.1652232313984492,
        1.4508272426462525,
        0.310621060944818,
        0.6372833136361548,
        4.32974579318776,
    ],
    "Adagrad": [
        -0.09376892493250334,
        -0.7035800448628413,
        2.8672301401930573e-06,
        -0.06691779165824913,
        2.461108542536867,
        -0.2010809121334875,
        1.257150275650469,
        -0.03629371122895705,
        0.6095409262443479,
        4.228253734181773,
    ],
    "Adam global_clipnorm": [
        0.7603871066202285,
        -1.7616733865328569,
        0.26601196994416026,
        0.06730074050344736,
        3.7587712830414373,
        -1.2589555639913064,
        0.3247527832744133,
        -0.4647195470908777,
        1.7552944371530965,
        3.234112861742497,
    ],
    "SGD clipnorm": [
        0.6803020459981777,
        -1.7142570150001566,
        0.27952771447245556,
        0.08241867043910718,
        3.620026656975789,
        -1.131503610509841,
        0.2499089260860563,
        -0.43546579223794224,
        1.3146212567480184,
        3.3692546048,
    ],
}

AS_KERAS = {
    "SGD": lambda: SGD(optimizers.exponential_decay(0.1, 3, 0.5), momentum=0.9),
    "SGD nesterov": lambda: SGD(optimizers.exponential_decay(0.1, 3, 0.5), momentum=0.9, nesterov=True, weight_decay=0.1),
    "Adam": lambda: Adam(0.05, beta_1=0.8, beta_2=0.95, epsilon=1e-3),
    "AdamW": lambda: AdamW(0.05, beta_1=0.8, beta_2=0.95, epsilon=1e-3, weight_decay=0.1),
    "RMSprop": lambda: RMSprop(0.05, rho=0.8, momentum=0.9, epsilon=1e-4, centered=True),
    "Adagrad": lambda: Adagrad(0.5, initial_accumulator_value=0.2, epsilon=1e-4),
    "Adam global_clipnorm": lambda: Adam(0.05, epsilon=1e-3, global_clipnorm=1.5),
    "SGD clipnorm": lambda: SGD(0.1, clipnorm=1.5),
}


class Weight(functad.Variable):
    """A Variable that counts how often it was assigned to, and checks what."""

    def __init__(self, value, name):
        super().__init__(value, name=name)
        self.assigned = 0

    def assign(self, value):
        assert isinstance(value, (np.ndarray, np.generic))
        assert (value.shape, value.dtype) == (self.shape, self.dtype)
        self.assigned += 1
        return super().assign(value)


class Held:
    """What a tape returns: not an array, but something that gives one."""

    def __init__(self, value):
        self.value = value

    def numpy(self):
        return self.value


def weights(dtype=np.float64):
    return {name: Weight(value.astype(dtype), name) for name, value in START.items()}


def pairs(variables):
    return [(CURVATURE[name] * v.numpy() + SLOPE[name], v) for name, v in variables.items()]


def train(optimizer, variables, steps=STEPS):
    for _ in range(steps):
        optimizer.apply_gradients(pairs(variables))
    return flat(variables)


def flat(variables):
    return np.concatenate([variables["w"].numpy().ravel(), variables["b"].numpy(), [variables["s"].numpy()]])


# Steps


@pytest.mark.parametrize("name", KERAS)
def test_five_steps_are_those_of_keras(name):
    # On PyTorch, Keras makes the bounds of its clipping in float32.
    rtol = 1e-7 if "clipnorm" in name else 1e-12
    np.testing.assert_allclose(train(AS_KERAS[name](), weights()), KERAS[name], rtol=rtol, atol=1e-15)


def test_every_reference_is_compared():
    assert set(KERAS) == set(AS_KERAS)


def test_defaults_are_those_of_keras():
    defaults = {
        SGD(): {"learning_rate": 0.01, "momentum": 0.0, "nesterov": False, "weight_decay": None},
        Adam(): {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "weight_decay": None},
        AdamW(): {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "weight_decay": 0.004},
        RMSprop(): {"learning_rate": 0.001, "rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": False},
        Adagrad(): {"learning_rate": 0.001, "initial_accumulator_value": 0.1, "epsilon": 1e-7},
    }
    for optimizer, settings in defaults.items():
        assert {name: getattr(optimizer, name) for name in settings} == settings
        assert optimizer.clipnorm is optimizer.global_clipnorm is None


@pytest.mark.parametrize("name", AS_KERAS)
def test_variables_of_float32_stay_so(name):
    variables = weights(np.float32)
    wide = [(gradient.astype(np.float64), v) for gradient, v in pairs(variables)]
    optimizer = AS_KERAS[name]()
    optimizer.apply_gradients(wide)
    leaves = optimizer.variables
    assert {leaf.dtype for key, leaf in leaves.items() if key.startswith("variables") and "count" not in key} <= {
        np.dtype(np.float32)
    }
    assert all(v.assigned == 1 for v in variables.values())


def test_gradients_can_be_tensors_lists_or_pairs_from_zip():
    plain, held = weights(), weights()
    gradients = [g for g, _ in pairs(plain)]
    SGD(0.1).apply_gradients(zip(gradients, plain.values(), strict=True))
    SGD(0.1).apply_gradients([[Held(g), v] for g, v in zip(gradients, held.values(), strict=True)])
    np.testing.assert_array_equal(flat(plain), flat(held))
    one = Weight([1.0, 2.0], "one")
    SGD(0.5).apply_gradients([([2, 4], one)])
    np.testing.assert_array_equal(one.numpy(), [0.0, 0.0])


def test_learning_rate_can_be_read_and_set():
    optimizer, v = SGD(0.5), Weight(1.0, "v")
    assert optimizer.learning_rate == 0.5
    optimizer.learning_rate = np.float32(0.25)
    optimizer.apply_gradients([(1.0, v)])
    assert v.numpy() == 0.75
    optimizer.learning_rate = optimizers.piecewise_constant_schedule(1.0, {2: 0.5})
    rates = []
    for _ in range(3):
        rates.append(optimizer.learning_rate)
        optimizer.apply_gradients([(0.0, v)])
    assert rates == [1.0, 0.5, 0.5]
    assert optimizer.iterations == 4
    assert repr(optimizer) == "SGD(learning_rate=0.5, iterations=4)"


def test_adam_counts_the_steps_of_each_variable():
    """The first step of Adam is as long as the learning rate, however late it comes."""
    early, late, optimizer = Weight(0.0, "early"), Weight(0.0, "late"), Adam(0.1, epsilon=1e-12)
    optimizer.apply_gradients([(1.0, early)])
    optimizer.apply_gradients([(1.0, early)])
    optimizer.apply_gradients([(1.0, early), (3.0, late)])
    np.testing.assert_allclose(late.numpy(), -0.1, rtol=1e-9)


def test_complex_variable_moves_against_a_gradient_like_that_of_tensorflow():
    z, optimizer = Weight(np.zeros(2, np.complex64), "z"), Adam(0.1)
    target = np.array([1.0 + 2.0j, -0.5j], np.complex64)
    for _ in range(100):
        optimizer.apply_gradients([(2 * (z.numpy() - target), z)])
    assert np.max(np.abs(z.numpy() - target)) < 0.2


# Missing gradients


def test_only_none_is_refused_with_the_names():
    variables, optimizer = weights(), Adam()
    with pytest.raises(errors.MissingGradientError) as caught:
        optimizer.apply_gradients([(None, v) for v in variables.values()])
    message = str(caught.value)
    assert "Adam.apply_gradients" in message
    assert "'w', 'b', 's' are None" in message
    assert "tape.explain(loss, variable)" in message
    assert __file__ in message
    assert optimizer.iterations == 0


def test_no_pair_is_refused():
    with pytest.raises(errors.MissingGradientError, match="no pair"):
        SGD().apply_gradients([])


def test_none_among_others_is_skipped_with_a_warning():
    variables, optimizer = weights(), SGD(0.1, momentum=0.9)
    listed = [(None if v.name == "b" else g, v) for g, v in pairs(variables)]
    with pytest.warns(errors.MissingGradientWarning, match="None for the gradient of 'b': not moved") as caught:
        optimizer.apply_gradients(listed)
    assert caught[0].filename == __file__
    assert [v.assigned for v in variables.values()] == [1, 0, 1]
    assert optimizer.iterations == 1
    np.testing.assert_array_equal(optimizer.variables["variables[1][1].trace"], np.zeros(3))


def test_warning_made_an_error_leaves_all_as_it_was():
    variables, optimizer = weights(), SGD(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(errors.MissingGradientWarning):
            optimizer.apply_gradients([(None, variables["w"]), (np.ones(3), variables["b"])])
    assert [v.assigned for v in variables.values()] == [0, 0, 0]


# Mistakes


@pytest.mark.parametrize(
    ("gradient", "error", "message"),
    [
        (np.ones((3, 1)), errors.StructureError, r"'b', which is float64\[3\], a gradient that is float64\[3,1\]"),
        (1.0, errors.StructureError, r"float64\[\]. Both must have one shape"),
        (np.ones(3) * 1j, errors.InputError, r"complex128\[3\]. Take its real part"),
        (np.array(["a", "b", "c"]), errors.InputError, "'b', which is"),
    ],
)
def test_gradient_that_does_not_fit_is_refused_before_anything_moves(gradient, error, message):
    variables, optimizer = weights(), SGD(0.1, momentum=0.9)
    train(optimizer, variables, 1)
    before, remembered = flat(variables), optimizer.variables
    listed = pairs(variables)
    with pytest.raises(error, match=message) as caught:
        optimizer.apply_gradients([listed[0], (gradient, variables["b"]), listed[2]])
    assert __file__ in str(caught.value)
    np.testing.assert_array_equal(flat(variables), before)
    for key, value in optimizer.variables.items():
        np.testing.assert_array_equal(value, remembered[key])


def test_integer_variable_is_refused():
    with pytest.raises(errors.InputError, match="Only floating-point and complex variables"):
        SGD().apply_gradients([(1.0, Weight(3, "n"))])


@pytest.mark.parametrize(
    "swap",
    [
        lambda g, v: [(v, g)],
        lambda g, v: ([g], [v]),
        lambda g, v: [g],
        lambda g, v: [(g, v, 1)],
    ],
)
def test_what_is_no_pair_is_refused(swap):
    with pytest.raises(errors.OptimizerError, match=r"apply_gradients\(zip\(gradients, variables\)\)"):
        SGD().apply_gradients(swap(np.ones(2), Weight(np.ones(2), "v")))


def test_what_holds_no_pairs_is_refused():
    for pairs in (None, 3.0):
        with pytest.raises(errors.OptimizerError, match=r"needs pairs .*zip\(gradients, variables\)"):
            SGD(0.1).apply_gradients(pairs)


def test_variable_given_twice_is_refused():
    v = Weight(1.0, "v")
    with pytest.raises(errors.OptimizerError, match="'v' twice"):
        SGD().apply_gradients([(1.0, v), (2.0, v)])


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: SGD(momentum=1.5), "momentum"),
        (lambda: Adam(beta_1=-0.1), "beta_1"),
        (lambda: AdamW(beta_2=1.0), "beta_2"),
        (lambda: RMSprop(rho=1.0), "rho"),
        (lambda: Adagrad(clipnorm=1.0, global_clipnorm=1.0), "clipnorm"),
        (lambda: optimizers.Optimizer(0.1).apply_gradients([(1.0, Weight(1.0, "v"))]), "define `rule`"),
    ],
)
def test_settings_without_meaning_are_refused(make, setting):
    with pytest.raises(errors.OptimizerError, match=setting) as caught:
        make()
    assert __file__ in str(caught.value)


# Saved state


@pytest.mark.parametrize("name", AS_KERAS)
@pytest.mark.parametrize("met", [False, True])
def test_training_goes_on_from_what_was_saved(name, met, tmp_path):
    variables, optimizer = weights(), AS_KERAS[name]()
    train(optimizer, variables, 2)
    np.savez(tmp_path / "state.npz", **optimizer.variables)
    other, again = AS_KERAS[name](), weights()
    if met:
        train(other, again, 1)
    for v in again.values():
        v.assign(variables[v.name].numpy())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as file:
        other.load(dict(file))
    assert other.iterations == 2
    np.testing.assert_array_equal(train(other, again, 3), train(AS_KERAS[name](), weights(), 5))


def test_entries_are_copies_and_named_by_the_fields_of_the_state():
    variables, optimizer = weights(), Adam(0.1)
    train(optimizer, variables, 2)
    entries = optimizer.variables
    assert {key for key in entries if key.startswith("variables[1]")} == {
        "variables[1][0].count",
        "variables[1][0].mu",
        "variables[1][0].nu",
    }
    assert entries["iterations"] == 2
    assert entries["learning_rate"] == 0.1
    entries["variables[1][0].mu"][...] = np.nan
    assert np.all(np.isfinite(train(optimizer, variables, 1)))
    assert "learning_rate" not in SGD(lambda count: 0.1).variables


def test_state_waits_for_the_variables_it_belongs_to():
    variables, optimizer = weights(), SGD(0.1, momentum=0.9)
    train(optimizer, variables, 2)
    other = SGD(momentum=0.9)
    other.load(optimizer.variables)
    other.build([variables["w"]])
    assert set(other.variables) == set(optimizer.variables)
    other.build(variables.values())
    for key, value in optimizer.variables.items():
        np.testing.assert_array_equal(other.variables[key], value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.pop("iterations"), "'iterations' is missing"),
        (lambda e: e.pop("learning_rate"), "'learning_rate' is missing"),
        (lambda e: e.update(rho=0.9), "'rho' is unknown"),
        (lambda e: e.update(iterations=np.ones(2)), r"'iterations' is float64\[2\]"),
        (lambda e: e.pop("variables[1][0].mu"), r"'variables\[1\]\[0\].mu' is missing"),
        (lambda e: e.update({"variables[0][0].trace": 1.0}), r"'variables\[0\]\[0\].trace' is unknown"),
        (lambda e: e.update({"variables[1][0].mu": np.ones(4)}), r"mu' is float64\[4\] and should be float64\[3\]"),
        (lambda e: e.update({"variables[1][0].mu": np.ones(3) * 1j}), "which is no float64"),
    ],
)
def test_entries_that_do_not_fit_are_refused_before_anything_changes(change, message):
    variables, optimizer = weights(), Adam(0.1)
    train(optimizer, variables, 2)
    entries, other = optimizer.variables, Adam(0.2)
    other.build(variables.values())
    before = other.variables
    change(entries)
    with pytest.raises(errors.StructureError, match=message) as caught:
        other.load(entries)
    assert __file__ in str(caught.value)
    assert {key: value.tolist() for key, value in other.variables.items()} == {k: v.tolist() for k, v in before.items()}


def test_loaded_state_that_does_not_fit_is_refused_when_its_variable_comes():
    variables, optimizer = weights(), Adam(0.1)
    train(optimizer, variables, 1)
    other, swapped = Adam(), [(np.ones(3), variables["b"]), (np.ones((2, 3)), variables["w"])]
    other.load(optimizer.variables)
    before = flat(variables)
    with pytest.raises(errors.StructureError, match="variables in another order"):
        other.apply_gradients(swapped)
    np.testing.assert_array_equal(flat(variables), before)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copy_of_optimiser_and_variables_goes_on_alone(copied):
    variables, optimizer = weights(), SGD(0.1, momentum=0.9)
    train(optimizer, variables, 2)
    others, other = copied((variables, optimizer))
    expected = train(optimizer, variables, 2)
    np.testing.assert_array_equal(train(other, others, 2), expected)


# The module


def test_optimizers_come_with_functad_when_asked_for():
    assert functad.optimizers is optimizers
    with pytest.raises(AttributeError, match="no attribute 'optimisers'"):
        functad.optimisers  # noqa: B018


def test_every_public_function_and_class_has_an_example():
    for name in optimizers.__all__:
        value = getattr(optimizers, name)
        if callable(value) and not name.endswith("State") and name not in {"Schedule", "VariableLike"}:
            assert ">>>" in (value.__doc__ or ""), name
