"""`custom_linear_solve`, and the primitive `LINEAR_SOLVE` of every implicit derivative: the solution of a linear system.

The matrix `J` is the Jacobian of a function `f(x, p)` with respect to `x`. It is applied as a product, and built only if it is
small. With `u = J^-1 b`, the tangent is `du = J^-1 (db - dJ u)`. A cotangent `g` of `u` gives `w = J^-T g` for `b`, and `-w^T
dJ u` for `x` and `p`. Both rules solve systems of the same kind, so derivatives of every order follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from functad.errors import ImplicitError, InputError, NotLinearError, UnsupportedError
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, spec_of, strong_spec
from functad.implicit.linear_solvers import OPTIONS, SMALL, SOLVERS, check_regular
from functad.places import here, name_of
from functad.primitives.batching import one_by_one
from functad.primitives.entry import Primitive
from functad.primitives.kinds import SolverPrimitive
from functad.primitives.operands import innermost, numpy_values
from functad.tracing.ownership import lend
from functad.tracing.trace import Recorded, value_of
from functad.transforms.forward import with_zeros
from functad.transforms.grad import vjp
from functad.transforms.leaves import Linearized, pull_leaves, push_leaves
from functad.transforms.linear import linear_list
from functad.transforms.lists import Closed, close
from functad.trees import Structure, flatten

Leaves = Sequence[Any]
Solve = str | Callable[..., Any] | None


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """The method that solves the linear systems of a derivative.

    Attributes:
        solve: the name of a solver, or a function `(matvec, b)` of flat real vectors. `None`: chosen by the number of unknowns.
        options: keyword arguments of the solver.
        symmetric: the matrix is symmetric.
        structured: the user's `solve` and `transpose_solve` over pytrees. The second may be `None`.
        structure: the structure of these pytrees.
        params: the structure of their further arguments. The leaves of these are the last arguments of `f`.
    """

    solve: Solve = None
    options: Mapping[str, Any] = field(default_factory=dict)
    symmetric: bool = False
    structured: tuple[Callable[..., Any], Callable[..., Any] | None] | None = None
    structure: Structure | None = None
    params: Structure | None = None

    def __post_init__(self) -> None:
        if isinstance(self.solve, str) and self.solve not in (*SOLVERS, "dense"):
            raise InputError(f"solve={self.solve!r}, at {here()}: choose one of 'dense', {', '.join(map(repr, SOLVERS))}.")
        unknown = [name for name in self.options if isinstance(self.solve, str) and name not in OPTIONS.get(self.solve, ())]
        if unknown:
            raise InputError(
                f"solve={self.solve!r} with the option {unknown[0]!r}, at {here()}: it takes "
                f"{', '.join(OPTIONS.get(self.solve, ())) or 'none'}."  # type: ignore[arg-type]
            )


LIVE: Any = ...  # `...` pickles as itself
"""The placeholder for an argument of the primitive in the point of a system."""


def split(leaves: Leaves) -> tuple[tuple[Any, ...], list[Any]]:
    """Return the point of some leaves, with `LIVE` in place of Tensors, and the Tensors."""
    point = tuple([LIVE if isinstance(leaf, Recorded) else leaf for leaf in leaves])
    return point, [leaf for leaf in leaves if isinstance(leaf, Recorded)]


def filled(point: Leaves, live: Leaves) -> list[Any]:
    """Return the leaves of a point made by `split`, with `live` in place of the `LIVE` entries."""
    waiting = iter(live)
    return [next(waiting) if value is LIVE else value for value in point]


@dataclass(frozen=True, slots=True, eq=False)
class First:
    """A function of leaves that ignores the last `others` arguments."""

    f: Callable[..., list[Any]]
    others: int

    def __call__(self, *leaves: Any) -> list[Any]:
        """Call the function."""
        return self.f(*leaves[: len(leaves) - self.others])


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """A linear system with the Jacobian of a function as its matrix.

    Attributes:
        name: the name of the user's function, for expression lists and messages.
        f: `f(*xs, *ps)`, which returns a list of leaves.
        xs, rs: the specs of the unknowns and of the results of `f`.
        point: the values of all arguments of `f`, or `LIVE`.
        method: the method that solves the system.
        transposed: the matrix is the transposed Jacobian.
        cache: the matrix at the last point.
    """

    name: str
    f: Callable[..., list[Any]]
    xs: tuple[ArraySpec, ...]
    rs: tuple[ArraySpec, ...]
    method: Method
    point: tuple[Any, ...] = ()
    transposed: bool = False
    cache: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.name}.T" if self.transposed else self.name

    @property
    def sides(self) -> tuple[tuple[ArraySpec, ...], tuple[ArraySpec, ...]]:
        """The specs of the right-hand side and of the solution."""
        return (self.xs, self.rs) if self.transposed else (self.rs, self.xs)

    @property
    def dense(self) -> bool:
        """Whether the matrix is built."""
        if self.method.structured is not None:
            return False
        return self.method.solve == "dense" or (self.method.solve is None and _size(self.xs) <= SMALL)

    def fill(self, live: Leaves) -> list[Any]:
        """Return the arguments of `f`."""
        return filled(self.point, live)

    def in_x(self, leaves: Leaves) -> Callable[..., list[Any]]:
        """Return `f` as a function of the unknowns alone."""
        ps = leaves[len(self.xs) :]
        return lambda *xs: self.f(*xs, *ps)

    def image(self, us: Leaves, leaves: Leaves) -> list[Any]:
        """Return the product of the matrix at a point with a vector."""
        xs = leaves[: len(self.xs)]
        if self.transposed:
            return pull_leaves(self.in_x(leaves), xs, list(us))
        return push_leaves(self.in_x(leaves), xs, us)

    def solve(self, bs: Leaves, leaves: Leaves) -> tuple[Any, ...]:
        """Return the solution, recorded if an argument is a Tensor.

        Args:
            bs: the right-hand side.
            leaves: the arguments of `f`.
        """
        point, live = split(leaves)
        found: tuple[Any, ...] = LINEAR_SOLVE(*bs, *live, system=replace(self, point=point))
        return found

    def check_square(self) -> None:
        """Raise `ImplicitError` unless there are as many equations as unknowns."""
        if _size(self.rs) != _size(self.xs):
            raise ImplicitError(
                f"{self.name} gives {_size(self.rs)} equations for {_size(self.xs)} unknowns, at {here()}: "
                f"there must be one for each."
            )

    # The methods below take plain values only.

    def computed(self, bs: Leaves, leaves: Leaves) -> tuple[Any, ...]:
        """Return the solution for plain values."""
        rhs, unknowns = self.sides
        self.check_square()
        if self.method.structured is not None:
            own = self.method.structured[0] if not self.transposed or self.method.symmetric else self.method.structured[1]
            if own is not None:
                return self._by_users_solve(own, bs, leaves)
        b = packed(bs, rhs, self.transposed, self.name)
        x = self._vector(b, leaves)
        if x.shape != b.shape:
            raise ImplicitError(f"the linear solver of {self.name} returned {spec_of(x)} for {spec_of(b)}, at {here()}.")
        if np.isfinite(b).all() and not np.isfinite(x).all():
            raise ImplicitError(f"the linear solver of {self.name} returned numbers that are not finite, at {here()}.")
        return tuple(unpacked(x, unknowns, self.transposed))

    def _vector(self, b: Any, leaves: Leaves) -> Any:
        solve = self.method.solve
        if callable(solve):
            return np.asarray(solve(self._product(leaves), b, **self.method.options), dtype=np.float64)
        if b.size == 0 or (not b.any() and not self.dense):
            return np.zeros_like(b)
        if self.dense:
            return np.linalg.solve(self._matrix(leaves), b)
        solver = SOLVERS[solve or ("cg" if self.method.symmetric else "gmres")]
        single = any(np.finfo(spec.dtype).eps > 1e-10 for spec in (*self.xs, *self.rs))
        return solver(self._product(leaves), b, **({"rtol": 1e-5} if single else {}) | dict(self.method.options))

    def _product(self, leaves: Leaves) -> Callable[[Any], Any]:
        """Return the product of the matrix with a flat real vector."""
        (out, given), conjugate, product = self.sides, self.transposed, self._product_of_leaves(leaves)
        return lambda v: packed(product(unpacked(v, given, conjugate)), out, conjugate, self.name)

    def _product_of_leaves(self, leaves: Leaves) -> Callable[[Leaves], Any]:
        f, xs = self.in_x(leaves), leaves[: len(self.xs)]
        return vjp(f, *xs)[1] if self.transposed else Linearized(f, xs)

    def _matrix(self, leaves: Leaves) -> Any:
        """Return the matrix over flat real vectors, built row by row from pullbacks, or the cached matrix of the same point."""
        known = self.cache.get("point", ())
        if len(known) != len(leaves) or any(a is not b for a, b in zip(known, leaves, strict=True)):
            values, pull = vjp(self.in_x(leaves), *leaves[: len(self.xs)])
            packed(values, self.rs, False, self.name)  # raises if a value is a Tensor
            rows = [packed(pull(unpacked(e, self.rs, True)), self.xs, True, self.name) for e in np.eye(_size(self.rs))]
            matrix = np.stack(rows) if rows else np.zeros((0, 0))
            check_regular(matrix)
            self.cache.update(point=tuple(leaves), matrix=matrix)
        matrix = self.cache["matrix"]
        return matrix.T if self.transposed else matrix

    def _by_users_solve(self, own: Callable[..., Any], bs: Leaves, leaves: Leaves) -> tuple[Any, ...]:
        structure = self.method.structure
        assert structure is not None
        unknowns, product = self.sides[1], self._product_of_leaves(leaves)

        def matvec(v: Any) -> Any:
            return structure.unflatten(product(structure.flatten_like(v, "v")))

        params = self.method.params
        rest = () if params is None else params.unflatten([lend(leaf) for leaf in leaves[len(leaves) - params.leaves :]])
        found = structure.flatten_like(own(matvec, structure.unflatten([lend(b) for b in bs]), *rest), "the solution")
        found = [known(leaf, own) for leaf in found]  # a solver may compute with captured Tensors, which are constants here
        for leaf, spec in zip(found, unknowns, strict=True):
            if spec_of(leaf).shape != spec.shape:
                raise ImplicitError(f"the linear solver of {self.name} returned {spec_of(leaf)} for {spec}, at {here()}.")
        return tuple([np.asarray(leaf).astype(spec.dtype)[()] for leaf, spec in zip(found, unknowns, strict=True)])


def _compute(*arrays: Any, system: System) -> tuple[Any, ...]:
    count = len(system.sides[0])
    return system.computed(arrays[:count], system.fill(arrays[count:]))


def _pull(gs: Any, out: Any, arrays: Leaves, system: System) -> list[Any]:
    """Return the cotangents `w = J^-T g` and `-w^T dJ u`: the derivative of `f(x; p) = b` at the solution `u`."""
    count = len(system.sides[0])
    ws = list(replace(system, transposed=not system.transposed).solve(gs, system.fill(arrays[count:])))
    rest = arrays[count:]
    if not rest:
        return ws
    return ws + pull_leaves(lambda *live: system.image(out, system.fill(live)), rest, [-w for w in ws])


def _push(ts: Leaves, out: Any, arrays: Leaves, system: System) -> tuple[Any, ...]:
    """Return the tangent `du = J^-1 (db - dJ u)`."""
    count = len(system.sides[0])
    rest, bs = arrays[count:], ts[:count]
    if any(t is not None for t in ts[count:]):
        moved = push_leaves(lambda *live: system.image(out, system.fill(live)), rest, ts[count:])
        bs = [-t if b is None else b - t for b, t in zip(bs, moved, strict=True)]
    return system.solve(with_zeros(bs, arrays[:count]), system.fill(rest))


def _batch(primitive: Primitive, size: int, values: Leaves, batched: Sequence[bool], params: Mapping[str, Any]) -> Any:
    """Solve for all right-hand sides at once if they share one matrix, and otherwise example by example."""
    system: System = params["system"]
    count = len(system.sides[0])
    if not size or any(batched[count:]) or not system.dense or any(isinstance(v, Recorded) for v in values):
        return one_by_one(primitive, size, values, batched, params)
    system.check_square()
    rhs, unknowns = system.sides
    rows = [[v[i] if b else v for v, b in zip(values[:count], batched, strict=False)] for i in range(size)]
    bs = np.stack([packed(row, rhs, system.transposed, system.name) for row in rows], axis=1)
    xs = np.linalg.solve(system._matrix(system.fill(values[count:])), bs)
    found = [unpacked(x, unknowns, system.transposed) for x in xs.T]
    return tuple([np.stack(column) for column in zip(*found, strict=True)])


LINEAR_SOLVE = SolverPrimitive(
    System,
    name="linear_solve",
    compute=_compute,
    pull=_pull,
    push=_push,
    spec=lambda *specs, system: system.sides[1],
    doc="the solution of J u = b, where J is the Jacobian of a function",
    batch=_batch,
    linear_by=lambda params: range(len(params["system"].sides[0])),
)
"""`u = J^-1 b`. Its arguments are the leaves of `b` and the `LIVE` entries of the point of its system."""


def _size(specs: Sequence[ArraySpec]) -> int:
    return sum([spec.size * (2 if spec.dtype.kind == "c" else 1) for spec in specs])


def packed(leaves: Leaves, specs: Sequence[ArraySpec], conjugate: bool, name: str) -> Any:
    """Return leaves as one flat vector of float64. Complex numbers become pairs; `conjugate` (for cotangents) conjugates them.

    With this convention the matrix of the transposed map is the transposed matrix, also for functions that are not holomorphic.

    Raises:
        UnsupportedError: a leaf is a Tensor that is not an argument.
    """
    parts = []
    for leaf, spec in zip(leaves, specs, strict=True):
        if isinstance(leaf, Recorded):
            raise UnsupportedError(
                f"{name} uses a Tensor that is no argument, at {here()}, where its derivative would be lost. "
                f"Pass it as a parameter of the solver."
            )
        flat = np.asarray(leaf).reshape(-1)
        if spec.dtype.kind == "c":
            parts += [flat.real, -flat.imag if conjugate else flat.imag]
        else:
            parts.append(flat.real)
    return np.concatenate([np.asarray(part, np.float64) for part in parts]) if parts else np.zeros(0)


def unpacked(vector: Any, specs: Sequence[ArraySpec], conjugate: bool) -> list[Any]:
    """Return the leaves of a vector made by `packed`."""
    leaves = []
    start = 0
    for spec in specs:
        part = vector[start : start + spec.size]
        start += spec.size
        if spec.dtype.kind == "c":
            imaginary = vector[start : start + spec.size]
            start += spec.size
            part = part - 1j * imaginary if conjugate else part + 1j * imaginary
        leaves.append(part.astype(spec.dtype).reshape(spec.shape)[()])
    return leaves


def custom_linear_solve(
    matvec: Callable[..., Any],
    b: Any,
    solve: Solve = None,
    transpose_solve: Callable[..., Any] | None = None,
    symmetric: bool = False,
    params: tuple[Any, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Return the solution `x` of `matvec(x) = b`, computed by any solver, and differentiable in `b` and the inputs of `matvec`.

    A cotangent `g` of `x` gives `w = A^-T g` for `b` and `-w^T dA x` for the parameters. The solver itself is not
    differentiated.

    Args:
        matvec: `matvec(x, *params)`, a linear function of a pytree like `b`. It may capture Tensors. Solvers called in
            `matvec`, and code that cannot be traced, are assumed to be linear; `functad.testing.check_rules(matvec, x,
            linear=True)` tests this with numbers.
        b: the right-hand side, an array or a pytree of arrays.
        solve: `solve(matvec, b, *params)`, called with plain values; this `matvec` is a function of `x` alone. A name selects a
            solver: `dense`, `cg`, or SciPy's `gmres` or `bicgstab`. Default: the matrix is built for up to 256 unknowns; larger
            systems use `gmres`, or `cg` if they are symmetric.
        transpose_solve: the same for the transposed system, which reverse-mode derivatives solve; its `matvec` is the product
            with the transposed matrix. Default: `solve` if the system is symmetric, and otherwise a solver chosen by size as
            above.
        symmetric: the matrix is symmetric (Hermitian, if complex).
        params: further arguments of `matvec`, `solve` and `transpose_solve`, arrays or pytrees; the solution is differentiable
            with respect to them.
        options: keyword arguments of a solver selected by name: `rtol`, `atol`, `maxiter` and further SciPy options.

    Returns:
        The solution, a pytree like `b`.

    Raises:
        NotLinearError: `matvec` is not linear in `x`.
        ImplicitError: the system is singular, or was not solved.
        InputError: `b` is not a pytree of floating-point arrays.
        MissingPackageError: the solver needs SciPy, which is not installed.

    Example:
        >>> import numpy as np, functad
        >>> def f(A, b):
        ...     return np.sum(functad.custom_linear_solve(lambda x: A @ x, b))
        >>> functad.grad(f, 1)(np.array([[2.0, 0.0], [1.0, 4.0]]), np.ones(2))
        array([0.375, 0.25 ])
    """
    leaves, structure = flatten(b)
    bs = [inexact(value_of(leaf), "b", matvec) for leaf in leaves]
    own = callable(solve)
    method = Method(None if own else solve, options or {}, symmetric, None, structure)
    specs = tuple([strong_spec(leaf) for leaf in bs])
    given, params_structure = flatten(params)
    values = [value_of(leaf) for leaf in given]

    def f(*xs: Any) -> list[Any]:
        return structure.flatten_like(matvec(structure.unflatten(xs), *params_structure.unflatten(values)), "matvec(x)")

    if own:
        method = replace(method, structured=(solve, transpose_solve), params=params_structure)  # type: ignore[arg-type]
    elif transpose_solve is not None:
        raise InputError(f"custom_linear_solve with transpose_solve= needs solve= to be a function too, at {here()}.")
    points = [np.zeros(spec.shape, spec.dtype)[()] for spec in specs]
    closed = Closed(*close(linear_list("custom_linear_solve", matvec, f, specs)))
    _check_no_constant(matvec, closed, [*points, *map(innermost, closed.captured)])
    common = [np.result_type(spec.dtype, out.dtype) for spec, out in zip(specs, closed.expressions.results, strict=True)]
    if common != [spec.dtype for spec in specs]:  # for example a complex matrix and a real right-hand side
        cast = structure.unflatten([leaf.astype(dtype) for leaf, dtype in zip(bs, common, strict=True)])
        return custom_linear_solve(matvec, cast, solve, transpose_solve, symmetric, params, options)
    product, others = (First(closed, len(values)), values) if own and values else (closed, [])
    system = System(name_of(matvec), product, specs, tuple(map(strong_spec, closed.expressions.results)), method)
    return structure.unflatten(system.solve(bs, [*points, *closed.captured, *others]))


def _check_no_constant(matvec: Callable[..., Any], closed: Closed, values: Leaves) -> None:
    """Raise `NotLinearError` if `matvec(0)` is not zero. Without values nothing is checked."""
    if any(isinstance(value, ArraySpec) for value in values):
        return
    with np.errstate(all="ignore"):
        found = closed(*values)
    if any(np.any(innermost(leaf) != 0) for leaf in found):
        raise NotLinearError(
            f"custom_linear_solve of {name_of(matvec)}, called at {here()}: matvec(0) is not zero, so a constant is added. "
            f"Take it to the right-hand side."
        )


def known(leaf: Any, function: Any) -> Any:
    """Return the value of a leaf that a solver returned.

    Raises:
        UnsupportedError: the leaf has no value, because the solver captured a Tensor of an abstract trace.
    """
    value = innermost(leaf)
    if isinstance(value, ArraySpec):
        raise UnsupportedError(
            f"{name_of(function)} computes with a Tensor without a value that is no argument, at {here()}, so it cannot be "
            f"run. Pass it as a parameter."
        )
    return value


def inexact(leaf: Any, what: str, function: Any) -> Any:
    """Return an array or number in floating point."""
    leaf = numpy_values(leaf, what)
    kind = str(getattr(leaf, "dtype", np.dtype(type(leaf)) if type(leaf) in PYTHON_SCALARS else np.dtype(object)).kind)
    if kind not in "biufc":
        raise InputError(f"{what} of {name_of(function)} holds a {type(leaf).__name__}, not an array or a number, at {here()}.")
    if isinstance(leaf, Recorded):
        return leaf
    return np.array(leaf, dtype=None if kind in "fc" else np.float64)[()]
