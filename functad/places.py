"""Source locations in the user's code: the lines and expressions in messages."""

from __future__ import annotations

import os.path
import sys
from itertools import islice
from opcode import opname
from types import CodeType, FrameType, FunctionType

import numpy as np

# `pathlib` would take a quarter of the time of `import functad`.
_PACKAGE = os.path.dirname(__file__)  # noqa: PTH120
_TOUR = os.path.join(_PACKAGE, "tour")  # noqa: PTH118 - it counts as a user program
_NUMPY = os.path.dirname(np.__file__)  # noqa: PTH120
_SITE = os.path.dirname(_NUMPY)  # noqa: PTH120
# Folders of libraries that call operations of arrays or pickle them.
_CALLING = ("scipy", "dask", "distributed", "cloudpickle", "cupy", "sparse", "pandas", "polars", "xarray", "pint", "matplotlib")
_UNITS = os.path.join(_SITE, "astropy", "units") + os.sep  # noqa: PTH118 - other astropy modules may be adopted
_SCIPY, *_OTHERS = [os.path.join(_SITE, name) + os.sep for name in _CALLING]  # noqa: PTH118
_PYTHON = os.path.dirname(os.__file__)  # noqa: PTH120 - the standard library: json, statistics, functools
_INTERNAL = (_PACKAGE + os.sep, _NUMPY + os.sep, _SCIPY, *_OTHERS, _UNITS, "<__array_function__", "<frozen ", "<functad.")
_INSTALLED = ("site-packages", "dist-packages")
_TYPED = ("<stdin>", "<ipython-", "<python-input-", "<doctest ", "<sybil")
"""Prefixes of the file names of interactively typed code."""

# Caches of internal and user files by name. To check the path for each frame is slow. Code objects as keys would be slower,
# because their hash is not cached.
_internal: set[str] = set()
_users: set[str] = set()


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame, from `frame` outwards, with code outside of functad, NumPy, SciPy and similar packages."""
    while True:
        try:
            while frame.f_code.co_filename in _internal:  # type: ignore[union-attr]
                frame = frame.f_back  # type: ignore[union-attr]
        except AttributeError:  # there is no frame left
            return None
        assert frame is not None
        filename = frame.f_code.co_filename
        if filename in _users:
            return frame
        (_internal if _looks_internal(filename) else _users).add(filename)


def is_own_frame(frame: FrameType) -> bool:
    """Return `True` if a frame runs code of functad, or code that functad generated."""
    return frame.f_code.co_filename.startswith((_PACKAGE + os.sep, "<functad."))


def is_of_numpy(frame: FrameType) -> bool:
    """Return `True` if a frame runs code of NumPy, including the dispatch of a NumPy function to its implementation."""
    return frame.f_code.co_filename.startswith((_NUMPY + os.sep, "<__array_function__"))


def user_place() -> tuple[CodeType | None, int]:
    """Return the code and the current instruction of the user's running line; `None` and 0 if there is no such line.

    The caller and the two functions around it belong to functad.
    """
    frame = user_frame(sys._getframe(3))
    return (None, 0) if frame is None else (frame.f_code, frame.f_lasti)


def is_internal(filename: str) -> bool:
    """Return `True` if a file belongs to functad, NumPy, SciPy, Dask or the standard library."""
    if filename in _users:
        return False
    if filename not in _internal:
        (_internal if _looks_internal(filename) else _users).add(filename)
    return filename in _internal


def _looks_internal(filename: str) -> bool:
    if filename.startswith(_PYTHON + os.sep) and not filename[len(_PYTHON) + 1 :].startswith(_INSTALLED):
        return True
    return filename.startswith(_INTERNAL) and not filename.startswith(_TOUR)


def line_of(code: CodeType | None, instruction: int) -> str:
    """Return `file:line` of an instruction of a code object."""
    if code is None:
        return "an unknown line"
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    return place_text(code.co_filename, line)


def place_text(filename: str, line: int) -> str:
    """Return `file:line`. A notebook cell is shown as `In[3]:1` instead of its temporary file."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    cell = shell.compile.format_code_name(filename) if shell is not None else None
    return f"{cell[1] if cell else filename}:{line}"


def here() -> str:
    """Return `file:line` of the user's code that is running."""
    frame = user_frame(sys._getframe(1))
    if frame is None:
        return "an unknown line"
    return place_text(frame.f_code.co_filename, frame.f_lineno)


def call_of(transform: str, function: object) -> str:
    """Return `transform of function, called at file:line`, the beginning of messages about a call."""
    return f"{transform} of {name_of(function)}, called at {here()}"


def running() -> str:
    """Return the text of the user's expression that is running, such as `np.array([t, 1.0])`; empty if it is unknown."""
    frame = user_frame(sys._getframe(1))
    if frame is None:
        return ""
    import linecache  # noqa: PLC0415 - only an error needs it

    position = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    if any(part is None for part in position):
        return ""
    line, last, start, end = (part or 0 for part in position)
    text = b"".join(linecache.getline(frame.f_code.co_filename, i, frame.f_globals).encode() for i in range(line, last + 1))
    *whole, tail = text.splitlines(keepends=True) or [b""]  # columns count bytes
    return b"".join([*whole, tail[:end]])[start:].decode(errors="replace")


def instruction_of(frame: FrameType | None) -> tuple[str, int]:
    """Return name and argument of the current instruction of a frame; `("", 0)` if there is no frame."""
    if frame is None:
        return "", 0
    code = frame.f_code.co_code
    return opname[code[frame.f_lasti]], code[frame.f_lasti + 1]


def assigning() -> bool:
    """Return `True` if the running user code assigns to an element, as in `a[0] = t`."""
    return instruction_of(user_frame(sys._getframe(1)))[0] in ("STORE_SUBSCR", "STORE_SLICE")


def augmented_assignment() -> str:
    """Return the text of the user's running statement if it is like `a += t`; otherwise an empty string."""
    name, argument = instruction_of(user_frame(sys._getframe(1)))
    return " ".join(running().split()) or "a += t" if name == "BINARY_OP" and argument in _IN_PLACE else ""


_IN_PLACE = range(13, 26)  # among the arguments of BINARY_OP, from `+=` to `^=`


def warn(warning: Warning, frame: FrameType | None = None) -> None:
    """Give a warning that names the line of a frame, by default the user's, and its module as `warnings.warn` does."""
    import warnings  # noqa: PLC0415 - only a warning needs it

    frame = frame or user_frame(sys._getframe(1))
    if frame is None:
        warnings.warn(warning, stacklevel=2)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    name = frame.f_globals.get("__name__") or "<string>"  # code run by `exec` may have no name; None drops the warning
    warnings.warn_explicit(warning, None, frame.f_code.co_filename, frame.f_lineno, module=name, registry=registry)


def scipy_functions() -> list[str]:
    """Return the names of SciPy's functions that are active in the user's code, the outermost first."""
    frame: FrameType | None = sys._getframe(1)
    user = user_frame(frame)
    names: list[str] = []
    while frame is not None and frame is not user:
        if frame.f_code.co_filename.startswith(_SCIPY):
            wrapped = [value.__name__ for value in frame.f_locals.values() if isinstance(value, FunctionType)]
            name = frame.f_code.co_name
            if name == "__call__":  # a callable object may have its own name
                name = getattr(frame.f_locals.get("self"), "__name__", None) or name
            names[:0] = [name, *wrapped]  # a decorator holds the decorated function
        frame = frame.f_back
    return names


WRITE_INTO = "Make the array that is written into with np.zeros_like(t) or np.zeros(shape, like=t), or use np.stack"
"""The fix for a write of a Tensor into a plain array."""


def adoption_cure() -> str:
    """Return the sentence that suggests `functad.adopt` for the running code; empty if the code is adopted already."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_INTERNAL) and not _of_scipy(frame):
        frame = frame.f_back
    if frame is None or "__functad_adopted__" in frame.f_globals:
        return ""
    of_scipy = _of_scipy(frame)
    while frame is not None and (_of_scipy(frame) or frame.f_code.co_filename.startswith(_INTERNAL)):  # the caller of SciPy
        frame = frame.f_back
    if frame is None or "__functad_adopted__" in frame.f_globals:
        return ""
    if _is_installed(frame) or _looks_internal(frame.f_code.co_filename):
        names = ", ".join([f'"{name}"' for name in _packages(frame)])
        owner = "its package" if "," not in names else "its package, and that which calls it,"
        return f" Where that line is not yours, let {owner} take Tensors: functad.adopt({names})."
    if of_scipy:
        return " Or take SciPy's function from functad.scipy."
    filename, name = frame.f_code.co_filename, frame.f_code.co_name
    if filename.startswith("<") and not filename.startswith(_TYPED):  # made by `exec`: it cannot be decorated
        return f" Or let NumPy's functions in {name} take Tensors: call functad.adopt(f) in place of that function f."
    return " Or let NumPy's functions there take Tensors: @functad.adopt above the function, or functad.adopt(its module)."


def _packages(frame: FrameType) -> list[str]:
    """Return the packages to adopt: the package of a frame, and installed packages between it and the user's code."""
    names: list[str] = []
    caller: FrameType | None = frame
    while caller is not None and (caller is frame or _is_installed(caller)):
        name = caller.f_globals.get("__name__", "__main__").partition(".")[0]
        known = caller.f_code.co_filename.startswith(_INTERNAL) or "__functad_adopted__" in caller.f_globals
        if (caller is frame or not known) and name not in names:
            names.append(name)
        caller = caller.f_back
    return names


def _is_installed(frame: FrameType) -> bool:
    return any(folder in frame.f_code.co_filename for folder in _INSTALLED)


def _of_scipy(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_SCIPY)


class Named:
    """A replacement, in messages, for a function that no longer exists."""

    def __init__(self, name: str) -> None:
        self.__qualname__ = name


def name_of(function: object) -> str:
    """Return the name of a function for messages."""
    for attribute in ("__qualname__", "__name__"):
        name = getattr(function, attribute, None)
        if isinstance(name, str):
            *outer, own = name.split(".<locals>.")
            return ".".join([part for part in outer if part != "<lambda>"] + [own])
    inner = getattr(function, "func", None)
    if inner is not None:
        return name_of(inner)
    text = repr(function)
    return type(function).__name__ if "\n" in text else text  # the repr of an expression list has several lines


def is_own(function: object) -> bool:
    """Return `True` if a function is code of functad, such as the result of a transform."""
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code is not None and code.co_filename.startswith(_PACKAGE + os.sep)
