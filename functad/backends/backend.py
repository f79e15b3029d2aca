"""What compiles expression lists, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from functad.errors import InputError
from functad.importable import optional
from functad.places import here

Program = Callable[[Sequence[Any]], Sequence[Any]]
"""A compiled list: from input leaves to output leaves. Its `source` is what it runs."""


class Backend(NamedTuple):
    """What makes a program of an expression list.

    Attributes:
        name: what `functad.jit` calls it.
        compile: from a list to a program; that of `numpy` takes a list besides to compute where a NaN comes out.
        plain: from results of a program to what NumPy computes with; `None` if they are NumPy's arrays as they are.
        exact: it gives every bit that NumPy gives.
    """

    name: str
    compile: Callable[..., Any]
    plain: Callable[[Sequence[Any]], list[Any]] | None = None
    exact: bool = False

    @property
    def fuses(self) -> bool:
        """Whether it computes several elementwise operations in one pass over memory."""
        return self.name.partition(" ")[0] != "numpy"

    def handed_on(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return results of a program for code that goes on computing with them, such as a trace that is not compiled."""
        return values if self.plain is None else self.plain(values)


def find(name: str | None, exact: bool = False) -> Backend:
    """Return a backend by its name; the best that is installed by default.

    Args:
        name: its name.
        exact: the backend `numpy` shall give every bit that NumPy gives.

    Raises:
        InputError: there is none of this name.
        MissingPackageError: it needs a package that is not installed.
    """
    if name is None:
        name = "llvm" if find_spec("llvmlite") is not None else "numpy"
    if name == "llvm":
        from functad.backends.llvm.module import binding  # noqa: PLC0415 - imported when something is compiled
        from functad.backends.native.program import LlvmProgram  # noqa: PLC0415

        binding()
        return Backend("llvm", LlvmProgram)
    if name == "numpy":
        from functad.backends.numpy_source import NumpyProgram  # noqa: PLC0415

        return Backend("numpy", functools.partial(NumpyProgram, exact=True) if exact else NumpyProgram, exact=exact)
    if name == "xla":
        if find_spec("jax") is None:  # it is imported when something is compiled: that takes two seconds
            optional("jax", "The backend `xla`", package="jax", install="'functad[xla]'")
        from functad.backends.xla.program import XlaProgram, as_numpy  # noqa: PLC0415

        return Backend("xla", XlaProgram, as_numpy)
    raise InputError(
        f"jit has no backend {name!r}, at {here()}. There are 'numpy', which needs nothing; 'llvm', which needs llvmlite: "
        f"pip install 'functad[jit]'; and 'xla', which needs jax: pip install 'functad[xla]'."
    )
