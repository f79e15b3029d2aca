"""`save` and `restore`: the Variables of a model in an `.npz` file, one array for each attribute path; and such files."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from functad.eager.module import parts_of
from functad.eager.variable import Variable, refuse_foreign_rules
from functad.errors import StateError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here
from functad.process import write_whole


class Entry(NamedTuple):
    """The header data of an array in a file, and the function that reads the array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], Any]

    @property
    def size(self) -> int:
        """The unpacked size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


Entries = dict[str, Entry]


def save(module: Any, path: str | os.PathLike[str]) -> None:
    """Write the values of all Variables in a module to a file.

    The file is an `.npz` file, which `np.load` reads too. Its keys are attribute paths such as `layers/0/kernel`. The write is
    atomic: an existing file stays complete until the new file replaces it, and a failed write leaves no file behind.

    Other objects in the module are saved if they have two methods. `__functad_state__()` returns a dict of arrays, which are
    saved under the path of the object. `restore` passes such a dict to `__functad_load__(state)`. So an optimiser in an
    attribute of a model is saved with the model.

    Args:
        module: a module, or a list, tuple or dict of modules, Variables and such objects.
        path: the path of the file; no suffix is added.

    Raises:
        StateError: there is nothing to save, two objects have the same path, or a file cannot hold a path (with a NUL, for
            example).

    Example:
        >>> import pathlib, tempfile, functad
        >>> layer = functad.nn.Dense(1, inputs=2, rng=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "layer.npz")
        ...     functad.save(layer, file)
        ...     other = functad.nn.Dense(1, inputs=2)
        ...     functad.restore(other, file)
        >>> bool((other.kernel == layer.kernel).all())
        True
    """
    state: dict[str, Any] = {}
    for key, value in _entries(module):
        if key in state:
            raise StateError(
                f"two things would be saved as {key!r}, at {here()}: give one of the attributes or keys another name."
            )
        check_name(key)
        state[key] = np.asarray(value)
        if state[key].dtype.kind not in "biufc":
            raise StateError(f"{key!r} is an array of {state[key].dtype}, at {here()}: only numbers can be saved.")
    if not state:
        raise StateError(f"a {type(module).__name__} without Variables cannot be saved, at {here()}. {_hint(module)}")
    write_arrays(Path(path), state)


def _hint(module: Any) -> str:
    if isinstance(module, (str, os.PathLike)):
        return "The module stands first, the path second."
    return "Layers that take their shape from the first call have to be called once before, or made with `inputs=`."


def _entries(module: Any) -> Iterator[tuple[str, Any]]:
    for path, found in parts_of(module):
        if isinstance(found, Variable):
            yield path, found.copied()
        elif _has_state(found):
            for key, value in found.__functad_state__().items():
                yield f"{path}/{key}" if path else key, value


def _has_state(found: Any) -> bool:
    return hasattr(type(found), "__functad_state__")


def restore(module: Any, path: str | os.PathLike[str] | Mapping[str, Any]) -> None:
    """Set the values of all Variables in a module from a file that `save` wrote, or from a dict.

    `restore` compares all entries before it reads arrays or assigns values. Each Variable needs an entry with its shape and
    dtype, and there must be no other entries. An object with `__functad_load__` gets the entries below its path. They must
    include and fit the keys of its present state. The object may accept further entries, like an optimiser before its first
    step, or refuse them. If the object raises, or an interrupt comes, no value changes.

    Args:
        module: the saved module, or another module of the same structure.
        path: the path of the file, or a dict of arrays by attribute path, as from `values_of`.

    Raises:
        StateError: entries are missing, superfluous, or have another shape or dtype; the message names all of them. Or the file
            is damaged, holds other data than arrays of numbers, or holds a state that is far too large. `restore` executes
            nothing from a file, and assigns no value before it raises.

    Example:
        >>> import functad
        >>> layer = functad.nn.Dense(1, inputs=1)
        >>> values = functad.values_of(layer)
        >>> functad.restore(layer, values | {"kernel": values["kernel"] * 0 + 2})
        >>> layer([[3.0]]).numpy()
        array([[6.]])
    """
    if isinstance(path, Mapping):
        for key, value in path.items():
            refuse_foreign_rules(value, f"restore with a value for {key!r}")
        given: Any = nullcontext({key: _given(np.asarray(value)) for key, value in path.items()})
    else:
        given = opened(Path(path))
    found = list(parts_of(module))
    variables = {key: variable for key, variable in found if isinstance(variable, Variable)}
    with given as entries:
        wrong: list[str] = []
        for key, variable in variables.items():
            _compare(key, variable, entries, wrong)
        left = {key: entry for key, entry in entries.items() if key not in variables}
        others = _states_below(found, left, wrong)
        if wrong or left:
            wrong += [f"{key} is not in the module" for key in left]
            source = "a dict of values" if isinstance(path, Mapping) else path
            hint = f" {_hint(module)}" if left else ""
            raise StateError(f"{source} does not fit the {type(module).__name__}, at {here()}: {'; '.join(wrong)}.{hint}")
        if not isinstance(path, Mapping):
            _check_sizes(Path(path), [entries[key] for key in variables], others)
        values = [(variable, entries[key].read()) for key, variable in variables.items()]
        states = [(other, {key: entry.read() for key, entry in own.items()}) for other, own in others]
    with ExitStack() as undo:
        for other, state in states:
            undo.callback(other.__functad_load__, other.__functad_state__())
            other.__functad_load__(state)
        for variable, value in values:
            undo.callback(variable.putting_back())
            variable.assign(value)
        undo.pop_all()


def _given(array: Any) -> Entry:
    return Entry(array.shape, array.dtype, lambda: array)


def _check_sizes(path: Path, known: list[Entry], others: list[tuple[Any, Entries]]) -> None:
    """Refuse state entries of unknown expected size that are far too large when unpacked.

    Raises:
        StateError: the entries are larger than the file and much larger than the compared entries.
    """
    states = [(own, other.__functad_state__()) for other, own in others]
    known = known + [own[key] for own, state in states for key in state]
    further = sum([entry.size for own, state in states for key, entry in own.items() if key not in state])
    if further > path.stat().st_size + _PROPORTION * sum([entry.size for entry in known]):
        raise StateError(
            f"{path} holds {further} bytes of state that {', '.join([type(other).__name__ for other, _ in others])} does not "
            f"have yet, out of all proportion to the Variables, at {here()}: nothing of it was read."
        )


_PROPORTION = 100
"""The largest ratio of a state, of an optimiser before its first step, to the compared entries."""


def _states_below(found: list[tuple[str, Any]], left: Entries, wrong: list[str]) -> list[tuple[Any, Entries]]:
    """Move the entries below each object with `__functad_state__` out of `left`, and return them with the object."""
    others: list[tuple[Any, Entries]] = []
    for where, other in sorted(found, key=lambda pair: -len(pair[0])):  # inner objects first
        if _has_state(other):
            prefix = f"{where}/" if where else ""
            own = {key[len(prefix) :]: left.pop(key) for key in list(left) if key.startswith(prefix)}
            for key, like in other.__functad_state__().items():
                _compare(key, np.asarray(like), own, wrong, prefix)
            others.append((other, own))
    return others


def _compare(key: str, like: Any, entries: Entries, wrong: list[str], prefix: str = "") -> None:
    """Append a message to `wrong` if an entry is missing or does not fit."""
    name, entry = prefix + key, entries.get(key)
    if entry is None:
        wrong.append(f"{name} is missing")
    elif entry.shape != shape_of(like):
        wrong.append(f"{name} has shape {entry.shape} in place of {shape_of(like)}")
    elif entry.dtype.newbyteorder("=") != dtype_of(like).newbyteorder("="):
        wrong.append(f"{name} is of {entry.dtype} in place of {dtype_of(like)}")


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
                found = "two entries" if counts[name] > 1 else "an entry that is no array"
                raise StateError(f"{path} holds {found}, {name!r}, at {here()}: it was not written by {writer}.")
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
def _telling(failure: str) -> Iterator[None]:
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
        raise StateError(f"{failure}, at {here()}: {type(error).__name__}: {text}.") from error
