"""Functions of matrices: `expm`, `logm`, `sqrtm`, powers and others, differentiated by their Frechet derivatives.

The Frechet derivative of f at a is the upper right block of `f([[a, e], [0, a]])` (R. Mathias, "A chain rule for matrix
functions and applications", 1996; N. Higham, "Functions of Matrices", 2008, theorem 3.6). It needs evaluations of f only.
Its transpose is the Frechet derivative at the transposed matrix. `sqrtm` and `signm` use Sylvester equations instead (Higham,
chapters 6 and 5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from functad.adoption.scipy_functions import of_tensors
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.primitives.batching import everywhere, stacked
from functad.primitives.kinds import general
from functad.primitives.linalg.products import as_array
from functad.primitives.linalg.solve import inexact, same_inexact
from functad.primitives.operands import innermost
from functad.scipy.matrices.checks import over_stacks, refusal, square
from functad.scipy.matrices.equations import solve_sylvester
from functad.scipy.matrices.schur_parlett import SCHUR_PARLETT, centres, groups_of, terms_for
from functad.transforms.outside import trial
from functad.transforms.taylor import taylor


def _block(a: Any, e: Any) -> Any:
    """Return `[[a, e], [0, a]]` for square matrices."""
    shape = np.broadcast_shapes(shape_of(a), shape_of(e))
    a, e = np.broadcast_to(a, shape), np.broadcast_to(e, shape)
    above, below = np.concatenate((a, e), -1), np.concatenate((np.zeros(shape, dtype_of(a)), a), -1)
    return np.concatenate((above, below), -2)


def _change(function: Callable[[Any], Any], a: Any, e: Any, out: Any) -> Any:
    """Return the Frechet derivative of a matrix function at `a`, with value `out`, in the direction `e`."""
    n = shape_of(a)[-1]
    found = function(_block(a, e))[..., :n, n:]
    real = dtype_of(found).kind == "c" and all(dtype_of(x).kind != "c" for x in (a, e, out))
    return found.real if real else found  # the imaginary part is rounding


def _positive_samples(array: Any) -> Any:
    """Return triangular matrices with real logarithms, roots and powers, if the array is real."""
    return [((_positive(array, *shape),), {}) for shape in ((3, 3), (2, 2, 2), (1, 1))]


def _positive(array: Any, *shape: int) -> Any:
    a = array(*shape, low=-0.3, high=0.3)
    return np.triu(a) + 2 * np.eye(shape[-1], dtype=a.dtype)


def _matrix_function(name: str, function: Callable[[Any], Any], *, value_dependent: bool = False, **rules: Any) -> Any:
    """Register a function of square matrices.

    Args:
        name: SciPy's name.
        function: computes the function of one matrix.
        value_dependent: the result is complex for some real matrices.
        rules: `vjp` and `jvp`, to override the generic Frechet rules; `samples`, for functions that are constant on positive
            matrices.
    """
    found: Any = general(
        function,
        rules.get("vjp", lambda g, a, out: _change(found, a.mT, g, out)),
        jvps=(rules.get("jvp", lambda t, a, out: _change(found, a, t, out)),),
        compute=over_stacks(lambda a: function(a)),
        spec=same_inexact,
        samples=rules.get("samples", _positive_samples),
        name=name,
        internal=True,
        value_dependent=value_dependent,
        doc="df = f([[a, da], [0, a]]), of which it is the block above the diagonal",
        batch=stacked,
    )
    return found


def _floating(a: Any) -> Any:
    return np.asarray(a, inexact(a.dtype))


EXPM = _matrix_function("expm", lambda a: scipy.linalg.expm(_floating(a)))


def _logarithm(a: Any) -> Any:
    """Return the logarithm; float32 is computed in float64, because SciPy warns about every float32 input."""
    with trial():  # SciPy draws random numbers to estimate norms
        found = scipy.linalg.logm(np.asarray(a, np.result_type(a, float)))
    kind = inexact(a.dtype)
    return found.astype(np.result_type(kind, np.complex64) if found.dtype.kind == "c" else kind)


LOGM = _matrix_function("logm", _logarithm, value_dependent=True)


def _root_vjp(g: Any, out: Any) -> Any:
    """The solution of `x^T y + y x^T = g`, where x is the root."""
    return solve_sylvester(out.mT, out.mT, g)


def _root_jvp(t: Any, out: Any) -> Any:
    """The solution of `x y + y x = t`, where x is the root."""
    return solve_sylvester(out, out, t)


SQRTM = _matrix_function(
    "sqrtm", lambda a: scipy.linalg.sqrtm(_floating(a)), value_dependent=True, vjp=_root_vjp, jvp=_root_jvp
)


def _sign_vjp(g: Any, a: Any, out: Any) -> Any:
    """`y - s^T y s^T` with `n^T y + y n^T = g`, where s is the sign and `n = s a`."""
    n = (out @ a).mT
    y = solve_sylvester(n, n, g)
    return y - out.mT @ y @ out.mT


def _sign_jvp(t: Any, a: Any, out: Any) -> Any:
    """The solution of `n y + y n = t - s t s`, where s is the sign and `n = s a`."""
    n = out @ a
    return solve_sylvester(n, n, t - out @ t @ out)


def _signed_samples(array: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return matrices with eigenvalues of both signs; otherwise the sign is the identity or its negative."""
    return [((_positive(array, n, n) @ np.diag([1.0, -1.0, 1.0][:n]),), {}) for n in (3, 2)]


SIGNM = _matrix_function(
    "signm",
    lambda a: scipy.linalg.signm(_floating(a)),
    vjp=_sign_vjp,
    jvp=_sign_jvp,
    samples=_signed_samples,
)


def _power_vjp(g: Any, a: Any, p: Any, out: Any) -> tuple[Any, Any]:
    """The Frechet derivative of the power for the matrix, and `sum(g log(a) a^p)` for the exponent."""
    return _change(lambda x: POWER(x, p), a.mT, g, out), (g * (LOGM(a) @ out)).sum((-2, -1)).real


def _power_compute(a: Any, p: Any) -> Any:
    p = np.broadcast_to(p, a.shape[:-2])
    with trial():
        found = [scipy.linalg.fractional_matrix_power(_floating(a[place]), float(p[place])) for place in np.ndindex(p.shape)]
    out = np.array(found).reshape(a.shape)
    # SciPy computes fractional powers of float32 in float64.
    return out.astype(same_inexact(a).dtype) if out.dtype.kind == "f" else out


POWER: Any = general(
    _power_compute,
    _power_vjp,
    joint=True,
    jvps=(
        lambda t, a, p, out: _change(lambda x: POWER(x, p), a, t, out),
        lambda t, a, out: as_array(t)[..., None, None] * (LOGM(a) @ out),
    ),
    name="fractional_matrix_power",
    samples=lambda array: [((_positive(array, 3, 3), 0.3), {}), ((_positive(array, 2, 2), 1.7), {})],
    spec=lambda a, p: same_inexact(a),
    internal=True,
    value_dependent=True,
    doc="that of other functions of matrices; by the exponent log(a) a^p",
    batch=lambda primitive, size, values, batched, params: primitive(*everywhere(values, batched, size)),
)


# Functions of `scipy.linalg`


@of_tensors("scipy.linalg")
def expm(A: Any) -> Any:
    """Return the exponential of square matrices."""
    return EXPM(square(A, False))


@of_tensors("scipy.linalg")
def expm_frechet(A: Any, E: Any, method: Any = None, compute_expm: bool = True, check_finite: bool = True) -> Any:
    """Return the exponential of a matrix, and its derivative in the direction `E`."""
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"Unknown implementation {method}")
    A, E = square(A, check_finite), square(E, check_finite)
    if shape_of(A) != shape_of(E):
        raise ValueError("expected A and E to be the same shape")
    value = EXPM(A)
    change = _change(EXPM, A, E, value)
    return (value, change) if compute_expm else change


@of_tensors("scipy.linalg")
def logm(A: Any, disp: Any = True) -> Any:
    """Return the principal logarithm of square matrices."""
    return _alone("logm", disp, LOGM(square(A, False)))


@of_tensors("scipy.linalg")
def sqrtm(A: Any, disp: Any = True, blocksize: Any = None) -> Any:
    """Return the principal square root of square matrices."""
    return _alone("sqrtm", disp, SQRTM(square(A, False)))


@of_tensors("scipy.linalg")
def signm(A: Any, disp: Any = True) -> Any:
    """Return the sign function of square matrices without imaginary eigenvalues."""
    return _alone("signm", disp, SIGNM(square(A, False)))


def _alone(name: str, disp: Any, value: Any) -> Any:
    """Return the value; raise if the caller also requests an error estimate."""
    if disp is False or disp == 0:
        raise refusal(f"{name} with disp=False", "The estimate of the error has none: leave disp out.")
    return value


@of_tensors("scipy.linalg")
def fractional_matrix_power(A: Any, t: Any) -> Any:
    """Return a power of a square matrix."""
    return POWER(square(A, False), t)


@of_tensors("scipy.linalg", within=True)
def funm(A: Any, func: Any, disp: bool = True) -> Any:
    """Return the function of a square matrix from the Taylor series of `func` at its eigenvalues; `func` maps Tensors.

    The eigenvalues may be equal. `func` must be analytic near them.
    """
    a = square(A, False)
    values = centres(a)
    order = terms_for(shape_of(a)[-1]) - 1
    with np.errstate(all="ignore"):  # high coefficients overflow at eigenvalues near a singularity
        terms = taylor(func, (values,), ([np.ones(shape_of(values), dtype_of(values))],), order)
    series = np.stack(terms, -1)
    value = _alone("funm", disp, SCHUR_PARLETT(a, values, groups_of(values, series), series))
    if dtype_of(a).kind == "c":
        return value
    plain = innermost(value)
    scale = (1e3 if dtype_of(value) == np.complex128 else 10.0) * float(np.finfo(dtype_of(value)).eps)
    if isinstance(plain, ArraySpec) or np.abs(plain.imag).max(initial=0.0) > scale * np.abs(plain).max(initial=1.0):
        return value
    return value.real
