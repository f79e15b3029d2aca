"""Initial value problems as a primitive: SciPy solves them; their derivatives solve further differential equations.

Let `dy/dt = f(y, t, p)`. A tangent `s` of `y` satisfies the variational equation `ds/dt = f_y s + f_p dp`. A cotangent `a` of
`y` satisfies the adjoint equation `da/dt = -f_y^T a`, solved backward in time, with a jump `g_i` at each output time. The
cotangent of `p` is the integral of `f_p^T a` (L. Pontryagin et al., "The Mathematical Theory of Optimal Processes", 1962; R.
Chen et al., "Neural Ordinary Differential Equations", 2018). The primitive `ODE` also solves the variational equation and has
derivatives of every order. The primitive `ADJOINT` solves the adjoint equation and can be differentiated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from functad.errors import ImplicitError, InputError, UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, strong_spec
from functad.implicit.linear_solve import LIVE, Leaves, filled, packed, split, unpacked
from functad.implicit.traced_once import TracedOnce
from functad.places import here
from functad.primitives.kinds import SolverPrimitive
from functad.process import optional
from functad.tracing.trace import new_arrays_recorded_by
from functad.transforms.forward import with_zeros
from functad.transforms.grad import pulled_back
from functad.transforms.leaves import push_leaves, pushed, replaced
from functad.transforms.reverse import zero_tangent

IMPLICIT = ("Radau", "BDF", "LSODA")
"""The SciPy methods that use the Jacobian of the right-hand side."""
METHODS = ("RK45", "RK23", "DOP853", *IMPLICIT)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """An initial value problem.

    Attributes:
        name: the name of the user's function, for expression lists and messages.
        f: `f(*ys, t, *ps)`; it returns the list of time derivatives of the state leaves.
        ys: the specs of the state leaves.
        count: the number of output times.
        method: the method of SciPy's `solve_ivp`.
        options: the keyword arguments of `solve_ivp`.
        point: state leaves, output times and parameter leaves; `LIVE` in place of the arguments of the primitive.
    """

    name: str
    f: Callable[..., list[Any]]
    ys: tuple[ArraySpec, ...]
    count: int
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    point: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return self.name

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """The specs of the trajectory."""
        return tuple([ArraySpec((self.count, *spec.shape), spec.dtype) for spec in self.ys])

    def fill(self, live: Leaves) -> tuple[list[Any], Any, list[Any]]:
        """Return the leaves of the state, the output times, and the parameters."""
        leaves, n = filled(self.point, live), len(self.ys)
        return leaves[:n], leaves[n], leaves[n + 1 :]

    def trajectory(self, ys: Leaves, ts: Any, ps: Leaves) -> tuple[Any, ...]:
        """Return the state leaves at the output times, recorded if an argument is a Tensor."""
        point, live = split([*ys, ts, *ps])
        found: tuple[Any, ...] = ODE(*live, problem=replace(self, point=point, count=shape_of(ts)[0]))
        return found

    def beside(self, f: Callable[..., list[Any]], ys: tuple[ArraySpec, ...], copies: int) -> Problem:
        """Return a problem with the right-hand side `f`, the state `ys` and the same tolerances.

        The first leaves of the state are `copies` copies of the original state, which keep its absolute tolerances. The other
        leaves get the smallest tolerance.
        """
        atol = self.options["atol"]
        if isinstance(atol, tuple):
            least = min(float(np.min(a)) for a in atol)
            atol = (*atol * copies, *[least] * (len(ys) - copies * len(atol)))
        return replace(self, f=f, ys=ys, options={**self.options, "atol": atol})

    # The methods below take plain values only.

    def tolerances(self) -> dict[str, Any]:
        """Return the options of `solve_ivp`, with one absolute tolerance per element of the state."""
        atol = self.options["atol"]
        if isinstance(atol, tuple):
            whole = [np.broadcast_to(a, spec.shape) for a, spec in zip(atol, self.ys, strict=True)]
            whole = [a * (1 + 1j) if spec.dtype.kind == "c" else a for a, spec in zip(whole, self.ys, strict=True)]
            atol = packed(whole, self.ys, False, self.name)
        return {**self.options, "atol": atol}

    def vector_field(self, ps: Leaves) -> Callable[[float, Any], Any]:
        """Return the right-hand side as a function of time and a flat real vector."""

        def derivative(t: float, vector: Any) -> Any:
            return packed(self.f(*unpacked(vector, self.ys, False), np.float64(t), *ps), self.ys, False, self.name)

        return derivative

    def jacobian(self, ps: Leaves) -> Callable[[float, Any], Any]:
        """Return the exact Jacobian of the vector field, for the implicit methods."""

        def matrix(t: float, vector: Any) -> Any:
            def f(*ys: Any) -> Any:
                return self.f(*ys, np.float64(t), *ps)

            f.__qualname__ = self.name  # messages name the user's function
            pull = pulled_back("odeint", f, tuple(unpacked(vector, self.ys, False)))[1]
            basis = np.eye(vector.size)
            return np.stack([packed(pull(unpacked(e, self.ys, True)), self.ys, True, self.name) for e in basis])

        return matrix

    def solved(self, ys: Leaves, ts: Any, ps: Leaves, *, dense: bool = False) -> Any:
        """Solve the problem for plain values by `solve_ivp`, and return its result.

        Raises:
            InputError: the output times do not increase or decrease.
            ImplicitError: the solver did not reach the last output time.
        """
        steps = np.diff(ts)
        if not ((steps > 0).all() or (steps < 0).all()):
            raise InputError(f"odeint of {self.name}, at {here()}: the times t must strictly increase, or strictly decrease.")
        exact = {"jac": self.jacobian(ps)} if self.method in IMPLICIT else {}
        start = packed(ys, self.ys, False, self.name)
        times = None if dense else ts
        with new_arrays_recorded_by(None):  # inside an open trace, adopted SciPy code would create Tensors
            found = optional("scipy.integrate", "odeint").solve_ivp(
                self.vector_field(ps),
                (float(ts[0]), float(ts[-1])),
                start,
                method=self.method,
                t_eval=times,
                dense_output=dense,
                **exact,
                **self.tolerances(),
            )
        if found.status != 0 or not np.isfinite(found.y).all():
            raise ImplicitError(
                f"odeint of {self.name}, at {here()}: {self.method} did not get to t = {ts[-1]:.6g}. {found.message} For stiff "
                f"equations use method='BDF' or 'Radau'."
            )
        return found

    def curve(self, ys: Leaves, ts: Any, ps: Leaves) -> Callable[[Any], Any]:
        """Solve the problem for plain values, and return its state as a function of time."""
        solution: Any = self.solved(ys, ts, ps, dense=True).sol if self.count > 1 else None

        def at(t: Any) -> Any:
            with new_arrays_recorded_by(None):
                return solution(t)

        return at

    def computed(self, ys: Leaves, ts: Any, ps: Leaves) -> tuple[Any, ...]:
        """Return the trajectory for plain values."""
        if len(ts) == 1:
            return tuple([np.asarray(y)[None] for y in ys])
        rows = [unpacked(row, self.ys, False) for row in self.solved(ys, ts, ps).y.T]
        return tuple([np.stack(column) for column in zip(*rows, strict=True)])


def _variational(problem: Problem, live: Leaves, ts: Leaves) -> tuple[Problem, list[Any], Any, list[Any]]:
    """Return the problem with its variational equation, the initial values, the times and the parameters.

    Args:
        problem: the initial value problem.
        live: the values of the `LIVE` entries of its point.
        ts: the tangents of `live`; `None` means zero.
    """
    ys, times, ps = problem.fill(live)
    n, given = len(ys), _by_place(problem, ts)
    moving = [i - n - 1 for i in sorted(given) if i > n]

    def f(*leaves: Any) -> list[Any]:
        state, change, t, own = leaves[:n], leaves[n : 2 * n], leaves[2 * n], leaves[2 * n + 1 :]
        own, tangents = own[: len(ps)], own[len(ps) :]
        leaves = (*state, t, *own)
        values, slopes = pushed(problem.f, leaves, [*change, None, *replaced([None] * len(ps), moving, tangents)])
        return [*values, *with_zeros(slopes, values)]

    starts = [given[i] if i in given else np.zeros(spec.shape, spec.dtype)[()] for i, spec in enumerate(problem.ys)]
    if n in given:
        starts = [s - given[n][0] * dy for s, dy in zip(starts, problem.f(*ys, times[0], *ps), strict=True)]
    both = problem.beside(TracedOnce(problem.name, f), problem.ys * 2, copies=2)
    return both, [*ys, *starts], times, [*ps, *[given[n + 1 + i] for i in moving]]


def _by_place(problem: Problem, ts: Leaves) -> dict[int, Any]:
    """Return the nonzero tangents of the `LIVE` entries by their positions in the point of a problem."""
    places = [i for i, value in enumerate(problem.point) if value is LIVE]
    return {place: t for place, t in zip(places, ts, strict=True) if t is not None}


def _push(ts: Leaves, out: Any, arrays: Leaves, problem: Problem) -> tuple[Any, ...]:
    """Return the tangents of the trajectory: `ds/dt = f_y s + f_p dp`, solved together with the state."""
    both, starts, times, given = _variational(problem, arrays, ts)
    n = len(problem.ys)
    found = list(both.trajectory(starts, times, given)[n:])
    t_times = _by_place(problem, ts).get(n)
    if t_times is not None:
        ps = given[: len(problem.point) - n - 1]
        slopes = [problem.f(*[y[i] for y in out], times[i], *ps) for i in range(problem.count)]
        found = [s + np.stack([t_times[i] * row[k] for i, row in enumerate(slopes)]) for k, s in enumerate(found)]
    return tuple(found)


def _pull(gs: Any, out: Any, arrays: Leaves, problem: Problem) -> list[Any]:
    """Return the cotangents by the adjoint equation, from the last output time to the first."""
    return list(ADJOINT(*gs, *out, *arrays, problem=problem))


States = Callable[[float, Any], list[Any]]
"""A function of time and an amount: the state leaves at this time, moved by this amount."""


def _swept(arrays: Leaves, problem: Problem, states: States, amount: Any) -> list[Any]:
    """Return the cotangents of the `LIVE` entries from the cotangents of a trajectory: the adjoint equation, solved backward.

    The state is not integrated backward, because this is unstable for stiff equations.

    Args:
        arrays: the cotangents of the trajectory, the trajectory, and the `LIVE` entries.
        problem: the initial value problem.
        states: the state between the output times, from the forward solution.
        amount: the second argument of `states`.
    """
    n, last = len(problem.ys), problem.count - 1
    gs, out, live = arrays[:n], arrays[n : 2 * n], arrays[2 * n :]
    ys, times, ps = problem.fill(live)
    active = [i for i, value in enumerate(problem.point[n + 1 :]) if value is LIVE and dtype_of(ps[i]).kind in "fc"]
    by_time = problem.point[n] is LIVE
    cotangents = _cotangents(problem, active)
    adjoint = [g[last] for g in gs]
    sums: list[Any] = [zero_tangent(ps[i]) for i in active]
    by_times: list[Any] = []
    for i in range(last, 0, -1):
        if by_time:
            by_times.append(_paired([g[i] for g in gs], problem.f(*[y[i] for y in out], times[i], *ps)))
        adjoint, more = _interval(problem, cotangents, states, amount, adjoint, times[i - 1 : i + 1][::-1], ps, active)
        sums = [a + b for a, b in zip(sums, more, strict=True)]
        if i > 1:
            adjoint = [a + g[i - 1] for a, g in zip(adjoint, gs, strict=True)]
    found: dict[int, Any] = {n + 1 + i: total for i, total in zip(active, sums, strict=True)}
    if by_time:
        first = -_paired(adjoint, problem.f(*ys, times[0], *ps)) if last else np.float64(0.0)
        found[n] = np.stack([first, *by_times[::-1]])
    if last:
        adjoint = [a + g[0] for a, g in zip(adjoint, gs, strict=True)]
    found |= dict(enumerate(adjoint))
    places = [i for i, value in enumerate(problem.point) if value is LIVE]
    return [found[i] if i in found else np.zeros(shape_of(a)) for i, a in zip(places, live, strict=True)]


def _paired(gs: Leaves, slopes: Leaves) -> Any:
    """Return the real inner product of cotangents and time derivatives: the derivative with respect to time."""
    return sum([np.sum(g * dy).real for g, dy in zip(gs, slopes, strict=True)])


def _cotangents(problem: Problem, active: Sequence[int]) -> TracedOnce:
    """Return `-f_y^T a` and `-f_p^T a` for the active parameters, as a function of `a`, time, parameters and state."""
    n = len(problem.ys)

    def cotangents(*leaves: Any) -> list[Any]:
        gs, t, own, state = leaves[:n], leaves[n], leaves[n + 1 : len(leaves) - n], leaves[len(leaves) - n :]

        def f(*given: Any) -> list[Any]:
            return problem.f(*given[:n], t, *replaced(own, active, given[n:]))

        f.__qualname__ = problem.name  # messages name the user's function
        pull = pulled_back("odeint", f, (*state, *[own[i] for i in active]))[1]
        return [-ct for ct in pull(list(gs))]

    return TracedOnce(problem.name, cotangents)


def _interval(
    problem: Problem,
    cotangents: TracedOnce,
    states: States,
    amount: Any,
    adjoint: Leaves,
    times: Any,
    ps: Leaves,
    active: Sequence[int],
) -> tuple[list[Any], list[Any]]:
    """Solve the adjoint equation over one interval.

    Args:
        problem: the initial value problem.
        cotangents: the right-hand side, from `_cotangents`.
        states: the state as a function of time and amount.
        amount: the second argument of `states`.
        adjoint: the cotangent of the state at the end of the interval.
        times: the end and the beginning of the interval.
        ps: the parameters.
        active: positions of the parameters to differentiate with respect to.

    Returns:
        The cotangent of the state at the beginning, and the contribution of the interval to the cotangents of the parameters.
    """
    n, k = len(adjoint), len(active)

    def slopes(*leaves: Any) -> list[Any]:
        t, own, amount = leaves[n + k], leaves[n + k + 1 : -1], leaves[-1]
        return cotangents(*leaves[:n], t, *own, *states(float(t), amount))

    zeros = [zero_tangent(ps[i]) for i in active]
    specs = (*problem.ys, *[strong_spec(zero) for zero in zeros])
    found = problem.beside(slopes, specs, copies=1).trajectory([*adjoint, *zeros], times, [*ps, amount])
    ends = [leaf[1] for leaf in found]
    return ends[:n], ends[n:]


def _adjoint(arrays: Leaves, problem: Problem) -> list[Any]:
    """Return the cotangents for plain values, with the state taken from the forward solution."""
    ys, times, ps = problem.fill(arrays[2 * len(problem.ys) :])
    solution = problem.curve(ys, times, ps)
    return _swept(arrays, problem, lambda t, amount: unpacked(solution(t), problem.ys, False), 0.0)


ODE = SolverPrimitive(
    Problem,
    name="odeint",
    compute=lambda *arrays, problem: problem.computed(*problem.fill(arrays)),
    pull=_pull,
    push=_push,
    spec=lambda *specs, problem: problem.specs,
    doc="the solution of a differential equation at given times",
)
"""The trajectory of an initial value problem. Its arguments are the `LIVE` entries of the point of the problem."""


def _varied(given: Leaves, problem: Problem, moving: Sequence[int]) -> list[Any]:
    """Return the tangents of the cotangents of `_swept`, for plain values.

    The adjoint equation uses the state `y(t) + e s(t)`, where `s` is the tangent of the state from the variational equation.
    The number `e` is zero and has the tangent one.

    Args:
        given: the tangents of the arguments of `_swept` at the positions `moving`, then all arguments.
        problem: the initial value problem.
        moving: positions of the arguments with tangents.
    """
    n, arrays = len(problem.ys), given[len(moving) :]
    ts = replaced([None] * len(arrays), moving, given[: len(moving)])
    varied, starts, times, ps = _variational(problem, arrays[2 * n :], ts[2 * n :])
    both = varied.curve(starts, times, ps)

    def states(t: float, amount: Any) -> list[Any]:
        values = unpacked(both(t), varied.ys, False)
        return [y + amount * s for y, s in zip(values[:n], values[n:], strict=True)]

    return push_leaves(
        lambda *own: _swept(own[:-1], problem, states, own[-1]), [*arrays, np.float64(0.0)], [*ts, np.float64(1.0)]
    )


def _push_adjoint(ts: Leaves, out: Any, arrays: Leaves, problem: Problem) -> tuple[Any, ...]:
    moving = tuple([i for i, t in enumerate(ts) if t is not None])
    return tuple(ADJOINT_VARIED(*[ts[i] for i in moving], *arrays, problem=problem, moving=moving))


def _pull_adjoint(gs: Any, active: tuple[int, ...], out: Any, arrays: Leaves, problem: Problem) -> list[Any]:
    """Return the derivatives of `<g, J w>` for the cotangents `w`.

    The derivative with respect to `g` is `J w`. The other derivatives are the tangent of `J^T g` along `w`, because second
    derivatives are symmetric.
    """
    n = len(problem.ys)
    along = list(_push(gs, arrays[n : 2 * n], arrays[2 * n :], problem))
    if max(active) < n:  # columns of a Jacobian, in a trace made for rows
        return [*along, *[np.zeros(shape_of(a)) for a in arrays[n:]]]
    moving = tuple(range(n, len(arrays)))
    second = ADJOINT_VARIED(*along, *gs, *arrays, problem=problem, moving=moving)
    return [*along, *[np.zeros(shape_of(a)) for a in arrays[n : 2 * n]], *second]


def _refuse_third(problem: Problem) -> Any:
    raise UnsupportedError(
        f"odeint of {problem.name}, at {here()}: its backward pass has no second derivative, which this third derivative "
        f"of the solution asks for. Take grad of jvp of jvp, whose inner passes go forward."
    )


ADJOINT = SolverPrimitive(
    Problem,
    name="odeint_adjoint",
    compute=lambda *arrays, problem: tuple(_adjoint(arrays, problem)),
    pull=_pull_adjoint,
    push=_push_adjoint,
    spec=lambda *specs, problem: tuple([strong_spec(spec) for spec in specs[2 * len(problem.ys) :]]),
    doc="the cotangents of an initial value problem for those of its trajectory",
)
"""The adjoint of a trajectory. Its arguments are the cotangents of the trajectory, the trajectory, and the `LIVE` entries."""

ADJOINT_VARIED = SolverPrimitive(
    Problem,
    name="odeint_adjoint_jvp",
    compute=lambda *arrays, problem, moving: tuple(_varied(arrays, problem, moving)),
    pull=lambda gs, arrays, problem, moving: _refuse_third(problem),
    push=lambda ts, arrays, problem, moving: _refuse_third(problem),
    spec=lambda *specs, problem, moving: tuple([strong_spec(spec) for spec in specs[len(moving) + 2 * len(problem.ys) :]]),
    doc="the tangents of the cotangents of an initial value problem",
)
"""The tangent of `ADJOINT`. Its arguments are the tangents at the positions `moving`, then all arguments of `ADJOINT`."""
