"""`save_expressions` and `load_expressions`: an expression list in a file without executable code."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from functad.eager.save import Entry, opened, write_arrays
from functad.errors import InputError, StateError
from functad.export.bodies import check_calls
from functad.export.data import DamagedError, Decoder, Encoder, TooLargeError
from functad.expressions.expressions import Expressions
from functad.places import here

FORMAT = "functad expressions"
VERSION = 1
"""The version of the file format; `load_expressions` rejects other versions."""

_TEXT = "list.json"
_LARGEST = 1 << 30


def save_expressions(expressions: Expressions, path: str | os.PathLike[str]) -> None:
    """Write an expression list, with the inner lists of its loops and branches, to a file.

    The file is a zip archive of `list.json`, with the names of the primitives, and one `.npy` file for each array in the list.
    The write is atomic, as in `functad.save`.

    Args:
        expressions: the result of `make_expressions`.
        path: the path of the file; no suffix is added.

    Raises:
        StateError: the list contains a part that cannot be written: a function with custom rules (the message gives its line),
            an object that is not a number or array, a Tensor of an enclosing trace, or a container that is not one of Python's
            own classes.
        InputError: `expressions` is not an expression list.

    Example:
        >>> import pathlib, tempfile, numpy as np, functad
        >>> slope = functad.make_expressions(functad.grad(lambda x: np.sum(x**3)))(np.ones(2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "slope.functad")
        ...     functad.save_expressions(slope, file)
        ...     found = functad.load_expressions(file)
        >>> found(np.array([1.0, 2.0]))
        array([ 3., 12.])
    """
    if not isinstance(expressions, Expressions):
        raise InputError(
            f"save_expressions needs an expression list, not a {type(expressions).__name__}, at {here()}. Write "
            f"save_expressions(functad.make_expressions(f)(*args), path)."
        )
    encoder = Encoder()
    data = {"format": FORMAT, "version": VERSION, "list": encoder.expressions(expressions)}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    write_arrays(Path(path), {f"arrays/{i}": array for i, array in enumerate(encoder.arrays)}, {_TEXT: text})


def load_expressions(path: str | os.PathLike[str], limit: int = _LARGEST) -> Expressions:
    """Read an expression list from a file written by `save_expressions`.

    Nothing in the file is executed. The file contains only names of functad's primitives, and numbers; other content raises.
    The list and its inner lists are checked as in `Expressions.check`, so they can be run and differentiated.

    Args:
        path: the path of the file.
        limit: the maximum size in bytes of an array in the list. The shape rules of some functions compute with arrays of the
            shapes in the file, which may be arbitrarily large.

    Returns:
        The list. It computes the same results as the saved list.

    Raises:
        StateError: the file is damaged, of another version, not an expression list, contains an array above the limit, or names
            an unknown primitive; the message gives the cause.
        OSError: the file does not exist or cannot be read.

    Example:
        >>> import pathlib, tempfile, functad
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "list.functad")
        ...     functad.save_expressions(functad.make_expressions(lambda x, y: {"sum": x + y})(1.0, 2.0), file)
        ...     functad.load_expressions(file)
        { lambda x:float[] y:float[].
          a:float[] = add x y
          return a }
    """
    file = Path(path)
    with opened(file, "functad.save_expressions", (_TEXT,)) as entries:
        text = entries.pop(_TEXT, None)
        if text is None:
            raise StateError(f"{file} has no {_TEXT}, at {here()}: it was not written by functad.save_expressions.")
        with _telling(file):
            data = json.loads(text.read(), object_pairs_hook=_once, parse_constant=_no_constant)
            return _checked(_decoded(data, entries, limit))


def _decoded(data: Any, entries: dict[str, Entry], limit: int) -> Expressions:
    """Return the list in a file, unchecked."""
    if type(data) is not dict or data.get("format") != FORMAT:
        raise DamagedError("it is of another format")
    version = data.get("version")
    if type(version) is not int or version != VERSION:
        raise DamagedError(f"it is of version {str(version)[:20]}, and this functad reads version {VERSION}")
    if data.keys() != {"format", "version", "list"}:
        raise DamagedError("it has other parts than a list")
    names = [f"arrays/{i}" for i in range(len(entries))]
    if entries.keys() != set(names):
        raise DamagedError("its arrays have other names")
    return Decoder([_reader(entries[name], limit) for name in names], limit).expressions(data["list"])


def _reader(entry: Entry, limit: int) -> Callable[[], Any]:
    def read() -> Any:
        if entry.dtype.itemsize * int(np.prod(entry.shape, dtype=float)) > limit:
            raise TooLargeError(f"an array of {entry.dtype} and shape {entry.shape} is larger than {limit} bytes")
        return entry.read()

    return read


def _checked(expressions: Expressions) -> Expressions:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_calls(expressions)
        return expressions.check()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DamagedError("an object has a key twice")
    return found


def _no_constant(name: str) -> Any:
    raise DamagedError(f"{name} is no number of JSON")


@contextmanager
def _telling(file: Path) -> Iterator[None]:
    """Return a context that turns every error of readers and shape rules into a `StateError`.

    Raises:
        StateError: the body raised an error.
    """
    try:
        yield
    except TooLargeError as error:
        raise StateError(f"{file} cannot be read, at {here()}: {error}. Pass limit= if it may be so large.") from None
    except DamagedError as error:
        raise StateError(f"{file} holds no expression list, at {here()}: {error}.") from None
    except Exception as error:  # shape rules may raise any error for arguments that no trace passes
        raise StateError(f"{file} holds no expression list, at {here()}: {type(error).__name__}: {error}.") from error
