"""The pure rules: parameters after five steps against PyTorch's and optax's, and what trees, dtypes and mistakes do."""

import numpy as np
import pytest

import functad
from functad import optimizers
from functad.errors import InputError, OptimizerError, StructureError
from functad.optimizers import apply_updates, chain

# The parameters begin at START and have in each of five steps the gradient CURVATURE * parameter + SLOPE.
CURVATURE = {"w": np.array([[1.0, 0.5, 2.0], [3.0, 0.1, 0.7]]), "b": np.array([0.2, 1.5, 0.9]), "s": np.array(0.4)}
SLOPE = {"w": np.array([[0.3, -0.1, 0.0], [0.2, 1.0, -0.4]]), "b": np.array([-0.5, 0.05, 0.6]), "s": np.array(-2.0)}
START = {"w": np.array([[1.0, -2.0, 0.5], [0.3, 4.0, -1.5]]), "b": np.array([0.1, -0.7, 2.0]), "s": np.array(3.0)}
STEPS = 5

# The parameters after it in float64: w row by row, b, s. From torch.optim of PyTorch 2.13.0 with the settings that are written
# out below in functad's names (`foreach` and `fused` as they are by default on the CPU).
TORCH = {
    "sgd": [
        0.467637,
        -1.5023180624999999,
        0.16384,
        -0.005041000000000004,
        3.3138606985999997,
        -0.86964019355,
        0.33059008768000003,
        -0.32913687500000005,
        0.9974190536,
        3.3692546048,
    ],
    "momentum": [
        -0.33790800000000004,
        -0.7177430625,
        -0.29021,
        -0.352036,
        2.2028763625999996,
        0.10899079045000022,
        0.7016404172799999,
        0.20420312499999996,
        -0.5332485304000004,
        3.9555494528,
    ],
    "nesterov": [
        -0.4359561890700001,
        -0.49507307114437493,
        -0.20785879040000002,
        -0.19421248789,
        1.7381706864870134,
        0.3224870942385354,
        0.8442255668069634,
        0.18637122986875,
        -0.7683424490593362,
        4.141425671831552,
    ],
    "decayed momentum": [
        -0.2048500284593751,
        -0.7861146949249999,
        -0.20224267775156254,
        -0.2742990500071876,
        2.2163637799,
        -0.03197060449218754,
        0.6169388076171876,
        0.11128965855218752,
        -0.28860924390624987,
        3.673852586915625,
    ],
    "adam": [
        0.7516107176857645,
        -1.750885099866496,
        0.25558761890333115,
        0.059047661798113056,
        3.7501275194149164,
        -1.2509461016307577,
        0.3491953912673739,
        -0.4537251582037837,
        1.7507168675073093,
        3.2490160675947894,
    ],
    "adamw": [
        0.7295212196168986,
        -1.7040587281748563,
        0.2460502936039353,
        0.05444679033654141,
        3.653660404211203,
        -1.216455782883031,
        0.34424972131089626,
        -0.439202302982284,
        1.7038514816067933,
        3.172600430007448,
    ],
    "rmsprop": [
        0.6273546584175002,
        -1.6185644058314337,
        0.1700905794992495,
        0.0012902003161416493,
        3.6089164771603994,
        -1.1193194078295738,
        0.4824387651832118,
        -0.35108314455782863,
        1.616468885000177,
        3.380215632431179,
    ],
    "centred rmsprop": [
        0.5055056303391978,
        -1.4859835725536956,
        0.10338980991941393,
        -0.03509321891020077,
        3.4659174004072693,
        -0.9876199918060286,
        0.6161774585525248,
        -0.26066795139202426,
        1.4814882317341322,
        3.5113682071631924,
    ],
    "adagrad": [
        -0.1053781343816915,
        -0.6782754555438842,
        1.182161530965279e-07,
        -0.06713460486167064,
        2.4406653229622304,
        -0.18618847765360555,
        1.3477243254747353,
        -0.035126773455805,
        0.6032208572968628,
        4.269513975145725,
    ],
}

# The same from optax 0.2.8 on JAX 0.10.2 with 64-bit numbers (the steps that the schedule of "scheduled adam" gets among them).
OPTAX = {
    "adamw": [
        0.7296002201925736,
        -1.704166160142405,
        0.24619809974821144,
        0.05457446284089757,
        3.6537241067450843,
        -1.2165176718299429,
        0.3486341123998141,
        -0.453867478008661,
        1.7507393102545574,
        3.1724013577246293,
    ],
    "rmsprop": [
        0.6273876801371845,
        -1.6186109315903203,
        0.17013939311431048,
        0.0013224544643742793,
        3.6089450725173315,
        -1.119346073081496,
        0.4821928785181767,
        -0.35113618532461266,
        1.6164785211660355,
        3.3801274334908142,
    ],
    "rmsprop nesterov": [
        -0.08054847054491818,
        -0.8778396059947127,
        -0.17619657809090883,
        -0.19676560888079997,
        2.7403163412117753,
        -0.3224586958408965,
        0.9218168658940809,
        0.11861836982305571,
        0.7282776856906769,
        4.0146789827261955,
    ],
    "rmsprop centred": [
        -0.25036449741036954,
        -0.6578225455037836,
        -0.3610852803028538,
        -0.3791137792059371,
        2.572004783352814,
        -0.16522323139844897,
        1.4508272426462525,
        0.310621060944818,
        0.6372833136361549,
        4.32974579318776,
    ],
    "adagrad": [
        -0.09376892493250337,
        -0.7035800448628413,
        2.867230140193064e-06,
        -0.06691779165824913,
        2.461108542536867,
        -0.2010809121334875,
        1.2571502756504693,
        -0.03629371122895705,
        0.6095409262443479,
        4.228253734181773,
    ],
    "clipped": [
        -0.17211074527521464,
        -0.8605058707901779,
        -0.17161525700449212,
        -0.236800918841567,
        2.3853952864426393,
        -0.07817441525836494,
        0.6390818847811691,
        0.08044904532026098,
        -0.2257754713627202,
        3.851520788523259,
    ],
    "scheduled adam": [
        0.6707777978558619,
        -1.6694349599127225,
        0.17966238008021285,
        -0.01110019928918679,
        3.668151581499131,
        -1.1695438115891605,
        0.4307075661752653,
        -0.3752175354338735,
        1.6691389564902304,
        3.3303883757520913,
    ],
}

AS_TORCH = {
    "sgd": optimizers.sgd(0.1),
    "momentum": optimizers.sgd(0.1, momentum=0.9),
    "nesterov": optimizers.sgd(0.1, momentum=0.9, nesterov=True),
    "decayed momentum": chain(optimizers.add_decayed_weights(0.05), optimizers.sgd(0.1, momentum=0.8)),
    "adam": optimizers.adam(0.05, b1=0.8, b2=0.95, eps=1e-6),
    "adamw": optimizers.adamw(0.05, b1=0.8, b2=0.95, eps=1e-6, weight_decay=0.1),
    "rmsprop": optimizers.rmsprop(0.05, decay=0.8, eps=1e-6, eps_in_sqrt=False),
    "centred rmsprop": optimizers.rmsprop(0.05, decay=0.8, eps=1e-6, eps_in_sqrt=False, centered=True),
    "adagrad": optimizers.adagrad(0.5, initial_accumulator_value=0.1, eps=0.0),
}
AS_OPTAX = {
    "adamw": optimizers.adamw(
        0.05, b1=0.8, b2=0.95, eps=1e-6, eps_root=1e-3, weight_decay=0.1, mask={"w": True, "b": False, "s": True}
    ),
    "rmsprop": optimizers.rmsprop(0.05, decay=0.8, eps=1e-4),
    "rmsprop nesterov": optimizers.rmsprop(0.05, decay=0.8, eps=1e-4, initial_scale=0.2, momentum=0.9, nesterov=True),
    "rmsprop centred": optimizers.rmsprop(0.05, decay=0.8, eps=1e-4, centered=True, momentum=0.9),
    "adagrad": optimizers.adagrad(0.5, initial_accumulator_value=0.2, eps=1e-4),
    "clipped": chain(
        optimizers.clip_by_global_norm(2.5),
        optimizers.sgd(optimizers.cosine_decay_schedule(0.3, 4, alpha=0.1), momentum=0.9),
    ),
    "scheduled adam": optimizers.adam(optimizers.exponential_decay(0.1, 3, 0.5), b1=0.8, b2=0.95, eps=1e-6),
}
RULES = AS_TORCH | {f"{name} of optax": rule for name, rule in AS_OPTAX.items()}


def loss(params):
    parts = functad.tree_map(lambda p, c, s: np.sum(0.5 * c * p * p + s * p), params, CURVATURE, SLOPE)
    return parts["w"] + parts["b"] + parts["s"]


def trained(rule, params, steps=STEPS):
    state = rule.init(params)
    for _ in range(steps):
        updates, state = rule.update(functad.grad(loss)(params), state, params)
        params = apply_updates(params, updates)
    return params, state


def flat(params):
    return np.concatenate([params["w"].ravel(), params["b"], [params["s"]]])


# Against others


@pytest.mark.parametrize("name", TORCH)
def test_five_steps_are_those_of_torch(name):
    np.testing.assert_allclose(flat(trained(AS_TORCH[name], START)[0]), TORCH[name], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", OPTAX)
def test_five_steps_are_those_of_optax(name):
    np.testing.assert_allclose(flat(trained(AS_OPTAX[name], START)[0]), OPTAX[name], rtol=1e-12, atol=1e-15)


def test_every_reference_is_compared():
    assert set(TORCH) == set(AS_TORCH)
    assert set(OPTAX) == set(AS_OPTAX)


# Trees, dtypes, memory


@pytest.mark.parametrize("name", RULES)
def test_float32_stays_float32(name):
    params = functad.tree_map(lambda p: p.astype(np.float32), START)
    found, state = trained(RULES[name], params)
    assert {leaf.dtype for leaf in functad.tree_flatten(found)[0]} == {np.dtype(np.float32)}
    assert {leaf.dtype for leaf in functad.tree_flatten(state)[0]} <= {np.dtype(np.float32), np.dtype(np.int64)}
    np.testing.assert_allclose(flat(found), flat(trained(RULES[name], START)[0]), rtol=2e-4, atol=1e-5)


def test_settings_of_double_precision_leave_float32_alone():
    params = functad.tree_map(lambda p: p.astype(np.float32), START)
    settings = np.array([0.05, 0.8, 0.95, 1e-6, 1e-3, 0.1])
    rule = chain(optimizers.clip_by_global_norm(settings[0]), optimizers.adamw(*settings))
    assert trained(rule, params, 2)[0]["w"].dtype == np.float32


@pytest.mark.parametrize("name", RULES)
def test_nothing_of_the_user_is_written_to(name):
    params = functad.tree_map(lambda p: p.copy(), START)
    state = RULES[name].init(params)
    gradients = functad.grad(loss)(params)
    _, state = RULES[name].update(gradients, state, params)
    given = functad.tree_flatten((params, gradients, state))[0]
    before = [np.array(leaf) for leaf in given]
    updates, _ = RULES[name].update(gradients, state, params)
    apply_updates(params, updates)
    for leaf, old in zip(given, before, strict=True):
        np.testing.assert_array_equal(leaf, old)


def test_state_is_a_tree_with_the_fields_of_optax():
    rule = chain(optimizers.clip_by_global_norm(1.0), optimizers.adam(lambda count: 0.1 / (1 + count)))
    _, (clipped, (adam, rate)) = trained(rule, START, 3)
    assert clipped == ()
    assert adam._fields == ("count", "mu", "nu")
    assert adam.count == rate.count == 3
    leaves, structure = functad.tree_flatten(rule.init(START))
    assert structure.unflatten(leaves)[1][0].mu.keys() == START.keys()


def test_trees_of_any_kind_and_python_numbers_are_trained():
    params = {"a": [1.0, (np.ones(2), None)], "b": np.float32(2.0)}
    rule = optimizers.adam(0.5)
    gradients = functad.grad(lambda p: p["a"][0] ** 2 + np.sum(p["a"][1][0]) + p["b"])(params)
    updates, _ = rule.update(gradients, rule.init(params))
    moved = apply_updates(params, updates)
    np.testing.assert_allclose(moved["a"][0], 0.5, rtol=1e-6)
    np.testing.assert_allclose(moved["a"][1][0], [0.5, 0.5], rtol=1e-6)
    assert moved["a"][1][1] is None
    assert moved["b"].dtype == np.float32


@pytest.mark.parametrize("make", [optimizers.sgd, optimizers.adam, optimizers.rmsprop, optimizers.adagrad])
def test_complex_parameters_go_downhill_by_the_conjugate(make):
    target = np.array([1.0 + 2.0j, -0.5j])
    distance = lambda z: np.sum(np.abs(z - target) ** 2)  # noqa: E731
    z = np.zeros(2, np.complex64)
    rule = make(0.5 if make is optimizers.adagrad else 0.1)
    state = rule.init(z)
    for _ in range(100):
        updates, state = rule.update(np.conj(functad.grad(distance)(z)), state)
        z = apply_updates(z, updates)
    assert z.dtype == np.complex64
    assert distance(z) < 0.1
    assert all(leaf.dtype.kind == "f" for leaf in functad.tree_flatten([s.nu for s in state if hasattr(s, "nu")])[0])


def test_centred_rmsprop_survives_equal_gradients():
    """The variance of equal gradients is zero, which rounding makes negative: unless prevented, the step is NaN."""
    rule = optimizers.rmsprop(0.1, centered=True)
    gradients, state = np.linspace(1e3, 2e3, 50, dtype=np.float32), rule.init(np.zeros(50, np.float32))
    negative = False
    for _ in range(300):
        updates, state = rule.update(gradients, state)
        negative = negative or bool(np.any(state[0].nu < state[0].mu ** 2))
    assert negative
    assert np.all(np.isfinite(updates))


# Clipping and decay


def test_global_norm_is_that_of_all_numbers_together():
    tree = {"w": START["w"], "rest": [START["b"], 2.5, np.array([1.0 + 1.0j])]}
    everything = np.concatenate([START["w"].ravel(), START["b"], [2.5, 1.0 + 1.0j]])
    np.testing.assert_allclose(optimizers.global_norm(tree), np.linalg.norm(everything), rtol=1e-15)
    assert optimizers.global_norm({}) == 0.0
    assert optimizers.clip_by_global_norm(1.0).update({}, ())[0] == {}


def test_derivative_of_the_norm_at_zero_is_zero():
    zeros = functad.tree_map(np.zeros_like, START)
    for function in (optimizers.global_norm, lambda t: optimizers.clip_by_global_norm(1.0).update(t, ())[0]["s"]):
        gradient = functad.grad(function)(zeros)
        assert all(np.all(np.isfinite(leaf)) for leaf in gradient.values())
    assert not np.any(functad.grad(optimizers.global_norm)(zeros)["w"])


def test_small_updates_are_not_clipped():
    updates, _ = optimizers.clip_by_global_norm(100.0).update(START, ())
    np.testing.assert_array_equal(updates["w"], START["w"])


def test_mask_can_be_a_function_of_the_parameters():
    rule = optimizers.add_decayed_weights(0.5, mask=lambda params: functad.tree_map(lambda p: p.ndim > 1, params))
    updates, _ = rule.update(functad.tree_map(np.zeros_like, START), rule.init(START), START)
    np.testing.assert_array_equal(updates["w"], 0.5 * START["w"])
    assert not np.any(updates["b"])


# Mistakes


def test_gradients_of_another_shape_are_refused():
    gradients = START | {"b": np.ones((3, 1))}
    for name, rule in RULES.items():
        with pytest.raises(StructureError, match=r"\['b'\] is float64\[3(,1)?\], but .*\['b'\] is") as caught:
            apply_updates(START, rule.update(gradients, rule.init(START), START)[0])
        assert __file__ in str(caught.value), name


def test_gradients_of_another_structure_are_refused():
    rule = optimizers.adam(0.1)
    with pytest.raises(StructureError, match="should be a dict with keys"):
        rule.update({"w": START["w"]}, rule.init(START))
    with pytest.raises(StructureError, match=r"updates should be a dict with keys \['b', 's', 'w'\]"):
        apply_updates(START, {"w": START["w"]})
    with pytest.raises(StructureError, match="mask"):
        optimizers.add_decayed_weights(0.1, mask={"w": True}).update(START, (), START)


def test_weight_decay_without_parameters_is_refused():
    rule = optimizers.adamw(0.1)
    with pytest.raises(OptimizerError, match=r"needs the parameters.*rule\.update\(gradients, state, params\)"):
        rule.update(START, rule.init(START))


@pytest.mark.parametrize("state", [(), None, {"count": 3}])
def test_state_of_another_rule_is_refused(state):
    with pytest.raises(OptimizerError, match="state of a chain of 2 transformations"):
        optimizers.adam(0.1).update(START, state)


def test_integers_are_not_moved():
    with pytest.raises(InputError, match=r"int\[\].*Keep it outside"):
        apply_updates({"n": 3}, {"n": 0.5})


# AMSGrad and clipped numbers, against loops over numbers


def amsgrad_by_hand(gradients, rate, b1, b2, eps, *, form):
    """Return a number that begins at 0 after steps as the papers and manuals of other libraries have them."""
    p = m = v = largest = 0.0
    for k, g in enumerate(gradients, 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        if form == "optax":
            largest = max(largest, v / (1 - b2**k))
            p -= rate * m / (1 - b1**k) / (largest**0.5 + eps)
        elif form == "torch":
            largest = max(largest, v)
            p -= rate / (1 - b1**k) * m / (largest**0.5 / (1 - b2**k) ** 0.5 + eps)
        else:
            largest = max(largest, v)
            p -= rate * (1 - b2**k) ** 0.5 / (1 - b1**k) * m / (largest**0.5 + eps)
    return p


FALLING = [4.0, -2.0, 0.5, 0.1, -0.03, 0.01]


@pytest.mark.parametrize("form", ["optax", "torch", "keras"])
def test_amsgrad(form):
    settings = {"b1": 0.8, "b2": 0.7, "eps": 0.01}
    expected = [amsgrad_by_hand([g * size for g in FALLING], 0.1, *settings.values(), form=form) for size in (1.0, 10.0)]
    if form == "keras":
        p = functad.Variable([0.0, 0.0])
        optimizer = optimizers.Adam(0.1, beta_1=0.8, beta_2=0.7, epsilon=0.01, amsgrad=True)
        for g in FALLING:
            optimizer.apply_gradients([(np.array([g, 10 * g]), p)])
        other = optimizers.Adam(0.1, beta_1=0.8, beta_2=0.7, epsilon=0.01, amsgrad=True)
        other.build([p])
        other.load(optimizer.variables)
        assert {key: value.tolist() for key, value in other.variables.items()} == {
            key: value.tolist() for key, value in optimizer.variables.items()
        }
        p = p.numpy()
    else:
        scaling = optimizers.scale_by_amsgrad(**settings, max_corrected=False)
        rule = optimizers.amsgrad(0.1, **settings) if form == "optax" else chain(scaling, optimizers.scale(-0.1))
        p = np.zeros(2)
        state = rule.init(p)
        for g in FALLING:
            updates, state = rule.update(np.array([g, 10 * g]), state)
            p = apply_updates(p, updates)
    np.testing.assert_allclose(p, expected, rtol=1e-12)
    assert abs(p[0] - amsgrad_by_hand(FALLING, 0.1, 0.8, 0.7, 0.01, form={"optax": "torch"}.get(form, "optax"))) > 1e-4


def test_amsgrad_with_decay_of_weights():
    p = functad.Variable(2.0)
    optimizers.AdamW(0.1, weight_decay=0.5, amsgrad=True).apply_gradients([(0.0, p)])
    assert float(p) == 2.0 - 0.1 * 0.5 * 2.0


def test_clip():
    g = {"a": np.array([-3.0, 0.25, np.inf, 2.0], np.float32), "b": 7, "c": np.array([3.0 + 4.0j, 0.3j, 0.0])}
    found, _ = optimizers.clip(2.0).update(g, ())
    assert found["a"].tolist() == [-2.0, 0.25, 2.0, 2.0]
    assert found["a"].dtype == np.float32
    assert found["b"] == 2
    np.testing.assert_allclose(found["c"], [1.2 + 1.6j, 0.3j, 0.0])
    assert functad.grad(lambda x: optimizers.clip(1.0).update(x, ())[0])(0.5) == 1.0
    assert functad.grad(lambda x: optimizers.clip(1.0).update(x, ())[0])(1.5) == 0.0


@pytest.mark.parametrize("make", [optimizers.SGD, optimizers.Adam, optimizers.AdamW, optimizers.RMSprop, optimizers.Adagrad])
def test_objects_clip_numbers_before_the_step(make):
    clipped, given = functad.Variable([0.0, 0.0]), functad.Variable([0.0, 0.0])
    first, second = make(0.1, clipvalue=1.0), make(0.1)
    for g in (np.array([3.0, -0.5]), np.array([-0.2, -9.0])):
        first.apply_gradients([(g, clipped)])
        second.apply_gradients([(np.array([max(-1.0, min(1.0, n)) for n in g]), given)])
    np.testing.assert_array_equal(clipped.numpy(), given.numpy())


@pytest.mark.parametrize("name", ["clipnorm", "clipvalue", "global_clipnorm"])
def test_limits_of_gradients_are_positive_and_one(name):
    with pytest.raises(OptimizerError, match=f"needs a positive {name}, got -1.0"):
        optimizers.Adam(**{name: -1.0})
    other = "clipvalue" if name == "clipnorm" else "clipnorm"
    with pytest.raises(OptimizerError, match="Choose one"):
        optimizers.Adam(**{name: 1.0, other: 1.0})
