"""`jit` for Dask arrays: an expression list becomes lazy results, with one task for each chunk and stage.

The program wraps another backend, which compiles the lists that the tasks run.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from functad.backends.backend import Backend
from functad.chunks.graph import Graph
from functad.chunks.partition import is_chunked
from functad.chunks.plan import Chunks, Plan
from functad.errors import UnsupportedError
from functad.expressions.digest import digest
from functad.expressions.expressions import Constant, Expressions
from functad.places import here
from functad.transforms.lists import close


def chunks_of(leaf: Any) -> Chunks | None:
    """Return the chunks of a leaf; `None` if it is not a Dask array.

    Raises:
        UnsupportedError: the chunk lengths are not known, or the chunks are not NumPy arrays.
    """
    if not is_chunked(leaf):
        return None
    if any(np.isnan(n) for lengths in leaf.chunks for n in lengths):
        raise UnsupportedError(
            f"jit of a Dask array of shape {leaf.shape}, at {here()}: the lengths of its chunks depend on data. Call "
            f"compute_chunk_sizes() of it before, or keep the shape: np.where(mask, x, 0.0)."
        )
    if type(leaf._meta) is not np.ndarray:
        raise UnsupportedError(
            f"jit of a Dask array whose chunks are {type(leaf._meta).__module__}.{type(leaf._meta).__name__}, at {here()}: "
            f"compiled code takes those of NumPy. Leave jit out."
        )
    return tuple(map(tuple, leaf.chunks))


def in_chunks(backend: Backend, leaves: Sequence[Any], expressions: Expressions) -> Backend | None:
    """Return the backend for Dask arrays; `None` if there are none among the arguments and constants.

    Args:
        backend: the backend that compiles the lists of the tasks.
        leaves: the arguments.
        expressions: the list.
    """
    if not holds_chunks(leaves, expressions):
        return None
    given = tuple(map(chunks_of, leaves))

    def compiled(own: Expressions) -> ChunkedProgram:
        count = len(own.inputs)
        known = (*given, *(None,) * count)[:count] if len(given) <= count else None
        return ChunkedProgram(own, backend, known)

    return Backend(backend.name + IN_CHUNKS, compiled)


def holds_chunks(leaves: Sequence[Any], expressions: Expressions) -> bool:
    """Return `True` if a Dask array is among the arguments or the constants of a list."""
    return any(chunks_of(leaf) is not None for leaf in leaves) or any(map(is_chunked, _constants(expressions)))


IN_CHUNKS = " in chunks"


def _constants(expressions: Expressions) -> list[Any]:
    sources = [s for e in expressions.equations for s in e.inputs] + list(expressions.outputs)
    return [s.value for s in sources if isinstance(s, Constant)]


class ChunkedProgram:
    """An expression list for arguments with Dask arrays among them.

    Args:
        expressions: the list; Dask arrays among its constants become inputs.
        backend: the backend that compiles the lists of the tasks.
        known: the chunks of the arguments, for `source`. Default: the chunks of the first call.
    """

    def __init__(self, expressions: Expressions, backend: Backend, known: Sequence[Chunks | None] | None = None) -> None:
        self.backend = backend
        self.exact = backend.exact
        self.expressions, self.captured = close(expressions, captured=is_chunked, name="captured")
        try:
            self._key = digest(self.expressions)
        except UnsupportedError:
            self._key = uuid.uuid4().hex
        self._plans: dict[Any, Plan] = {}
        self._plain: Any = None
        self._known = known
        self._captured = tuple(map(chunks_of, self.captured))

    def __call__(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Return lazy results, or NumPy results if no argument is lazy."""
        every = [*leaves, *self.captured]
        given = tuple(map(chunks_of, every))
        if not any(chunks is not None for chunks in given):
            self._plain = self._plain or self.backend.compile(self.expressions)
            return self._plain(every)  # type: ignore[no-any-return]
        plan = self._plan(given)
        arrays = [plan.argument(leaf, i) for i, leaf in enumerate(every)]
        base: Any = import_module("dask.base")
        token = base.tokenize(self._key, self.backend.name, self.exact, plan.rows, [getattr(a, "name", a) for a in arrays])
        return Graph(plan, arrays, f"functad-{token}").results()

    def _plan(self, given: tuple[Chunks | None, ...]) -> Plan:
        if given not in self._plans:
            self._plans[given] = Plan(self.expressions, given, self.backend.name, self.exact)
        return self._plans[given]

    @property
    def source(self) -> str:
        """The source of each task, and the functions over chunked arrays."""
        given = next(iter(self._plans), None) if self._known is None else (*self._known, *self._captured)
        return "# Not called yet." if given is None else self._plan(given).source()
