"""Expression lists in files: what is read computes what was saved, and a file that is no list is refused."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad.errors import FunctadError, InputError, StateError
from functad.testing import calls, every_entry
from tests.entries import is_constant, label

X = np.array([0.5, 1.0, 1.5])


def written(x: Any) -> Any:
    y = x * 1
    y[1:][0] = 3.0
    y[[0, 2]] += x[0]
    return y


def nested(x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        later = functad.cond(row > 1, lambda c: c * row, lambda c: functad.scan(lambda d, _: (d * row, None), c, None, 3)[0], c)
        return later, np.sin(c)

    return functad.scan(step, 1.0, x)


FUNCTIONS = {
    "operations": lambda x: np.sum(np.sin(x) * x) + np.array(2.5) - 1,
    "einsum": lambda x: np.einsum("i,i,i->", x, x, x) + np.einsum("ij->i", np.outer(x, x)),
    "diagonal": lambda x: np.einsum("ii->i", np.outer(x, x)),
    "indices": lambda x: x[np.array([0, 1])] * x[1:] + x[..., None, 0],
    "writes": written,
    "scan": lambda x: functad.scan(lambda c, r: (c * r, c), 1.0, x, reverse=True),
    "scan without rows": lambda x: functad.scan(lambda c, _: (c * x, None), x, None, 4)[0],
    "cond": lambda x: functad.cond(x[0] > 0, lambda x: x, lambda x: 2 * x, x),
    "switch": lambda x: functad.switch(np.argmax(x), [np.sin, np.cos, np.exp], x),
    "while_loop": lambda x: functad.while_loop(lambda x: x[0] < 3, lambda x: x * 2, x),
    "fori_loop": lambda x: functad.fori_loop(0, 5, lambda i, s: s + i * x, x),
    "associative_scan": lambda x: functad.associative_scan(np.multiply, x),
    "nested": nested,
    "gradient of a scan": functad.grad(lambda x: np.sum(nested(x)[1])),
    "vmap of a scan": lambda x: functad.vmap(lambda a: nested(x * a))(x),
    "hessian": functad.hessian(lambda x: np.prod(np.sin(x)) * np.sum(x)),
    "checkpoint": functad.checkpoint(lambda x: np.sin(np.exp(x))),
    "kept": functad.checkpoint(lambda x: np.sin(functad.checkpoint_name(np.exp(x), "e")), policy=["e"]),
    "jit": functad.checkpoint(lambda x: functad.jit(lambda y: np.sin(y) * y)(x)),
    "containers": lambda x: {"b": [x, (x, None)], "a": OrderedDict(z=x, y=x), 3: defaultdict(list, {(1, "k"): x})},
    "conversions": lambda x: x.astype(np.float32) * np.float32(2) + np.astype(x, complex) * 1j,
    "constants": lambda x: x * functad.constant(2.0) + functad.Variable([1.0, 2.0, 3.0]),
}


def total(f: Any) -> Any:
    return lambda x: sum(np.sum(np.abs(leaf)) for leaf in functad.tree_leaves(f(x)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_read_computes_what_was_saved(name: str, tmp_path: Any) -> None:
    expressions = functad.make_expressions(FUNCTIONS[name])(X)
    functad.save_expressions(expressions, tmp_path / "list")
    found = functad.load_expressions(tmp_path / "list").check()
    assert repr(found) == repr(expressions)
    assert name in ("checkpoint", "kept", "jit") or functad.digest(found) == functad.digest(expressions)
    assert found.input_structure == expressions.input_structure
    assert functad.tree_structure(found(X)) == functad.tree_structure(expressions(X))
    for a, b in zip(functad.tree_leaves(found(X)), functad.tree_leaves(expressions(X)), strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(functad.grad(total(found))(X), functad.grad(total(expressions))(X))
    functad.save_expressions(found, tmp_path / "again")
    assert zipfile.ZipFile(tmp_path / "again").read("list.json") == zipfile.ZipFile(tmp_path / "list").read("list.json")


def of_functads_scipy(entry: Any) -> bool:
    return "functad.scipy" in str(getattr(getattr(entry, "compute", entry.front), "__module__", None))


def test_every_entry_is_written_and_read(tmp_path: Any) -> None:
    """The list of a sample call and its pull-back."""
    lists = 0
    vocabulary = [entry for entry in every_entry() if not of_functads_scipy(entry)]
    for entry in vocabulary:  # some rules of scipy.linalg hold functions
        if entry.samples is None or entry.status == "refused":
            continue
        call = next((c for c in calls(entry, np.float64) if c.primals), None)
        if call is None:
            continue

        def both(*primals: Any, call: Any = call) -> Any:
            if is_constant(call.entry) or not call.smooth(*call.primals):
                return call.arrays(*primals)
            values, pullback = functad.vjp(call.smooth, *primals)
            return values, pullback(tuple([np.sin(v) + 1 for v in values]))

        with np.errstate(all="ignore"):
            try:
                expressions = functad.make_expressions(both)(*call.primals)
            except FunctadError:  # an abstract trace refuses the call
                continue
            functad.save_expressions(expressions, tmp_path / "list")
            found = functad.load_expressions(tmp_path / "list")
            assert repr(found) == repr(expressions), label(entry)
            for a, b in zip(*[functad.tree_leaves(each(*call.primals)) for each in (found, expressions)], strict=True):
                np.testing.assert_array_equal(a, b)
                assert type(a) is type(b)
        lists += 1
    assert lists > 600


def test_how_a_primitive_is_called_is_looked_up_once(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    functad.save_expressions(functad.make_expressions(lambda x: np.dot(np.dot(x, x), x))(X), tmp_path / "list")
    functad.load_expressions(tmp_path / "list")
    monkeypatch.setattr("inspect.signature", None)
    functad.load_expressions(tmp_path / "list")


CHARACTERS = "?bhilqBHILQefdgFDG"


@pytest.mark.parametrize("dtype", [np.dtype(c) for c in CHARACTERS] + [np.dtype(">f8"), np.dtype(">i2")], ids=str)
def test_constants_of_all_dtypes(dtype: Any, tmp_path: Any) -> None:
    values = [0, 1, 1, 0]
    if dtype.kind in "fc":
        values = [np.nan, -0.0, np.inf, np.finfo(dtype).tiny]
    elif dtype.kind in "iu":
        values = [0, 1, np.iinfo(dtype).min, np.iinfo(dtype).max]
    one = np.array(values, dtype)
    kinds = [one, one.reshape(2, 2).T, one[::2], one[:0], one[3:4].reshape(()), np.broadcast_to(one, (50, 4)), one[3]]
    found = saved_with(kinds, tmp_path)
    for a, b in zip(kinds, found, strict=True):
        assert (type(a) is np.ndarray, a.shape) == (type(b) is np.ndarray, b.shape)
        assert a.dtype == b.dtype or (a.shape == () and a.dtype == b.dtype.newbyteorder())  # a number is of the machine's order
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a.real), np.signbit(b.real)) if dtype.kind in "fc" else None
    assert found[5].strides == (0, one.itemsize)
    assert found[1].flags.f_contiguous


def saved_with(constants: Any, tmp_path: Any) -> Any:
    """Return constants of a list after it was written and read."""
    expressions = functad.make_expressions(lambda x: x)(1.0)
    outputs = (*expressions.outputs, *[type(functad_constant())(c) for c in constants])
    structure = functad.tree_structure((1,) * len(outputs))
    functad.save_expressions(expressions.replace(outputs=outputs, output_structure=structure), tmp_path / "list")
    return [source.value for source in functad.load_expressions(tmp_path / "list").outputs[1:]]


def functad_constant() -> Any:
    """Return a constant of a list."""
    return functad.make_expressions(lambda x: (x, 1.0))(1.0).outputs[1]


def test_python_numbers_and_parameters(tmp_path: Any) -> None:
    values = [True, -3, 10**30, 0.1, -0.0, float("inf"), 1j, complex("nan+infj"), None, "text", (1, (2, [3.0])), slice(None, 2)]
    values += [{"a": (1,), 2: None}, ..., np.dtype(np.int8), slice(np.int64(1), None, -1)]
    found = saved_with(values, tmp_path)
    assert list(map(repr, found)) == list(map(repr, values))


# What cannot be saved


@functad.custom_vjp
def ruled(x: Any) -> Any:
    return np.sin(x)


ruled.defvjp(lambda x: (ruled(x), x), lambda x, g: (g * np.cos(x),))
entered = functad.primitive(lambda x: x**3, lambda g, x: g * 3 * x**2, kind="elementwise", name="cube")


class Pair(NamedTuple):
    a: Any
    b: Any


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (ruled, rf"function ruled is defined at .*test_save_expressions.py:{ruled.__wrapped__.__code__.co_firstlineno}"),
        (lambda x: functad.cond(x[0] > 1, ruled, np.sin, x), "function ruled is defined at .*test_save_expressions.py"),
        (entered, "call of cube, whose function <lambda> is defined at .*test_save_expressions.py"),
        (functad.vmap(functad.checkpoint(np.sin)), "checkpoint"),
        (lambda x: functad.odeint(lambda y, t: -y, x, np.array([0.0, 1.0])), "odeint, whose function .* is defined at"),
        (functad.grad(lambda x: np.sum(functad.while_loop(lambda x: x[0] < 3, lambda x: x * 2, x))), "while_loop_vjp"),
        (lambda x: Pair(x, x), "in a Pair cannot be saved"),
        (lambda x: defaultdict(lambda: 0, a=x), "in a defaultdict cannot be saved"),
    ],
)
def test_code_of_the_user_is_refused_with_its_line(function: Any, text: str, tmp_path: Any) -> None:
    expressions = functad.make_expressions(function)(X)
    with pytest.raises(StateError, match=text):
        functad.save_expressions(expressions, tmp_path / "list")
    assert not list(tmp_path.iterdir())


def test_other_objects_are_refused(tmp_path: Any) -> None:
    for value, text in [(np.array(["a"]), "ndarray of <U1"), (np.datetime64(1, "s"), "datetime64"), (print, "a builtin")]:
        with pytest.raises(StateError, match=text):
            saved_with([value], tmp_path)
    with pytest.raises(InputError, match=r"save_expressions needs an expression list, not a (str|PosixPath|WindowsPath)"):
        functad.save_expressions(tmp_path / "x", functad.make_expressions(np.sin)(1.0))  # type: ignore[arg-type]

    def within(t: Any) -> Any:
        functad.save_expressions(functad.make_expressions(lambda x: x * t)(1.0), tmp_path / "list")

    with pytest.raises(StateError, match="a Tensor of an enclosing trace"):
        functad.grad(within)(1.0)


# Files that are no lists


GOOD = functad.make_expressions(lambda x: (nested(x), x[np.array([0, 1])], functad.checkpoint(np.sin)(x)))(X)


@pytest.fixture(name="parts")
def fixture_parts(tmp_path: Any) -> dict[str, Any]:
    """Return the members of a file, with the list as data."""
    functad.save_expressions(GOOD, tmp_path / "good")
    with zipfile.ZipFile(tmp_path / "good") as archive:
        found: dict[str, Any] = {name: archive.read(name) for name in archive.namelist()}
    return found | {"list.json": json.loads(found["list.json"])}


def read(parts: dict[str, Any], path: Any, **options: Any) -> Any:
    """Write members as they are, and read the list."""
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in parts.items():
            archive.writestr(name, json.dumps(content) if isinstance(content, dict) else content)
    return functad.load_expressions(path)


def scan_of(data: Any) -> Any:
    return next(e for e in data["list"]["equations"] if e["primitive"] == "functad.scan")


def put(*path: Any) -> Any:
    """Return a change that puts the last of some values into the place that the others lead to."""
    *keys, last, value = path

    def change(data: Any) -> None:
        for key in keys:
            data = scan_of(data) if key == "SCAN" else data[key]
        data[last] = value

    return change


EQUATION = ("list", "equations", 0)
WRONG = {
    "another format": (put("format", "other"), "of another format"),
    "a later version": (put("version", 2), "version 2, and this functad reads version 1"),
    "no version": (put("version", True), "version True"),
    "more parts": (put("more", 1), "other parts"),
    "no list": (put("list", 3), "a list has not equations"),
    "an unknown primitive": (put(*EQUATION, "primitive", "np.sine"), "'np.sine' is no primitive"),
    "a function of Python": (put(*EQUATION, "primitive", "builtins.eval"), "no primitive"),
    "a function of os": (put(*EQUATION, "primitive", "os.system"), "no primitive"),
    "a function that reads files": (put(*EQUATION, "primitive", "np.fromfile"), "no primitive"),
    "a list of a checkpoint that is none": (put(*EQUATION, "primitive", "functad.checkpoint"), "has a list, or has none"),
    "a slot too far": (put(*EQUATION, "inputs", [999]), "a slot is 999"),
    "a negative slot": (put(*EQUATION, "inputs", [-1]), "a slot is -1"),
    "a slot that is true": (put(*EQUATION, "inputs", [True]), "a slot is True"),
    "a slot that is no number": (put(*EQUATION, "inputs", ["0"]), "a slot is 0"),
    "a slot not made yet": (put(*EQUATION, "inputs", [8]), "CheckError.*before it is made|holds no"),
    "a slot made twice": (put(*EQUATION, "outputs", [0]), "taken or has no spec|holds no"),
    "a slot among the outputs": (put("list", "outputs", 0, 10**9), "a slot is 1000000000"),
    "too few specs": (put("list", "specs", []), "inputs have 0 specs"),
    "a wrong spec": (put("list", "specs", 2, ["<f8", 77]), "gives .* but the list says"),
    "a huge spec": (put("list", "specs", 0, ["<f8", 10**12, 10**12]), "larger than 1073741824 bytes"),
    "a huge constant": (put(*EQUATION, "inputs", [{"constant": {"array": [0, 10**15]}}]), "larger than"),
    "a negative length": (put("list", "specs", 0, ["<f8", -3]), "a length is -3"),
    "a dtype of objects": (put("list", "specs", 0, ["|O", 3]), "no dtype of numbers"),
    "a dtype of text": (put("list", "specs", 0, ["<f8,<f8", 3]), "no dtype of numbers"),
    "another number of outputs": (put("list", "outputs", []), "another number of leaves"),
    "arguments that are none": (put("list", "input_structure", "*"), "its arguments are none"),
    "a class as a structure": (put("list", "output_structure", {"Pair": ["*", "*"]}), "no structures called 'Pair'"),
    "an unknown value": (put(*EQUATION, "params", {"axis": {"pickle": "gASVBQ=="}}), "no values called 'pickle'"),
    "an unknown parameter": (put(*EQUATION, "params", {"fish": 1}), "holds no expression list"),
    "an array that is not there": (put(*EQUATION, "inputs", [{"constant": {"array": 5}}]), "the number of an array is 5"),
    "deep nesting": (lambda data: None, "RecursionError"),
    "rows that are not there": (lambda data: scan_of(data)["params"].update(length=4), "do not fit its arrays"),
    "fewer carries": (lambda data: scan_of(data)["params"].update(carries=0, rows=0), "do not fit its arrays"),
    "a body that is none": (lambda data: scan_of(data)["params"].update(body=1), "other parameters"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_lists_are_refused(name: str, parts: Any, tmp_path: Any) -> None:
    change, text = WRONG[name]
    change(parts["list.json"])
    if name == "deep nesting":
        parts["list.json"] = json_of_depth()
    with pytest.raises(StateError, match=text):
        read(parts, tmp_path / "wrong")


def json_of_depth() -> str:
    """Return lists within lists, deeper than Python can write them."""
    return '{"format": "functad expressions", "version": 1, "list": ' + "[" * 100_000 + "]" * 100_000 + "}"


def test_a_good_file_is_read_as_it_is(parts: Any, tmp_path: Any) -> None:
    assert repr(read(parts, tmp_path / "same")) == repr(GOOD)


def test_wrong_archives_are_refused(parts: Any, tmp_path: Any) -> None:
    path = tmp_path / "wrong"
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({}, {}, "has no list.json"),
        ({**parts, "list.json": "{"}, {}, "JSONDecodeError"),
        ({**parts, "list.json": b"\xff\xfe\x00"}, {}, "holds no expression list"),
        ({**parts, "list.json": '{"format": 1, "format": 2}'}, {}, "a key twice"),
        ({**parts, "list.json": '{"format": NaN}'}, {}, "NaN is no number"),
        ({**parts, "list.json": "9" * 5000}, {}, "holds no expression list"),
        (parts | {"../../etc/passwd": "x"}, {}, "no array"),
        (parts | {"arrays/9.npy": parts["arrays/0.npy"]}, {}, "other names"),
        (parts, {"compression": zipfile.ZIP_DEFLATED}, "is compressed"),
        (parts | {"arrays/0.npy": b"\x93NUMPY"}, {}, "'arrays/0' of .* is damaged"),
        (parts | {"arrays/0.npy": parts["arrays/0.npy"].replace(b"(2,)", b"(9999999999,)")}, {}, "ends too early|is damaged"),
        (parts | {"arrays/0.npy": parts["arrays/0.npy"].replace(b"'<i8'", b"'|O' ")}, {}, "never loaded"),
    ]
    for content, options, text in cases:
        with pytest.raises(StateError, match=text):
            read(content, path, **options)
    path.write_bytes(b"")
    with pytest.raises(StateError, match="no whole"):
        functad.load_expressions(path)
    functad.save(functad.Variable(1.0), path)
    with pytest.raises(StateError, match=r"has no list.json"):
        functad.load_expressions(path)
    with pytest.raises(FileNotFoundError):
        functad.load_expressions(tmp_path / "none")


def test_entries_that_overlap_are_refused(parts: Any, tmp_path: Any) -> None:
    """The directory of an archive can name the same bytes any number of times."""
    path = tmp_path / "overlapping"
    big = np.zeros(4000)
    file = io.BytesIO()
    np.lib.format.write_array(file, big)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("list.json", json.dumps(parts["list.json"]))
        archive.writestr("arrays/0.npy", file.getvalue())
        first = archive.infolist()[-1]
        for i in range(1, 6):
            again = copy.copy(first)
            again.filename = again.orig_filename = f"arrays/{i}.npy"
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
        archive._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(StateError, match=r"overlap|damaged"):
        functad.load_expressions(path)


def test_large_arrays_are_read_if_that_is_allowed(tmp_path: Any) -> None:
    functad.save_expressions(functad.make_expressions(lambda x: x * np.ones(2000))(1.0), tmp_path / "list")
    with pytest.raises(StateError, match=r"larger than 8000 bytes. Pass limit="):
        functad.load_expressions(tmp_path / "list", limit=8000)
    assert functad.load_expressions(tmp_path / "list", limit=16000)(2.0).shape == (2000,)


def tried(path: Any) -> bool:
    """Read a damaged file; return whether it was refused."""
    try:
        found = functad.load_expressions(path)
    except StateError:
        return True
    found.check()
    repr(found)
    return False


def test_flipped_bytes_and_truncations(tmp_path: Any) -> None:
    functad.save_expressions(GOOD, tmp_path / "good")
    whole = (tmp_path / "good").read_bytes()
    path, rng = tmp_path / "bad", random.Random(0)
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 3, 30])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data if rng.random() < 0.8 else data[: rng.randrange(len(data))])
        refused += tried(path)
    assert refused > 150


ODD = [None, True, -1, 0, 1, 2, 3, 7, 10**20, 0.5, "", "x", "np.sin", "<f8", "*", [], {}, [[]], {"tuple": []}, {"array": 0}]
ODD += [{"dict": []}, {"slice": [None, 1, 0]}, {"number": ["<f8", 1.0]}, {"constant": 1}, {"constant": {"array": 0}}]


def places_in(data: Any) -> list[tuple[Any, Any]]:
    """Return all places in data, each a container and a key."""
    found, open_ = [], [data]
    while open_:
        own = open_.pop()
        keys = list(own) if isinstance(own, dict) else range(len(own))
        for key in keys:
            found.append((own, key))
            if isinstance(own[key], (dict, list)):
                open_.append(own[key])
    return found


def test_random_changes_of_the_data(parts: Any, tmp_path: Any) -> None:
    rng, refused = random.Random(0), 0
    text = json.dumps(parts["list.json"])
    for _ in range(600):
        data = json.loads(text)
        for _ in range(rng.choice([1, 1, 2])):
            places = places_in(data)
            own, key = rng.choice(places)
            kind = rng.randrange(4)
            if kind == 0:
                own[key] = rng.choice(ODD)
            elif kind == 1:
                other, place = rng.choice(places)
                own[key] = copy.deepcopy(other[place])
            elif kind == 2:
                del own[key]
            elif isinstance(own[key], bool) or not isinstance(own[key], int):
                own[key] = rng.choice(ODD)
            else:
                own[key] += rng.choice([-1, 1, 100])
        refused += tried_with(parts, data, tmp_path / "bad")
    assert refused > 400


def tried_with(parts: Any, data: Any, path: Any) -> bool:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (parts | {"list.json": json.dumps(data)}).items():
            archive.writestr(name, content)
    return tried(path)
