"""Ownership of arrays: which arrays records keep, which arrays user code gets, and which arrays a transform returns.

functad never writes to a user array and never changes its flags. Three groups of functions keep memory apart:

- `hold`, `hold_input`, `hold_residuals` and `hold_params` bring arrays of the user into the list of a trace.
- `lend`, `lend_read_only` and `give_state` hand values to code of the user: loop bodies, steps and rules.
- `own_results`, `own_state` and `copy_if_shared` return results that share no memory with other arrays.

**Held arrays.** A derivative must not change when the user overwrites an array after its use. The rules hold for operands,
indices, masks and arrays in other parameters:

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import Any

import numpy as np

from functad.expressions.expressions import own_arrays, roots_of
from functad.expressions.spec import PLAIN
from functad.places import user_frame
from functad.primitives.elementwise.conversion import copy_alike
from functad.primitives.indexing.write import is_alone
from functad.process import context_variable, setting
from functad.tracing.trace import Recorded, Recorder
from functad.tracing.views import clone, origin_of, shares, shares_memory

_ndarray = np.ndarray
_getframe = sys._getframe
_add_reduce = np.add.reduce
_WORD, _BYTE = np.dtype(np.uint64), np.dtype(np.uint8)
COPY_LIMIT = 1 << 13
"""Residuals of up to this number of bytes are copied (0.7 us; two checksums take 10 us)."""

_INPUT_COPY_LIMIT = 1 << 16
"""Inputs of up to this number of bytes are copied and compared (7 us)."""

_ROWS, _WIDTHS = 37, (509, 521)
"""The rows of a block of a checksum, and two numbers of columns: all odd and prime, see `_checksum`."""

TRUST: ContextVar[bool] = context_variable("trust", default=False)
"""Skip the check for modified arrays; set by `functad.trust_constants`."""


def hold(a: Any, recorder: Any) -> Any:
    """Return a user array for a record: a copy if it is small or the recorder is lasting, else itself with a checksum."""
    if a.nbytes <= COPY_LIMIT or recorder.lasting:
        return a if a.base is None and not a.flags.writeable else a.copy("K")
    _add_checksum(a, recorder, constant=True)
    return a


def hold_input(leaf: Any, recorder: Any) -> Any:
    """Return the value of a traced input: a copy of a Tensor or small array, a large array with a checksum, or a number."""
    kind = type(leaf)
    if kind is not _ndarray and not issubclass(kind, _ndarray):
        return clone(leaf) if kind not in PLAIN and isinstance(leaf, Recorded) else leaf
    if recorder.lasting:
        return copy_alike(leaf)
    if leaf.nbytes <= _INPUT_COPY_LIMIT and leaf.flags.forc and kind is _ndarray:
        copy = leaf.copy("K")
        if not TRUST.get():
            recorder.checksums[id(leaf)] = leaf, copy, None
        return copy
    _add_checksum(leaf, recorder, constant=False)
    return leaf


def hold_residuals(
    arrays: Sequence[Any], values: Sequence[Any], params: dict[str, Any], plan: Any, recorder: Any
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the values and parameters of a call, with `hold` applied to every user array that the rules read.

    Args:
        arrays: the array arguments of the call.
        values: the arguments one level lower.
        params: the parameters of the call.
        plan: the rules of the call.
        recorder: the recorder of the call.
    """
    if plan.params:
        params = hold_params(params, plan.params, recorder)
    if plan.holds:
        values = [
            hold(a, recorder) if i in plan.holds and issubclass(type(a), _ndarray) else value
            for i, (a, value) in enumerate(zip(arrays, values, strict=True))
        ]
    return values, params


def hold_params(params: dict[str, Any], names: Sequence[str], recorder: Any) -> dict[str, Any]:
    """Return `params` with `hold` applied to the arrays in the named parameters; the name `params` selects all."""
    held = {
        name: map_arrays(lambda a: hold(a, recorder), params[name])
        for name in (params if "params" in names else names)
        if type(params[name]) not in _SCALARS
    }
    return params | held if held else params


_SCALARS = frozenset({int, bool, float, str, type(None), slice})


def map_arrays(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply `function` to every array in a parameter: an index, a mask, or nested tuples, lists and dicts of them."""
    if issubclass(type(value), _ndarray):
        return function(value)
    kind = type(value)
    if kind is tuple:
        parts = [part if type(part) in _SCALARS else map_arrays(function, part) for part in value]
        return value if all(a is b for a, b in zip(value, parts, strict=True)) else tuple(parts)
    if kind is list:
        return [map_arrays(function, part) for part in value]
    if kind is dict:
        return {key: map_arrays(function, part) for key, part in value.items()}
    return value


def lend(leaf: Any) -> Any:
    """Return a copy of an array or Tensor that a function may write to; return other leaves unchanged."""
    if issubclass(type(leaf), _ndarray):
        return copy_alike(leaf)
    return clone(leaf) if isinstance(leaf, Recorded) else leaf


def take_back(leaf: Any, lent: dict[int, tuple[Any, Any]]) -> Any:
    """Return the original in place of its copy from `lend_read_only`, unless a rule has written to the copy.

    Args:
        leaf: a leaf of a rule's result; other leaves are returned unchanged.
        lent: the copy and the original, by the id of the copy.
    """
    copy, original = lent.get(id(leaf), (None, None))
    if leaf is not copy or leaf is None:
        return leaf
    changed = isinstance(leaf, Recorded) and not (leaf.below is original.below and leaf.slot == original.slot)
    return leaf if changed else original


def lend_read_only(leaf: Any) -> Any:
    """Return a read-only view of an array, or a copy of a Tensor, so that a rule cannot modify the original."""
    if type(leaf) is _ndarray and leaf.flags.writeable:
        leaf = leaf.view()
        leaf.flags.writeable = False
        return leaf
    return clone(leaf) if isinstance(leaf, Recorded) else leaf


def give_state(leaves: list[Any]) -> list[Any]:
    """Return a copy of a list of leaves and clear the list, so that a step may write to the leaves in place."""
    found = leaves.copy()
    leaves.clear()
    return found


def own_state(leaves: list[Any]) -> list[Any]:
    """Return the leaves of a user's step, and copy each leaf that is a view or has other references.

    Usually `leaves` holds the only reference, and nothing is copied. A loop that fills an array in place therefore takes time
    linear in the number of writes.
    """
    for i in range(len(leaves)):
        kind = type(leaves[i])
        if issubclass(kind, _ndarray):
            if leaves[i].base is not None or not leaves[i].flags.writeable or not is_alone(leaves, i):
                leaves[i] = leaves[i].copy("K")
        elif kind not in PLAIN and isinstance(leaves[i], Recorded) and (shares_memory(leaves[i]) or not is_alone(leaves, i)):
            leaves[i] = clone(leaves[i])
    return leaves


def own_results(leaves: Iterable[Any], others: Sequence[Any] = ()) -> list[Any]:
    """Return the leaves of a result, and copy each leaf that shares memory with another leaf or with `others`.

    Args:
        leaves: arrays, numbers and Tensors of outer traces.
        others: arrays and Tensors of the caller.
    """
    known = roots_of(others) | {id(origin_of(value)[0]) for value in others if isinstance(value, Recorded)}
    result = own_arrays(leaves, known)
    for i, leaf in enumerate(result):
        if isinstance(leaf, Recorded):
            root = id(origin_of(leaf)[0])
            if root in known:
                result[i] = clone(leaf)
            known.add(root)
    return result


def unrecorded(recorder: Recorder, leaves: Iterable[Any]) -> list[Any]:
    """Return the leaves of a result that the trace did not record, such as captured arrays."""
    return [leaf for leaf in leaves if not (isinstance(leaf, Recorded) and leaf.recorder is recorder)]


def copy_if_shared(out: Any, operands: Sequence[Any]) -> Any:
    """Return the result of an operation, copied if it shares memory with a plain operand."""
    if type(out) is _ndarray and any(type(a) is _ndarray and shares(out, a) for a in operands):
        return out.copy("K")
    return out


def _add_checksum(a: Any, recorder: Any, *, constant: bool) -> None:
    """Store the checksum of a large array, and the user's current line if the array is a constant."""
    if id(a) in recorder.checksums or TRUST.get() or a.dtype.kind not in "biufc" or (constant and _is_immutable(a)):
        return
    frame = user_frame(_getframe(2)) if constant else None
    recorder.checksums[id(a)] = a, _checksum(a), None if frame is None else (frame.f_code, frame.f_lasti)


def _is_immutable(a: Any) -> bool:
    """Return `True` if an array and all of its bases are read-only."""
    while not a.flags.writeable:
        if a.base is None:
            return True
        a = a.base
        if not issubclass(type(a), _ndarray):
            return False
    return False


def first_modified(recorder: Any) -> tuple[Any, tuple[CodeType, int] | None] | None:
    """Return the first array with a changed checksum and the user's line that used it first; `None` if none changed."""
    for a, kept, place in recorder.checksums.values():
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

    Not detected: a change that preserves the sum of each column of each block. An exchange of two words of one block, at a
    distance of a multiple of 509, is such a change. A change that is undone before the function returns is not detected either.

    The checksum of 1 MB takes 0.04 ms, which is the time to read it. `zlib.crc32` and `zlib.adler32` take 0.2 ms.
    """
    memory = a.view(_ndarray).ravel("K")  # a copy only if there are gaps or negative strides
    width = _WIDTHS[any(n % _WIDTHS[0] == 0 for n in a.shape)]
    words = _ndarray((memory.nbytes // (8 * _ROWS * width), _ROWS, width), _WORD, memory)
    return _add_reduce(words, 1).tobytes(), memory.view(_BYTE)[words.nbytes :].tobytes()


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
