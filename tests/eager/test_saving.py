"""`save` and `restore`: what is in the file, what is refused, and that nothing is changed or lost when something goes wrong."""

from __future__ import annotations

import ast
import os
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import functad
from functad import Module, Variable, grad, nn, restore, save, values_of
from functad.errors import StateError, UnconnectedWarning


class Model(Module):
    def __init__(self, seed=0, units=3):
        super().__init__()
        self.layers = [nn.Dense(units, inputs=2, rng=seed), {"last": nn.Dense(1, inputs=units, rng=seed + 1)}]
        self.file = Variable(np.float32(seed), name="keys that are arguments of np.savez")
        self.allow_pickle = Variable(seed, trainable=False)
        self._phase = Variable(1j * seed)
        self.same = self.layers[0]


class Momentum:
    """An optimiser as others may write one: its state is empty until the first step."""

    def __init__(self):
        self.velocity = {}

    def step(self, **shapes):
        self.velocity = {name: np.full(shape, 0.5) for name, shape in shapes.items()}

    def __functad_state__(self):
        return dict(self.velocity)

    def __functad_load__(self, state):
        if any((np.asarray(value) < 0).any() for value in state.values()):
            raise ZeroDivisionError
        self.velocity = dict(state)


PATHS = ["_phase", "allow_pickle", "file", *(f"layers/{layer}/{v}" for layer in ("0", "1/last") for v in ("bias", "kernel"))]


def same(first, second):
    first, second = values_of(first), values_of(second)
    return first.keys() == second.keys() and all(np.array_equal(first[k], second[k]) for k in first)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


# What is written and read


def test_model_comes_back(path):
    model, other = Model(seed=3), Model(seed=5)
    assert not same(model, other)
    before = other.layers[0].kernel
    save(model, path)
    restore(other, str(path))
    assert same(model, other)
    assert other.layers[0].kernel is before
    assert [v.dtype for v in other.variables] == [v.dtype for v in model.variables]


def test_file_is_one_that_numpy_reads(path):
    model = Model(seed=3)
    save(model, path)
    with np.load(path, allow_pickle=False) as found:
        assert found.files == PATHS
        assert all(np.array_equal(found[key], value) for key, value in values_of(model).items())
        assert found["file"].dtype == np.float32


def test_file_of_numpy_is_restored(path):
    values = {f"layer/{key}": value for key, value in values_of(nn.Dense(2, inputs=3, rng=1)).items()}
    np.savez_compressed(path, **values)
    layer = nn.Dense(2, inputs=3, rng=2)
    restore({"layer": layer}, path)
    assert np.array_equal(layer.kernel.numpy(), values["layer/kernel"])


def test_byte_order_of_the_file_does_not_matter(path):
    np.savez(path, v=np.array([1.0, 2.0], ">f8"))
    v = Variable([0.0, 0.0])
    restore({"v": v}, path)
    assert v.numpy().tolist() == [1.0, 2.0]
    assert v.dtype == np.dtype("=f8")


def test_containers_of_modules_and_a_single_variable_key(path):
    first = {"a": [Model(seed=1)], "v": Variable([1.0])}
    second = {"a": [Model(seed=2)], "v": Variable([2.0])}
    save(first, path)
    restore(second, path)
    assert same(first, second)


def test_restored_within_a_tape_and_after_freezing(path):
    layer = nn.Dense(1, inputs=1, rng=0)
    save(layer, path)
    layer.kernel.assign([[5.0]])
    layer.trainable = False
    with functad.GradientTape() as tape:
        tape.watch(layer.kernel)
        y = np.sum(layer([[1.0]]) ** 2)
        restore(layer, path)
    assert tape.gradient(y, layer.kernel).item() == 10.0
    assert layer.kernel.numpy().item() != 5.0


def test_values_trained_as_a_dict_are_put_back():
    model = nn.Dense(1, inputs=2, rng=0)
    x, y = np.array([[1.0, 2.0], [0.0, -1.0], [1.0, 1.0]]), np.array([[3.0], [-1.0], [2.0]])

    def loss(values):
        return np.mean((functad.functional_call(model, values, x) - y) ** 2)

    values = values_of(model)
    step = functad.grad(loss)
    for _ in range(4000):
        values = functad.tree_map(lambda value, g: value - 0.1 * g, values, step(values))
    restore(model, values)
    np.testing.assert_allclose(model(x).numpy(), y, atol=1e-6)
    with pytest.raises(StateError, match=r"a dict of values does not fit the Dense, .*: bias is missing"):
        restore(model, {"kernel": values["kernel"]})


# What does not fit


def test_all_that_does_not_fit_is_named_and_nothing_assigned(path):
    values = values_of(Model(seed=3))
    del values["layers/0/bias"]
    values |= {"layers/0/kernel": np.ones((2, 4)), "extra/w": np.ones(2), "file": np.float64(1.0)}
    np.savez(path, **{k: v for k, v in values.items() if k not in ("file", "allow_pickle")})
    model, untouched = Model(seed=7), Model(seed=7)
    with pytest.raises(StateError) as caught:
        restore(model, path)
    for part in (
        "layers/0/bias is missing",
        "file is missing",
        "allow_pickle is missing",
        "layers/0/kernel has shape (2, 4) in place of (2, 3)",
        "extra/w is not in the module",
        "does not fit the Model",
        f"at {__file__}",
    ):
        assert part in str(caught.value)
    assert same(model, untouched)


@pytest.mark.parametrize(("found", "own"), [(np.float32, np.float64), (np.int64, np.float64), (np.complex128, np.float64)])
def test_dtypes_must_be_equal(path, found, own):
    np.savez(path, v=np.ones(2, found))
    v = Variable(np.zeros(2, own))
    with pytest.raises(StateError, match=f"v is of {np.dtype(found)} in place of {np.dtype(own)}"):
        restore({"v": v}, path)
    assert v.numpy().tolist() == [0.0, 0.0]


def test_layer_that_was_not_called_yet(path):
    with pytest.raises(StateError, match=r"without Variables cannot be saved.*called once before"):
        save(nn.Dense(2), path)
    assert not path.exists()
    save(nn.Dense(2, inputs=3), path)
    with pytest.raises(StateError, match=r"bias is not in the module.*called once before"):
        restore(nn.Dense(2), path)


def test_a_path_in_the_place_of_the_module(path):
    v = functad.Variable(1.0)
    functad.save({"v": v}, path)
    for call in (lambda: functad.save(path, {"v": v}), lambda: functad.restore(str(path), {"v": 2.0})):
        with pytest.raises(StateError, match=r"test_saving.py.*The module stands first, the path second"):
            call()
    assert float(v) == 1.0


def test_two_things_with_one_path_are_refused(path):
    with pytest.raises(StateError, match="two things would be saved as 'a/b'"):
        save({"a": {"b": Variable(1.0)}, "a/b": Variable(2.0)}, path)
    assert not path.exists()


def test_nothing_in_a_file_is_executed(path):
    ran = []

    class Evil:
        def __reduce__(self):
            return ran.append, (1,)

    np.savez(path, v=np.array([Evil()], object))
    ran.clear()
    with pytest.raises(ValueError, match="Python objects, which are never loaded"):
        restore({"v": Variable([1.0])}, path)
    assert not ran


def test_what_is_no_such_file(path, tmp_path):
    save(Model(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"no whole .npz file"):
        restore(Model(), path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"no whole .npz file"):
        restore(Model(), path)
    path.write_text("no arrays")
    with pytest.raises(ValueError, match=r"no \.npz file of numbers") as caught:
        restore(Model(), path)
    assert "allow_pickle" not in str(caught.value)
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(ValueError, match="holds one array"):
        restore(Model(), tmp_path / "one.npy")
    with pytest.raises(FileNotFoundError):
        restore(Model(), tmp_path / "none.npz")


def test_a_zip_of_something_else(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "no array")
    with pytest.raises(StateError, match=r"holds an entry that is no array, 'notes.txt'"):
        restore(Model(), path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("kernel.npy", "no array either")
    with pytest.raises(StateError, match=r"the entry 'kernel' of .* is damaged"):
        restore(Model(), path)


@pytest.mark.parametrize("compressed", [False, True])
def test_files_with_any_byte_changed(path, compressed):
    """Whatever is wrong, it is one kind of error, and nothing has been assigned; or the change made no difference."""
    values = {"v": np.arange(6.0).reshape(2, 3), "w": np.arange(4)}
    (np.savez_compressed if compressed else np.savez)(path, **values)
    whole = path.read_bytes()
    refused = 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        v, w = Variable(np.zeros((2, 3))), Variable(np.zeros(4, int), trainable=False)
        try:
            restore({"v": v, "w": w}, path)
        except StateError:
            refused += 1
            assert not v.numpy().any()
            assert not w.numpy().any()
        else:
            assert np.array_equal(v.numpy(), values["v"])
            assert np.array_equal(w.numpy(), values["w"])
    assert refused > len(whole) // 3


@pytest.mark.parametrize("values", [np.ones((2000, 2000)), np.ones((1000, 2000), np.float32)])
def test_shapes_and_dtypes_are_compared_before_arrays_are_read(path, values):
    np.savez_compressed(path, v=values, w=values)
    v = Variable(np.zeros((1000, 2000)))
    tracemalloc.start()
    with pytest.raises(StateError, match=r"v has shape|v is of"):
        restore({"v": v}, path)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["a\0b", "a\ud800", "k" * 70_000])
def test_names_that_a_file_cannot_hold(path, name):
    with pytest.raises(StateError, match="a file cannot hold an entry named"):
        save({name: Variable(1.0)}, path)
    assert not path.exists()


def test_names_in_any_script_come_back(path):
    names = ["ядро", "b ias", "%", "..", "file.npy", "😀", ""]
    save({name: Variable(float(i)) for i, name in enumerate(names)}, path)
    found = {name: Variable(-1.0) for name in names}
    restore(found, path)
    assert [float(v) for v in found.values()] == list(range(len(names)))


# Other objects with a state


def test_optimiser_in_a_model_is_saved_with_it(path):
    first, second = Model(), Model(seed=2)
    first.optimizer, second.optimizer = Momentum(), Momentum()
    first.optimizer.step(**{"layers/0/kernel": (2, 3), "count": ()})
    save(first, path)
    restore(second, path)
    assert np.load(path)["optimizer/layers/0/kernel"].shape == (2, 3)
    assert second.optimizer.velocity.keys() == {"layers/0/kernel", "count"}
    assert second.optimizer.velocity["count"] == 0.5
    assert same(first, second)


def test_state_of_an_optimiser_is_compared_first(path):
    first, second = Model(), Model(seed=2)
    first.optimizer, second.optimizer = Momentum(), Momentum()
    first.optimizer.step(a=3, b=2)
    second.optimizer.step(a=4, c=2)
    save(first, path)
    with pytest.raises(StateError) as caught:
        restore(second, path)
    for part in ("optimizer/a has shape (3,) in place of (4,)", "optimizer/c is missing"):
        assert part in str(caught.value)
    assert "optimizer/b" not in str(caught.value)  # the optimiser is asked about that
    assert second.optimizer.velocity["a"].shape == (4,)
    assert not same(first, second)


def test_state_that_an_optimiser_refuses_leaves_everything_as_it_was(path):
    first, second = Model(), Model(seed=2)
    first.a, first.b, second.a, second.b = (Momentum() for _ in range(4))
    first.a.step(v=1)
    first.b.velocity = {"v": np.array([-1.0])}
    second.a.velocity = {"v": np.array([7.0])}
    save(first, path)
    with pytest.raises(ZeroDivisionError):
        restore(second, path)
    assert second.a.velocity["v"].tolist() == [7.0]
    assert second.b.velocity == {}
    assert same(second, Model(seed=2))


def test_refused_restore_still_warns_of_a_cut_derivative():
    class Stubborn(Variable):
        refuses = False

        def assign(self, value, **options):
            if self.refuses:
                raise ZeroDivisionError
            return super().assign(value, **options)

    v, stubborn = Variable(1.0), Stubborn(1.0)
    stubborn.refuses = True

    def f(x):
        v.assign(x)
        with pytest.raises(ZeroDivisionError):
            restore([v, stubborn], {"0": np.array(2.0), "1": np.array(2.0)})
        return v * 2.0

    with pytest.warns(UnconnectedWarning, match="holds a copy"):
        assert grad(f)(3.0) == 0.0
    assert float(v) == 3.0


def test_module_with_a_state_of_its_own_and_an_optimiser_inside(path):
    class Counts(Module):
        def __init__(self, count):
            self.count, self.w, self.optimizer = count, Variable(1.0 * count), Momentum()

        def __functad_state__(self):
            return {"count": np.int64(self.count)}

        def __functad_load__(self, state):
            self.count = int(state.pop("count"))
            assert not state

    first, second = Counts(5), Counts(7)
    first.optimizer.step(v=2)
    save(first, path)
    restore(second, path)
    assert (second.count, float(second.w), list(second.optimizer.velocity)) == (5, 5.0, ["v"])


def test_state_must_be_numbers(path):
    model = Model()
    model.optimizer = Momentum()
    model.optimizer.velocity = {"name": "sgd"}
    with pytest.raises(StateError, match=r"'optimizer/name' is an array of .*: only numbers"):
        save(model, path)


# The file system


def test_file_that_was_there_stays_whole_when_writing_fails(path, monkeypatch):
    save(Model(seed=1), path)
    whole = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array", fail)
        with pytest.raises(OSError, match="no space left"):
            save(Model(seed=2), path)
    assert path.read_bytes() == whole
    assert list(path.parent.iterdir()) == [path]


def test_headers_are_read_again_when_another_thread_parses(path, monkeypatch):
    save({"w": Variable([1.0, 2.0])}, path)
    calls, parse = [], ast.literal_eval

    def sometimes(text):
        calls.append(text)
        if len(calls) % 3:
            raise SystemError("AST constructor recursion depth mismatch (before=45, after=38)")
        return parse(text)

    monkeypatch.setattr(ast, "literal_eval", sometimes)
    own = {"w": Variable([0.0, 0.0])}
    restore(own, path)
    assert own["w"].numpy().tolist() == [1.0, 2.0]
    assert len(calls) >= 3


def test_path_is_taken_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(Model(), "model")
    save(Model(), Path("model.ckpt"))
    restore(Model(seed=2), "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.ckpt"]
    with pytest.raises(FileNotFoundError):
        save(Model(), "nowhere/model.npz")


@pytest.mark.skipif(sys.platform == "win32", reason="links and permissions are other things there")
def test_link_stays_a_link_and_permissions_are_the_usual_ones(path):
    target = path.with_name("target.npz")
    path.symlink_to(target)
    save(Model(), path)
    assert path.is_symlink()
    mask = os.umask(0)
    os.umask(mask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask


def test_training_goes_on_from_a_file_as_if_it_had_not_stopped(tmp_path):
    """The state of an optimiser that a module holds is saved with it: moments and step count too."""

    class Learner(functad.Module):
        def __init__(self):
            super().__init__()
            self.layer = functad.nn.Dense(2, inputs=3, rng=0)
            self.optimizer = functad.optimizers.Adam(0.1)

        def step(self):
            with functad.GradientTape() as tape:
                loss = np.sum((self.layer(np.arange(12.0).reshape(4, 3)) - 1.0) ** 2)
            variables = self.layer.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    first = Learner()
    for _ in range(3):
        first.step()
    functad.save(first, tmp_path / "learner.npz")
    second = Learner()
    functad.restore(second, tmp_path / "learner.npz")
    assert second.optimizer.iterations == 3
    for learner in (first, second):
        for _ in range(3):
            learner.step()
    np.testing.assert_array_equal(second.layer.kernel.numpy(), first.layer.kernel.numpy())
    np.testing.assert_array_equal(second.layer.bias.numpy(), first.layer.bias.numpy())
