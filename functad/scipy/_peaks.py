"""Peaks of signals: positions come from plain values; prominences and widths are computed from the elements there."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.signal import _peak_finding_utils as compiled

from functad.adoption.scipy_functions import of_tensors, plain_value

_UTILS = "scipy.signal._peak_finding_utils"


@of_tensors(_UTILS)
def _local_maxima_1d(x: Any) -> Any:
    """Return the positions of the maxima."""
    return compiled._local_maxima_1d(plain_value(x))


@of_tensors(_UTILS)
def _select_by_peak_distance(peaks: Any, priority: Any, distance: Any) -> Any:
    """Return a mask of the peaks that are far enough from higher peaks."""
    return compiled._select_by_peak_distance(peaks, plain_value(priority), plain_value(distance))


@of_tensors(_UTILS)
def _peak_prominences(x: Any, peaks: Any, wlen: int) -> Any:
    """Return the heights of peaks above the higher of the two lowest points beside them, and the positions of these points."""
    _, left, right = compiled._peak_prominences(plain_value(x), peaks, wlen)
    return x[peaks] - np.maximum(x[left], x[right]), left, right


@of_tensors(_UTILS)
def _peak_widths(x: Any, peaks: Any, rel_height: Any, prominences: Any, left_bases: Any, right_bases: Any) -> Any:
    """Return the widths of peaks at a relative height, that height, and the interpolated crossings with the signal."""
    known = [plain_value(value) for value in (x, peaks, rel_height, prominences, left_bases, right_bases)]
    heights = x[peaks] - prominences * rel_height
    ends = []
    for end, step, outermost in zip(compiled._peak_widths(*known)[2:], (1, -1), (np.floor, np.ceil), strict=True):
        i = outermost(end).astype(np.intp)
        below = known[0][i] < plain_value(heights)
        rise = np.where(below, x[i + step * below] - x[i], 1.0)
        ends.append(i + step * np.where(below, (heights - x[i]) / rise, 0.0))
    return ends[1] - ends[0], heights, *ends
