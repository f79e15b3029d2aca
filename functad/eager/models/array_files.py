"""Files of named arrays in the format of `np.savez`: atomic writes, and reads of the requested entries only."""

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
from functad.places import here
from functad.process import write_whole

_format = np.lib.format
_Read = TypeVar("_Read")
_ENDING = ".npy"
_READINGS = 100
_LONGEST_NAME = (1 << 16) - 1
_LONGEST_HEADER = 10_000
_LONGEST_TEXT = 200
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # for other methods `zipfile` unpacks more than requested
_HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], Any]] = {
    (1, 0): _format.read_array_header_1_0,
    (2, 0): _format.read_array_header_2_0,
}


class Entry(NamedTuple):
    """The header data of an array in a file, and the function that reads the array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], Any]

    @property
    def size(self) -> int:
        """The unpacked size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def check_name(name: str) -> None:
    """Refuse a name that a file cannot hold unchanged.

    Raises:
        StateError: the name is too long, or holds a NUL or a lone surrogate, for example.
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
    """Write arrays in the format of `np.savez`, with any names. An old file is replaced only after a complete write.

    Args:
        path: the path of the file.
        arrays: the arrays by name; `np.savez` itself does not accept names such as `file`.
        texts: further text members by name, such as `list.json`.
    """

    def write(file: IO[bytes]) -> None:
        _write_archive(file, arrays, texts)
        file.flush()
        os.fsync(file.fileno())

    write_whole(path.resolve(), write)  # keeps symbolic links


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
        archive.fp = io.BytesIO()  # the archive writes its end when it is collected: not into the file
        raise


@contextmanager
def opened(path: Path, writer: str = "functad.save", texts: Collection[str] = ()) -> Iterator[dict[str, Entry]]:
    """Return a context that yields the entries of a file by name.

    Args:
        path: the path of the file.
        writer: the function that writes such files, for messages.
        texts: the names of text members; their entries read bytes. A file with texts must not be compressed, so that reads are
            never larger than the file.

    Raises:
        StateError: the file is damaged, or holds other data than arrays of numbers.
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
    """Return `True` if no entry is compressed and the sizes show no overlap of entries."""
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
    if entry.size > archive.getinfo(name).file_size:  # NumPy would allocate this size before it reads
        raise StateError(f"the entry {name.removesuffix(_ENDING)!r} of {path} is damaged, at {here()}: it ends too early.")
    return entry


def _header(entry: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    start = io.BytesIO(entry.read(_LONGEST_HEADER))  # NumPy allocates the header length that the file claims
    version = _format.read_magic(start)
    if version not in _HEADERS:  # later versions are for field names, so not for numbers
        return (), np.dtype(object)
    try:
        shape, _, dtype = _HEADERS[version](start)
    except MemoryError as error:  # Python's parser raises it for text that is nested too deeply
        raise ValueError("its header is nested too deeply") from error
    return shape, dtype


def _whole_array(entry: IO[bytes]) -> Any:
    array = _format.read_array(entry, allow_pickle=False)
    if entry.read(1):
        raise ValueError("there is more in it than its array")
    return array


def _read(path: Path, archive: zipfile.ZipFile, name: str, reader: Callable[[IO[bytes]], _Read]) -> _Read:
    """Read an entry.

    NumPy parses a header with `ast.literal_eval`. In Python 3.11 and 3.12 this raises `SystemError` if another thread parses at
    the same moment: both threads share one depth counter (CPython issue 106905). `_read` then tries again.
    """
    with _telling(f"the entry {name.removesuffix(_ENDING)!r} of {path} is damaged"):
        for _ in range(_READINGS - 1):
            with archive.open(name) as entry, suppress(SystemError):
                return reader(entry)
        with archive.open(name) as entry:
            return reader(entry)


@contextmanager
def _telling(what: str) -> Iterator[None]:
    """Return a context that turns every error of a damaged file into a `StateError`.

    Raises:
        StateError: the block raised an error other than `MemoryError`.
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # zipfile, zlib, struct and NumPy raise different classes
        text = str(error).partition("\n")[0][:_LONGEST_TEXT].rstrip(".")
        raise StateError(f"{what}, at {here()}: {type(error).__name__}: {text}.") from error
