"""The backend `xla`: a list as a program of XLA, on whatever device JAX has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.xla.engine import in_double_precision, jax, readable
from functad.backends.xla.host import HOST, HostCalls
from functad.backends.xla.replay import refuse_dtype, replay
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, spec_of
from functad.forks import cached_property
from functad.namespaces.array import unwrapped
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
        host = HostCalls()

        def run(*leaves: Any) -> Any:
            with setting(HOST, host):
                return tuple(replay(expressions, leaves))

        jitted = jax.jit(run)

        def function(*leaves: Any) -> Any:
            leaves = tuple([readable(leaf) for leaf in leaves])
            if jax.config.jax_enable_x64 is wide:  # to set what is set takes as long as a short call
                outs = jitted(*leaves)
            else:
                with in_double_precision(wide):
                    outs = jitted(*leaves)
            if host.names:
                outs = waiting(leaves, outs)
            return outs if not unchanged else as_given(leaves, outs)

        unchanged = _numbers(expressions)

        def as_given(leaves: Sequence[Any], outs: Any) -> Any:
            """Return results with numbers of Python in place of those that are not computed."""
            own = list(outs)
            for i, source in unchanged:
                value = source.value if isinstance(source, Constant) else leaves[source]
                own[i] = value if type(value) in PYTHON_SCALARS else own[i]
            return tuple(own)

        def waiting(leaves: Sequence[Any], outs: Any) -> Any:
            """Wait for what NumPy computes on the host, so that what it raises is raised here."""
            if any(isinstance(out, jax.core.Tracer) for out in outs):  # a part of another program, which is run later
                return tuple(replay(expressions, leaves))
            outs = jax.block_until_ready(outs)
            if host.failures:
                raise host.failures.pop()
            return outs

        self.function = function
        self._jitted = jitted

    def __call__(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Return the output leaves for input leaves, without waiting until they are computed."""
        return self.function(*map(unwrapped, leaves))  # type: ignore[no-any-return]

    @cached_property
    def source(self) -> str:
        """What XLA is given: the operations of JAX, and before them what NumPy computes on the host."""
        host = HostCalls()

        def run(*leaves: Any) -> Any:
            with setting(HOST, host):
                return tuple(replay(self.expressions, leaves))

        with in_double_precision(self._wide):
            text = str(jax.make_jaxpr(run)(*self._inputs()))
        return "\n".join([*[f"# {name}: computed by NumPy on the host" for name in dict.fromkeys(host.names)], text])

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


def _numbers(expressions: Expressions) -> list[tuple[int, int | Constant]]:
    """Return where the results are numbers of Python that are given or constant, and which these are."""
    given = len(expressions.inputs)
    results = zip(expressions.outputs, expressions.results, strict=True)
    return [(i, s) for i, (s, spec) in enumerate(results) if spec.weak and (isinstance(s, Constant) or s < given)]


def _specs(expressions: Expressions) -> list[ArraySpec]:
    constants = [s.value for e in expressions.equations for s in e.inputs if isinstance(s, Constant)]
    return [*expressions.specs, *[spec_of(value) for value in constants if value is not None], *expressions.results]


def _is_wide(spec: ArraySpec) -> bool:
    """Say whether a dtype is one of those that JAX has only when it is told to."""
    return spec.dtype in (np.float64, np.int64, np.uint64, np.complex128)
