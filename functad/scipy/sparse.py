"""`scipy.sparse.linalg`: solutions of systems with a constant sparse matrix, differentiable in the right-hand side.

Each solution is linear in the right-hand side, `x = M b`. Forward mode computes `M db`. Reverse mode computes `M^T g`, with
the same solver and tolerance on the transposed matrix. Iterations and first guesses are not differentiated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.adoption.arrays import has_tensors
from functad.adoption.scipy_functions import of_tensors, outside_traces, refuse, stands_for
from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.places import here
from functad.primitives.entry import Primitive
from functad.primitives.kinds import linear
from functad.primitives.linalg.products import as_array
from functad.primitives.linalg.solve import inexact
from functad.primitives.linalg.sparse_products import is_sparse, kept_apart

PART = "scipy.sparse.linalg"


class Solver:
    """A solver for one matrix and its transpose.

    Attributes:
        matrix: the matrix, sparse or dense, or an operator.
        solve: `solve(matrix, b)`, which returns the solution and SciPy's further results.
        said: SciPy's further results of the last solve; `None` before the first.
    """

    def __init__(self, matrix: Any, solve: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self.matrix, self.solve = matrix, solve
        self.said: Any = None
        self._turned: Solver | None = None

    @property
    def T(self) -> Solver:  # noqa: N802 - NumPy's name
        """The solver for the transposed matrix."""
        if self._turned is None:
            self._turned = Solver(self.matrix.T, self.solve)
            self._turned._turned = self
        return self._turned

    def __call__(self, b: Any) -> Any:
        """Return the solution for one right-hand side."""
        found, self.said = outside_traces(self.solve, self.matrix, b)
        return found


def _compute(b: Any, *, solver: Solver, batch: int) -> Any:
    spec = _spec(b, solver=solver, batch=batch)
    found = [solver(b[place]) for place in np.ndindex(b.shape[:batch])]
    return np.array(found, spec.dtype).reshape(spec.shape)


def _spec(b: Any, *, solver: Solver, batch: int) -> ArraySpec:
    spec = spec_of(b)
    shape = (*spec.shape[:batch], solver.matrix.shape[1], *spec.shape[batch + 1 :])
    return ArraySpec(shape, inexact(np.dtype(solver.matrix.dtype), spec.dtype))


def _batch(primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]) -> Any:
    return primitive(values[0], **{**params, "batch": params["batch"] + 1})


def _samples(array: Any) -> Any:
    matrix = np.array([[2.0, 0.5, 0.0], [0.0, 3.0, -1.0], [0.0, 0.0, 4.0]])
    solver = Solver(matrix, lambda a, b: (np.linalg.solve(a, b), None))
    return [((array(3),), {"solver": solver, "batch": 0}), ((array(3, 2),), {"solver": solver, "batch": 0})]


SPARSE_SOLVE: Primitive = linear(
    _compute,
    lambda g, solver, batch: SPARSE_SOLVE(g, solver=solver.T, batch=batch),
    name="sparse_solve",
    spec=_spec,
    samples=_samples,
    internal=True,
    doc="d(A^-1 b) = A^-1 db, for a constant matrix",
    batch=_batch,
)


def _constant(name: str, *matrices: Any) -> Any:
    """Return the first of the given matrices, safe from later writes.

    Raises:
        UnsupportedError: one of the matrices is a Tensor.
    """
    if has_tensors(matrices):
        raise UnsupportedError(
            f"{PART}.{name} with a matrix, a preconditioner or a first guess that is a Tensor, at {here()}: there is one "
            f"derivative, by the right-hand side. Use functad.custom_linear_solve(lambda x: A @ x, b), or a constant."
        )
    matrix = matrices[0]
    if is_sparse(matrix):
        return kept_apart(matrix).matrix
    return np.array(matrix) if issubclass(type(matrix), (np.ndarray, list, tuple)) else matrix


def _of_scipy(name: str) -> Any:
    """Return a function of SciPy."""
    import scipy.sparse.linalg  # noqa: PLC0415 - SciPy is already imported

    return getattr(scipy.sparse.linalg, name)


def _enter_iterative(name: str) -> None:
    """Register a solver `(A, b, x0, **options)` that returns the solution and a status."""

    def solve(A: Any, b: Any, x0: Any = None, **options: Any) -> Any:
        matrix = _constant(name, A, x0, *options.values())
        unturned = {key: value for key, value in options.items() if key in ("M", "M1", "M2") and value is not None}
        original = _of_scipy(name)

        def solved(a: Any, v: Any) -> tuple[Any, Any]:
            own = a is matrix  # preconditioner and guess belong to this matrix
            given = options if own else {k: v for k, v in options.items() if k not in (*unturned, "callback")}
            found: tuple[Any, Any] = original(a, v, x0 if own and solver.said is None else None, **given)
            return found

        solver = Solver(matrix, solved)
        x = SPARSE_SOLVE(_vector(as_array(b)), solver=solver, batch=0)
        return x, 0 if solver.said is None else solver.said

    solve.__name__ = name
    of_tensors(PART)(solve)


def _vector(b: Any) -> Any:
    """Return a right-hand side as a vector."""
    if len(shape_of(b)) == 2 and shape_of(b)[1] == 1:
        return b.ravel()
    if len(shape_of(b)) != 1:
        raise ValueError(f"the right-hand side has the shape {shape_of(b)}, and not that of one column")
    return b


for _name in ("cg", "cgs", "bicg", "bicgstab", "gmres", "lgmres", "minres", "qmr", "gcrotmk", "tfqmr"):
    _enter_iterative(_name)


@of_tensors(PART)
def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """Return the solution of a system, by a factorization."""
    original = _of_scipy("spsolve")
    solver = Solver(_constant("spsolve", A), lambda a, v: (original(a.tocsc(), v, permc_spec, use_umfpack), None))
    b = as_array(b)
    return SPARSE_SOLVE(_vector(b) if shape_of(b)[1:] == (1,) else b, solver=solver, batch=0)


@of_tensors(PART)
def spsolve_triangular(
    A: Any,
    b: Any,
    lower: bool = True,
    overwrite_A: bool = False,
    overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """Return the solution of a system with a triangular matrix."""
    matrix, original = _constant("spsolve_triangular", A), _of_scipy("spsolve_triangular")

    def solved(a: Any, v: Any) -> tuple[Any, None]:
        return original(a.tocsr(), v, lower if a is matrix else not lower, unit_diagonal=unit_diagonal), None

    return SPARSE_SOLVE(as_array(b), solver=Solver(matrix, solved), batch=0)


def _least_squares(name: str, A: Any, b: Any, damp: float, x0: Any, **options: Any) -> tuple[Any, ...]:
    """Return the solution, SciPy's further results, and the norms of the residual, damped residual, gradient and `x`."""
    matrix, b, original = _constant(name, A, damp, x0), _vector(as_array(b)), _of_scipy(name)

    def solved(a: Any, v: Any) -> tuple[Any, Any]:
        x, *rest = original(a, v, damp=damp, **options)
        return x, rest

    solver, product = Solver(matrix, solved), matrix
    start = 0.0 if x0 is None else np.asarray(x0)
    change = SPARSE_SOLVE(b if x0 is None else b - matrix @ start, solver=solver, batch=0)
    x = change + start
    residual = b - product @ x
    slope = matrix.T @ residual - damp**2 * change
    with_damping = np.concatenate((residual, damp * change))
    norms = [np.linalg.norm(v) for v in (residual, with_damping, slope, x)]
    return x, solver.said, *norms


@of_tensors(PART)
def lsqr(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: Any = None,
) -> Any:
    """Return the least-squares solution and SciPy's further results."""
    options = {"atol": atol, "btol": btol, "conlim": conlim, "iter_lim": iter_lim, "show": show, "calc_var": calc_var}
    x, said, r1norm, r2norm, arnorm, xnorm = _least_squares("lsqr", A, b, damp, x0, **options)
    istop, itn, _, _, anorm, acond, _, _, var = said or [0] * 9
    return x, istop, itn, r1norm, r2norm, anorm, acond, arnorm, xnorm, var


@of_tensors(PART)
def lsmr(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    maxiter: int | None = None,
    show: bool = False,
    x0: Any = None,
) -> Any:
    """Return the least-squares solution and SciPy's further results."""
    options = {"atol": atol, "btol": btol, "conlim": conlim, "maxiter": maxiter, "show": show}
    x, said, _, normr, normar, normx = _least_squares("lsmr", A, b, damp, x0, **options)
    istop, itn, _, _, norma, conda, _ = said or [0] * 7
    return x, istop, itn, normr, normar, norma, conda, normx


# Reusable factorizations


class _Factors:
    """A factorization from SciPy whose `solve` takes Tensors; all other attributes are SciPy's."""

    def __init__(self, original: Any) -> None:
        self._original = original

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Return the solution for the matrix, its transpose (`T`) or its conjugate transpose (`H`)."""
        if not has_tensors((rhs,)):
            return outside_traces(self._original.solve, rhs, trans)
        if trans == "H":
            return self.solve(rhs.conj(), "T").conj()
        return SPARSE_SOLVE(as_array(rhs), solver=Solver(_Operator(self._original, trans), _by_factors), batch=0)


class _Operator:
    """A matrix known by its factors only, or its transpose."""

    def __init__(self, factors: Any, trans: str = "N") -> None:
        self.factors, self.trans = factors, trans
        self.shape, self.dtype = factors.shape, factors.L.dtype

    @property
    def T(self) -> _Operator:  # noqa: N802 - NumPy's name
        return _Operator(self.factors, "T" if self.trans == "N" else "N")


def _by_factors(operator: _Operator, b: Any) -> tuple[Any, None]:
    if b.dtype.kind == "c" and operator.dtype.kind != "c":
        parts = [operator.factors.solve(part.astype(operator.dtype), operator.trans) for part in (b.real, b.imag)]
        return parts[0] + 1j * parts[1], None
    return operator.factors.solve(b.astype(operator.dtype), operator.trans), None


def _enter_factors(name: str) -> None:
    """Register a factorization that returns an object with `solve`."""
    original = _of_scipy(name)

    @functools.wraps(original)
    def factored(A: Any, *args: Any, **options: Any) -> Any:
        if has_tensors((A,)):
            _constant(name, A)  # raises
        return _Factors(outside_traces(original, A, *args, **options))

    stands_for(original, factored)


_enter_factors("splu")
_enter_factors("spilu")


def _enter_factorized() -> None:
    """Register the factorization that returns a function."""
    original = _of_scipy("factorized")

    @functools.wraps(original)
    def factorized(A: Any) -> Any:
        matrix = _constant("factorized", A)
        found = {True: outside_traces(original, A)}

        def by_factors(a: Any, b: Any) -> tuple[Any, None]:
            own = a is matrix
            if own not in found:
                found[own] = original(a.tocsc())
            return found[own](b), None

        solver = Solver(matrix, by_factors)

        def solve(b: Any) -> Any:
            return SPARSE_SOLVE(as_array(b), solver=solver, batch=0) if has_tensors((b,)) else outside_traces(found[True], b)

        return solve

    stands_for(original, factorized)


_enter_factorized()

_DENSE = "it has no derivative rule; use numpy.linalg, or functad.custom_linear_solve, with products of the sparse matrix"

REFUSED: dict[str, str] = {
    "eigs": _DENSE,
    "eigsh": _DENSE,
    "svds": _DENSE,
    "lobpcg": _DENSE,
}
"""Functions of `scipy.sparse.linalg` that reject Tensors, and the reasons."""

refuse(PART, REFUSED)
