"""The registry of backends: find the compiler of expression lists with a given name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from functad.errors import InputError
from functad.places import here
from functad.process import optional

Program = Callable[[Sequence[Any]], Sequence[Any]]
"""A compiled expression list: a function from input leaves to output leaves. Its attribute `source` is the compiled text."""


class Backend(NamedTuple):
    """A compiler of expression lists.

    Attributes:
        name: the name that `functad.jit` accepts.
        compile: compiles a list to a program. The backend `numpy` accepts a second list to compute if a result has a NaN.
        plain: converts results of a program to NumPy arrays and numbers; `None` if they need no conversion.
        exact: results equal NumPy's bit for bit.
    """

    name: str
    compile: Callable[..., Any]
    plain: Callable[[Sequence[Any]], list[Any]] | None = None
    exact: bool = False

    @property
    def donates(self) -> bool:
        """Whether programs may write results into the memory of donated arguments."""
        return self.name in ("llvm", "xla")

    @property
    def fuses(self) -> bool:
        """Whether the backend fuses elementwise operations into one pass over memory."""
        return self.name.partition(" ")[0] != "numpy"

    def handed_on(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return results of a program in a form that uncompiled code can compute with."""
        return values if self.plain is None else self.plain(values)


def find(name: str | None, exact: bool = False) -> Backend:
    """Return the backend with a name.

    Args:
        name: the name, or `None` for `llvm` if llvmlite is installed, else `numpy`.
        exact: results of the backend `numpy` equal NumPy's bit for bit.

    Raises:
        InputError: no backend has this name.
        MissingPackageError: the backend needs a package that is not installed.
    """
    if name is None:
        name = "llvm" if find_spec("llvmlite") is not None else "numpy"
    if name == "llvm":
        from functad.backends.llvm.module import binding  # noqa: PLC0415 - imported at the first compilation
        from functad.backends.native.donation import native_program  # noqa: PLC0415

        binding()
        return Backend("llvm", native_program)
    if name == "numpy":
        from functad.backends.numpy_source import NumpyProgram  # noqa: PLC0415

        return Backend("numpy", functools.partial(NumpyProgram, exact=True) if exact else NumpyProgram, exact=exact)
    if name == "xla":
        if find_spec("jax") is None:  # the first compilation imports JAX, which takes two seconds
            optional("jax", "The backend `xla`", package="jax", install="'functad[xla]'")
        from functad.backends.xla.program import XlaProgram, as_numpy  # noqa: PLC0415

        return Backend("xla", XlaProgram, as_numpy)
    raise InputError(
        f"jit has no backend {name!r}, at {here()}. There are 'numpy', which needs nothing; 'llvm', which needs llvmlite: "
        f"pip install 'functad[jit]'; and 'xla', which needs jax: pip install 'functad[xla]'."
    )
