"""Residuals: user arrays that records keep for the backward pass.

A derivative must not change when the user overwrites an array after its use. functad never writes to a user array and never
changes its flags. The rules hold for operands, indices, masks and arrays in other parameters:

- Arrays of up to 8 KiB are copied.
- Larger arrays are kept by reference, since a copy would cost as much as the operation. Their checksum is computed at the first
  use and after the function has returned. A difference raises an error.
- Traces that outlive the function (pullbacks, tapes) copy arrays of every size.
- Read-only constants that own their memory need neither a copy nor a checksum.

The function may also write into its own inputs through another reference. NumPy would continue with the new values, a trace
cannot, so this raises for every size. Small inputs are compared with their copies, large ones by checksum.

`_checksum` lists the changes that are detected.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from functad.places import user_frame
from functad.settings import context_variable, setting

_ndarray = np.ndarray
_getframe = sys._getframe
_add_reduce = np.add.reduce
_WORD, _BYTE = np.dtype(np.uint64), np.dtype(np.uint8)
SMALL = 1 << 13
"""Residuals of up to this number of bytes are copied (0.7 us; two checksums take 10 us)."""

_COPIED = 1 << 16
"""Inputs of up to this number of bytes are copied and compared (7 us)."""

_ROWS, _WIDTHS = 37, (509, 521)
"""The rows of a block of a checksum, and two numbers of columns: all odd and prime, see `_checksum`."""

TRUST: ContextVar[bool] = context_variable("trust", default=False)
"""Skip the check for modified arrays; set by `functad.trust_constants`."""


def held(a: Any, recorder: Any) -> Any:
    """Return a user array for a record: a copy if it is small or the recorder is lasting, else itself with a checksum."""
    if a.nbytes <= SMALL or recorder.lasting:
        return a if a.base is None and not a.flags.writeable else a.copy("K")
    _seal(a, recorder, constant=True)
    return a


def held_input(a: Any, recorder: Any) -> Any:
    """Return the value of a traced input: a copy of a small array, or the array itself with a checksum."""
    if a.nbytes <= _COPIED and a.flags.forc and type(a) is _ndarray:
        own = a.copy("K")
        if not TRUST.get():
            recorder.seals[id(a)] = a, own, None
        return own
    _seal(a, recorder, constant=False)
    return a


def held_call(
    arrays: Sequence[Any], values: Sequence[Any], params: dict[str, Any], plan: Any, recorder: Any
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the values and parameters of a call, with `held` applied to every user array that the rules read.

    Args:
        arrays: the array arguments of the call.
        values: the arguments one level lower.
        params: the parameters of the call.
        plan: the rules of the call.
        recorder: the recorder of the call.
    """
    if plan.params:
        params = held_params(params, plan.params, recorder)
    if not plan.holds:
        return values, params
    result = list(values)
    for i, a in enumerate(arrays):
        if i in plan.holds and issubclass(type(a), _ndarray):
            result[i] = held(a, recorder)
    return result, params


def held_params(params: dict[str, Any], names: Sequence[str], recorder: Any) -> dict[str, Any]:
    """Return `params` with `held` applied to the arrays in the named parameters; the name `params` selects all."""
    for name in tuple(params) if "params" in names else names:
        value = params[name]
        if type(value) not in _SCALARS:
            kept = with_arrays(value, lambda a: held(a, recorder))
            if kept is not value:
                params = {**params, name: kept}
    return params


_SCALARS = frozenset({int, bool, float, str, type(None), slice})


def apart_from(arrays: Sequence[Any], out: Any) -> Any:
    """Return `out`, copied if it shares memory with a plain operand."""
    if type(out) is _ndarray:
        for a in arrays:
            if type(a) is _ndarray and (out is a or (out.base is not None and (out.base is a or out.base is a.base))):
                return out.copy("K")
    return out


def with_arrays(value: Any, keep: Callable[[Any], Any]) -> Any:
    """Apply `keep` to every array in a parameter: an index, a mask, or nested tuples, lists and dicts of them."""
    if issubclass(type(value), _ndarray):
        return keep(value)
    kind = type(value)
    if kind is tuple:
        parts = [part if type(part) in _SCALARS else with_arrays(part, keep) for part in value]
        return value if all(a is b for a, b in zip(value, parts, strict=True)) else tuple(parts)
    if kind is list:
        return [with_arrays(part, keep) for part in value]
    if kind is dict:
        return {key: with_arrays(part, keep) for key, part in value.items()}
    return value


def _seal(a: Any, recorder: Any, *, constant: bool) -> None:
    """Store the checksum of a large array, and the user's current line if the array is a constant."""
    if id(a) in recorder.seals or TRUST.get() or a.dtype.kind not in "biufc" or (constant and _is_at_its_word(a)):
        return
    frame = user_frame(_getframe(2)) if constant else None
    recorder.seals[id(a)] = a, _checksum(a), None if frame is None else (frame.f_code, frame.f_lasti)


def _is_at_its_word(a: Any) -> bool:
    """Return `True` if an array and all of its bases are read-only."""
    while not a.flags.writeable:
        if a.base is None:
            return True
        a = a.base
        if not issubclass(type(a), _ndarray):
            return False
    return False


def broken_seal(recorder: Any) -> tuple[Any, tuple[CodeType, int] | None] | None:
    """Return the first array with a changed checksum and the user's line that used it first; `None` if none changed."""
    for a, kept, place in recorder.seals.values():
        same = a.tobytes() == kept.tobytes() if type(kept) is _ndarray else _checksum(a) == kept
        if not same:
            return a, place
    return None


def _checksum(a: Any) -> tuple[bytes, bytes]:
    """Return sums over the memory of an array, and its last bytes.

    The memory is read as blocks of 37 rows and 509 columns of 64-bit words. The columns of each block are summed modulo 2^64.
    The bytes after the last whole block are returned as they are.

    Always detected: a change of one word. Detected except by coincidence: a sort, a reversal, a shuffle, a roll. The number of
    rows is odd, so that a change of all signs is detected. There are 521 columns if a length of the array is a multiple of 509,
    so that no exchange of its rows stays within the columns.

    Not detected: a change that preserves the sum of each column of each block, such as an exchange of two words of one block
    whose distance is a multiple of 509. An array that is changed and changed back before the function returns is not detected
    either.

    The checksum of 1 MB takes 0.04 ms, which is the time to read it.
    """
    memory = _memory(a)
    width = _WIDTHS[any(n % _WIDTHS[0] == 0 for n in a.shape)]
    words = _ndarray((memory.nbytes // (8 * _ROWS * width), _ROWS, width), _WORD, memory)
    rest = _ndarray((memory.nbytes - words.nbytes,), _BYTE, memory, words.nbytes)
    return _add_reduce(words, 1).tobytes(), rest.tobytes()


def _memory(a: Any) -> Any:
    """Return the elements of an array as a C-contiguous array: a view if its memory has no gaps, otherwise a copy."""
    a = a if type(a) is _ndarray else a.view(_ndarray)
    flags = a.flags
    if flags.forc:
        return a if flags.c_contiguous else a.T
    low, high = byte_bounds(a)
    if high - low > a.nbytes:
        return np.ascontiguousarray(a)
    first = a[tuple([slice(-1, None) if stride < 0 else slice(1) for stride in a.strides])].reshape(1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first, (high - low,), (1,), writeable=False)


@contextmanager
def trust_constants(trust: bool = True) -> Iterator[None]:
    """Skip the check for modified arrays inside a `with` block.

    By default functad computes checksums of inputs and large constants before and after the function runs. It raises
    `ConstantError` if one of them changed. The check takes up to 20 % of the time of a gradient. Inside the block a gradient is
    wrong, without an error, if the function overwrites such an array. Small arrays are copied in any case. Large arrays are
    copied if the trace outlives the function.

    The setting applies to transformed functions that are called inside the block, in this thread or coroutine. Read-only
    constants that own their memory (`a.flags.writeable = False`) are never checked.

    Args:
        trust: `False` restores the check inside a block that skips it.

    Returns:
        A context manager, which also works as a decorator.

    Example:
        >>> import numpy as np, functad
        >>> weights = np.ones(100_000)
        >>> with trust_constants():
        ...     gradient = functad.grad(lambda x: np.sum(weights * x))(np.zeros(100_000))
        >>> bool((gradient == 1).all())
        True
    """
    with setting(TRUST, trust):
        yield
