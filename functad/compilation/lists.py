"""Compiled expression lists, and their derivatives, which are compiled lists too.

A list is compiled when it first runs. A call with Tensors is recorded as one operation. The derivatives are traced once,
without values: a joint list of results and cotangents is split into a forward list, which also returns the residuals, and a
backward list.

A function that contains derivatives has one list per pass of `functad.primitives.safe.PASS`. The program of the quick list
runs the careful list if a result has a NaN. A trace without values records the list of its own pass. It also stores the
slots of the derivatives, so its own program checks the results that depend on them for NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.backends.backend import Backend, find
from functad.backends.careful import Again
from functad.backends.refusals import OtherArgumentsError
from functad.compilation.collector import collector_paused
from functad.compilation.forms import Forms, made
from functad.compilation.log import listening, now
from functad.compilation.passes import of_program, simplified
from functad.compilation.passes.rematerialise import worth_keeping
from functad.compilation.passes.speculate import unguarded
from functad.compilation.shared import key_of_list, shared_program
from functad.errors import EscapedTensorError
from functad.expressions.expressions import Constant, Expressions, evaluate, inner_lists
from functad.expressions.records import mark_reached, marks_at
from functad.expressions.spec import PLAIN, ArraySpec, is_inexact, spec_of
from functad.places import call_of
from functad.primitives.safe import CAREFUL, ELEMENTWISE, PASS, QUICK
from functad.process import cached_property, setting
from functad.rules.call import Rules, apply
from functad.tracing.equations import DERIVATIVES, has_effects
from functad.tracing.float_errors import in_silence
from functad.tracing.trace import Recorded
from functad.transforms.leaves import pull_leaves, pulled_with_results, pushed, replaced
from functad.transforms.lists import extract, trace
from functad.transforms.reverse import has_nan_below
from functad.trees import LEAF, Structure

LARGEST_STORED = 1_000_000
"""Maximal bytes of the constants of a list whose program is stored on disk."""

Split = tuple["CompiledList", "CompiledList", tuple[int, ...], list[int]]


class CompiledList:
    """An expression list and its compiled program.

    Args:
        expressions: the list. It returns a tuple of leaves. `None`: the simplified form of `traced`, made when it is needed.
        backend: the backend that compiles the list.
        function: the user's function, for messages.
        exact: `True` if the simplification of derived lists may not change any bit of a result.
        traced: the list before simplification. It decides which results of shape `()` are arrays.
        shares: `True` if functions with the same list share the program.
        careful: traces the function again in the current pass, without the checks at the end. `None` if the list contains no
            derivatives.
        checked: positions of the results that depend on derivatives.
        checks: the number of results at the end that are computed only because their equations may raise errors.
        inner: inner lists that contain derivatives, each with the slots of the derivatives.
        donated: positions of the inputs whose memory may receive results.
    """

    def __init__(
        self,
        expressions: Expressions | None,
        backend: Backend,
        function: Any,
        exact: bool = False,
        traced: Expressions | None = None,
        shares: bool = False,
        careful: Callable[[], Expressions] | None = None,
        checked: Sequence[int] = (),
        checks: int = 0,
        inner: Sequence[tuple[Expressions, list[int]]] = (),
        donated: Sequence[int] = (),
    ) -> None:
        self._simple = expressions
        self.forms = Forms(expressions if traced is None else traced)  # type: ignore[arg-type]
        self.backend = backend
        self.function = function
        self.exact = exact
        self.shares = shares
        self._careful = careful
        self.checked = checked if careful is not None else ()
        self.donated = tuple(donated) if backend.donates else ()
        self._checks = checks
        self._inner = inner
        self._program: Callable[[Sequence[Any]], Sequence[Any]] | None = None
        self._rules: dict[tuple[int, ...], Rules] = {}
        self._splits: dict[tuple[tuple[int, ...], int], Split] = {}
        self._others: dict[Any, CompiledList] = {}

    @property
    def expressions(self) -> Expressions:
        """The list. It returns a tuple of leaves."""
        if self._simple is None:
            with collector_paused():
                self._simple = self._simplified(self.forms.expressions)
        return self._simple

    @property
    def nbytes(self) -> int:
        """The bytes of the constants, machine code and texts of the list and of its derivatives."""
        from functad.backends.numpy_source import constant_arrays  # noqa: PLC0415 - only `set_program_limit` asks

        lists = [self.forms.expressions, *([] if self._simple is None else [self._simple])]
        constants: dict[int, int] = {id(a): a.nbytes for each in lists for a in constant_arrays(each)}
        others = [*self._others.values(), *[part for split in list(self._splits.values()) for part in split[:2]]]
        own: int = getattr(self._program, "nbytes", 0)
        return own + sum([*constants.values(), *[other.nbytes for other in others if other is not self]])

    def compiled(self) -> Any:
        """Return the compiled program."""
        if self._program is None:
            if self.shares:
                careful = self.in_pass(CAREFUL).expressions if self.checked else None
                self._program = shared_program(
                    self.expressions, self.backend, (self.exact, tuple(self.checked), self.donated), self._compile, careful
                )
            else:
                self._program = self._compile()
        return self._program

    def _compile(self) -> Any:
        """Return the program from the disk cache, or compile it."""
        if self.backend.name == "llvm" and not self.donated and _has_directory():
            options = self.exact, tuple(self.checked)
            key = key_of_list(self.forms.expressions, self.backend, options, LARGEST_STORED)
            if key is not None:
                return self._stored(key)
        return self._compiled_now(self._watch())

    def _stored(self, key: Any) -> Any:
        """Return the program in the disk cache, or compile and store it."""
        from functad.backends.native import stored  # noqa: PLC0415 - few processes have a cache directory

        start, name, watch = now(), stored.file_of(key), self._watch()
        again, checked = watch.get("again"), watch.get("checked", ())
        found = stored.read(name, lambda: self._of_program(self.expressions), again, checked)
        if found is None:
            found = self._compiled_now(watch)
            stored.write(name, found, again)
        elif (logger := listening()) is not None:
            logger.info("%s: loaded from disk in %.3f s.", call_of("jit", self.function), now() - start)
        return found

    def _watch(self) -> dict[str, Any]:
        """Return the options of the backend for the check of results for NaN, and for donated arguments."""
        watch: dict[str, Any] = {}
        if self.checked:
            watch = {"again": Again(self._careful_program), "checked": self.checked}
            if self.backend.plain is not None:
                watch["within"] = Again(lambda: self._careful_program(ELEMENTWISE))
        if self.donated:
            watch["donated"] = self.donated
        return watch

    def _compiled_now(self, watch: dict[str, Any]) -> Any:
        """Compile the list with the backend."""
        own = self.expressions
        guarded = self.backend.name == "numpy" and not self.exact and not has_effects({"": own})
        plain = unguarded(own) if guarded else None
        program = self._of_program(own)
        if plain is None:
            return self._built(program, watch)
        watch["checked"] = sorted({*plain.checked, *watch.get("checked", ())})
        return self._built(self._of_program(plain.expressions), {"careful": program, "finite": plain.finite, **watch})

    def _built(self, expressions: Expressions, options: dict[str, Any]) -> Any:
        """Compile a list with the backend, and log it."""
        start = now()
        program = self.backend.compile(expressions, **options)
        if (logger := listening()) is not None:
            parts = call_of("jit", self.function), self.backend.name, len(expressions.equations), now() - start
            logger.info("%s: the backend %s compiled %d operations in %.3f s.", *parts)
        return program

    def _of_program(self, expressions: Expressions) -> Expressions:
        return of_program(expressions, self.exact, fused=self.backend.fuses)

    def _careful_program(self, now: int = CAREFUL) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
        """Return the program of the list for a careful pass, or `None` if this list has none."""
        found = self.in_pass(now)
        return None if found is self else found

    def in_pass(self, now: int) -> CompiledList:
        """Return the list of the same function for a derivative pass, without the checks at the end.

        Returns this list if it contains no derivatives, or if the inputs or results change when the function is traced again.
        """
        if now == QUICK or self._careful is None:
            return self
        key = "pass", now
        if key not in self._others:
            own, count = self.expressions, len(self.expressions.outputs) - self._checks
            try:
                with collector_paused(), setting(PASS, now):
                    found = self._careful()
            except EscapedTensorError:  # the function reads Tensors of an outer trace that has ended
                return self
            alike = found.specs[: len(found.inputs)] == own.specs[: len(own.inputs)] and found.results == own.results[:count]
            careful = self.backend.plain is None and now == CAREFUL
            self._others[key] = self._list(found, find("numpy", self.exact) if careful else None) if alike else self
        return self._others[key]

    def __call__(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Return the results. A call with a Tensor is recorded as one operation."""
        for a in arrays:
            if type(a) not in PLAIN and isinstance(a, Recorded):
                break
        else:
            return self.forms.fitted((self._program or self.compiled())(arrays), arrays)
        newest = max((a for a in arrays if isinstance(a, Recorded)), key=lambda a: a.recorder.serial)
        if not newest.recorder.has_values or not self.expressions.outputs:  # a record has results
            return self._recorded(arrays)
        active = tuple([i for i, a in enumerate(arrays) if isinstance(a, Recorded) and is_inexact(a)])
        return apply(self.rules(active), arrays)

    def _recorded(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Return the results for Tensors of a batch or of a trace without values, by evaluating the equations.

        A trace without values records the list of its pass. In a batch, the careful list follows if a checked result has a NaN.
        """
        own, checked = self.in_pass(PASS.get()), list[Any]()
        if own is self:
            checked = evaluate(self._inlined(), arrays)
            if not self._has_nan(checked) or (own := self.in_pass(CAREFUL)) is self:
                self._note()
                return checked
        elif self._checks:
            checked = evaluate(self._inlined(), arrays)
        own._note()
        outs = evaluate(own._inlined(), arrays)
        return [*outs, *checked[len(outs) :]]

    def _note(self) -> None:
        """Report the inner lists with derivatives to the trace that records this list."""
        if self._inner and (noted := DERIVATIVES.get()) is not None:
            noted.extend(self._inner)

    def _has_nan(self, outs: Sequence[Any]) -> bool:
        """Return `True` if a checked result has a NaN. A trace without values stores the slots of these results."""
        return bool(self.checked) and has_nan_below([outs[i] for i in self.checked])

    def _inlined(self) -> Expressions:
        """Return the simplified list, or the traced list if simplification exchanged scalars and arrays of shape `()`."""
        return self.expressions if self.forms.same_as(Forms(self.expressions)) else self.forms.expressions

    def direct(self, structure: Structure, name: str = "function") -> Callable[..., Any] | None:
        """Return a function from plain arrays and numbers to the result as a pytree, or `None`.

        `None` before the list is compiled, or if the inputs decide which results of shape `()` are arrays.

        Args:
            structure: the structure of the result.
            name: the attribute of the program that holds the function of leaves.
        """
        function, forms = getattr(self._program, name, None), self.forms
        if function is None or forms.vary:
            return None
        wanted = self._wanted()
        if structure is LEAF:
            if wanted:
                return lambda *leaves: made(function(*leaves), wanted)[0]
            return lambda *leaves: function(*leaves)[0]
        build = structure.builder()
        if wanted:
            return lambda *leaves: build(*made(function(*leaves), wanted))
        return lambda *leaves: build(*function(*leaves))

    def _wanted(self) -> list[tuple[int, bool]]:
        """Return the forms of results that the program may return in another form."""
        return [each for each in self.forms.arrays if each[1] or not getattr(self._program, "gives_numbers", False)]

    def guarded(
        self, structure: Structure, place: int, expected: bytes, missed: Callable[[Any, Any], None]
    ) -> Callable[..., Any] | None:
        """Return a function like `direct` that checks the kinds of its arguments and one of its results, or `None`.

        The function raises `OtherArgumentsError` if the kinds differ, if the bytes of the result at `place` are not `expected`,
        or if the program raises. The results before `place` are the leaves of the returned pytree.

        Args:
            structure: the structure of the result.
            place: the position of the checked result.
            expected: its bytes.
            missed: called with the arguments and the checked result if that has other bytes.
        """
        function, forms = getattr(self._program, "strict", None), self.forms
        if function is None or forms.vary or self.backend.plain is not None:
            return None
        wanted = self._wanted()
        build: Callable[..., Any] = (lambda leaf: leaf) if structure is LEAF else structure.builder()
        function = in_silence(function) if self.backend.name == "numpy" else function

        def call(*leaves: Any) -> Any:
            try:
                outs = function(*leaves)
            except OtherArgumentsError:
                raise
            except Exception:  # noqa: BLE001 - the general call runs the program again
                raise OtherArgumentsError from None
            if outs[place].tobytes() != expected:
                missed(leaves, outs[place])
                raise OtherArgumentsError
            return build(*(made(outs, wanted) if wanted else outs)[:place])

        return call

    def rules(self, active: tuple[int, ...]) -> Rules:
        """Return the rules of a call that is differentiated with respect to the arrays at the positions `active`."""
        if active not in self._rules:

            def forward(*arrays: Any) -> tuple[tuple[Any, ...], Any]:
                now, own = PASS.get(), self.in_pass(PASS.get())
                values, kept = own._forward(active, arrays, now)
                which = now
                if not now and self._has_nan(values) and (careful := self.in_pass(CAREFUL)) is not self:
                    which = CAREFUL
                    values, kept = careful._forward(active, arrays, now)
                absent = [np.zeros(spec.shape, spec.dtype)[()] for spec in self.expressions.results[len(values) :]]
                return (*values, *absent), (which, now, *kept)

            def backward(kept: Any, gs: Sequence[Any]) -> list[Any]:
                which, before, residuals, arrays = kept
                own, now = self.in_pass(which), PASS.get()
                _, second, _, wanted = own._split(active, before)
                floats = [g for g, spec in zip(gs, own.expressions.results, strict=False) if is_inexact(spec)]
                if arrays is not None and now not in (QUICK, before):
                    found = own._pull_again(wanted, arrays, floats)
                else:
                    found = second([*residuals, *floats])
                return replaced([None] * len(self.expressions.inputs), wanted, self.backend.handed_on(found))

            self._rules[active] = Rules(
                self.function,
                lambda *arrays: tuple(self.forms.fitted(self.backend.handed_on(self(arrays)), arrays)),
                forward,
                backward,
                self._push,
                self._batch,
                lambda *specs: tuple(map(spec_of, self.expressions.results)),
                name="jit",
                inner=self.expressions,
                inlines=True,
            )
        return self._rules[active]

    def _forward(self, active: tuple[int, ...], arrays: Sequence[Any], now: int) -> tuple[tuple[Any, ...], Any]:
        """Return the results, and the residuals and arrays for the backward list of the pass `now`."""
        first, _, inputs, _ = self._split(active, now)
        outs = first(arrays)
        count = len(self.expressions.outputs)
        values = self.forms.fitted(self.backend.handed_on(outs[:count]), arrays)
        kept = [*outs[count:], *[arrays[i] for i in inputs]]
        # Without residuals the derivatives are constants, and finite constants need no careful pass.
        return tuple(values), (kept, arrays if kept or not self._is_finite else None)

    @cached_property
    def _is_finite(self) -> bool:
        """`True` if no constant of the list is infinite or NaN."""
        return _has_finite_constants(self.expressions)

    def _derived(self, key: Any, f: Callable[..., Sequence[Any]], specs: Sequence[ArraySpec]) -> CompiledList:
        """Return the cached list of derivatives for a key and the current pass; trace it from `f` if there is none.

        The list of a careful pass uses the backend `numpy`.

        Args:
            key: the key.
            f: a function of leaves that computes derivatives.
            specs: the specs of the leaves.
        """
        now = PASS.get()
        key = key, now
        if key not in self._others:
            found, inner = self._traced(f, specs)
            self._others[key] = self._list(found, find("numpy") if now == CAREFUL else None, inner)
        return self._others[key]

    def _traced(
        self, f: Callable[..., Sequence[Any]], specs: Sequence[ArraySpec]
    ) -> tuple[Expressions, list[tuple[Expressions, list[int]]]]:
        """Return the list of a function of leaves, and its inner lists with derivatives."""
        noted: list[tuple[Expressions, list[int]]] = []
        with setting(DERIVATIVES, noted):
            found = trace("jit", lambda *own: tuple(f(*own)), specs, function=self.function)
        return extract(found), [(inner, slots) for inner, slots in noted if inner is not found]

    def _list(
        self,
        expressions: Expressions,
        backend: Backend | None = None,
        inner: Sequence[tuple[Expressions, list[int]]] = (),
        **checks: Any,
    ) -> CompiledList:
        return CompiledList(
            self._simplified(expressions),
            self.backend if backend is None else backend,
            self.function,
            self.exact,
            expressions,
            self.shares,
            inner=inner,
            **checks,
        )

    def _simplified(self, expressions: Expressions) -> Expressions:
        return simplified(expressions, self.exact, fused=self.backend.fuses)

    def _split(self, active: tuple[int, ...], now: int) -> Split:
        """Return the forward and the backward list for derivatives with respect to some inputs, traced in a pass.

        Returns:
            The forward list, the backward list, the positions of the inputs that the backward list takes after the residuals,
            and the positions of the inputs with a cotangent.
        """
        key = active, now
        if key not in self._splits:
            with collector_paused(), setting(PASS, now):
                self._splits[key] = self._made_split(active)
        return self._splits[key]

    def _made_split(self, active: tuple[int, ...]) -> Split:
        own = self.expressions
        count, results = len(own.inputs), own.results
        wanted: list[int] = []

        def joint(*given: Any) -> tuple[Any, ...]:
            def f(*own_leaves: Any) -> list[Any]:
                return evaluate(own, own_leaves)

            values, found = pulled_with_results(
                f, given[:count], active, given[count:], transform="jit", function=self.function
            )
            wanted[:] = [i for i, ct in zip(active, found, strict=True) if ct is not None]
            return (*values, *[ct for ct in found if ct is not None])

        seeds = [ArraySpec(spec.shape, spec.dtype) for spec in results if is_inexact(spec)]
        specs = (*own.specs[:count], *seeds)
        found, inner = self._traced(joint, specs)
        whole = self._simplified(found)
        slots = range(count, count + len(seeds))
        reached = mark_reached(marks_at(slots, len(whole.specs)), by_slot(whole))
        outs, cts = whole.outputs[: len(results)], whole.outputs[len(results) :]
        read = [s for e in whole.equations if any(reached[slot] for slot in e.outputs) for s in e.inputs]
        needed = worth_keeping(whole, [s for s in (*read, *cts) if type(s) is int and not reached[s]], count)
        kept, inputs = [s for s in needed if s >= count + len(seeds)], tuple([s for s in needed if s < count])
        names = whole.inputs
        first = extract(whole, range(count), [*outs, *kept], names[:count])
        later = [f"kept[{i}]" for i in range(len(kept))]
        second = extract(
            whole, [*kept, *inputs, *slots], cts, [*later, *[names[i] for i in inputs], *[names[i] for i in slots]]
        )
        backend = find("numpy") if PASS.get() == CAREFUL else None
        return self._list(first, backend), self._list(second, backend, inner), inputs, wanted

    def _pull_again(self, wanted: Sequence[int], arrays: Sequence[Any], gs: Sequence[Any]) -> Sequence[Any]:
        """Return the cotangents of the wanted inputs in the current pass. All values are recomputed."""
        own, count = self.expressions, len(self.expressions.inputs)

        def back(*given: Any) -> list[Any]:
            return pull_leaves(lambda *leaves: evaluate(own, leaves), given[:count], given[count:], wanted)

        seeds = [ArraySpec(spec.shape, spec.dtype) for spec in own.results if is_inexact(spec)]
        return self._derived(("pull", *wanted), back, (*own.specs[:count], *seeds))([*arrays, *gs])

    def _push(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results."""
        if (careful := self.in_pass(PASS.get())) is not self:
            return [*careful._push(primals, tangents), *[None] * self._checks]
        own = self.expressions
        moving = tuple([i for i, t in enumerate(tangents) if t is not None and is_inexact(own.specs[i])])
        floats = [i for i, spec in enumerate(own.results) if is_inexact(spec)]
        if not moving:
            return [None] * len(own.outputs)

        def along(*given: Any) -> list[Any]:
            ts = replaced([None] * len(primals), moving, given[len(primals) :])
            found = pushed(lambda *leaves: evaluate(own, leaves), given[: len(primals)], ts)[1]
            return [found[i] for i in floats]

        count = len(own.inputs)
        specs = [*own.specs[:count], *[ArraySpec(own.specs[i].shape, own.specs[i].dtype) for i in moving]]
        found = self._derived(("push", moving), along, specs)([*primals, *[tangents[i] for i in moving]])
        return replaced([None] * len(own.outputs), floats, self.backend.handed_on(found))

    def _batch(self, size: int, values: Sequence[Any], batched: Sequence[bool]) -> tuple[Any, ...]:
        """Return the results for all examples of a batch."""
        from functad.transforms.vmap import vmap  # noqa: PLC0415 - few programs batch compiled functions

        axes = tuple([0 if flag else None for flag in batched])
        specs = [
            ArraySpec((size, *spec.shape), spec.dtype) if flag else spec
            for spec, flag in zip(self.expressions.specs, batched, strict=False)
        ]

        def every() -> tuple[Expressions, list[tuple[Expressions, list[int]]]]:
            own = self.in_pass(PASS.get()).expressions
            one = vmap(lambda *leaves: tuple(evaluate(own, leaves)), in_axes=axes, axis_size=size)
            return self._traced(one, specs)

        key = "batch", size, axes
        if key not in self._others:
            with setting(PASS, QUICK):
                found, inner = every()
            careful = None if self._careful is None else lambda: every()[0]
            self._others[key] = self._list(found, None, inner, careful=careful, checked=self.checked, checks=self._checks)
        return tuple(self.backend.handed_on(self._others[key](values)))


def _has_directory() -> bool:
    """Return `True` if there is a cache directory for programs of the backend `llvm`."""
    from functad.backends.native import disk  # noqa: PLC0415 - the backend has imported it

    return disk.is_on()


def by_slot(expressions: Expressions) -> list[Any]:
    """Return a list with each equation at the slot of its last result and `None` elsewhere, as in a trace."""
    found: list[Any] = [None] * len(expressions.specs)
    for equation in expressions.equations:
        found[equation.outputs[-1]] = equation
    return found


def _has_finite_constants(expressions: Expressions) -> bool:
    """Return `True` if no constant of a list, inner lists included, is infinite or NaN."""
    for equation in expressions.equations:
        for source in equation.inputs:
            value: Any = source.value if type(source) is Constant else None
            if type(value) in PLAIN and is_inexact(value) and not np.all(np.isfinite(value)):
                return False
        if not all(_has_finite_constants(inner) for _, inner in inner_lists(equation.params)):
            return False
    return True
