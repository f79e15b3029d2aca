"""`GradientTape`: record operations on watched Tensors and Variables, and compute gradients afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self
from weakref import ref

from functad.eager.active import Stamp
from functad.eager.models.variable import Variable
from functad.eager.tape import request as requests
from functad.eager.tape.explain import explain_missing
from functad.eager.tape.jacobian import batch_jacobian_asked, jacobian_asked
from functad.eager.tape.list import expressions
from functad.eager.tape.recorder import shared_recorder, watch_given
from functad.eager.tape.request import UnconnectedGradients
from functad.eager.tape.slice import TapeSlice
from functad.errors import InputError, SourceError, TapeError, TapeStateError
from functad.expressions.spec import dtype_of
from functad.places import here, warn
from functad.primitives.operands import read
from functad.tracing.conversions import refusal_behind
from functad.tracing.float_errors import enter_float_errors, float_errors, get_state, leave_float_errors
from functad.tracing.graphs import InGraphError


class GradientTape(TapeSlice):
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
    _errors: Any = None

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True, *, lists: bool = False) -> None:
        self._persistent = persistent
        self.lists = lists
        self._watch_accessed = watch_accessed_variables
        self._paused = False
        self._clear()

    # Life cycle

    def __enter__(self) -> Self:
        if self._recording:
            raise TapeStateError(f"the tape is recording already, at {here()}: open another GradientTape inside it.")
        if self._spent or self._recorder is None:
            self._clear()
            self._recorder, self._spent = shared_recorder("a GradientTape"), False
        self._start()
        self._errors = float_errors(get_state())
        enter_float_errors(self._errors)
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            leave_float_errors(self._errors)
            self._paused = False
            self._stop()
        finally:
            leave_float_errors(self._errors)
            self._errors = None
            self._stop()  # an interrupt may have skipped the first call
        if isinstance(exception[1], InGraphError):
            raise exception[1].error.with_traceback(exception[1].__traceback__) from None
        if isinstance(exception[1], Exception) and (refused := refusal_behind(exception[1])) is not None:
            raise refused from None

    def __del__(self) -> None:
        leave_float_errors(getattr(self, "_errors", None))  # not `None` if an interrupt came before `__exit__`
        if getattr(self, "_recorder", None) is not None:
            self._stop()
            self._release()

    # Watching

    def watch(self, tensor: Any) -> None:
        """Follow a Tensor or Variable, or every one in a nested structure, from now on.

        Args:
            tensor: a Tensor or Variable of floating-point or complex numbers, or a nested structure of them.

        Raises:
            RuntimeError: the tape is not recording.
            TypeError: a leaf of the structure is neither a Tensor nor a Variable, or holds integers.
        """
        if self._recorder is None or not self._recording:
            raise TapeError(
                f"watch() on a tape that is {self._state()}, at {here()}: what is watched now would not be recorded. "
                f"Call it inside `with tape:`."
            )
        leaves, _ = requests.leaves_of(tensor, "tensor")
        for leaf, path in leaves:
            if dtype_of(leaf).kind not in "fc":
                raise InputError(
                    f"watch() of {path} of {leaf.dtype}, at {here()}: only floating-point and complex numbers have "
                    f"derivatives. Make it floats: functad.constant(value, dtype=float)."
                )
        for leaf, _ in leaves:
            if issubclass(type(leaf), Variable):  # `isinstance` asks a Tensor for the type of its value
                self._explicit.add(id(leaf))
                self._variables[id(leaf)] = leaf
                Stamp.renew()
                read(leaf)
            else:
                leaf = read(leaf)
                if self._recorder.shared:
                    self._mark()  # earlier uses of the Tensor do not count
                watch_given(leaf, self._recorder)
                slot = self._recorder.slot_of(leaf)
                assert slot is not None
                self._recorder.watched.add(slot)
                self.follow(slot)
                self._watched.append(ref(leaf))

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Return a context in which this tape records nothing.

        Raises:
            RuntimeError: the tape was never entered, or is spent.
            ValueError: the tape is not recording.
        """
        if self._recorder is None:
            raise TapeError(f"stop_recording() at {here()}: {self._absent()}.")
        if not self._recording:
            raise TapeStateError(f"stop_recording() of a tape that is not recording, at {here()}.")
        self._stop()
        self._paused = True
        try:
            yield
        finally:
            if self._paused and self._recorder is not None:
                self._paused = False
                self._start()

    def reset(self) -> None:
        """Drop all records and watched values, and continue to record.

        Raises:
            ValueError: the tape is not recording.
        """
        if not self._recording:
            raise TapeStateError(f"reset() of a tape that is not recording, at {here()}: call it inside `with tape:`.")
        self._stop()
        self._release()
        self._clear()
        self._recorder = shared_recorder("a GradientTape")
        self._start()

    # Gradients

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
        answer = requests.gradient_asked(target, sources, output_gradients, unconnected_gradients, missing, conj, sparse)
        return self._answered(answer, "gradient")

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
        requests.check_iterations(parallel_iterations, experimental_use_pfor)
        answer = jacobian_asked(target, sources, unconnected_gradients, chunk_size, conj)
        return self._answered(answer, "jacobian")

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
            parallel_iterations, experimental_use_pfor: ignored; for compatibility with TensorFlow.
            check: check that the rows are independent; takes `b` times as long.
            chunk_size: the largest number of elements of a target row in one backward pass. Default: as many as fit in about
                100 MB.
            conj: as for `gradient`.

        Returns:
            A Tensor of shape `(b, *target.shape[1:], *source.shape[1:])`.

        Raises:
            ValueError: the shapes do not fit, or `check` finds a row that depends on other rows.
            RuntimeError, TypeError: as `gradient`.
        """
        requests.check_iterations(parallel_iterations, experimental_use_pfor)
        answer = batch_jacobian_asked(target, source, unconnected_gradients, check, chunk_size, conj)
        return self._answered(answer, "batch_jacobian")

    def _answered(self, answer: requests.Answer, method: str) -> Any:
        """Return the answer to a request, and mark a tape that is not persistent as spent.

        A request may raise, because no path exists or a gradient function of the user fails. The tape then stays usable, unless
        the backward pass has dropped records.
        """
        recording, self._consumed = self._recording, False
        self._begin(method)
        try:
            found = answer(self)
        except BaseException:
            if self._consumed:
                self._finish()
            elif recording and not self._recording:
                self._start()
            raise
        self._finish()
        return found

    def _begin(self, method: str) -> None:
        if self._recorder is None:
            raise TapeError(f"{method}() at {here()}: {self._absent()}.")
        if self._recording and not self._persistent:
            self._stop()
        elif self._recording and not self._warned:
            GradientTape._warned = True
            warn(
                RuntimeWarning(
                    "a gradient is taken inside its own persistent tape, which records that too: memory grows with each call. "
                    "Leave the `with` block first, unless second derivatives are wanted."
                )
            )

    def _finish(self) -> None:
        if not self._persistent:
            self._paused = False
            self._release()
            self._spent = True

    def run(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return `f(*args, **kwargs)`; `debug_nans` defers its checks until this tape is asked for a gradient."""
        assert self._recorder is not None
        watch = self._recorder.watch
        return f(*args, **kwargs) if watch is None else watch.run(f, args, kwargs)

    expressions = expressions

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
        if self._recorder is None:
            return f"{self._absent()}."
        targets = [leaf for leaf, _ in requests.leaves_of(target, "target", plain=True)[0]]
        sources, _ = requests.leaves_of(source, "source")
        if len(sources) != 1:
            raise SourceError(
                f"explain() with {len(sources)} sources, at {here()}: ask about one Tensor or Variable at a time."
            )
        return explain_missing(self, targets, sources[0][0])

    def __repr__(self) -> str:
        return f"GradientTape({self._state()}, {'persistent, ' if self._persistent else ''}{self.stats()['records']} records)"

    def __str__(self) -> str:
        from functad.eager.tape.shown import tape_text  # noqa: PLC0415 - only displays need it

        return tape_text(self, repr(self))

    def _repr_html_(self) -> str:
        from functad.eager.tape.shown import tape_markup  # noqa: PLC0415 - as above

        return tape_markup(self, self._state(), self._persistent)

    def _state(self) -> str:
        if self._recorder is None:
            return "spent" if self._spent else "not entered"
        return "recording" if self._recording else "stopped" if self._paused else "left"
