"""Files that were damaged, or made to do harm: whoever reads one gives what it holds or raises one error, and changes nothing.

Whole files are written; members of their archives are changed, dropped, doubled, swapped, and given headers that lie; then
bytes of the file. `pytest tests/test_hostile_files.py --hypothesis-profile=long` tries some hundred times as many.
"""

from __future__ import annotations

import io
import json
import re
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import functad
from functad.backends.native import disk
from functad.errors import StateError
from functad.primitives.entry import ENTRIES
from functad.testing import every_entry

ROOM = 64 << 20
X = np.array([0.5, 1.0, 2.0])


class Moments:
    """An optimiser that has made no step: it takes any state that it is given."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def __functad_state__(self) -> dict[str, Any]:
        return dict(self.held)

    def __functad_load__(self, state: dict[str, Any]) -> None:
        self.held = dict(state)


def model(fill: float) -> dict[str, Any]:
    kernel, count = functad.Variable(np.full((2, 3), fill)), functad.Variable(np.full(4, int(fill)), trainable=False)
    return {"kernel": kernel, "inner": [count], "optimizer": Moments()}


def looped(x: Any) -> Any:
    total = functad.scan(lambda c, row: (c * 2.0 + row, np.sin(c)), 0.0, x)[0]
    return {"total": functad.cond(total > 0, np.sin, np.cos, total), "rest": x[np.array([0, 2])] @ np.ones((2, 2), np.float32)}


def members_of(path: Path) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


class Files(dict[str, Any]):
    """The members of a file of each kind, and a path to write to."""

    def __repr__(self) -> str:
        return "files"  # which Hypothesis would print whole


@pytest.fixture(scope="module", name="files")
def fixture_files(tmp_path_factory: Any) -> Files:
    every_entry()  # a name of SciPy's enters all of them
    path = tmp_path_factory.mktemp("files") / "file"
    saved = model(3.0)
    saved["optimizer"].held = {"m": np.ones((2, 3)), "steps": np.int64(2)}
    functad.save(saved, path)
    found = {"restore": members_of(path), "path": path}
    functad.save_expressions(functad.make_expressions(looped)(X), path)
    return Files(found, load_expressions=members_of(path))


# Changes of the members


def named(texts: list[str]) -> dict[str, str]:
    """Return texts by names that are short, as Hypothesis prints them all."""
    return {text if len(text) < 40 else f"{text[:3]}, {len(text)} in all": text for text in texts}


NAMES = ["list.json", "x", "k" * 300, ".npy", "kernel.npy", "inner/0.npy", "optimizer/m.npy", "arrays/0.npy", "arrays/7.npy"]
ODD_NAMES = ["a\0.npy", "../../etc.npy", "optimizer/../m.npy", "ядро.npy", "kernel.npy/"]
DTYPES = ["'<f8'", "'>f8'", "'<i8'", "'|b1'", "'<c16'", "'|O'", "'<U9'", "'|V2000000000'", "'<M8[s]'", "[('a', '<f8')]", "7"]
SIZES = ["()", "(2, 3)", "(4,)", "(100000000,)", "(1000000000000,)", "(0, 10**9)", f"(0, {10**30})", "(-1,)", "(-2, -3)"]
NO_SIZES = [
    "4",
    "(True,)",
    "None",
    "(2.0,)",
    "('a',)",
    "(4,\0)",
    "(1,) * 9",
    "(" * 150 + ")" * 150,
    "-" * 9000 + "1",
    "[" * 4000,
]
NUMBERS = ["-1", "0", "7", "1000000000", str(10**30), "1" * 5000, "1e999", "NaN", "null", "true", '"\\u0000"', '"\\ud800"']
PARTS = ["[]", "{}", '{"array": 0}', '{"dict": []}', "[" * 2000, "[" * 500 + "]" * 500]
PRIMITIVES = ['"np.ones"', '"np.fromfile"', '"functad.scan"', '"special.gamma"']
SHAPES, TOKENS = named(SIZES + NO_SIZES), named(NUMBERS + PARTS + PRIMITIVES)


def header(descr: str, shape: str, version: int, claimed: int) -> bytes:
    """Return the beginning of an array in NumPy's format, which claims that it is longer by so many bytes."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {SHAPES.get(shape, shape)}, }}".encode()
    length = len(text) + claimed
    size = min(length, 65535).to_bytes(2, "little") if version == 1 else length.to_bytes(4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + text


fractions = st.floats(0.0, 1.0, exclude_max=True)
pieces = st.binary(max_size=12) | st.sampled_from(
    [b"\0" * 40, b"\xff" * 4, b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\x93NUMPY"]
)
spans = st.tuples(fractions, fractions)


def cut(content: bytes, span: tuple[float, float]) -> tuple[int, int]:
    first, last = sorted(int(at * (len(content) + 1)) for at in span)
    return first, last


BYTES: dict[str, Callable[[bytes, tuple[float, float], bytes], bytes]] = {
    "truncate": lambda content, span, _: content[: cut(content, span)[1]],
    "behead": lambda content, span, _: content[cut(content, span)[0] :],
    "splice": lambda content, span, new: content[: cut(content, span)[0]] + new + content[cut(content, span)[1] :],
    "write": lambda content, span, new: content[: (i := cut(content, span)[0])] + new + content[i + len(new) :],
    "repeat": lambda content, span, _: content[: cut(content, span)[1]] + content[cut(content, span)[0] :],
    "flip": lambda content, span, new: (
        content[: (i := cut(content, span)[0])]
        + bytes([c ^ (1 << len(new) % 8) for c in content[i : i + 1]])
        + content[i + 1 :]
    ),
}
byte_changes = st.tuples(st.sampled_from(sorted(BYTES)), spans, pieces)


def changed(content: bytes, change: tuple[str, tuple[float, float], bytes]) -> bytes:
    kind, span, new = change
    return BYTES[kind](content, span, new)


headers = st.builds(
    header,
    st.sampled_from(DTYPES),
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from([1, 2, 3, 9]),
    st.sampled_from([0, 1, 60_000]),
)
member_changes = st.one_of(
    st.tuples(st.just("bytes"), fractions, byte_changes),
    st.tuples(st.just("header"), fractions, headers),
    st.tuples(st.just("token"), fractions, st.tuples(fractions, st.sampled_from(sorted(TOKENS)))),
    st.tuples(st.just("rename"), fractions, st.sampled_from(NAMES + ODD_NAMES)),
    st.tuples(st.just("swap"), fractions, fractions),
    st.tuples(st.just("double"), fractions, st.sampled_from([None, *NAMES, *ODD_NAMES])),
    st.tuples(st.just("drop"), fractions, st.none()),
)


def apply(members: list[tuple[str, bytes]], change: tuple[str, float, Any]) -> None:
    """Change a member in place: the one at some fraction of their number."""
    kind, at, what = change
    if not members:
        return
    i = int(at * len(members))
    name, content = members[i]
    if kind == "bytes":
        members[i] = name, changed(content, what)
    elif kind == "header":
        members[i] = name, what + content[128:]
    elif kind == "token":
        tokens = list(re.finditer(rb'"[^"]*"|-?\d+(\.\d+)?|null|true', content))
        if tokens:
            found = tokens[int(what[0] * len(tokens))]
            members[i] = name, content[: found.start()] + TOKENS[what[1]].encode() + content[found.end() :]
    elif kind == "rename":
        members[i] = what, content
    elif kind == "swap":
        j = int(what * len(members))
        members[i], members[j] = (name, members[j][1]), (members[j][0], content)
    elif kind == "double":
        members.append((name if what is None else what, content))
    else:
        del members[i]


def archived(members: list[tuple[str, bytes]], method: int) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        with zipfile.ZipFile(file, "w", method) as archive:
            for name, content in members:
                archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


methods = st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
hostile = st.tuples(st.lists(member_changes, max_size=3), methods, st.lists(byte_changes, max_size=2))


def written(files: Files, kind: str, how: Any) -> Path:
    """Write a file of a kind with some changes."""
    changes, method, last = how
    members = list(files[kind])
    for change in changes:
        apply(members, change)
    content = archived(members, method)
    for change in last:
        content = changed(content, change)
    path: Path = files["path"]
    path.write_bytes(content)
    return path


def read(call: Callable[[], Any], path: Path) -> tuple[Any, StateError | None]:
    """Return what is read, or the error; in memory that is bounded."""
    found, error = None, None
    tracemalloc.start()
    try:
        found = call()
    except StateError as refused:
        error = refused
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < path.stat().st_size + ROOM
    text = str(error or f"{path} {Path(__file__).name}")
    assert str(path) in text
    assert Path(__file__).name in text
    assert len(text) < 1500
    return found, error


@given(hostile)
def test_restore(files: Files, how: Any) -> None:
    path, own = written(files, "restore", how), model(7.0)
    _, error = read(lambda: functad.restore(own, path), path)
    kernel, count, held = own["kernel"].numpy(), own["inner"][0].numpy(), own["optimizer"].held
    assert (kernel.shape, kernel.dtype, count.shape, count.dtype) == ((2, 3), np.dtype(float), (4,), np.dtype(int))
    if error is not None:
        assert np.all(kernel == 7.0)
        assert np.all(count == 7)
        assert held == {}


@given(hostile)
def test_load_expressions(files: Files, how: Any) -> None:
    known = len(ENTRIES)
    path = written(files, "load_expressions", how)
    found, _ = read(lambda: functad.load_expressions(path), path)
    if found is not None:
        found.check()
        assert repr(found)
    assert len(ENTRIES) == known


@given(st.integers(0, 1), st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_what_is_no_archive(files: Files, kind: int, content: bytes) -> None:
    path: Path = files["path"]
    path.write_bytes((b"PK\x03\x04" * kind) + content)
    own = model(7.0)
    for call in (lambda: functad.restore(own, path), lambda: functad.load_expressions(path)):
        assert read(call, path)[1] is not None
    assert np.all(own["kernel"].numpy() == 7.0)


@given(byte_changes)
def test_machine_code_that_was_changed_is_not_run(files: Files, change: Any) -> None:
    path, code = files["path"], bytes(range(256))
    path.unlink(missing_ok=True)
    disk._write(path, code)
    whole = path.read_bytes()
    path.write_bytes(changed(whole, change))
    assert disk._read(path) == (code if path.read_bytes() == whole else None)


# Small files that would take much memory

ZEROS = bytes(1 << 20)


def bomb(name: str, start: bytes, megabytes: int) -> bytes:
    """Return an archive with a member that is nearly all zeros, deflated to a thousandth."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w") as member:
        member.write(start)
        for _ in range(megabytes):
            member.write(ZEROS)
    return file.getvalue()


BOMBS = {
    "the header": ("kernel.npy", header("'<f8'", "(2, 3)", 2, 150 << 20), "is damaged"),
    "the array": ("kernel.npy", header("'<f8'", f"({150 << 17},)", 1, 0), "has shape"),
    "behind the array": ("kernel.npy", header("'<f8'", "(2, 3)", 1, 0), "more in it than its array"),
    "a state that nobody knows": ("optimizer/m.npy", header("'<f8'", f"({150 << 17},)", 1, 0), "out of all proportion"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_is_unpacked_is_not_larger_than_what_is_asked_for(files: Files, name: str) -> None:
    member, start, text = BOMBS[name]
    path, own = files["path"], model(7.0)
    rest = [pair for pair in files["restore"] if pair[0] not in (member, "optimizer/m.npy", "optimizer/steps.npy")]
    path.write_bytes(bomb(member, start, 150))
    with zipfile.ZipFile(path, "a") as archive:
        for pair in rest:
            archive.writestr(*pair)
    assert path.stat().st_size < 1 << 20
    _, error = read(lambda: functad.restore(own, path), path)
    assert re.search(text, str(error))
    assert np.all(own["kernel"].numpy() == 7.0)
    assert own["optimizer"].held == {}


def test_states_that_compress_well_are_read(files: Files) -> None:
    path, own = files["path"], model(7.0)
    np.savez_compressed(path.with_suffix(".npz"), **{name[:-4]: np.load(io.BytesIO(part)) for name, part in files["restore"]})
    functad.restore(own, path.with_suffix(".npz"))
    assert own["optimizer"].held["m"].tolist() == np.ones((2, 3)).tolist()
    assert np.all(own["kernel"].numpy() == 3.0)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_unpack_more_than_they_are_asked_for_are_refused(files: Files, method: int) -> None:
    files["path"].write_bytes(archived(files["restore"], method))
    with pytest.raises(StateError, match="compressed as NumPy's files are not"):
        functad.restore(model(7.0), files["path"])


def test_the_list_of_a_good_file_is_json(files: Files) -> None:
    """The changes above meet a list as it is now: tokens are there to be changed."""
    (text,) = [content for name, content in files["load_expressions"] if name == "list.json"]
    assert json.loads(text)["format"] == "functad expressions"
