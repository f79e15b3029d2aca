"""Rows as arrays of Dask in chunks, and how often each chunk is read."""

from collections import Counter

import dask.array as da
import numpy as np


def in_chunks(array, rows):
    """Return an array as one of Dask, in chunks of so many rows."""
    return da.from_array(array, chunks=(rows, *array.shape[1:]))


def counted_chunks(array, rows):
    """Return a Dask array of the rows of a matrix, in chunks of so many, and how often each chunk was read."""
    reads = Counter()

    def read(block):
        (i,) = block.ravel()
        reads[i] += 1
        return array[i : i + rows]

    starts = da.from_array(np.arange(0, len(array), rows)[:, None], chunks=(1, 1))
    lengths = tuple([len(array[i : i + rows]) for i in range(0, len(array), rows)])
    return da.map_blocks(read, starts, chunks=(lengths, (array.shape[1],)), dtype=float, meta=np.empty((0, 0))), reads
