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
        "An attribute such as `data` or `ctypes` hands out the memory of an array, past which no derivative can be followed."
    )
    cure = "Use functad.stop_gradient(t) where a constant is meant, and that attribute of it."


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
    cause = "The function has no derivative, or none that functad knows, or an argument asks for what a trace cannot do."
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
        "The result holds something that is no array and no number: a string, an object array, an object of a class; or "
        "integers or booleans, of which a Jacobian is asked for."
    )
    cure = "Return arrays and numbers only, and anything else with has_aux=True; register_tree makes a class a container."


class StructureError(FunctadError, ValueError):
    """Two trees that must have the same structure differ."""

    code = "structure"
    cause = (
        "A cotangent or tangent differs in its containers, shapes or dtypes from the value that it belongs to; or an argument "
        "of an expression list from what the list was made for."
    )
    cure = "Build it from the value itself: functad.tree_map(np.ones_like, value); make a list for each shape and dtype."


class RegistrationError(FunctadError, TypeError):
    """A class cannot be registered as a container of trees, or an object of it cannot be flattened."""

    code = "registration"
    cause = (
        "register_tree got something that is no class, a class that does not say which parts it has, or a name that is none of "
        "its fields; or a static field holds a value that cannot be compared and hashed, such as an array."
    )
    cure = (
        "Put @functad.register_tree above @dataclass, give the class methods tree_flatten and tree_unflatten, or pass two "
        "functions; leave arrays among the leaves."
    )


class StateError(FunctadError, ValueError):
    """Values do not match the Variables of a module, or a file of values or of an expression list is invalid or refused."""

    code = "state"
    cause = (
        "A file that is restored, or the values that functional_call was given, differ from the Variables of the module in "
        "their attribute paths, shapes or dtypes; or the file is damaged or holds something else. Nothing has been changed. Or "
        "an expression list that is to be saved holds code, or something else than numbers."
    )
    cure = (
        "Make the module as it was made when it was saved; layers that take their shape from the first call have to be called "
        "once before, or made with `inputs=`. functad.values_of(module) shows the paths."
    )


class ConstantError(FunctadError, ValueError):
    """An array was overwritten although a derivative needs its old values."""

    code = "constant"
    cause = "A function wrote into an array that it was given, or had used as a constant; the derivative needs the old values."
    cure = "Write into a copy, a = a.copy(), or into a new array."


class ControlFlowError(FunctadError, TypeError):
    """The carry of a loop, or the results of branches, do not agree in structure, shape or dtype."""

    code = "control-flow"
    cause = (
        "The carry of a loop must keep its structure, shapes and dtypes from step to step, as must the results of the branches "
        "of cond and switch from branch to branch; a predicate is one number, and all of xs in scan have the same length."
    )
    cure = (
        "The message names the place: begin with a carry such as the body returns, np.zeros(3) instead of 0.0, or "
        "convert what the body returns with .astype."
    )


class DegenerateError(FunctadError, np.linalg.LinAlgError):
    """A derivative at a matrix with equal eigenvalues or singular values does not exist or cannot be determined."""

    code = "degenerate"
    cause = (
        "Equal eigenvalues or singular values have no vectors of their own, so a derivative through these is not determined; "
        "in second order, reverse over reverse cannot know its limit."
    )
    cure = (
        "Use functions of the matrix that need no vectors: np.linalg.det, inv, matrix_power, norm(a, 'nuc'); for second "
        "derivatives of eigvalsh or svdvals, take functad.jvp of functad.grad(f)."
    )


class TapeError(FunctadError, RuntimeError):
    """A tape was never entered, has given its gradient already, or does not keep the requested data."""

    code = "tape-spent"
    cause = (
        "A tape records between entering and leaving its `with` block, and one that is not persistent gives one gradient; "
        "after that everything that it recorded is freed. It keeps whole calls, for expressions(), only if that is wanted."
    )
    cure = "Use GradientTape(persistent=True) to ask more than once, lists=True for expressions(), and watch inside the block."


class TapeStateError(FunctadError, ValueError):
    """A tape or an accumulator is recording where it must not, or is not recording where it must."""

    code = "tape-state"
    cause = "A tape that is recording was entered again, or one that is not was to be stopped or reset."
    cure = "Open another tape inside the first; call reset and stop_recording inside the `with` block."


class SourceError(FunctadError, TypeError):
    """A source or a target is neither a Tensor nor a Variable."""

    code = "tape-source"
    cause = "A tape knows Tensors and Variables by what they are: a number or an array of equal value is unknown to it."
    cure = "Make it a Tensor before it is used, x = functad.constant(value), and ask for that very x."


class NoPathError(FunctadError, ValueError):
    """No gradient with respect to a source exists, and `missing="raise"` is set."""

    code = "no-path"
    cause = "No recorded path leads from the source to the target: the message says where it ends."
    cure = (
        "Do what the message says, or ask for unconnected_gradients='zero' if the source has no influence; tape.explain says "
        "the same without raising."
    )


class AssignmentError(FunctadError, ValueError):
    """A value of another shape was assigned to a Variable, or a value to a read-only array."""

    code = "assignment"
    cause = "A Variable keeps its shape, and nothing is repeated to fit: a forgotten axis would go unseen."
    cure = "Pass a value of exactly that shape: np.broadcast_to(value, v.shape), or v[i].assign(value) for a part."


class CustomGradientError(FunctadError, ValueError):
    """A custom gradient function returns a wrong number or shape of gradients, or would lose a gradient."""

    code = "custom-gradient"
    cause = (
        "The gradient function that custom_gradient was given must return a gradient of its shape for each argument; a Tensor "
        "that is followed and is used without being an argument would have none."
    )
    cure = "Return one gradient for each argument, None where there is no path, and pass what is to be differentiated."


class CustomRuleError(FunctadError, ValueError):
    """A rule of `custom_vjp`, `custom_jvp` or `primitive` is missing, returns a wrong result, or would lose a derivative."""

    code = "custom-rule"
    cause = (
        "A rule must give a cotangent for each argument, or a linear tangent for each result, of its structure, shape and "
        "dtype, beside the function's value; a Tensor that is followed and is used without being an argument would have none."
    )
    cure = "The message names the place; return None for a derivative that is zero, and pass what is to be differentiated."


class ImplicitError(FunctadError, ArithmeticError):
    """The solution of a solver has no derivative, or the derivative cannot be computed."""

    code = "implicit"
    cause = (
        "By the implicit function theorem the derivative of a solution is itself the solution of a linear system. That is "
        "singular, or has not as many equations as unknowns, or was not solved; or the solver itself found no solution."
    )
    cure = (
        "Make the solution isolated (a regularisation, a fixed gauge); choose a linear solver with solve=, such as 'dense', "
        "and its options; look at what the solver returned."
    )


class MissingPackageError(FunctadError, ImportError):
    """An optional package that the called function needs is not installed."""

    code = "missing-package"
    cause = "functad itself needs NumPy alone; solvers of SciPy's, among other things, are called where it is installed."
    cure = "Install the package, as the message says, or choose what does without it, such as solve='dense'."


class CheckError(FunctadError, ValueError):
    """An expression list is not well formed."""

    code = "check"
    cause = "An expression list was put together or changed by hand, and an equation reads or makes what it cannot."
    cure = "Make expression lists with functad.make_expressions; the message names the equation."


class NotFiniteError(FunctadError, FloatingPointError):
    """A value or a derivative is NaN or infinite, under `debug_nans`.

    Attributes:
        found: the elements that are not finite.
        origin: the operation where they first appear, and the fix.
    """

    code = "not-finite"
    cause = "Under functad.debug_nans() a NaN, or an infinity if these are looked for, reached what a transform or tape gave."
    cure = "The message names the operation and the line where it was born: keep its argument away from there by np.where."

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
    cause = "The derivative that functad gives differs from a numerical one by more than is allowed: a rule is wrong."
    cure = (
        "Mend the rule that the message leads to. Where the function is merely rough, as with random numbers or float32 "
        "inside, hold these fixed or pass larger atol and rtol."
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
        "The pattern given as sparsity= lacks an entry that is not zero: it was made for another function, or at a point where "
        "the function takes another branch."
    )
    cure = "Leave sparsity= out, or pass jacobian_sparsity(f, x) or hessian_sparsity(f, x) of this point."

    def __init__(self, message: str, row: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.row, self.column = row, column


class OptimizerError(FunctadError, ValueError):
    """A setting or an argument of an optimiser or a schedule is invalid."""

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


class NotLinearError(FunctadError, ValueError):
    """A function that must be linear is not linear."""

    code = "not-linear"
    cause = (
        "linear_transpose and custom_linear_solve need a function f with f(a x + b y) = a f(x) + b f(y); an operation in it "
        "multiplies what depends on the arguments with itself, bends it, chooses by its value, or adds a constant."
    )
    cure = "Use vjp(f, x), or linearize(f, x), for the derivative at a point, which is linear."


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
    cause = "A gradient given to apply_gradients is None: the loss does not depend on that variable by recorded operations."
    cure = (
        "tape.explain(loss, variable) says where the path ends. Leave the variable out of the pairs if it is not to be trained."
    )


class LoopWarning(Coded, UserWarning):
    """`vmap` calls a primitive without a batching rule for one example after the other. Given once for each primitive."""

    code = "loop"
    cause = "The primitive has no batching rule, or its derivative rule is no NumPy code: it is called for one after the other."
    cure = "Give it one, functad.primitive(..., batch=rule), or leave it at that: the result is right, but takes its time."


class RecompileWarning(Coded, UserWarning):
    """A function under `jit` has been compiled many times. Given once for each function."""

    code = "recompile"
    cause = "Each structure, shape and dtype of the arguments, and each value of a static one, is traced and compiled anew."
    cure = "f.explain_recompile() says which argument changed. Pad arrays to one shape, or leave out jit where shapes change."


class FrozenRandomWarning(Coded, UserWarning):
    """A function drew random numbers while it was traced, and each evaluation uses the same numbers."""

    code = "frozen-random"
    cause = "A traced function runs once. A random number that it draws is a constant of the list: every evaluation uses it."
    cure = "Draw the numbers outside of the function and pass them as an argument; for a loop, as the rows of functad.scan."


class ImplicitWarning(Coded, UserWarning):
    """The result of a solver does not solve its equation, so its derivative is wrong."""

    code = "not-a-solution"
    cause = (
        "The derivative of a solver is that of an exact solution. A Newton step from what it returned moves it by more than "
        "the given tolerance, so it stopped early, or solved another equation than the one that was given."
    )
    cure = (
        "Let the solver run further, or correct the equation; check=None says that the derivative is wanted as it is, "
        "check='raise' makes an error of it."
    )


def catalogue() -> dict[str, type[Any]]:
    """Return a dict of all errors and warnings by code.

    Example:
        >>> catalogue()["non-scalar"].__name__
        'NonScalarError'
    """
    return {cls.code: cls for cls in globals().values() if "code" in getattr(cls, "__dict__", ()) and cls is not Coded}
