"""Arrays of the user that records keep: what happens to them after they were used must not change a derivative.

functad never writes into an array of the user, and never changes its flags. Small arrays are copied when a record keeps them.
A larger one, for which a copy would cost as much as the operation, is kept by reference. Its checksum is computed when it is
first used and when the function has returned: if the checksums differ, it was overwritten, and that raises. After that no code
of the user runs until the derivative is done. Where it does, as between the calls of a pullback, large arrays are copied too.
That holds of every array: operands, indices, masks, and what else stands among the parameters of an operation.

The function may know its inputs by another name, and write into them. NumPy would go on with the new values, and the trace
cannot: so that raises whatever the size. Small inputs are compared with their copies, large ones by checksum.

An array that owns its memory and is read-only is taken at its word, if it is a constant, and neither copied nor summed.
`_checksum` says which changes are detected.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import CodeType
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from functad.places import user_frame
from functad.settings import context_variable

_ndarray = np.ndarray
_getframe = sys._getframe
_add_reduce = np.add.reduce
_WORD, _BYTE = np.dtype(np.uint64), np.dtype(np.uint8)
SMALL = 1 << 13
"""Up to this number of bytes arrays are copied, which takes 0.7 us; to sum one twice takes 10."""

_COPIED = 1 << 16
"""So large may be the inputs that are copied and compared, which takes 7 us."""

_ROWS, _WIDTHS = 37, (509, 521)
"""The rows of a block of a checksum, and two numbers of columns: all odd and prime, see `_checksum`."""

TRUST: ContextVar[bool] = context_variable("trust", default=False)
"""Large constants and inputs are not looked at again; `functad.trust_constants` sets it."""


def held(a: Any, recorder: Any) -> Any:
    """Return a copy of a small array of the user for a record to keep; of a large one the array itself, sealed."""
    if a.nbytes <= SMALL or recorder.lasting:
        return a if a.base is None and not a.flags.writeable else a.copy("K")
    _seal(a, recorder, constant=True)
    return a


def held_input(a: Any, recorder: Any) -> Any:
    """Return the array that stands for a differentiated one while the function runs: a copy, or the array itself, sealed."""
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
    """Return the values and parameters that a plan picks from, where arrays of the user that its rules read are held.

    Args:
        arrays: what the primitive was called with.
        values: the same one level lower.
        params: its parameters.
        plan: which rules will be run.
        recorder: the trace that records the call.
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
    """Return the parameters of a call, where arrays of the user among those of the given names, or all, are held."""
    for name in tuple(params) if "params" in names else names:
        value = params[name]
        if type(value) not in _SCALARS:
            kept = with_arrays(value, lambda a: held(a, recorder))
            if kept is not value:
                params = {**params, name: kept}
    return params


_SCALARS = frozenset({int, bool, float, str, type(None), slice})


def apart_from(arrays: Sequence[Any], out: Any) -> Any:
    """Return a result of an operation, copied if it is one of the plain arrays that were given, or a view of one."""
    if type(out) is _ndarray:
        for a in arrays:
            if type(a) is _ndarray and (out is a or (out.base is not None and (out.base is a or out.base is a.base))):
                return out.copy("K")
    return out


def with_arrays(value: Any, keep: Callable[[Any], Any]) -> Any:
    """Return a parameter with what `keep` makes of the arrays in it: an index, a mask, or a tuple or list of such."""
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
    """Remember what a large array holds, and the user's line that runs now if it is a constant."""
    if id(a) in recorder.seals or TRUST.get() or a.dtype.kind not in "biufc" or (constant and _is_at_its_word(a)):
        return
    frame = user_frame(_getframe(2)) if constant else None
    recorder.seals[id(a)] = a, _checksum(a), None if frame is None else (frame.f_code, frame.f_lasti)


def _is_at_its_word(a: Any) -> bool:
    """Say whether an array is read-only, with all that it is a view of up to an array that owns the memory."""
    while not a.flags.writeable:
        if a.base is None:
            return True
        a = a.base
        if not issubclass(type(a), _ndarray):
            return False
    return False


def broken_seal(recorder: Any) -> tuple[Any, tuple[CodeType, int] | None] | None:
    """Return an array that was overwritten after it was sealed, if there is one, and the line that used it first."""
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
    """Return the elements of an array as an array without gaps: its own memory as it lies there if it has none, else a copy."""
    a = a if type(a) is _ndarray else a.view(_ndarray)
    flags = a.flags
    if flags.forc:
        return a if flags.c_contiguous else a.T
    low, high = byte_bounds(a)
    if high - low > a.nbytes:
        return np.ascontiguousarray(a)
    first = a[tuple([slice(-1, None) if stride < 0 else slice(1) for stride in a.strides])].reshape(1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first, (high - low,), (1,), writeable=False)
