"""Every error functad raises by name: what happened, where in the user's code, why, and what to write instead.

This is the catalogue: each class has a code, which ends its messages, a cause and a cure: see
`help(functad.errors.InputError)`. The page on errors has an example of each.
"""

from __future__ import annotations

import os.path
import sys
from itertools import islice
from opcode import opname
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

# pathlib would be a quarter of the time that `import functad` takes.
_PACKAGE = os.path.dirname(__file__)  # noqa: PTH120
_TOUR = os.path.join(_PACKAGE, "tour")  # noqa: PTH118 - a program that uses functad, not a part of it
_NUMPY = os.path.dirname(np.__file__)  # noqa: PTH120
_SCIPY = os.path.join(os.path.dirname(_NUMPY), "scipy")  # noqa: PTH118, PTH120 - where it is if it is installed
_PYTHON = os.path.dirname(os.__file__)  # noqa: PTH120 - of the standard library: json, statistics, functools
_INTERNAL = (_PACKAGE + os.sep, _NUMPY + os.sep, _SCIPY + os.sep, "<__array_function__", "<frozen ")
_INSTALLED = ("site-packages", "dist-packages")


class _Coded(Exception):  # noqa: N818 - what is raised has the suffix
    """What errors and warnings share: a code at the end of the message, and a cause and a cure in the documentation."""

    code = "functad"
    cause = ""
    cure = ""

    def __init__(self, message: str) -> None:
        end = f"[{self.code}]"
        # Unpickling makes the error again from its finished message.
        super().__init__(message if message.endswith(end) else f"{message} {end}")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__ and "cause" in vars(cls):
            cls.__doc__ += f"\n\n    Cause: {cls.cause}\n\n    Cure: {cls.cure}\n"


class FunctadError(_Coded):
    """Base of all errors that functad raises on purpose.

    Attributes:
        code: the short name under which the error is described in the documentation; it ends every message.
        cause: why the error is raised.
        cure: what to write instead.
    """


class EscapedTensorError(FunctadError, RuntimeError):
    """A Tensor was used after the transform that made it had ended."""

    code = "escaped-tensor"
    cause = (
        "A function under a transform stored a Tensor outside: in a list, an attribute or a global variable. Its history ended "
        "with the transform, so nothing that is computed from it later can be differentiated."
    )
    cure = "Return the value from the function; has_aux=True hands extra results through as plain arrays."


class ConversionError(FunctadError, TypeError):
    """A Tensor was about to be turned into a plain array or number, which would lose its derivative."""

    code = "conversion"
    cause = (
        "Something makes a plain array or a Python number out of a Tensor: np.array([t]), float(t), math.sin(t), a[0] = t, "
        "a.dot(t), pickle.dumps(t). The result has no history, so the gradient would silently be wrong."
    )
    cure = (
        "Call NumPy functions that dispatch on the Tensor: np.stack([t0, t1]), np.sin(t), A @ t. "
        "Where a constant is meant, say so with functad.stop_gradient(t)."
    )


class NoBufferError(ConversionError, AttributeError):
    """An attribute was asked for that would give away the memory of a Tensor; `hasattr` finds it absent."""

    code = "no-buffer"
    cause = (
        "An attribute such as `data` or `ctypes` hands out the memory of an array, past which no derivative can be followed."
    )
    cure = "Use functad.stop_gradient(t) where a constant is meant, and that attribute of it."


class AbstractValueError(FunctadError, TypeError):
    """The value of an abstract Tensor, which has only a shape and a dtype, was asked for."""

    code = "abstract-value"
    cause = (
        "make_expressions and eval_shape trace a function without values. An `if`, a `while`, a `range` or a mask that "
        "depends on a value cannot be decided then."
    )
    cure = "Choose between values with np.where, or use a transform that has values: grad, vjp, jvp, jacobian."


class UnsupportedError(FunctadError, TypeError):
    """A NumPy function, or one of its arguments, has no derivative rule."""

    code = "unsupported"
    cause = "The function has no derivative, or none that functad knows, or an argument asks for what a trace cannot do."
    cure = (
        "Use the function that the message names. "
        "If no derivative should flow through the call, pass functad.stop_gradient(t) to it."
    )


class NonScalarError(FunctadError, TypeError):
    """`grad` was asked for the gradient of something that is not one number."""

    code = "non-scalar"
    cause = (
        "A gradient belongs to a function that returns one real number; this one returned an array, a tree or a complex one."
    )
    cure = "Reduce the result with np.sum or np.mean, return further results with has_aux=True, or use jacobian or vjp."


class InputError(FunctadError, TypeError):
    """An argument cannot be differentiated: wrong dtype, or no array at all."""

    code = "input"
    cause = "Only floating-point and complex arrays and numbers, and containers of them, can be differentiated."
    cure = "Pass 1.0 instead of 1 and x.astype(float) instead of x, or choose other arguments with argnums or argnames."


class OutputError(FunctadError, TypeError):
    """A function returned something that is no tree of arrays."""

    code = "output"
    cause = "The result holds something that is no array and no number: a string, an object array, an object of a class."
    cure = "Return arrays and numbers only, and anything else with has_aux=True; register_tree makes a class a container."


class StructureError(FunctadError, ValueError):
    """Two trees that should have the same structure do not."""

    code = "structure"
    cause = "A cotangent or tangent differs in its containers, shapes or dtypes from the value that it belongs to."
    cure = "Build it from the value itself: functad.tree_map(np.ones_like, value)."


class StateError(FunctadError, ValueError):
    """Values that are to stand for the Variables of a module do not fit it; the message names all that do not."""

    code = "state"
    cause = (
        "A file that is restored, or the values that functional_call was given, differ from the Variables of the module in "
        "their attribute paths, shapes or dtypes. Nothing has been changed."
    )
    cure = (
        "Make the module as it was made when it was saved; layers that take their shape from the first call have to be called "
        "once before, or made with `inputs=`. functad.values_of(module) shows the paths."
    )


class ConstantError(FunctadError, ValueError):
    """An array was overwritten whose values a derivative still needs."""

    code = "constant"
    cause = "A function wrote into an array that it had used as a constant before; the backward pass needs the old values."
    cure = "Write into a copy, a = a.copy(), or into a new array."


class DegenerateError(FunctadError, np.linalg.LinAlgError):
    """A derivative at a matrix with equal eigenvalues or singular values does not exist, or cannot be found."""

    code = "degenerate"
    cause = (
        "Equal eigenvalues or singular values have no vectors of their own, so a derivative through these is not determined; "
        "in second order, reverse over reverse cannot know its limit."
    )
    cure = (
        "Use functions of the matrix that need no vectors: np.linalg.det, inv, matrix_power, norm(a, 'nuc'); for second "
        "derivatives of eigvalsh or svdvals, take functad.jvp of functad.grad(f)."
    )


class CheckError(FunctadError, ValueError):
    """An expression list is not well formed."""

    code = "check"
    cause = "An expression list was put together or changed by hand, and an equation reads or makes what it cannot."
    cure = "Make expression lists with functad.make_expressions; the message names the equation."


class NotFiniteError(FunctadError, FloatingPointError):
    """A value or a derivative is NaN, or infinite, under `debug_nans`."""

    code = "not-finite"
    cause = "Under functad.debug_nans() a NaN, or an infinity if these are looked for, reached the result of a transform."
    cure = "The message names the operation and the line where it was born: keep its argument away from there by np.where."


class WrongDerivativeError(FunctadError, AssertionError):
    """A derivative does not agree with the numerical one: given by `functad.testing.check_grads`.

    Attributes:
        order: of the derivative, from 1.
        mode: how it was computed: `forward`, or `reverse over forward`, say.
        path: the input by which it is wrong, such as `args[0]['w']`.
    """

    code = "wrong-derivative"
    cause = "The derivative that functad gives differs from a numerical one by more than is allowed: a rule is wrong."
    cure = (
        "Mend the rule that the message leads to. Where the function is merely rough, as with random numbers or float32 "
        "inside, hold these fixed or pass larger atol and rtol."
    )

    def __init__(self, message: str, order: int = 0, mode: str = "", path: str = "") -> None:
        super().__init__(message)
        self.order, self.mode, self.path = order, mode, path


class NothingComparedError(FunctadError, AssertionError):
    """There was no derivative to compare: the point lies at a kink, or the function is not differentiable there."""

    code = "nothing-compared"
    cause = "functad.testing.check_grads found no derivative to compare: no argument is floating point, or each is at a kink."
    cure = "Pass floating-point arguments, away from kinks such as np.abs at 0."


class OptimizerError(FunctadError, ValueError):
    """An optimiser or a schedule was asked for something that has no meaning."""

    code = "optimizer"
    cause = (
        "A setting is out of range, the state of another rule was passed, weight decay got no parameters, or apply_gradients "
        "got something else than pairs (gradient, variable)."
    )
    cure = "The message names the setting, or the call to write; pairs are made by zip(gradients, variables)."


class MissingGradientError(FunctadError, ValueError):
    """An optimiser got no gradient for any of its variables."""

    code = "missing-gradient"
    cause = (
        "Every gradient given to apply_gradients is None: the loss depends on none of the variables by recorded operations, "
        "or it was computed outside the tape."
    )
    cure = (
        "Compute the loss from the variables inside the tape; tape.explain(loss, variable) says where the path from a variable "
        "ends."
    )


class UnconnectedWarning(_Coded, UserWarning):
    """The result of a function does not depend on an argument, or only where the derivative is cut.

    Given by `warn_unconnected=True`; the gradient for that argument is zero.
    """

    code = "unconnected"
    cause = (
        "No differentiable path leads from the argument to the result: it is not used, or what is computed from it passes "
        "through a comparison, an integer, np.floor, stop_gradient or the like."
    )
    cure = "functad.explain(f, *args) shows where each path is cut. Leave the argument out of argnums if that is meant."


class MissingGradientWarning(_Coded, UserWarning):
    """An optimiser got no gradient for some of its variables, which stay where they are."""

    code = "variable-not-moved"
    cause = "A gradient given to apply_gradients is None: the loss does not depend on that variable by recorded operations."
    cure = (
        "tape.explain(loss, variable) says where the path ends. Leave the variable out of the pairs if it is not meant to be "
        "trained."
    )


def catalogue() -> dict[str, type[Any]]:
    """Return every error and warning by its code.

    Example:
        >>> catalogue()["non-scalar"].__name__
        'NonScalarError'
    """
    waiting: list[type[Any]] = [_Coded]
    found: dict[str, type[Any]] = {}
    while waiting:
        cls = waiting.pop(0)
        waiting += cls.__subclasses__()
        if "code" in vars(cls) and cls is not _Coded:
            found[cls.code] = cls
    return found


# Whether a file is functad's, NumPy's or Python's own; filled as files are met, since a look at a path per frame and operation
# is dear. (Code objects as keys would be dearer: their hash is computed anew each time.)
_is_internal: dict[str, bool] = {}


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame, from `frame` outwards, that runs no code of functad, NumPy, SciPy or the standard library."""
    while frame is not None:
        filename = frame.f_code.co_filename
        internal = _is_internal.get(filename)
        if internal is None:
            internal = _is_internal[filename] = _looks_internal(filename)
        if not internal:
            return frame
        frame = frame.f_back
    return None


def _looks_internal(filename: str) -> bool:
    if filename.startswith(_PYTHON + os.sep) and not filename[len(_PYTHON) + 1 :].startswith(_INSTALLED):
        return True
    return filename.startswith(_INTERNAL) and not filename.startswith(_TOUR)


def line_of(code: CodeType | None, instruction: int) -> str:
    """Return `file:line` of an instruction of a code object, as recorded by the tracer."""
    if code is None:
        return "an unknown line"
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    return _place(code.co_filename, line)


def _place(filename: str, line: int) -> str:
    """Return `file:line`; for a notebook's cell its name, `In[3]:1`, in place of that of the temporary file it runs as."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    cell = shell.compile.format_code_name(filename) if shell is not None else None
    return f"{cell[1] if cell else filename}:{line}"


def here() -> str:
    """Return `file:line` of the user's code that is running now."""
    frame = user_frame(sys._getframe(1))
    if frame is None:
        return "an unknown line"
    return _place(frame.f_code.co_filename, frame.f_lineno)


def line_of_error(error: BaseException) -> str:
    """Return `file:line` of the innermost line of the user's code that an error came from."""
    found = "an unknown line"
    trace = error.__traceback__
    while trace is not None:
        if user_frame(trace.tb_frame) is trace.tb_frame:
            found = _place(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def running() -> str:
    """Return the text of the user's expression that is running now, such as `np.array([t, 1.0])`; empty if it is unknown."""
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
    """Return name and argument of the instruction that a frame is at; `("", 0)` if there is no frame."""
    if frame is None:
        return "", 0
    code = frame.f_code.co_code
    return opname[code[frame.f_lasti]], code[frame.f_lasti + 1]


def assigning() -> bool:
    """Say whether the user's code that is running now assigns to an element, as in `a[0] = t`."""
    return instruction_of(user_frame(sys._getframe(1)))[0] in ("STORE_SUBSCR", "STORE_SLICE")


def augmented_assignment() -> str:
    """Return the text of the user's statement that is running now if it is one like `a += t`; else nothing."""
    name, argument = instruction_of(user_frame(sys._getframe(1)))
    return " ".join(running().split()) or "a += t" if name == "BINARY_OP" and argument in _IN_PLACE else ""


_IN_PLACE = range(13, 26)  # among the arguments of BINARY_OP, from `+=` to `^=`


def warn(warning: Warning) -> None:
    """Give a warning that names the user's line."""
    import warnings  # noqa: PLC0415 - only a warning needs it

    frame = user_frame(sys._getframe(1))
    if frame is None:
        warnings.warn(warning, stacklevel=2)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(warning, None, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def scipy_functions() -> list[str]:
    """Return the names of SciPy's functions that the user's code is calling now, the outermost first."""
    frame: FrameType | None = sys._getframe(1)
    user = user_frame(frame)
    names: list[str] = []
    while frame is not None and frame is not user:
        if frame.f_code.co_filename.startswith(_SCIPY):
            wrapped = [value.__name__ for value in frame.f_locals.values() if isinstance(value, FunctionType)]
            name = frame.f_code.co_name
            if name == "__call__":  # a function that is an object has its own name
                name = getattr(frame.f_locals.get("self"), "__name__", None) or name
            names[:0] = [name, *wrapped]  # a decorator holds what it decorates
        frame = frame.f_back
    return names


def name_of(function: object) -> str:
    """Return the best name for a function that a message can show."""
    for attribute in ("__qualname__", "__name__"):
        name = getattr(function, attribute, None)
        if isinstance(name, str):
            return name.replace("<locals>.", "")
    inner = getattr(function, "func", None)
    return name_of(inner) if inner is not None else repr(function)
