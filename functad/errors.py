"""The errors and warnings of functad. A message says what happened, where in the user's code, why, and how to fix it.

Each message ends with the code of its class. `notebooks/errors.md` has the cause, the fix and examples for each code.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Coded(Exception):  # noqa: N818 - the subclasses have the suffix
    """Base of errors and warnings, with a code at the end of the message."""

    code = "functad"

    def __init__(self, message: str) -> None:
        end = f"[{self.code}]"
        # Unpickling passes the finished message.
        super().__init__(message if message.endswith(end) else f"{message} {end}")


class FunctadError(Coded):
    """Base of all errors that functad raises.

    Attributes:
        code: the name of the error in the documentation, at the end of every message.
    """


class EscapedTensorError(FunctadError, RuntimeError):
    """A Tensor was used after the end of its transform."""

    code = "escaped-tensor"


class ConversionError(FunctadError, TypeError):
    """A Tensor would be converted to a plain array or number, which would lose its derivative."""

    code = "conversion"


class NoBufferError(ConversionError, AttributeError):
    """An attribute would expose the memory of a Tensor. `hasattr` returns `False` for it."""

    code = "no-buffer"


class AbstractValueError(FunctadError, TypeError):
    """The value of an abstract Tensor (only shape and dtype are known) or of a batched Tensor (many values) is needed."""

    code = "abstract-value"


class UnsupportedError(FunctadError, TypeError):
    """A NumPy function, or one of its arguments, has no derivative rule."""

    code = "unsupported"


class NonScalarError(FunctadError, TypeError):
    """The result of a function under `grad` is not one real number."""

    code = "non-scalar"


class InputError(FunctadError, TypeError):
    """An argument cannot be differentiated: it has a wrong dtype, or is not an array."""

    code = "input"


class OutputError(FunctadError, TypeError):
    """The result of a function is not a tree of arrays."""

    code = "output"


class StructureError(FunctadError, ValueError):
    """Two trees that must have the same structure differ."""

    code = "structure"


class RegistrationError(FunctadError, TypeError):
    """A class cannot be registered as a container of trees, or an object of it cannot be flattened."""

    code = "registration"


class StateError(FunctadError, ValueError):
    """Values do not match the Variables of a module, or a file of values or of an expression list is invalid or refused."""

    code = "state"


class ConstantError(FunctadError, ValueError):
    """An array was overwritten although a derivative needs its old values."""

    code = "constant"


class ControlFlowError(FunctadError, TypeError):
    """The carry of a loop, or the results of branches, do not agree in structure, shape or dtype."""

    code = "control-flow"


class DegenerateError(FunctadError, np.linalg.LinAlgError):
    """A derivative at a matrix with equal eigenvalues or singular values does not exist or cannot be determined."""

    code = "degenerate"


class GuardError(FunctadError, ValueError):
    """An expression list that is valid for some values only was evaluated with others."""

    code = "guard"


class TapeError(FunctadError, RuntimeError):
    """A tape was never entered, has given its gradient already, or does not keep the requested data."""

    code = "tape-spent"


class TapeStateError(FunctadError, ValueError):
    """A tape or an accumulator is recording where it must not, or is not recording where it must."""

    code = "tape-state"


class SourceError(FunctadError, TypeError):
    """A source or a target is neither a Tensor nor a Variable."""

    code = "tape-source"


class NoPathError(FunctadError, ValueError):
    """No gradient with respect to a source exists, and `missing="raise"` is set."""

    code = "no-path"


class AssignmentError(FunctadError, ValueError):
    """A value of another shape was assigned to a Variable, or a value to a read-only array."""

    code = "assignment"


class CustomGradientError(FunctadError, ValueError):
    """A custom gradient function returns a wrong number or shape of gradients, or would lose a gradient."""

    code = "custom-gradient"


class CustomRuleError(FunctadError, ValueError):
    """A rule of `custom_vjp`, `custom_jvp` or `primitive` is missing, returns a wrong result, or would lose a derivative."""

    code = "custom-rule"


class ImplicitError(FunctadError, ArithmeticError):
    """The solution of a solver has no derivative, or the derivative cannot be computed."""

    code = "implicit"


class MissingPackageError(FunctadError, ImportError):
    """An optional package that the called function needs is not installed."""

    code = "missing-package"


class CheckError(FunctadError, ValueError):
    """An expression list is not well formed."""

    code = "check"


class NotFiniteError(FunctadError, FloatingPointError):
    """A value or a derivative is NaN or infinite, under `debug_nans`.

    Attributes:
        found: the elements that are not finite.
        origin: the operation where they first appear, and the fix.
    """

    code = "not-finite"

    def __init__(self, message: str, found: str = "", origin: str = "") -> None:
        super().__init__(message)
        self.found, self.origin = found, origin


class WrongDerivativeError(FunctadError, AssertionError):
    """A derivative differs from the numerical derivative. `functad.testing.check_grads` raises it.

    Attributes:
        order: the order of the derivative, from 1.
        mode: the mode of differentiation, such as `forward` or `reverse over forward`.
        path: the input with the wrong derivative, such as `args[0]['w']`.
    """

    code = "wrong-derivative"

    def __init__(self, message: str, order: int = 0, mode: str = "", path: str = "") -> None:
        super().__init__(message)
        self.order, self.mode, self.path = order, mode, path


class NothingComparedError(FunctadError, AssertionError):
    """There is no derivative to compare: the point lies at a kink, or the function is not differentiable there."""

    code = "nothing-compared"


class SparsityError(FunctadError, ValueError):
    """A sparse derivative that was computed with a given pattern is wrong. Raised with `check=True`.

    Attributes:
        row, column: the position of a wrong entry.
    """

    code = "sparsity"

    def __init__(self, message: str, row: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.row, self.column = row, column


class OptimizerError(FunctadError, ValueError):
    """A setting or an argument of an optimiser or a schedule is invalid."""

    code = "optimizer"


class MissingGradientError(FunctadError, ValueError):
    """An optimiser got no gradient for any of its variables."""

    code = "missing-gradient"


class NotLinearError(FunctadError, ValueError):
    """A function that must be linear is not linear."""

    code = "not-linear"


class UnconnectedWarning(Coded, UserWarning):
    """A Variable is read after a traced value was assigned to it: no derivative flows through the assignment."""

    code = "unconnected"


class MissingGradientWarning(Coded, UserWarning):
    """An optimiser got no gradient for some of its variables, which stay unchanged."""

    code = "variable-not-moved"


class LoopWarning(Coded, UserWarning):
    """`vmap` calls a primitive without a batching rule for one example after the other. Given once for each primitive."""

    code = "loop"


class RecompileWarning(Coded, UserWarning):
    """A function under `jit` has been compiled many times, or takes many paths. Given once for each function."""

    code = "recompile"


class FrozenRandomWarning(Coded, UserWarning):
    """A function drew random numbers while it was traced, and each evaluation uses the same numbers."""

    code = "frozen-random"


class ImplicitWarning(Coded, UserWarning):
    """The result of a solver does not solve its equation, so its derivative is wrong."""

    code = "not-a-solution"


def catalogue() -> dict[str, type[Any]]:
    """Return a dict of all errors and warnings by code.

    Example:
        >>> catalogue()["non-scalar"].__name__
        'NonScalarError'
    """
    return {cls.code: cls for cls in globals().values() if "code" in getattr(cls, "__dict__", ()) and cls is not Coded}
