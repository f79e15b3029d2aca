"""`GradientTape`: record operations on watched Tensors and Variables, and compute gradients afterwards.

The list of records belongs to the recorder, which several tapes may share (`functad.eager.tape.recorder`). A tape owns the
records that were added while it recorded and that depend on its sources.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

from functad.eager.tape.recorder import Recording, TapeEquations, shared_recorder, watch_given
from functad.eager.tape.request import (
    JacobianRequest,
    UnconnectedGradients,
    check_iterations,
    check_option,
    checked_conj,
    cotangents_at,
    finished,
    gradients_of,
    leaves_of,
    seeds_for,
    with_tensors,
    zero_wanted,
)
from functad.eager.variable import ACTIVE, Stamp, Variable
from functad.errors import InputError, NoPathError, SourceError, TapeError, TapeStateError
from functad.expressions.expressions import Expressions
from functad.expressions.records import copied, mark_reached
from functad.expressions.spec import dtype_of
from functad.places import here, warn
from functad.primitives.operands import read


class GradientTape(Recording):
    """Record operations on watched Tensors and Variables, and compute derivatives of their results.

    A derivative is `None` if no recorded path leads from the source to the target; `explain` gives the reason. Non-scalar
    targets, and several targets, are summed. For complex sources the derivative is the conjugate of the one from
    `functad.grad`, as in TensorFlow. `conj=False` gives the derivative of `functad.grad`.

    Args:
        persistent: allow any number of gradients. Otherwise the tape computes one gradient and then frees its records.
        watch_accessed_variables: watch trainable Variables when they are read.
        lists: keep whole calls, so that `expressions` works. An operation takes up to ten times as long.

    Example:
        >>> import functad
        >>> x = functad.constant(3.0)
        >>> with functad.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.gradient(y, x)
        Tensor(np.float64(6.0))
    """

    _warned = False
    name, _again = "tape", "open another GradientTape inside it"

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True, *, lists: bool = False) -> None:
        self._persistent = persistent
        self.lists = lists
        self._watch_accessed = watch_accessed_variables
        self._clear()

    def _clear(self) -> None:
        self._variables: dict[int, Variable] = {}
        self._watched: dict[int, ref[Any]] = {}  # Tensors and Variables, by identity
        self._slots: set[int] = set()
        self._stretches = []
        self._marks = bytearray()
        self._seen = 0

    def _open(self) -> None:
        """Join or make a list of records, without watched values."""
        self._clear()
        self.recorder = shared_recorder("a GradientTape")
        self.listed = TapeEquations(self.recorder) if self.lists else None

    def _absent(self) -> str:
        """Return the reason for a missing recorder."""
        if self._state == "spent":
            return (
                "this tape has given its gradient already, and what it recorded is gone: GradientTape(persistent=True) keeps it"
            )
        return "this tape was never entered, so nothing is recorded: compute inside `with tape:`"

    # Watching

    def watch(self, tensor: Any) -> None:
        """Follow a Tensor or Variable, or every one in a nested structure, from now on.

        Args:
            tensor: a Tensor or Variable of floating-point or complex numbers, or a nested structure of them.

        Raises:
            RuntimeError: the tape is not recording.
            TypeError: a leaf of the structure is neither a Tensor nor a Variable, or holds integers.
        """
        if self.recorder is None or not self.recording:
            raise TapeError(
                f"watch() on a tape that is {self._state}, at {here()}: operations on it would not be recorded. "
                f"Call it inside `with tape:`."
            )
        leaves, _ = leaves_of(tensor, "tensor")
        for leaf, path in leaves:
            if dtype_of(leaf).kind not in "fc":
                raise InputError(
                    f"watch() of {path} of {leaf.dtype}, at {here()}: only floating-point and complex numbers have "
                    f"derivatives. Make it floats: functad.constant(value, dtype=float)."
                )
        for leaf, _ in leaves:
            if issubclass(type(leaf), Variable):  # `isinstance` asks a Tensor for the type of its value
                self._watched[id(leaf)] = ref(leaf)
                self._variables[id(leaf)] = leaf
                Stamp.renew()
                read(leaf)
            else:
                tensor = read(leaf)
                if self.recorder.shared:
                    self._mark()  # earlier uses of the Tensor do not count
                self.follow(watch_given(tensor, self.recorder))
                self._watched[id(tensor)] = ref(tensor)

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Return a context in which this tape records nothing.

        Raises:
            RuntimeError: the tape was never entered, or is spent.
            ValueError: the tape is not recording.
        """
        if self.recorder is None:
            raise TapeError(f"stop_recording() at {here()}: {self._absent()}.")
        if not self.recording:
            raise TapeStateError(f"stop_recording() of a tape that is not recording, at {here()}.")
        self._stop("stopped")
        try:
            yield
        finally:
            if self._state == "stopped":
                self._start()

    def reset(self) -> None:
        """Drop all records and watched values, and continue to record.

        Raises:
            ValueError: the tape is not recording.
        """
        if not self.recording:
            raise TapeStateError(f"reset() of a tape that is not recording, at {here()}: call it inside `with tape:`.")
        self._stop()
        self._release()
        self._open()
        self._start()

    def _watches(self, value: Any) -> bool:
        """Return `True` if `watch` was called with a Tensor or Variable."""
        weak = self._watched.get(id(value))
        return weak is not None and weak() is value

    def _watched_tensors(self) -> list[Any]:
        """Return the watched Tensors that are still alive."""
        watched = [weak() for weak in self._watched.values()]
        return [value for value in watched if value is not None and not issubclass(type(value), Variable)]

    def wants(self, variable: Variable) -> bool:
        """Return `True` if the tape follows a Variable, and note the read."""
        if (self._watch_accessed and variable.trainable) or self._watches(variable):
            self._variables[id(variable)] = variable
            return True
        return False

    def follow(self, slot: int) -> None:
        """Add a watched slot.

        Args:
            slot: the slot of a Tensor in the list of the tape.
        """
        self._slots.add(slot)

    def watched_variables(self) -> tuple[Variable, ...]:
        """Return the Variables that the tape has followed, in order of creation."""
        return tuple(sorted(self._variables.values(), key=lambda variable: variable.number))

    # The tape's part of the list

    def _mark(self) -> None:
        """Update the marks of the slots that depend on watched slots."""
        assert self.recorder is not None
        records = self.recorder.records
        self._marks.extend(bytes(len(records) - len(self._marks)))
        for slot in self._slots:
            self._marks[slot] = 1
        for start, stop in self._stretches:
            mark_reached(self._marks, records, max(start, self._seen), len(records) if stop < 0 else stop)
        self._seen = len(records)

    def recorded(self, slot: int) -> bool:
        """Return `True` if a slot was added while the tape recorded.

        Args:
            slot: a slot of the list of the tape.

        Returns:
            `False` for slots that were added before `with tape:` or inside `stop_recording`.
        """
        return any(start <= slot and (stop < 0 or slot < stop) for start, stop in self._stretches)

    def _owns(self, slot: int) -> bool:
        return self.recorded(slot) and bool(self._marks[slot])

    def records(self) -> list[Any]:
        """Return the list, with `None` in place of records that the tape does not own."""
        if self.recorder is None:
            return []
        if not self.recorder.shared:
            return self.recorder.records  # type: ignore[no-any-return]
        self._mark()
        return [None if e is None or not self._owns(i) else e for i, e in enumerate(self.recorder.records)]

    def stats(self) -> dict[str, int]:
        """Return the number of records of the tape, and the bytes of the arrays that the records keep alive."""
        from functad.eager.shown import holdings  # noqa: PLC0415 - only displays need it

        rows = holdings(self)
        return {"records": sum(row.records for row in rows), "bytes": sum(row.bytes for row in rows)}

    def slots_of(self, source: Any) -> list[int]:
        """Return the slots of a source; a Variable that was assigned to has several."""
        recorder = self.recorder
        assert recorder is not None
        if issubclass(type(source), Variable):  # `isinstance` asks a Tensor for the type of its value
            # Another tape may own slots of values that `functional_call` gave the Variable.
            return [slot for slot in recorder.variables.get(id(source), (source, ()))[1] if slot in self._slots]
        slot = recorder.slot_of(read(source))
        return [] if slot is None else [slot]

    def pull(self, seeds: dict[int, Any], wanted: set[int], cuts: set[int], *, sparse: bool) -> dict[int, Any]:
        """Return the cotangents of the wanted slots; the arguments are as for `cotangents_at`."""
        recorder, records = self.recorder, self.records()
        assert recorder is not None
        if recorder.shared:
            wanted = {slot for slot in wanted if self._marks[slot] or slot in seeds}
        if recorder.tapes and recorder in ACTIVE.get():  # a tape records the backward pass
            records = [None if record is None else with_tensors(recorder, i, record) for i, record in enumerate(records)]
        if records is not recorder.records:
            copied(recorder.records, records)
        if recorder.monitor is not None:
            pull = functools.partial(cotangents_at, records, seeds, wanted, cuts)
            return recorder.monitor.pulled(self, seeds, pull)  # type: ignore[no-any-return]
        return cotangents_at(records, seeds, wanted, cuts, sparse=sparse)

    # Derivatives

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        missing: str | None = None,
        *,
        conj: bool = True,
        sparse: bool = False,
    ) -> Any:
        """Return the derivatives of the sum of the targets with respect to the sources: `seed^T J`.

        Args:
            target: a Tensor or Variable, or a nested structure of them.
            sources: a Tensor or Variable, or a nested structure of them.
            output_gradients: one seed for each target, with its shape; `None` means ones. The seeds have the structure of
                `target`, with dicts matched by key, or they are a list in the order of sorted keys.
            unconnected_gradients: `"none"` or `"zero"`: the result for a source that no recorded path reaches.
            missing: with `"raise"`, raise the text of `explain` for such a source.
            conj: for complex sources, return the conjugate of `seed^T J` with the conjugate seed, as TensorFlow does. `False`
                returns `seed^T J`, as `functad.grad` and `functad.vjp` do.
            sparse: return `RowSlices` for a source that is an input and was read by rows only, as in `table[ids]` or
                `np.take(..., axis=0)` with integers. Ignored under `debug_nans`.

        Returns:
            Tensors in the structure of `sources`.

        Raises:
            RuntimeError: the tape is spent, or was never entered.
            TypeError: a target or a source is not a Tensor or Variable.
            ValueError: an option is unknown, or a seed does not fit. The tape is not spent by this error.
        """
        zero, conj = zero_wanted(unconnected_gradients), checked_conj(conj)
        targets, target_structure = leaves_of(target, "target")
        pairs, structure = leaves_of(sources, "sources")
        seeds = seeds_for(targets, target_structure, output_gradients)
        check_option("sparse", sparse, (True, False), "it must be True or False")
        check_option("missing", missing, (None, "raise"), "it must be None or 'raise'")
        with self._request("gradient"):
            found = gradients_of(self, targets, seeds, [source for source, _ in pairs], conj=conj, sparse=sparse)
            for g, (source, path) in zip(found, pairs, strict=True):
                if g is None and missing == "raise":
                    reason = self.explain([target for target, _ in targets], source)
                    raise NoPathError(f"there is no gradient by {path}, at {here()}: {reason}")
            return structure.unflatten([finished(g, source, zero) for g, (source, _) in zip(found, pairs, strict=True)])

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        *,
        chunk_size: int | None = None,
        conj: bool = True,
    ) -> Any:
        """Return the Jacobians of a target with respect to the sources.

        One backward pass computes many rows.

        Args:
            target: a Tensor or Variable.
            sources: a Tensor or Variable, or a nested structure of them.
            unconnected_gradients: as for `gradient`.
            parallel_iterations, experimental_use_pfor: ignored; for compatibility with TensorFlow.
            chunk_size: the largest number of rows in one backward pass. Default: as many as fit in about 100 MB.
            conj: as for `gradient`.

        Returns:
            Tensors of shape `target.shape + source.shape`, in the structure of `sources`.

        Raises:
            RuntimeError, TypeError, ValueError: as `gradient`.
        """
        check_iterations(parallel_iterations, experimental_use_pfor)
        request = JacobianRequest(self, "jacobian()", target, sources, unconnected_gradients, conj, chunk_size)
        with self._request("jacobian"):
            return request.jacobian()

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = UnconnectedGradients.ZERO,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        *,
        check: bool = False,
        chunk_size: int | None = None,
        conj: bool = True,
    ) -> Any:
        """Return the Jacobian of each row of the target with respect to the same row of the source.

        Args:
            target: a Tensor of shape `(b, ...)`.
            source: a Tensor of shape `(b, ...)`. Its row `i` must influence only row `i` of the target.
            unconnected_gradients: as for `gradient`.
            check: check that the rows are independent; takes `b` times as long.
            parallel_iterations, experimental_use_pfor, conj: as for `jacobian`.
            chunk_size: the largest number of elements of a target row in one backward pass.

        Returns:
            A Tensor of shape `(b, *target.shape[1:], *source.shape[1:])`.

        Raises:
            ValueError: the shapes do not fit, or `check` finds a row that depends on other rows.
            RuntimeError, TypeError: as `gradient`.
        """
        check_iterations(parallel_iterations, experimental_use_pfor)
        request = JacobianRequest(self, "batch_jacobian()", target, source, unconnected_gradients, conj, chunk_size)
        request.check_batch()
        with self._request("batch_jacobian"):
            return request.batch_jacobian(check=check)

    @contextmanager
    def _request(self, method: str) -> Iterator[None]:
        """Return the context of a request. After it, a tape that is not persistent is spent.

        If the request raises, because no path exists or a gradient function of the user fails, the tape is as before.
        """
        if self.recorder is None:
            raise TapeError(f"{method}() at {here()}: {self._absent()}.")
        recording = self.recording
        if recording and not self._persistent:
            self._stop()
        elif recording and not self._warned:
            GradientTape._warned = True
            warn(
                RuntimeWarning(
                    "a gradient is taken inside its own persistent tape, which records that too: memory grows with each call. "
                    "Leave the `with` block first, unless second derivatives are wanted."
                )
            )
        try:
            yield
        except BaseException:
            if recording and not self.recording:
                self._start()
            raise
        if not self._persistent:
            self._release()
            self._state = "spent"

    def run(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return `f(*args, **kwargs)`; `debug_nans` defers its checks until this tape is asked for a gradient."""
        assert self.recorder is not None
        monitor = self.recorder.monitor
        return f(*args, **kwargs) if monitor is None else monitor.run(f, args, kwargs)

    def expressions(self, target: Any, sources: Any) -> Expressions:
        """Return the operations that the tape recorded between sources and target, as an expression list.

        Args:
            target: a Tensor, or a nested structure of Tensors.
            sources: Tensors and Variables that the tape follows. Each element of a list is an argument of the result.

        Returns:
            An `Expressions`, as from `functad.make_expressions`. It prints, and computes the target from new values of the
            sources.

        Raises:
            TapeError: the tape was made without `lists=True`, was never entered, or is spent.
            TypeError: a target or a source is not a Tensor or Variable.

        Example:
            >>> import numpy as np, functad
            >>> w = functad.Variable([1.0, 2.0], name="w")
            >>> with functad.GradientTape(lists=True) as tape:
            ...     y = np.sum(np.sin(w) * w)
            >>> tape.expressions(y, w)
            { lambda w:float64[2].
              a:float64[2] = sin w
              b:float64[2] = multiply a w
              c:float64[] = sum b
              return c }
        """
        if not self.lists:
            raise TapeError(
                f"expressions() at {here()}: a tape keeps only the values for derivatives, and no list of operations. Open it "
                f"as GradientTape(lists=True)."
            )
        if self.listed is None:
            raise TapeError(f"expressions() at {here()}: {self._absent()}.")
        leaves_of(target, "target")
        leaves_of(sources, "sources")
        return self.listed.between(self, target, sources)

    def explain(self, target: Any, source: Any) -> str:
        """Return the reason and the fix for a gradient that is `None`, or state that a recorded path exists.

        Args:
            target: a Tensor or Variable, a plain value in place of a Tensor, or a nested structure of them.
            source: a Tensor or Variable.

        Returns:
            The reason in a sentence or two, with the line that cut the path if there is one.

        Example:
            >>> import functad
            >>> x = functad.constant(3.0)
            >>> with functad.GradientTape(persistent=True) as tape:
            ...     y = x * x
            >>> tape.explain(y, x).split(",")[0]
            'the Tensor was never watched'
        """
        if self.recorder is None:
            return f"{self._absent()}."
        targets = [leaf for leaf, _ in leaves_of(target, "target", plain=True)[0]]
        sources, _ = leaves_of(source, "source")
        if len(sources) != 1:
            raise SourceError(
                f"explain() with {len(sources)} sources, at {here()}: ask about one Tensor or Variable at a time."
            )
        from functad.eager.tape.diagnostics import explain_missing  # noqa: PLC0415 - only here

        return explain_missing(self, targets, sources[0][0])

    def __repr__(self) -> str:
        return f"GradientTape({self._state}, {'persistent, ' if self._persistent else ''}{self.stats()['records']} records)"

    def __str__(self) -> str:
        from functad.eager.shown import tape_text  # noqa: PLC0415 - only displays need it

        return tape_text(self, repr(self))

    def _repr_html_(self) -> str:
        from functad.eager.shown import tape_markup  # noqa: PLC0415 - as above

        return tape_markup(self, self._state, self._persistent)
