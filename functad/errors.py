"""The errors and warnings of functad. A message says what happened, where in the user's code, why, and how to fix it.

Each class has a code at the end of its messages, a cause and a fix. The page on errors has examples.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Coded(Exception):  # noqa: N818 - the subclasses have the suffix
    """Base of errors and warnings, with a code at the end of the message, and a documented cause and fix."""

    code = "functad"
    cause = ""
    cure = ""

    def __init__(self, message: str) -> None:
        end = f"[{self.code}]"
        # Unpickling passes the finished message.
        super().__init__(message if message.endswith(end) else f"{message} {end}")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__ and "cause" in vars(cls):
            cls.__doc__ += f"\n\n    Cause: {cls.cause}\n\n    Cure: {cls.cure}\n"


class FunctadError(Coded):
    """Base of all errors that functad raises.

    Attributes:
        code: the name of the error in the documentation, at the end of every message.
        cause: the reason for the error.
        cure: the suggested fix.
    """


class EscapedTensorError(FunctadError, RuntimeError):
    """A Tensor was used after the end of its transform."""

    code = "escaped-tensor"
    cause = (
        "A function under a transform stored a Tensor outside: in a list, an attribute or a global variable. Its history ended "
        "with the transform, so nothing that is computed from it later can be differentiated."
    )
    cure = "Return the value from the function; has_aux=True hands extra results through as plain arrays."


class ConversionError(FunctadError, TypeError):
    """A Tensor would be converted to a plain array or number, which would lose its derivative."""

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
    """An attribute would expose the memory of a Tensor. `hasattr` returns `False` for it."""

    code = "no-buffer"
    cause = (
        "An attribute such as `data` or `ctypes` exposes the memory of an array. functad cannot record writes to this memory."
    )
    cure = "Read the attribute from functad.stop_gradient(t), if a constant is meant."


class AbstractValueError(FunctadError, TypeError):
    """The value of an abstract Tensor (only shape and dtype are known) or of a batched Tensor (many values) is needed."""

    code = "abstract-value"
    cause = (
        "jit, make_expressions and eval_shape trace a function without values. Under vmap a Tensor has a value for each "
        "example. An `if`, a `while`, a `range` or a mask that depends on a value cannot be decided then."
    )
    cure = (
        "Choose between values with np.where and between computations with functad.cond. Repeat with functad.while_loop. Pass "
        "arguments that decide as constants: static_argnames of jit. Or use a transform that has values: grad, vjp, jvp, "
        "jacobian."
    )


class UnsupportedError(FunctadError, TypeError):
    """A NumPy function, or one of its arguments, has no derivative rule."""

    code = "unsupported"
    cause = "The function has no derivative, functad has no rule for it, or a trace does not support one of the arguments."
    cure = (
        "Use the function that the message names. "
        "If no derivative should flow through the call, pass functad.stop_gradient(t) to it."
    )


class NonScalarError(FunctadError, TypeError):
    """The result of a function under `grad` is not one real number."""

    code = "non-scalar"
    cause = (
        "A gradient belongs to a function that returns one real number; this one returned an array, a tree, a complex number, "
        "an integer or a truth value."
    )
    cure = "Reduce the result with np.sum or np.mean, return further results with has_aux=True, or use jacobian or vjp."


class InputError(FunctadError, TypeError):
    """An argument cannot be differentiated: it has a wrong dtype, or is not an array."""

    code = "input"
    cause = "Only floating-point and complex arrays and numbers, and containers of them, can be differentiated."
    cure = "Pass 1.0 instead of 1 and x.astype(float) instead of x, or choose other arguments with argnums or argnames."


class OutputError(FunctadError, TypeError):
    """The result of a function is not a tree of arrays."""

    code = "output"
    cause = (
        "The result contains a leaf that is not an array or a number, such as a string, an object array or an object of a "
        "class. Or a Jacobian is requested and the result contains integers or booleans."
    )
    cure = "Return arrays and numbers only, and all other values with has_aux=True. register_tree makes a class a container."


class StructureError(FunctadError, ValueError):
    """Two trees that must have the same structure differ."""

    code = "structure"
    cause = (
        "A cotangent or tangent differs from its value in containers, shapes or dtypes. Or an argument of an expression list "
        "differs from the argument that the list was made for."
    )
    cure = "Build it from the value: functad.tree_map(np.ones_like, value). Make one expression list for each shape and dtype."


class RegistrationError(FunctadError, TypeError):
    """A class cannot be registered as a container of trees, or an object of it cannot be flattened."""

    code = "registration"
    cause = (
        "register_tree received an object that is not a class, a class without a description of its parts, or a name that is "
        "not a field. Or a static field holds a value that cannot be compared and hashed, such as an array."
    )
    cure = (
        "Put @functad.register_tree above @dataclass, give the class the methods tree_flatten and tree_unflatten, or pass "
        "two functions. Make arrays leaves, not static fields."
    )


class StateError(FunctadError, ValueError):
    """Values do not match the Variables of a module, or a file of values or of an expression list is invalid or refused."""

    code = "state"
    cause = (
        "The values in a file, or the values passed to functional_call, differ from the Variables of the module in attribute "
        "paths, shapes or dtypes. Or the file is damaged or has other contents. The module is unchanged. Or an expression "
        "list to be saved contains code or values other than numbers."
    )
    cure = (
        "Create the module in the same way as before saving. Layers that take their shape from the first call must be called "
        "once, or be created with `inputs=`. functad.values_of(module) shows the paths."
    )


class ConstantError(FunctadError, ValueError):
    """An array was overwritten although a derivative needs its old values."""

    code = "constant"
    cause = "A function wrote to an array that it was given or had used as a constant. The derivative needs the old values."
    cure = "Write to a copy, a = a.copy(), or to a new array."


class ControlFlowError(FunctadError, TypeError):
    """The carry of a loop, or the results of branches, do not agree in structure, shape or dtype."""

    code = "control-flow"
    cause = (
        "The carry of a loop must keep its structure, shapes and dtypes in every step. The branches of cond and switch must "
        "return the same structure, shapes and dtypes. A predicate must be one number, and all xs of scan must have the same "
        "length."
    )
    cure = (
        "The message names the place. Start with a carry like the result of the body, np.zeros(3) instead of 0.0, or convert "
        "the result of the body with .astype."
    )


class DegenerateError(FunctadError, np.linalg.LinAlgError):
    """A derivative at a matrix with equal eigenvalues or singular values does not exist or cannot be determined."""

    code = "degenerate"
    cause = (
        "Eigenvectors of equal eigenvalues, and singular vectors of equal singular values, are not unique, so their "
        "derivative is not determined. Second derivatives by reverse mode over reverse mode cannot be determined there "
        "either."
    )
    cure = (
        "Use functions of the matrix without eigenvectors: np.linalg.det, inv, matrix_power, norm(a, 'nuc'). For second "
        "derivatives of eigvalsh or svdvals, use functad.jvp of functad.grad(f)."
    )


class TapeError(FunctadError, RuntimeError):
    """A tape was never entered, has given its gradient already, or does not keep the requested data."""

    code = "tape-spent"
    cause = (
        "A tape records only inside its `with` block. A tape that is not persistent computes one gradient, and then frees "
        "its record. A tape keeps the calls that expressions() needs only with lists=True."
    )
    cure = "Use GradientTape(persistent=True) for several gradients and lists=True for expressions(). Watch inside the block."


class TapeStateError(FunctadError, ValueError):
    """A tape or an accumulator is recording where it must not, or is not recording where it must."""

    code = "tape-state"
    cause = "A tape was entered again while recording, or a tape that is not recording was stopped or reset."
    cure = "Open another tape inside the first. Call reset and stop_recording inside the `with` block."


class SourceError(FunctadError, TypeError):
    """A source or a target is neither a Tensor nor a Variable."""

    code = "tape-source"
    cause = "A tape identifies Tensors and Variables by identity. It does not recognise a number or an array of equal value."
    cure = "Create a Tensor first, x = functad.constant(value), and use the same object x in the computation and as the source."


class NoPathError(FunctadError, ValueError):
    """No gradient with respect to a source exists, and `missing="raise"` is set."""

    code = "no-path"
    cause = "No recorded path leads from the source to the target. The message says where the path ends."
    cure = (
        "Follow the message, or pass unconnected_gradients='zero' if the source has no influence. tape.explain gives the "
        "same reason without an error."
    )


class AssignmentError(FunctadError, ValueError):
    """A value of another shape was assigned to a Variable, or a value to a read-only array."""

    code = "assignment"
    cause = "A Variable keeps its shape, and assign does not broadcast: broadcasting would hide a forgotten axis."
    cure = "Pass a value of exactly the same shape, np.broadcast_to(value, v.shape), or assign a part with v[i].assign(value)."


class CustomGradientError(FunctadError, ValueError):
    """A custom gradient function returns a wrong number or shape of gradients, or would lose a gradient."""

    code = "custom-gradient"
    cause = (
        "The gradient function passed to custom_gradient must return one gradient for each argument, with the shape of the "
        "argument. A traced Tensor that the function uses without receiving it as an argument would have no gradient."
    )
    cure = "Return one gradient for each argument, or None without a path. Pass all differentiated values as arguments."


class CustomRuleError(FunctadError, ValueError):
    """A rule of `custom_vjp`, `custom_jvp` or `primitive` is missing, returns a wrong result, or would lose a derivative."""

    code = "custom-rule"
    cause = (
        "Rules must return the value of the function, and a cotangent for each argument or a tangent for each result that is "
        "linear in the tangents. Structure, shapes and dtypes must match. A traced Tensor that is used without being an "
        "argument would have no derivative."
    )
    cure = "The message names the place. Return None for a zero derivative, and pass all differentiated values as arguments."


class ImplicitError(FunctadError, ArithmeticError):
    """The solution of a solver has no derivative, or the derivative cannot be computed."""

    code = "implicit"
    cause = (
        "By the implicit function theorem, the derivative of a solution solves a linear system. This system is singular, is "
        "not square, or was not solved. Or the solver itself found no solution."
    )
    cure = (
        "Make the solution isolated, by a regularisation or a fixed gauge. Choose a linear solver with solve=, such as "
        "'dense', and its options. Check the result of the solver."
    )


class MissingPackageError(FunctadError, ImportError):
    """An optional package that the called function needs is not installed."""

    code = "missing-package"
    cause = "functad needs only NumPy. Some functions, such as the solvers of SciPy, need an optional package."
    cure = "Install the package that the message names, or choose an alternative without it, such as solve='dense'."


class CheckError(FunctadError, ValueError):
    """An expression list is not well formed."""

    code = "check"
    cause = "An expression list was built or changed by hand, and an equation reads or defines a variable that it must not."
    cure = "Make expression lists with functad.make_expressions. The message names the equation."


class NotFiniteError(FunctadError, FloatingPointError):
    """A value or a derivative is NaN or infinite, under `debug_nans`.

    Attributes:
        found: the elements that are not finite.
        origin: the operation where they first appear, and the fix.
    """

    code = "not-finite"
    cause = "Inside functad.debug_nans(), a result of a transform or tape is NaN, or infinite with infinities=True."
    cure = (
        "The message names the operation and the line where the value first appears. Keep the argument of the operation away "
        "from this point with np.where."
    )

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
    cause = "The derivative of functad differs from a numerical derivative by more than the tolerance: a rule is wrong."
    cure = (
        "Correct the rule that the message names. If the function is noisy, as with random numbers or float32 inside, fix "
        "the random numbers or pass larger atol and rtol."
    )

    def __init__(self, message: str, order: int = 0, mode: str = "", path: str = "") -> None:
        super().__init__(message)
        self.order, self.mode, self.path = order, mode, path


class NothingComparedError(FunctadError, AssertionError):
    """There is no derivative to compare: the point lies at a kink, or the function is not differentiable there."""

    code = "nothing-compared"
    cause = "functad.testing.check_grads found no derivative to compare: no argument is floating point, or each is at a kink."
    cure = "Pass floating-point arguments, away from kinks such as np.abs at 0."


class SparsityError(FunctadError, ValueError):
    """A sparse derivative that was computed with a given pattern is wrong. Raised with `check=True`.

    Attributes:
        row, column: the position of a wrong entry.
    """

    code = "sparsity"
    cause = (
        "The pattern passed as sparsity= lacks a nonzero entry. It was made for another function, or at a point where the "
        "function takes another branch."
    )
    cure = "Leave sparsity= out, or pass jacobian_sparsity(f, x) or hessian_sparsity(f, x) of this point."

    def __init__(self, message: str, row: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.row, self.column = row, column


class OptimizerError(FunctadError, ValueError):
    """A setting or an argument of an optimiser or a schedule is invalid."""

    code = "optimizer"
    cause = (
        "A setting is out of range, the state belongs to another optimiser, weight decay received no parameters, or "
        "apply_gradients received other values than pairs (gradient, variable)."
    )
    cure = "The message names the setting or the correct call. Make the pairs with zip(gradients, variables)."


class MissingGradientError(FunctadError, ValueError):
    """An optimiser got no gradient for any of its variables."""

    code = "missing-gradient"
    cause = (
        "Every gradient passed to apply_gradients is None. The loss does not depend on any variable through recorded "
        "operations, or it was computed outside the tape."
    )
    cure = "Compute the loss from the variables inside the tape. tape.explain(loss, variable) shows where the path ends."


class NotLinearError(FunctadError, ValueError):
    """A function that must be linear is not linear."""

    code = "not-linear"
    cause = (
        "linear_transpose and custom_linear_solve need a linear function: f(a x + b y) = a f(x) + b f(y). An operation in f "
        "multiplies two values that depend on the arguments, is nonlinear, branches on a value, or adds a constant."
    )
    cure = "For the derivative at a point, which is linear, use vjp(f, x) or linearize(f, x)."


class UnconnectedWarning(Coded, UserWarning):
    """A Variable is read after a traced value was assigned to it: no derivative flows through the assignment."""

    code = "unconnected"
    cause = (
        "A Variable holds a copy of the value that is assigned to it. A transform or tape still follows the value, but not the "
        "copy that is read now."
    )
    cure = (
        "Use the value itself, or functad.functional_call. Assign functad.stop_gradient(value) if no derivative is to flow. "
        "functad.explain(f, *args) shows where other paths are cut."
    )


class MissingGradientWarning(Coded, UserWarning):
    """An optimiser got no gradient for some of its variables, which stay unchanged."""

    code = "variable-not-moved"
    cause = (
        "A gradient passed to apply_gradients is None. The loss does not depend on that variable through recorded operations."
    )
    cure = (
        "tape.explain(loss, variable) shows where the path ends. If the variable is not to be trained, leave it out of the "
        "pairs."
    )


class LoopWarning(Coded, UserWarning):
    """`vmap` calls a primitive without a batching rule for one example after the other. Given once for each primitive."""

    code = "loop"
    cause = (
        "The primitive has no batching rule, or its derivative rule is not NumPy code. vmap therefore calls it once for each "
        "example."
    )
    cure = (
        "Add a batching rule: functad.primitive(..., batch=rule) with rule(size, batched, *arrays, **params). Without it, the "
        "result is correct but slow."
    )


class RecompileWarning(Coded, UserWarning):
    """A function under `jit` has been compiled many times. Given once for each function."""

    code = "recompile"
    cause = (
        "jit traces and compiles again for each structure, shape and dtype of the arguments, and for each value of a static "
        "argument."
    )
    cure = "f.explain_recompile() shows which argument changed. Pad arrays to one shape, or do not use jit where shapes change."


class FrozenRandomWarning(Coded, UserWarning):
    """A function drew random numbers while it was traced, and each evaluation uses the same numbers."""

    code = "frozen-random"
    cause = (
        "A traced function runs once. A random number drawn inside it is a constant, and every evaluation uses the same number."
    )
    cure = (
        "Draw the numbers outside the function and pass them as an argument. For a loop, pass them as the xs of functad.scan."
    )


class ImplicitWarning(Coded, UserWarning):
    """The result of a solver does not solve its equation, so its derivative is wrong."""

    code = "not-a-solution"
    cause = (
        "functad computes the derivative of the exact solution. A Newton step moves the returned solution by more than the "
        "tolerance. The solver stopped early, or it solved another equation than the given one."
    )
    cure = (
        "Run the solver for more steps, or correct the equation. check=None accepts the derivative without a check, "
        "check='raise' raises an error instead of a warning."
    )


def catalogue() -> dict[str, type[Any]]:
    """Return a dict of all errors and warnings by code.

    Example:
        >>> catalogue()["non-scalar"].__name__
        'NonScalarError'
    """
    return {cls.code: cls for cls in globals().values() if "code" in getattr(cls, "__dict__", ()) and cls is not Coded}
