"""What compiles expression lists, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from functad.errors import InputError
from functad.places import here

Program = Callable[[Sequence[Any]], Sequence[Any]]
"""A compiled list: from input leaves to output leaves. Its `source` is what it runs."""


class Backend(NamedTuple):
    """What makes a program of an expression list.

    Attributes:
        name: what `functad.jit` calls it.
        compile: from a list to a program; that of `numpy` takes a list besides to compute where a NaN comes out.
    """

    name: str
    compile: Callable[..., Any]


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

        return Backend("numpy", functools.partial(NumpyProgram, exact=True) if exact else NumpyProgram)
    raise InputError(
        f"jit has no backend {name!r}, at {here()}. There are 'numpy', which needs nothing, and 'llvm', which needs llvmlite: "
        f"pip install 'functad[jit]'."
    )
