"""The table of names: what is there has a text and is on the page, and what is not says what to write instead."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

from functad.compat import tf, tfe
from functad.compat.tensors import LATER, SPELLINGS, TABLE, Namespace

PAGE = Path(__file__).parents[2] / "notebooks" / "tensorflow.md"
TEXT = PAGE.read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("| `tf") and line.count("`tf") > 1]
NAMES = set(re.findall(r"`(tfe?\.[\w.]+)`", "".join(row.split(" | ")[0] for row in ROWS)))

WANTED = """
    Variable constant convert_to_tensor GradientTape zeros ones zeros_like ones_like fill range linspace eye random.normal
    random.uniform random.set_seed reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_logsumexp matmul tensordot
    einsum sin cos tan exp log sqrt square tanh abs sign pow add subtract multiply divide maximum minimum clip_by_value
    math.log math.exp math.reduce_sum math.sigmoid nn.relu nn.sigmoid nn.softmax nn.log_softmax nn.softplus nn.elu nn.gelu
    nn.softmax_cross_entropy_with_logits nn.sparse_softmax_cross_entropy_with_logits nn.sigmoid_cross_entropy_with_logits
    nn.l2_loss linalg.inv linalg.solve
    cast reshape transpose concat stack unstack split squeeze expand_dims tile pad where gather
    gather_nd one_hot argmax equal greater less cumsum identity nest.flatten nest.map_structure nest.pack_sequence_as
    nest.assert_same_structure float32 float64 int32 int64 complex64 complex128 bool keras.activations.relu
    keras.losses.MeanSquaredError custom_gradient recompute_grad grad_pass_through stop_gradient gradients hessians
    autodiff.ForwardAccumulator UnconnectedGradients AggregationMethod function debugging.assert_near Tensor TensorShape
""".split()  # noqa: SIM905 (a table reads better than quoted names)


def find(path):
    found = tf
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("path", WANTED)
def test_name_is_there(path):
    assert find(path) is TABLE[path]


def test_names_that_come_late_point_somewhere_else():
    assert {"Module", "keras.layers.Dense", "keras.Sequential", "keras.optimizers.SGD", "keras.optimizers.Adam"} <= set(LATER)


@pytest.mark.parametrize("path", sorted(path for path, value in TABLE.items() if callable(value)))
def test_callable_has_a_text(path):
    assert inspect.getdoc(TABLE[path])


def test_namespaces_can_be_imported():
    assert importlib.import_module("functad.compat.tf.keras.losses") is tf.keras.losses
    from functad.compat.tf.keras.losses import MeanSquaredError

    import functad.compat.tf as again
    from functad.compat.tf import nest

    assert again is tf
    assert nest is tf.nest
    assert MeanSquaredError is tf.keras.losses.MeanSquaredError
    assert repr(tf.math) == "<module 'functad.compat.tf.math'>"


def test_names_are_listed():
    assert {"sin", "math", "keras", "Module", "Variable"} <= set(dir(tf))
    assert {"sin", "log1p"} <= set(dir(tf.math))
    assert {"Dense", "Layer"} <= set(dir(tf.keras.layers))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sinc", r"tf\.sinc, asked for at .*test_names.py:\d+\. .* write np\.sinc\."),
        ("unique", r"Write np\.unique\(x\) instead"),
        ("math.erf", r"write scipy\.special\.erf\."),
        ("math.betainc", r"write scipy\.special\.betainc\."),
        ("math.lgamma", r"Write scipy\.special\.gammaln\(x\) instead"),
        ("math.bessel_i0e", r"write scipy\.special\.i0e\."),
        ("math.special.dawsn", r"Write scipy\.special instead"),
        ("math.reduce_euclidean_norm", r"Write tf\.norm\(x, axis=axis\) instead"),
        ("math.unsorted_segment_sum", r"Write tf\.scatter_nd"),
        ("nn.moments", r"np\.mean\(x, axes\)"),
        ("linalg.pinv", r"write np\.linalg\.pinv\."),
        ("math.bincount", r"write np\.bincount\."),
        ("squeez", r"nearest name that it has is tf\.squeeze"),
        ("divide_no_nan", r"Write tf\.math\.divide_no_nan instead"),
        ("linalg.matrix_rank", r"write np\.linalg\.matrix_rank"),
        ("reduce_summ", r"nearest name that it has is tf\.reduce_sum"),
        ("zzzzzz", "use the NumPy spelling"),
        ("nn.conv2d", "sliding_window_view"),
        ("nn.ctc_loss", "use the NumPy spelling"),
        ("summary", "use the NumPy spelling"),
        ("scan", r"Write functad\.scan instead"),
        ("keras.optimizers.schedules", r"functad\.optimizers\.exponential_decay"),
        ("keras.metrics", r"np\.mean\(np\.argmax"),
        ("keras.layers.Dropout", "rng.random"),
    ],
)
def test_missing_name_says_what_to_write(path, text):
    with pytest.raises(AttributeError, match=text):
        find(path)


def test_spellings_are_of_names_that_are_missing():
    assert not set(SPELLINGS) & (set(TABLE) | set(LATER))


def test_special_names_are_those_of_a_module():
    assert not hasattr(tf, "__path__")
    assert not hasattr(tf.math, "__path__")
    assert not hasattr(tfe, "__path__")
    assert tf.math.__name__ == "functad.compat.tf.math"


def test_missing_name_of_the_first_interface():
    with pytest.raises(AttributeError, match=r"no 'Iterator', asked for at .*test_names.py.* it has GradientTape"):
        tfe.Iterator  # noqa: B018


def test_names_of_the_table_are_there():
    assert len(NAMES) > 250
    for name in NAMES - {f"tf.{path}" for path in LATER}:
        module, *parts = name.split(".")
        found = {"tf": tf, "tfe": tfe}[module]
        for part in parts:
            found = getattr(found, part)


def test_the_table_leaves_out_nothing_but_other_names_of_the_same():
    listed = {id(TABLE[name[3:]]) for name in NAMES if name[3:] in TABLE}
    here = {path: value for path, value in TABLE.items() if path not in LATER and not isinstance(value, Namespace)}
    missing = [path for path, value in here.items() if id(value) not in listed]
    assert not missing
    own = {LATER[name[3:]] for name in NAMES if name[3:] in LATER}
    assert not [path for path, place in LATER.items() if place not in own]
    assert {f"tfe.{name}" for name in tfe.__all__} == {name for name in NAMES if name.startswith("tfe.")}
