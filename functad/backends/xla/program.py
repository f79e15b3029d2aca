"""The compiled program of the backend `xla`, for any device of JAX."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.careful import Again
from functad.backends.integer_ranges import INT64, Range, integers_of, results_fit
from functad.backends.numpy_source import NumpyProgram
from functad.backends.xla.engine import in_double_precision, jax, readable
from functad.backends.xla.host import HOST, HostCalls
from functad.backends.xla.replay import refuse_dtype, replay
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, spec_of
from functad.process import cached_property, setting

_WIDE = (np.float64, np.int64, np.uint64, np.complex128)
"""The dtypes that JAX has only with 64-bit dtypes enabled."""

MOST_KNOWN = 256
"""Largest number of cached results of `Integers`."""


class XlaProgram:
    """An expression list, compiled by XLA at the first call, and again for arrays on other devices.

    Args:
        expressions: the list.
        again: recomputes the results if a checked result has a NaN. Each call reads one truth value from the device, and waits
            for it.
        checked: positions of the results that depend on derivatives.
        within: computes the results inside another JAX program in one pass, because truth values are abstract there.
        donated: positions of inputs. XLA may use their memory for results. A program with `again` donates nothing.

    Attributes:
        expressions: the list.
        function: a function from input leaves to output leaves. The output leaves are JAX arrays.
    """

    def __init__(
        self,
        expressions: Expressions,
        *,
        again: Again | None = None,
        checked: Sequence[int] = (),
        within: Again | None = None,
        donated: Sequence[int] = (),
    ) -> None:
        for spec in expressions.specs[: len(expressions.inputs)]:
            refuse_dtype(spec, "an argument")
        self.expressions = expressions
        self._fallback: NumpyProgram | None = None
        self._wide = any(spec.dtype in _WIDE for spec in _specs(expressions))
        wide = self._wide
        host = HostCalls()

        def run(*leaves: Any) -> Any:
            with setting(HOST, host):
                outs = tuple(replay(expressions, leaves))
                return outs, functools.reduce(operator.or_, [jax.numpy.isnan(outs[i]).any() for i in checked], False)

        jitted = jax.jit(run, donate_argnums=() if again is not None else _usable(expressions, donated))

        integers = Integers(expressions)

        def function(*leaves: Any) -> Any:
            if integers.matter and not integers.fit(leaves):
                return self._by_numpy(leaves)
            if within is not None and is_traced(leaves) and (found := within((), leaves)):
                return found
            leaves = tuple([readable(leaf) for leaf in leaves])
            if jax.config.jax_enable_x64 is wide:  # setting an unchanged option takes as long as a short call
                outs, has_nan = jitted(*leaves)
            else:
                with in_double_precision(wide):
                    outs, has_nan = jitted(*leaves)
            if host.names:
                outs = waiting(leaves, outs)
            if again is not None and np.asarray(has_nan):  # `bool` of a JAX array takes twice as long
                outs = again(outs, leaves)
            return outs if not unchanged else as_given(leaves, outs)

        unchanged = _numbers(expressions)

        def as_given(leaves: Sequence[Any], outs: Any) -> Any:
            """Return results with the original Python numbers for results that are inputs or constants."""
            own = list(outs)
            for i, source in unchanged:
                value = source.value if isinstance(source, Constant) else leaves[source]
                own[i] = value if type(value) in PYTHON_SCALARS else own[i]
            return tuple(own)

        def waiting(leaves: Sequence[Any], outs: Any) -> Any:
            """Wait for the host callbacks, and raise their exceptions here."""
            if is_traced(outs):  # part of another JAX program, which runs later
                return tuple(replay(expressions, leaves))
            outs = jax.block_until_ready(outs)
            if host.failures:
                raise host.failures.pop()
            return outs

        self.function = function
        self._jitted = jitted

    def _by_numpy(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Compute the list with NumPy, for Python integers beyond int64. Results are JAX arrays if JAX has their dtype."""
        if self._fallback is None:
            self._fallback = NumpyProgram(self.expressions)
        outs = self._fallback(as_numpy(leaves))
        with in_double_precision(self._wide):
            return tuple([_as_jax(out) for out in outs])

    def __call__(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Return the output leaves for the input leaves. Only programs of derivatives wait for the results."""
        return self.function(*leaves)  # type: ignore[no-any-return]

    @cached_property
    def source(self) -> str:
        """The jaxpr of the program, after comments with the names of primitives that NumPy computes on the host."""
        host = HostCalls()

        def run(*leaves: Any) -> Any:
            with setting(HOST, host):
                return tuple(replay(self.expressions, leaves))

        with in_double_precision(self._wide):
            text = str(jax.make_jaxpr(run)(*self._inputs()))
        return "\n".join([*[f"# {name}: computed by NumPy on the host" for name in dict.fromkeys(host.names)], text])

    @cached_property
    def text(self) -> str:
        """The program in StableHLO."""
        with in_double_precision(self._wide):
            return str(self._jitted.lower(*self._inputs()).as_text())

    def _inputs(self) -> list[Any]:
        """Return the abstract values of the inputs."""
        return [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in self.expressions.specs[: len(self.expressions.inputs)]]


def _usable(expressions: Expressions, donated: Sequence[int]) -> tuple[int, ...]:
    """Return the donated inputs for which there is a result of the same shape and dtype; JAX warns about other ones."""
    free = [(spec.shape, spec.dtype) for spec in expressions.results]
    found = []
    for i in donated:
        own = expressions.specs[i].shape, expressions.specs[i].dtype
        if own in free:
            free.remove(own)
            found.append(i)
    return tuple(found)


def is_traced(leaves: Sequence[Any]) -> bool:
    """Return `True` if another JAX program traces the leaves."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def as_numpy(values: Sequence[Any]) -> list[Any]:
    """Return JAX arrays as new NumPy arrays, and as NumPy scalars for shape `()`."""
    return [np.array(value)[()] if isinstance(value, jax.Array) else value for value in values]


def _as_jax(value: Any) -> Any:
    """Return an array or a number as a JAX array. Python integers beyond int64 stay unchanged."""
    if type(value) is int and not INT64[0] <= value <= INT64[1]:
        return value
    return value if getattr(value, "dtype", None) == np.object_ else jax.numpy.asarray(readable(value))


class Integers:
    """The test whether int64 holds all Python integers of a call.

    Args:
        expressions: the list.

    Attributes:
        matter: the test may fail for some arguments.
    """

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._places = integers_of(expressions)
        self._known: dict[Any, bool] = {}
        self.matter = bool(self._places) or not self._holds([])

    def fit(self, leaves: Sequence[Any]) -> bool:
        """Return `True` if int64 holds all Python integers that the program computes from these arguments."""
        values = [leaves[i] for i in self._places]
        if not all(type(value) in (int, bool) for value in values):  # an outer JAX program holds its values as int64
            return True
        rough = tuple([_rounded(int(value)) for value in values])
        return self._is_known(rough) or self._is_known(tuple([(int(value), int(value)) for value in values]))

    def _is_known(self, ranges: tuple[Range, ...]) -> bool:
        found = self._known.get(ranges)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[ranges] = self._holds(ranges)
        return found

    def _holds(self, ranges: Sequence[Range]) -> bool:
        if not all(INT64[0] <= low <= high <= INT64[1] for low, high in ranges):
            return False  # JAX refuses such an argument even if it is unused
        given: list[Range | None] = [None] * len(self._expressions.inputs)
        for i, each in zip(self._places, ranges, strict=True):
            given[i] = each
        return results_fit(self._expressions, given)


def _rounded(value: int) -> Range:
    """Return a range of integers of about the same bit length, so that few ranges are tested."""
    bits = (value if value >= 0 else ~value).bit_length()
    for most in (7, 15, 31, 63):
        if bits <= most:
            return -(2**most), 2**most - 1
    return value, value


def _numbers(expressions: Expressions) -> list[tuple[int, int | Constant]]:
    """Return the positions and sources of results that are Python numbers from inputs or constants."""
    given = len(expressions.inputs)
    results = zip(expressions.outputs, expressions.results, strict=True)
    return [(i, s) for i, (s, spec) in enumerate(results) if spec.weak and (isinstance(s, Constant) or s < given)]


def _specs(expressions: Expressions) -> list[ArraySpec]:
    constants = [s.value for e in expressions.equations for s in e.inputs if isinstance(s, Constant)]
    return [*expressions.specs, *[spec_of(value) for value in constants if value is not None], *expressions.results]
