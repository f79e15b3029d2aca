"""Every error functad raises by name: what happened, where in the user's code, why, and what to write instead."""

from __future__ import annotations

import os.path
import sys
from opcode import opname
from types import CodeType, FrameType

import numpy as np

# pathlib would be a quarter of the time that `import functad` takes.
_PACKAGE = os.path.dirname(__file__)  # noqa: PTH120
_TOUR = os.path.join(_PACKAGE, "tour")  # noqa: PTH118 - a program that uses functad, not a part of it
_NUMPY = os.path.dirname(np.__file__)  # noqa: PTH120


class FunctadError(Exception):
    """Base of all errors that functad raises on purpose.

    Attributes:
        code: the short name under which the error is described in the documentation.
    """

    code = "functad"

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} [{self.code}]")


class EscapedTensorError(FunctadError, RuntimeError):
    """A Tensor was used after the transform that made it had ended."""

    code = "escaped-tensor"


class ConversionError(FunctadError, TypeError):
    """A Tensor was about to be turned into a plain array or number, which would lose its derivative."""

    code = "conversion"


class NoBufferError(ConversionError, AttributeError):
    """An attribute was asked for that would give away the memory of a Tensor; `hasattr` finds it absent."""

    code = "no-buffer"


class AbstractValueError(FunctadError, TypeError):
    """The value of an abstract Tensor, which has only a shape and a dtype, was asked for."""

    code = "abstract-value"


class UnsupportedError(FunctadError, TypeError):
    """A NumPy function, or one of its arguments, has no derivative rule."""

    code = "unsupported"


class NonScalarError(FunctadError, TypeError):
    """`grad` was asked for the gradient of something that is not one number."""

    code = "non-scalar"


class InputError(FunctadError, TypeError):
    """An argument cannot be differentiated: wrong dtype, or no array at all."""

    code = "input"


class OutputError(FunctadError, TypeError):
    """A function returned something that is no tree of arrays."""

    code = "output"


class StructureError(FunctadError, ValueError):
    """Two trees that should have the same structure do not."""

    code = "structure"


class ConstantError(FunctadError, ValueError):
    """An array was overwritten whose values a derivative still needs."""

    code = "constant"


class DegenerateError(FunctadError, np.linalg.LinAlgError):
    """A derivative at a matrix with equal eigenvalues or singular values does not exist, or cannot be found."""

    code = "degenerate"


class CheckError(FunctadError, ValueError):
    """An expression list is not well formed."""

    code = "check"


class NotFiniteError(FunctadError, FloatingPointError):
    """A value or a derivative is NaN, or infinite, under `debug_nans`."""

    code = "not-finite"


# Whether a file is functad's or NumPy's own; filled as files are met, since a look at a path per frame and operation is
# dear. (Code objects as keys would be dearer: their hash is computed anew each time.)
_is_internal: dict[str, bool] = {}


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame, from `frame` outwards, that runs no code of functad or NumPy."""
    while frame is not None:
        filename = frame.f_code.co_filename
        internal = _is_internal.get(filename)
        if internal is None:
            internal = filename.startswith((_PACKAGE, _NUMPY, "<__array_function__")) and not filename.startswith(_TOUR)
            _is_internal[filename] = internal
        if not internal:
            return frame
        frame = frame.f_back
    return None


def line_of(code: CodeType | None, instruction: int) -> str:
    """Return `file:line` of an instruction of a code object, as recorded by the tracer."""
    if code is None:
        return "an unknown line"
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    return f"{code.co_filename}:{line}"


def here() -> str:
    """Return `file:line` of the user's code that is running now."""
    frame = user_frame(sys._getframe(1))
    if frame is None:
        return "an unknown line"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def line_of_error(error: BaseException) -> str:
    """Return `file:line` of the innermost line of the user's code that an error came from."""
    found = "an unknown line"
    trace = error.__traceback__
    while trace is not None:
        if user_frame(trace.tb_frame) is trace.tb_frame:
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def assigning() -> bool:
    """Say whether the user's code that is running now assigns to an element, as in `a[0] = t`."""
    frame = user_frame(sys._getframe(1))
    return frame is not None and opname[frame.f_code.co_code[frame.f_lasti]] == "STORE_SUBSCR"


def name_of(function: object) -> str:
    """Return the best name for a function that a message can show."""
    for attribute in ("__qualname__", "__name__"):
        name = getattr(function, attribute, None)
        if isinstance(name, str):
            return name.replace("<locals>.", "")
    inner = getattr(function, "func", None)
    return name_of(inner) if inner is not None else repr(function)
