"""The backend `xla`: a list as a program of XLA, on whatever device JAX has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from functad.backends.xla.engine import in_double_precision, jax
from functad.backends.xla.host import FAILURES
from functad.backends.xla.replay import on_the_host, refuse_dtype, replay
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.spec import ArraySpec, spec_of
from functad.settings import setting


class XlaProgram:
    """An expression list, compiled by XLA when it is first run, and anew for arrays that lie on other devices.

    Attributes:
        expressions: the list.
        function: from the input leaves to the output leaves, which are arrays of JAX.
    """

    def __init__(self, expressions: Expressions) -> None:
        for spec in expressions.specs[: len(expressions.inputs)]:
            refuse_dtype(spec, "an argument")
        self.expressions = expressions
        self._wide = any(_is_wide(spec) for spec in _specs(expressions))
        wide = self._wide

        failures: list[Exception] = []

        def run(*leaves: Any) -> Any:
            with setting(FAILURES, failures):
                return tuple(replay(expressions, leaves))

        jitted = jax.jit(run)

        def function(*leaves: Any) -> Any:
            if jax.config.jax_enable_x64 is wide:  # to set what is set takes as long as a short call
                return jitted(*leaves)
            with in_double_precision(wide):
                return jitted(*leaves)

        def waiting(*leaves: Any) -> Any:
            """Wait for what NumPy computes on the host, so that what it raises is raised here."""
            outs = jax.block_until_ready(function(*leaves))
            if failures:
                raise failures.pop()
            return outs

        self.function = waiting if any(on_the_host(expressions)) else function
        self._run = run
        self._jitted = jitted

    def __call__(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Return the output leaves for input leaves, without waiting until they are computed."""
        return self.function(*leaves)  # type: ignore[no-any-return]

    @cached_property
    def source(self) -> str:
        """What XLA is given: the operations of JAX, and before them what NumPy computes on the host."""
        counted = Counter(on_the_host(self.expressions))
        lines = [f"# {name}: computed by NumPy on the host" + f", {n} times" * (n > 1) for name, n in counted.items()]
        with in_double_precision(self._wide):
            return "\n".join([*lines, str(jax.make_jaxpr(self._run)(*self._inputs()))])

    @cached_property
    def text(self) -> str:
        """The program in the language of XLA's compilers, StableHLO."""
        with in_double_precision(self._wide):
            return str(self._jitted.lower(*self._inputs()).as_text())

    def _inputs(self) -> list[Any]:
        """Stand-ins for the inputs."""
        return [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in self.expressions.specs[: len(self.expressions.inputs)]]


def as_numpy(values: Sequence[Any]) -> list[Any]:
    """Return arrays of JAX as arrays of NumPy that nobody else has, and those without axes as numbers of NumPy."""
    return [np.array(value)[()] if isinstance(value, jax.Array) else value for value in values]


def _specs(expressions: Expressions) -> list[ArraySpec]:
    constants = [s.value for e in expressions.equations for s in e.inputs if isinstance(s, Constant)]
    return [*expressions.specs, *map(spec_of, constants), *expressions.results]


def _is_wide(spec: ArraySpec) -> bool:
    """Say whether a dtype is one of those that JAX has only when it is told to."""
    return spec.dtype in (np.float64, np.int64, np.uint64, np.complex128)
