"""Files of arrays by name, as `np.savez` writes them: written whole or not at all, and read no further than asked for."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from functad.errors import StateError
from functad.files import write_whole
from functad.places import here

_format = np.lib.format
_Read = TypeVar("_Read")
_ENDING = ".npy"
_READINGS = 100
_LONGEST_NAME = (1 << 16) - 1
_LONGEST_HEADER = 10_000
_LONGEST_TEXT = 200
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of others `zipfile` unpacks more than it is asked for
_HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], Any]] = {
    (1, 0): _format.read_array_header_1_0,
    (2, 0): _format.read_array_header_2_0,
}


class Entry(NamedTuple):
    """What a file says of an array before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], Any]

    @property
    def size(self) -> int:
        """In bytes, unpacked."""
        return math.prod(self.shape) * self.dtype.itemsize


def check_name(name: str) -> None:
    """Refuse a name that a file cannot hold as it is.

    Raises:
        StateError: it holds a NUL, for example, or a part of a character.
    """
    member = name + _ENDING
    try:
        held = zipfile.ZipInfo(member).filename == member and len(member.encode()) <= _LONGEST_NAME
    except UnicodeEncodeError:
        held = False
    if not held:
        shown = repr(name) if len(name) < 80 else f"{name[:40]!r}... of {len(name)} characters"
        raise StateError(f"a file cannot hold an entry named {shown}, at {here()}: give the attribute or key another name.")


def write_arrays(path: Path, arrays: Mapping[str, Any], texts: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write arrays as `np.savez` does, which cannot have names such as `file`; a file that was there stays until then.

    Args:
        path: of the file.
        arrays: by name.
        texts: what stands beside the arrays, by the names of members such as `list.json`.
    """

    def write(file: IO[bytes]) -> None:
        _write_archive(file, arrays, texts)
        file.flush()
        os.fsync(file.fileno())

    write_whole(path.resolve(), write)  # a link stays one


def _write_archive(file: IO[bytes], arrays: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
    try:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name), text)
        for name, array in arrays.items():
            entry = archive.open(name + _ENDING, "w", force_zip64=True)
            _format.write_array(entry, array, allow_pickle=False)
            entry.close()
        archive.close()
    except BaseException:
        archive.fp = io.BytesIO()  # what was not written to the end is completed when it is collected, but not in the file
        raise


@contextmanager
def opened(path: Path, writer: str = "functad.save", texts: Collection[str] = ()) -> Iterator[dict[str, Entry]]:
    """Return a context in which the arrays of a file can be read.

    Args:
        path: of the file.
        writer: the function that writes such files.
        texts: members that are texts, each an `Entry` that reads bytes. There are some only in files that are not compressed,
            so that what is read is never larger than the file.

    Raises:
        StateError: the file is damaged, or holds something else than arrays of numbers.
    """
    with path.open("rb") as file:
        start = file.read(6)
        if start == _format.MAGIC_PREFIX:
            raise StateError(f"{path} holds one array, at {here()}: it was not written by {writer}.")
        if start[:2] != b"PK" and start:
            raise StateError(f"{path} is no .npz file of numbers, at {here()}. {_NEVER}")
        with _telling(f"{path} is no whole .npz file"):
            archive = zipfile.ZipFile(file)
        names = archive.namelist()
        counts = Counter(names)
        if texts and not _plainly_stored(archive, path):
            raise StateError(f"{path} is compressed, or its entries overlap, at {here()}: it was not written by {writer}.")
        if any(entry.compress_type not in _METHODS for entry in archive.infolist()):
            raise StateError(f"{path} is compressed as NumPy's files are not, at {here()}: it was not written by {writer}.")
        for name in names:
            if counts[name] > 1 or not (name.endswith(_ENDING) or name in texts):
                what = "two entries" if counts[name] > 1 else "an entry that is no array"
                raise StateError(f"{path} holds {what}, {name!r}, at {here()}: it was not written by {writer}.")
        yield {name.removesuffix(_ENDING): (_text if name in texts else _entry)(path, archive, name) for name in names}


_NEVER = "It holds text or Python objects, which are never loaded."


def _plainly_stored(archive: zipfile.ZipFile, path: Path) -> bool:
    """Say whether no entry is larger than what stands for it in the file, and none stands for two."""
    entries = archive.infolist()
    plain = all(e.compress_type == zipfile.ZIP_STORED and e.file_size == e.compress_size for e in entries)
    return plain and sum([e.file_size for e in entries]) <= path.stat().st_size


def _text(path: Path, archive: zipfile.ZipFile, name: str) -> Entry:
    size = archive.getinfo(name).file_size
    return Entry((size,), np.dtype(np.uint8), partial(_read, path, archive, name, lambda entry: entry.read()))


def _entry(path: Path, archive: zipfile.ZipFile, name: str) -> Entry:
    shape, dtype = _read(path, archive, name, _header)
    if dtype.kind not in "biufc":
        key = name.removesuffix(_ENDING)
        raise StateError(f"{path} is no .npz file of numbers, at {here()}: {key!r} is of {dtype}. {_NEVER}")
    entry = Entry(shape, dtype, partial(_read, path, archive, name, _whole_array))
    if entry.size > archive.getinfo(name).file_size:  # NumPy would make room for it before it reads
        raise StateError(f"the entry {name.removesuffix(_ENDING)!r} of {path} is damaged, at {here()}: it ends too early.")
    return entry


def _header(entry: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    start = io.BytesIO(entry.read(_LONGEST_HEADER))  # NumPy makes room for what the header says that it takes, unpacked
    version = _format.read_magic(start)
    if version not in _HEADERS:  # later ones are for names of fields only, which numbers do not have
        return (), np.dtype(object)
    try:
        shape, _, dtype = _HEADERS[version](start)
    except MemoryError as error:  # that is what Python's parser raises of text that is nested too deeply
        raise ValueError("its header is nested too deeply") from error
    return shape, dtype


def _whole_array(entry: IO[bytes]) -> Any:
    array = _format.read_array(entry, allow_pickle=False)
    if entry.read(1):
        raise ValueError("there is more in it than its array")
    return array


def _read(path: Path, archive: zipfile.ZipFile, name: str, reader: Callable[[IO[bytes]], _Read]) -> _Read:
    """Read an entry.

    NumPy reads a header by `ast.literal_eval`, which raises SystemError in Python 3.11 and 3.12 when another thread parses at
    the same moment, because they count the depth of both in one place (CPython's issue 106905). The entry is then read again.
    """
    with _telling(f"the entry {name.removesuffix(_ENDING)!r} of {path} is damaged"):
        for _ in range(_READINGS - 1):
            with archive.open(name) as entry, suppress(SystemError):
                return reader(entry)
        with archive.open(name) as entry:
            return reader(entry)


@contextmanager
def _telling(what: str) -> Iterator[None]:
    """Return a context in which whatever the readers of a damaged file raise is one error.

    Raises:
        StateError: something was raised.
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # zipfile, zlib, struct and NumPy have each their own
        text = str(error).partition("\n")[0][:_LONGEST_TEXT].rstrip(".")
        raise StateError(f"{what}, at {here()}: {type(error).__name__}: {text}.") from error
