"""`custom_root`, `custom_fixed_point`, `argmin`: derivatives of solutions by the implicit function theorem.

If `F(x, p) = 0` defines `x(p)`, then `dx = -(dF/dx)^-1 (dF/dp) dp`, for every solver (S. Krantz and H. Parks, "The Implicit
Function Theorem", 2003). The solver runs on plain values, and only the equation is differentiated. A call is recorded as one
operation. Its rules solve linear systems by `LINEAR_SOLVE`, which has derivatives of every order.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np

from functad.errors import ImplicitError, ImplicitWarning, InputError, UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, spec_of, strong_spec
from functad.implicit.equation import Equation
from functad.implicit.linear_solve import Leaves, Method, Solve, System, inexact, known
from functad.places import here, name_of, warn
from functad.primitives.kinds import SolverPrimitive
from functad.primitives.operands import innermost
from functad.tracing.equations import PointRecorder
from functad.tracing.ownership import lend
from functad.tracing.trace import Recorded, value_of
from functad.transforms.grad import gradient_function
from functad.transforms.leaves import pull_leaves, push_leaves, replaced
from functad.transforms.lists import Closed, close, make_list
from functad.transforms.transform import Selection, Transformed
from functad.trees import Structure, flatten, tree_map

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


class Decorator(Protocol):
    """A decorator that makes a solver differentiable and keeps its signature."""

    def __call__(self, solver: Callable[P, R], /) -> Callable[P, R]:
        """Return the solver with derivatives."""


class Call:
    """A call of a decorated solver before the solver has run.

    Attributes:
        live: the Tensors among the leaves of the arguments: the arguments of the primitive.
        specs: the specs of the solution, taken from the initial value.
        structure: the structure of the solution, taken from the initial value.
        aux: the auxiliary result of the last run of the solver.
    """

    def __init__(self, equation: Equation, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.equation = equation
        self.options = options
        given, self.arguments = flatten(args)
        self.leaves = [value_of(leaf) for leaf in given]
        start = flatten(args[0])[0]
        self.structure = flatten(args[0])[1]
        self.starts = len(start)
        for i, leaf in enumerate(self.leaves):  # leaves that are not numbers, and the initial value, have no derivative
            abstract = isinstance(innermost(leaf), ArraySpec)
            if isinstance(leaf, Recorded) and not abstract and (i < self.starts or dtype_of(leaf).kind not in "fc"):
                self.leaves[i] = innermost(leaf)
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Recorded)]
        self.live = [self.leaves[i] for i in self.places]
        for i in self.places:
            self.leaves[i] = None
        self.aux: Any = None

    def __repr__(self) -> str:
        return name_of(self.equation.solver)

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """The specs of the solution, on the assumption that it is like the initial value."""
        live = dict(zip(self.places, self.live, strict=True))
        found = []
        for i in range(self.starts):
            spec = spec_of(live.get(i, self.leaves[i]))
            found.append(ArraySpec(spec.shape, spec.dtype if spec.dtype.kind in "fc" else np.dtype(np.float64)))
        return tuple(found)

    @property
    def abstract(self) -> bool:
        """Whether a leaf has no value."""
        return any(isinstance(innermost(leaf), ArraySpec) for leaf in self.live)

    def filled(self, live: Leaves) -> Any:
        """Return the arguments of the solver."""
        return self.arguments.unflatten(replaced(self.leaves, self.places, live))

    def f(self, *leaves: Any, structure: Structure | None = None) -> list[Any]:
        """Return the leaves of the residual, given the leaves of the unknown and the live leaves of the arguments."""
        structure = structure or self.structure
        count = structure.leaves
        leaves = tuple([lend(leaf) for leaf in leaves])  # the residual may write to its arguments
        _, *params = self.filled(leaves[count:])
        out = self.equation.at(structure.unflatten(leaves[:count]), params)
        return [value_of(leaf) for leaf in flatten(out)[0]]

    def verify(self) -> None:
        """Do nothing: there is no solution yet."""

    def system(self, leaves: Leaves) -> System:
        """Return the linear system with the Jacobian of the residual with respect to the unknown."""
        return _system(self, self.f(*leaves), self.f, {})

    def rebound(self, arrays: Leaves) -> Call:
        """Return the same call for other values of the live leaves."""
        return Call(self.equation, self.filled(arrays), self.options)

    def solved(self) -> tuple[Solved, list[Any]]:
        """Run the solver. Return the solved call and the Tensors that the solution depends on."""
        equation, values = self.equation, [innermost(a) for a in self.live]
        out = equation.solver(*tree_map(lend, self.filled(values)), **self.options)
        out, aux = equation.parted(out)
        if equation.has_aux:
            self.aux = tree_map(lambda leaf: innermost(value_of(leaf)), aux)
        found, structure = flatten(out)
        # The solver may compute with captured Tensors. The equation defines how the solution depends on them.
        solution = [known(inexact(value_of(leaf), "the solution", equation.solver), equation.solver) for leaf in found]

        def f(*leaves: Any) -> list[Any]:
            return self.f(*leaves, structure=structure)

        if not self.live and not any(isinstance(leaf, Recorded) for leaf in f(*solution)):
            return Solved(equation, solution, structure, None), []
        recorder = PointRecorder(equation.transform, equation.residual)
        expressions, residuals = make_list(recorder, f, [*solution, *values])
        expressions, captured = close(expressions)
        closed = Closed(expressions, captured, list(map(recorder.value_of, residuals)))
        return Solved(equation, solution, structure, closed, values), [*self.live, *closed.captured]


class Solved:
    """A call of a decorated solver after the solver has run.

    Attributes:
        solution: the leaves of the solution.
        structure: the structure of the solution.
        specs: the specs of the solution.
        f: the residual as a closed expression list, or `None` if the residual depends on no Tensor.
        values: the plain values of the Tensors that the residual depends on.
    """

    def __init__(
        self, equation: Equation, solution: Leaves, structure: Structure, f: Closed | None, values: Leaves = ()
    ) -> None:
        self.equation = equation
        self.solution = tuple(solution)
        self.structure = structure
        self.specs = tuple([strong_spec(leaf) for leaf in solution])
        self.f = f
        self.values = [*values, *[innermost(a) for a in (f.captured if f else ())]]
        self.cache: dict[str, Any] = {}
        self.checked = False

    def __repr__(self) -> str:
        return name_of(self.equation.solver)

    def fitted(self, specs: Sequence[ArraySpec]) -> Solved:
        """Cast the solution to the dtypes of `specs`, which an abstract trace has assumed, and return the call.

        Raises:
            ImplicitError: the shapes differ from the assumed shapes.
        """
        own = [spec.shape for spec in self.specs]
        if own != [spec.shape for spec in specs]:
            raise ImplicitError(
                f"{name_of(self.equation.solver)} returned arrays of the shapes {own} for initial values {list(specs)}, at "
                f"{here()}. In a trace without values the solution is taken to be like the initial value: give it that shape."
            )
        self.solution = tuple([leaf.astype(spec.dtype) for leaf, spec in zip(self.solution, specs, strict=True)])
        self.specs = tuple(specs)
        return self

    def verify(self) -> None:
        """Warn or raise if a Newton step shows that the solution does not solve the equation."""
        check, self.checked = None if self.checked else self.equation.check, True
        if check is None or self.f is None:
            return
        steps = self.system([]).solve(self.f.values, [*self.solution, *self.values])
        size = max([float(np.max(np.abs(leaf), initial=0.0)) for leaf in self.solution], default=0.0)
        moved = max([float(np.max(np.abs(leaf), initial=0.0)) for leaf in steps], default=0.0)
        if moved <= self.equation.tolerance * (1 + size):
            return
        message = (
            f"{self.equation.transform} of {name_of(self.equation.solver)}, at {here()}: what the solver returned does not "
            f"solve the equation given by {name_of(self.equation.residual)}. A Newton step from there moves it by {moved:.1e}, "
            f"and it is {size:.1e} large."
        )
        if check == "raise":
            raise ImplicitError(message)
        warn(ImplicitWarning(message))

    def system(self, leaves: Leaves) -> System:
        """Return the linear system with the Jacobian of the residual with respect to the unknown."""
        assert self.f is not None
        return _system(self, self.f.values, self.f, self.cache)


def _system(call: Call | Solved, residuals: Leaves, f: Callable[..., list[Any]], cache: dict[str, Any]) -> System:
    rs = tuple([strong_spec(leaf) for leaf in residuals])
    return System(name_of(call.equation.residual), f, call.specs, rs, call.equation.method, cache=cache)


class _Root(SolverPrimitive):
    """The primitive of a solver. If all values are known, the solver runs and the solution is recorded."""

    def __call__(self, *arrays: Any, solver: Call | Solved) -> Any:
        """Run the solver, or record the call if a value is unknown."""
        if isinstance(solver, Call) and not any(isinstance(innermost(a), ArraySpec) for a in arrays):
            solved, needed = solver.rebound(arrays).solved()
            solver, arrays = solved.fitted(solver.specs), tuple(needed)
        return super().__call__(*arrays, solver=solver)


def _pull(gs: Any, out: Any, arrays: Leaves, solver: Call | Solved) -> list[Any]:
    """Return the cotangents `-w^T dF/dp`, with `w = (dF/dx)^-T g`."""
    solver.verify()
    leaves = [*out, *arrays]
    ws = replace(solver.system(leaves), transposed=True).solve(gs, leaves)
    return pull_leaves(lambda *ps: solver.f(*out, *ps), arrays, [-w for w in ws])  # type: ignore[misc]


def _push(ts: Leaves, out: Any, arrays: Leaves, solver: Call | Solved) -> tuple[Any, ...]:
    """Return the tangent `-(dF/dx)^-1 (dF/dp) dp`."""
    solver.verify()
    leaves = [*out, *arrays]
    bs = push_leaves(lambda *ps: solver.f(*out, *ps), arrays, ts)  # type: ignore[misc]
    return solver.system(leaves).solve([-b for b in bs], leaves)


def _compute(*arrays: Any, solver: Call | Solved) -> Leaves:
    """Return the solution. For an expression list traced without values, the solver runs now."""
    return (solver.rebound(arrays).solved()[0].fitted(solver.specs) if isinstance(solver, Call) else solver).solution


ROOT = _Root(
    Call,
    name="root",
    compute=_compute,
    pull=_pull,
    push=_push,
    spec=lambda *specs, solver: solver.specs,
    doc="what a solver finds; the derivative is that of the solution of its equation",
)
"""`x` with `F(x, p) = 0`. Its arguments are the Tensor leaves of `p` and the Tensors captured by `F`."""


class _Solver(Transformed):
    """A solver with derivatives, made by a transform of the equation."""

    @staticmethod
    def rebuild(transform: Callable[..., Any], f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the solver with derivatives again, for unpickling; `args` and `kwargs` hold the equation and the options."""
        return transform(*args, **kwargs)(f)


def _solvers(make: Callable[Q, Decorator]) -> Callable[Q, Decorator]:
    """Return the transform `make` with decorators that return `_Solver` objects."""

    @functools.wraps(make)
    def transform(*args: Q.args, **kwargs: Q.kwargs) -> Decorator:
        decorate = make(*args, **kwargs)

        def decorated(solver: Callable[P, R], /) -> Callable[P, R]:
            made = _Solver.of(decorate(solver))
            made.transform, made.given = transform, (solver, args, kwargs)
            return made

        return decorated

    return transform


def _decorator(
    transform: str, residual: Callable[..., Any], has_aux: bool, method: Method, check: str | None, tolerance: float
) -> Decorator:
    given = inspect.unwrap(residual)
    if not callable(given):
        raise InputError(f"{transform} needs the function that is solved, not a {type(given).__name__}, at {here()}.")
    if check not in ("warn", "raise", None):
        raise InputError(f"{transform} with check={check!r}, at {here()}: it is 'warn', 'raise' or None.")

    def decorate(solver: Callable[P, R], /) -> Callable[P, R]:
        equation = Equation(transform, residual, solver, has_aux, method, check, tolerance)

        @functools.wraps(solver)
        def differentiable(*args: P.args, **kwargs: P.kwargs) -> Any:
            call = Call(equation, *equation.bound(args, kwargs))
            if call.abstract:
                if has_aux:
                    raise UnsupportedError(
                        f"{transform} of {name_of(solver)} with has_aux=True, at {here()}: without values the solver is not "
                        f"run, so there is no auxiliary result."
                    )
                return call.structure.unflatten(ROOT(*call.live, solver=call))
            solved, needed = call.solved()
            x = solved.structure.unflatten(ROOT(*needed, solver=solved))
            return (x, call.aux) if has_aux else x

        return differentiable

    return decorate


@_solvers
def custom_root(
    residual: Callable[..., Any],
    solve: Solve = None,
    has_aux: bool = False,
    *,
    symmetric: bool = False,
    options: Mapping[str, Any] | None = None,
    check: str | None = "warn",
    tolerance: float = 1e-3,
) -> Decorator:
    """Return a decorator that makes any solver of `residual(x, *params) = 0` differentiable.

    By the implicit function theorem `dx = -(dF/dx)^-1 (dF/dp) dp`. The solver `solver(init, *params)` runs on plain values and
    is not traced: it may call SciPy, loop, or look up a table. The derivative with respect to `init` is zero.

    Args:
        residual: `residual(x, *params)` in NumPy code, with as many elements as `x`. `x` and the parameters are arrays or
            pytrees. It may capture Tensors of outer transforms, as long as the solver can read their values.
        solve: the solver of the linear system: `dense` (builds the matrix; the default up to 256 unknowns), SciPy's `gmres`
            (the default above) or `bicgstab`, `cg` (for symmetric, definite matrices), or a function `(matvec, b)` of flat real
            vectors with complex numbers as pairs.
        has_aux: the solver returns a pair `(x, aux)`. `aux` is returned unchanged, without a derivative.
        symmetric: `dF/dx` is symmetric and definite, so that `cg` replaces `gmres`.
        options: keyword arguments of the linear solver: `rtol`, `atol`, `maxiter`.
        check: the reaction, at the time of a derivative, if `x` does not solve the equation: `warn`, `raise`, or `None`.
        tolerance: `x` solves the equation if a Newton step moves it by at most `tolerance * (1 + max(abs(x)))`. This check
            takes one more linear solve.

    Returns:
        A decorator. The decorated solver keeps its signature. Keyword arguments are moved to their positions. Keyword-only
        arguments, such as a number of iterations, are passed to the solver alone.

    Raises:
        ImplicitError: (when a derivative is taken) the linear system is singular, not square, or was not solved.

    In an abstract trace and under `vmap`, the call is recorded as one operation, and the solution must have the shape of
    `init`. The solver then runs example by example.

    Example:
        >>> import numpy as np, functad
        >>> @functad.custom_root(lambda x, a: x**3 + x - a)
        ... def solver(x, a):
        ...     while abs(x**3 + x - a) > 1e-12:
        ...         x = x - (x**3 + x - a) / (3 * x**2 + 1)
        ...     return x
        >>> functad.value_and_grad(lambda a: solver(1.0, a))(2.0)
        (np.float64(1.0), np.float64(0.25))
    """
    method = Method(solve, options or {}, symmetric)
    return _decorator("custom_root", residual, has_aux, method, check, tolerance)


@_solvers
def custom_fixed_point(
    T: Callable[..., Any],
    solve: Solve = None,
    has_aux: bool = False,
    *,
    options: Mapping[str, Any] | None = None,
    check: str | None = "warn",
    tolerance: float = 1e-3,
) -> Decorator:
    """Return a decorator that makes a solver of `x = T(x, *params)` differentiable: `dx = (1 - dT/dx)^-1 (dT/dp) dp`.

    Args:
        T: `T(x, *params)`, which returns a pytree like `x`.
        solve, has_aux, options, check, tolerance: as for `custom_root`.

    Returns:
        A decorator of solvers `solver(init, *params)`, as for `custom_root`.

    Raises:
        ImplicitError: as for `custom_root`.

    Example:
        >>> import numpy as np, functad
        >>> @functad.custom_fixed_point(lambda x, a: np.cos(a * x))
        ... def iterate(x, a):
        ...     for _ in range(200):
        ...         x = np.cos(a * x)
        ...     return x
        >>> value, slope = functad.value_and_grad(lambda a: iterate(1.0, a))(1.0)
        >>> round(float(value), 4), round(float(slope), 4)
        (0.7391, -0.2975)
    """

    @functools.wraps(T)
    def residual(x: Any, *params: Any) -> Any:
        return tree_map(lambda after, before: after - before, T(tree_map(lend, x), *params), x)

    return _decorator("custom_fixed_point", residual, has_aux, Method(solve, options or {}), check, tolerance)


@_solvers
def argmin(
    objective: Callable[..., Any],
    solve: Solve = None,
    has_aux: bool = False,
    *,
    options: Mapping[str, Any] | None = None,
    check: str | None = "warn",
    tolerance: float = 1e-3,
) -> Decorator:
    """Return a decorator that makes a minimiser of `objective(x, *params)` differentiable.

    The equation is `d objective / dx = 0`, so `dx = -H^-1 (d^2 objective / dx dp) dp` with the Hessian `H`.

    Args:
        objective: `objective(x, *params)`, which returns one number.
        solve: as for `custom_root`. Large systems use `cg`, because the Hessian is positive at a minimum.
        has_aux, options, check, tolerance: as for `custom_root`.

    Returns:
        A decorator of solvers `solver(init, *params)`, as for `custom_root`.

    Raises:
        ImplicitError: as for `custom_root`.

    Example:
        >>> import numpy as np, functad
        >>> @functad.argmin(lambda w, X, y, strength: np.sum((X @ w - y) ** 2) + strength * np.sum(w**2))
        ... def ridge(w, X, y, strength):
        ...     return np.linalg.solve(X.T @ X + strength * np.eye(w.size), X.T @ y)
        >>> X, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 2.0])
        >>> functad.jacobian(ridge, 3)(np.zeros(2), X, y, 0.1).round(4)
        array([-0.5919,  0.2445])
    """
    gradient = gradient_function(Selection("argmin", objective, 0, None))
    return _decorator("argmin", gradient, has_aux, Method(solve, options or {}, symmetric=True), check, tolerance)
