"""`Recorder`, the growing list of records of one trace; `dispatch`, which passes an operation to a recorder; values of Tensors.

The arguments alone select the recorder of an operation: the recorder of the highest rank among the Tensors processes it. The
rank is the age, so the newest trace comes first; only stale views and Tensors of inactive tapes come before it. The value of a
Tensor is one level lower, and may itself be a Tensor of an older recorder. Subclasses define the meaning of operations in
`process`, `write` and `buffer`.

The slot of a value is its index in the list. A primitive with several results takes one slot for each; the last slot holds the
record, the others hold `None`.

These functions read the value of a Tensor or of another argument that a user gives:

| function | value |
|---|---|
| `Tensor.current` | the value one level lower; `below` is the same unless the Tensor is a stale view |
| `unwrap` | a tree with the Tensors of one trace replaced by their values one level lower |
| `value_of` | an argument of the user: a Tensor of a trace that records now, or a plain value |
| `resolve` | `value_of` for a Tensor |
| `innermost` (in `primitives.operands`) | the plain value; in a batch or a trace without values the spec |
| `known_values` (in `primitives.operands`) | plain values; `None` if one is in a batch or a trace without values |
| `concrete` (in `primitives.operands`) | the plain value; an error in a batch or a trace without values |
| `all_examples` (in `primitives.operands`) | the plain value, in a batch of all examples; in a trace without values the spec |
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import Any, ClassVar
from weakref import ref

from functad.errors import EscapedTensorError
from functad.expressions.records import OBSERVERS
from functad.expressions.spec import PLAIN
from functad.places import here, line_of, name_of
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import as_plain
from functad.primitives.operands import converted, read
from functad.process import context_variable, setting
from functad.trees import flatten

_serials = itertools.count()

GRAPH_HOOK: ContextVar[Callable[[Sequence[Recorded]], bool] | None] = context_variable("graph_hook", default=None)
"""The hook of the innermost open `graph`, which also records operations on constants; `None` without a `graph`.

The hook takes the Tensors of inactive recorders among the arguments of an operation. It adds them to the list of the graph, and
returns `True` if all of them are recorded now. Rules of `custom_gradient` run with a hook that refuses Tensors of outer tapes.
"""


OPEN: ContextVar[Recorder | None] = context_variable("open", default=None)
"""The recorder of the running function, in this thread or coroutine."""

LIVE: set[int] = set()
"""Serial numbers of the recorders of running functions and recording tapes, in all threads and coroutines.

While the set is empty, no traced Tensor exists.
"""

TAPING: ContextVar[Recorder | None] = context_variable("taping", default=None)
"""The recorder of the newest tape that is still recording."""


def recorder_of_new_arrays() -> Recorder | None:
    """Return the recorder of newly created arrays of `functad.numpy` and of adopted code; `None` if they stay plain.

    It is the newer one of the recorder of the running function and the recorder of the open tape.
    """
    running, tape = OPEN.get(), TAPING.get()
    return running if tape is None or (running is not None and running.serial > tape.serial) else tape


@contextmanager
def new_arrays_recorded_by(recorder: Recorder | None) -> Iterator[None]:
    """Return a context in which a recorder records newly created arrays; with `None` they stay plain."""
    with setting(OPEN, recorder), setting(TAPING, None):
        yield


class Recorder:
    """The list of records of one trace; a subclass for each kind of trace.

    Attributes:
        serial: increases from recorder to recorder.
        rank: the recorder of the highest rank among the arguments processes an operation. The rank is the serial number. It is
            infinite if the Tensors must be resolved before a trace can use them: stale views and Tensors of inactive tapes.
        fast: the trace is open, and operators may use their fast path, which appends a record without calling `process`.
        closed: the trace has ended, and its Tensors are unusable.
        lasting: the records outlive the function, and so do the user arrays that they keep.
        checksums: user arrays that must be unchanged when the function has returned, see `functad.tracing.ownership`.
        written: a Tensor has been written to, so other Tensors may be stale.
        records: the records by slot, inputs first. In a trace without values a record is an `Equation`.
        inputs: the number of inputs.
        transform, function: the transform and its function, for messages.
        monitor: an object of an observer that is notified of each operation; usually `None`.
    """

    # No `__slots__`: class attributes hold the rare defaults, since making a recorder is a third of the fixed cost of a trace.
    pulls: ClassVar[bool] = False
    """Reverse mode: cotangents are pulled back through the records."""

    pushes: ClassVar[bool] = False
    """Forward mode: tangents are pushed forward through the records."""

    has_values: ClassVar[bool] = True
    """The Tensors have values: the trace is neither abstract nor batched."""

    sees_inside: ClassVar[bool] = False
    """The trace records the operations inside a function with custom rules, not one operation for the call."""

    inactive = False
    """No trace records the Tensors now: they are constants."""

    counts_as_plain = False
    """The Tensors stand for plain arguments of the user (`jit`).

    An operation on such a Tensor and a Tensor outside all traces gives a Tensor outside all traces.
    """

    tensor_class: ClassVar[type[Recorded]]
    """The class of the Tensors."""

    reassigns: ClassVar[bool] = False
    """`t += v` creates a new Tensor and leaves the old one unchanged, since it may be a source of a tape."""

    starts_fast: ClassVar[bool] = False
    """The trace has values of its own, so that it is `fast` from the start."""

    fast = False
    lasting = False
    monitor: Any = None
    written = False

    def __init__(self, transform: str, function: object) -> None:
        self.serial = next(_serials)
        self.rank: float = self.serial
        self.closed = False
        self.checksums: dict[int, Any] = {}
        self.records: list[Any] = []
        self.inputs = 0
        self.transform = transform
        self.function = function
        if self.starts_fast:
            self.fast = True
        if OBSERVERS.get():
            self.observe()

    def observe(self) -> None:
        """Called for a new trace while there are observers. Concrete traces notify them."""

    def enter(self, value: Any) -> Any:
        """Append an input and return its Tensor."""
        self.inputs += 1
        return self.append(None, value)

    def append(
        self, record: Any, value: Any, code: CodeType | None = None, instruction: int = 0, cls: type[Recorded] | None = None
    ) -> Any:
        """Append a record and return the Tensor of its result.

        All records of all kinds of traces are added here, except the equations of `TapeEquations`. A batch has no records.

        Args:
            record: the record; `None` for an input, a constant, and every result but the last of several.
            value: the result one level lower.
            code, instruction: the user's line.
            cls: the class of the Tensor; by default `tensor_class`.
        """
        tensor = (cls or self.tensor_class)()
        tensor.below = value
        tensor.recorder = self
        tensor.slot = len(self.records)
        tensor.code = code
        tensor.instruction = instruction
        self.records.append(record)
        return tensor

    def append_results(self, record: Any, values: Sequence[Any], code: CodeType | None = None, instruction: int = 0) -> Any:
        """Append the record of a primitive with several results and return their Tensors."""
        results = [self.append(None, value, code, instruction) for value in values]
        if results:  # an empty scan has no results
            self.records[-1] = record
        return alike(values, results)

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute and record a call of a primitive; at least one of the arrays is a Tensor of this trace."""
        raise NotImplementedError

    def assigned(self, tensor: Recorded, what: str) -> None:
        """Called when the value of a Tensor is assigned to a Variable."""

    def write(self, primitive: Primitive, root: Any, v: Any, params: dict[str, Any]) -> Any:
        """Record a write to an element of `root`, and return a Tensor with the value of `root` after the write.

        The caller replaces the value of `root`, which owns its memory, with the value of this Tensor.
        """
        return self.process(primitive, (root, v), params)

    def buffer(self, value: Any) -> Any:
        """Return a constant as a Tensor of this trace, as a buffer for writes of Tensors."""
        raise NotImplementedError

    def close(self) -> None:
        """End the trace: any later use of its Tensors raises."""
        self.closed = True
        self.fast = False
        self.checksums = {}

    def operate(self, primitive: Primitive, x: Recorded, other: Any = None, flipped: bool = False) -> Any:
        """Compute an operator of a Tensor, and of another operand if it takes two, by a fast path; `None` if there is none.

        Only traces that are not `fast` have such a path. If `flipped`, `x` is the second operand.
        """
        return None

    def invalidated(self, view: ref[Recorded]) -> None:
        """Called when a view becomes stale, before a write to its memory."""

    def resolve(self, tensor: Recorded) -> Any:
        """Return the value of a Tensor in the traces that record now; an active trace returns the Tensor itself."""
        return tensor

    def value_outside(self, tensor: Recorded) -> Any:
        """Return the plain value of a Tensor for `numpy()`, or the Tensor itself if a derivative would be lost."""
        return tensor

    def forbids_writes(self, tensor: Recorded) -> bool:
        """Return `True` if writes to a Tensor raise an error, because a derivative with respect to it may be requested."""
        return False

    def is_constant(self, tensor: Recorded) -> bool:
        """Return `True` if a Tensor depends on no input: its conversion to a plain value loses no derivative."""
        return False

    def concrete_value(self, tensor: Recorded, wanted: str) -> Any:
        """Return the value of a Tensor for the conversion `wanted`.

        Raises:
            AbstractValueError: the Tensor has no value.
        """
        return tensor.below


class Recorded:
    """The state of a Tensor: a value, and its place in the list of a recorder.

    Attributes:
        below: the value one level lower: an array, a scalar, a Tensor of an older recorder, or a spec if the trace is abstract.
            `None` for a stale view.
        recorder: the recorder of the Tensor.
        slot: the index in the list of the recorder.
        code, instruction: the line of the user's code that created the Tensor; `None` and 0 for an input.
        origin: the root, which owns the memory, and the path of views from the root. Set for views only.
        memory: the `Memory` of a root. Set once the Tensor has been viewed or written to.
    """

    __slots__ = ("__weakref__", "below", "code", "instruction", "memory", "origin", "recorder", "slot")

    below: Any
    recorder: Recorder
    slot: int
    code: CodeType | None
    instruction: int


Recorder.tensor_class = Recorded  # `functad.tracing.tensor` sets `Tensor`


def bare(cls: type[Recorded], recorder: Recorder, value: Any, slot: int) -> Any:
    """Return a Tensor without a line of the user: an input, a constant or a buffer."""
    tensor = cls()
    tensor.below, tensor.recorder, tensor.slot = value, recorder, slot
    tensor.code, tensor.instruction = None, 0
    return tensor


def alike(out: Any, results: Sequence[Any]) -> Any:
    """Return results as a tuple of the type of `out`, which may be a named tuple."""
    return type(out)(*results) if hasattr(out, "_fields") else tuple(results)


def dispatch(primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Call a primitive. The recorder of the highest rank among the Tensors of its arrays processes the call."""
    newest: Recorded | None = None
    for a in arrays:
        if isinstance(a, Recorded):
            if newest is None or (a.recorder is not newest.recorder and a.recorder.rank > newest.recorder.rank):
                newest = a
        elif type(a) not in PLAIN and type(own := converted(as_plain(a), primitive.name)) is not type(a):
            return dispatch(primitive, tuple([own if other is a else other for other in arrays]), params)
    if newest is None:
        return primitive.compute(*arrays, **params)
    if newest.recorder.closed:
        raise escaped(newest, primitive.name)
    return newest.recorder.process(primitive, arrays, params)


def sees_inside(leaves: Iterable[Any]) -> bool:
    """Return `True` if a trace of one of the leaves records the operations inside functions with custom rules."""
    for leaf in leaves:
        while isinstance(leaf, Recorded):
            if leaf.recorder.sees_inside:
                return True
            leaf = leaf.current()  # type: ignore[attr-defined]
            leaf = getattr(leaf, "array", leaf)  # all examples of a batch
    return False


def record_in_graph(inactive: list[Recorded]) -> bool:
    """Add Tensors of inactive recorders to the list of an open `graph`, and return `True` if they are recorded now."""
    hook = GRAPH_HOOK.get()
    return hook is not None and hook(inactive)


def resolve(value: Any) -> Any:
    """Return the value of a Tensor in the traces that record now: a Tensor of one of them, or a plain value."""
    while isinstance(value, Recorded) and (resolved := value.recorder.resolve(value)) is not value:
        value = resolved
    return value


def escaped(tensor: Recorded, operation: str) -> EscapedTensorError:
    """Return the error for the use of a Tensor after its transform has ended."""
    recorder = tensor.recorder
    origin = "The Tensor stands for an argument."
    if tensor.slot >= recorder.inputs:
        origin = f"The Tensor was made at {line_of(tensor.code, tensor.instruction)}."
    return EscapedTensorError(
        f"{operation} was given a Tensor that escaped from {recorder.transform} of {name_of(recorder.function)}, "
        f"which has ended, at {here()}. "
        f"{origin} "
        f"Return the value from the function (has_aux=True hands extra results through), instead of storing it outside."
    )


def value_of(leaf: Any) -> Any:
    """Return the value of a leaf: read a Variable, and unwrap a Tensor of an inactive tape."""
    if type(leaf) in PLAIN:
        return leaf
    return resolve(noted_by_graph(leaf if isinstance(leaf, Recorded) else read(as_plain(leaf))))


def operand_of(leaf: Any) -> Any:
    """Return the value of an operand like `value_of`, but keep a constant of a compiled function."""
    value = value_of(leaf)
    return read(leaf) if isinstance(value, Recorded) and value.recorder.counts_as_plain else value


def noted_by_graph(value: Any) -> Any:
    """Return an argument. If it is a constant Tensor, add it to the list of an open `graph` first."""
    if isinstance(value, Recorded) and value.recorder.inactive:
        record_in_graph([value])
    return value


def unwrap(tree: Any, recorder: Recorder) -> Any:
    """Return a tree with the Tensors of a trace replaced by their values."""
    if isinstance(tree, Recorded):
        return tree.below if tree.recorder is recorder else tree
    leaves, structure = flatten(tree)
    return structure.unflatten([v.below if isinstance(v, Recorded) and v.recorder is recorder else v for v in leaves])
