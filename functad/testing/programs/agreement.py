"""Comparison of compiled and eager results, leaf by leaf: type, dtype, shape, flags, and values up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.expressions.spec import is_array
from functad.testing.programs.checks import DisagreementError

TOLERANCES = {2: 4e-3, 4: 3e-5, 8: 1e-9, 16: 1e-9}
"""Rounding tolerances by the size of a real number in bytes."""


def same_leaf(found: Any, expected: Any, name: str, precision: int = 8, computed: int = 8) -> None:
    """Compare one compiled result with the eager one: type, dtype, shape, flags and values.

    Compiled results have the byte order of the processor.

    Args:
        found: the compiled result.
        expected: the eager result.
        name: the name of the leaf in the error message.
        precision: the bytes of the least precise input, as a floating-point number: int8 becomes float16.
        computed: the bytes of the least precise floating-point dtype that the program names.

    Raises:
        DisagreementError: the leaves differ.
    """
    if type(found) is not type(expected):
        raise DisagreementError(f"{name} is a {type(found).__name__} {found!r}, eager a {type(expected).__name__} {expected!r}")
    if not is_array(expected):
        if type(found) is float:
            found, expected = np.float64(found), np.float64(expected)
        elif found != expected:
            raise DisagreementError(f"{name} is {found!r}, eager {expected!r}")
        else:
            return
    if found.dtype.newbyteorder("=") != expected.dtype.newbyteorder("=") or found.shape != expected.shape:
        raise DisagreementError(f"{name} is {found.dtype}{found.shape}, eager {expected.dtype}{expected.shape}")
    if isinstance(found, np.ndarray) and not (found.flags.writeable and _is_dense(found)):
        raise DisagreementError(f"{name} is read-only, or its elements overlap")
    with np.errstate(all="ignore"):
        if not agree(found, expected, precision, computed):
            raise DisagreementError(f"{name} is {found!r}, eager {expected!r}")


def _is_dense(array: Any) -> bool:
    """Return `True` if no two elements of an array share memory."""
    return not array.size or all(stride or n < 2 for n, stride in zip(array.shape, array.strides, strict=True))


def agree(found: Any, expected: Any, precision: int = 8, computed: int = 8) -> bool:
    """Return `True` if arrays of one dtype agree up to rounding, with infinities and NaN in the same places.

    A float64 result may be computed in a less precise dtype, such as the cotangent of a Python number beside a float32 array.
    The tolerance of the narrower dtype applies if an input has it and it holds both results exactly. It also applies if the
    program names the dtype, as `np.sum(x, dtype=np.float32)` does.
    """
    if expected.dtype.kind == "b":  # a true boolean may be any byte but 0, and NumPy compares some of them by their bytes
        return bool(np.array_equal(found.astype(np.uint8) != 0, expected.astype(np.uint8) != 0))
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(found, expected))
    if expected.dtype.kind == "c":
        parts = (found.real, expected.real), (found.imag, expected.imag)
        return all(agree(one, other, precision, computed) for one, other in parts)
    known, wrong = np.isfinite(expected), np.isnan(expected)
    if not np.array_equal(np.isnan(found), wrong) or not np.array_equal(found[~known & ~wrong], expected[~known & ~wrong]):
        return False
    size = 1.0 + float(np.max(np.abs(expected), initial=0.0, where=known))
    difference = np.abs(np.subtract(found, expected, dtype=np.float64))[known]
    narrow = [n for n in (2, 4) if precision <= n < expected.dtype.itemsize and _holds(n, found) and _holds(n, expected)]
    return bool(np.all(difference <= TOLERANCES[min([*narrow, computed, expected.dtype.itemsize])] * size))


def _holds(itemsize: int, array: Any) -> bool:
    """Return `True` if the floating-point dtype of `itemsize` bytes holds all elements of an array exactly."""
    return bool(np.array_equal(array.astype(f"f{itemsize}"), array, equal_nan=True))
