"""Functions of flat arrays with derivatives; each is evaluated once per point, even if SciPy asks repeatedly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.chunks.compute import compute, is_lazy
from functad.errors import ImplicitError, NonScalarError, OutputError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, shape_of, spec_of
from functad.places import here, name_of
from functad.tracing.trace import Recorded
from functad.transforms.grad import gradient_function, pulled_back
from functad.transforms.jacobian import of_identity, pushed_size
from functad.transforms.leaves import Linearized
from functad.transforms.ravel import ravel
from functad.transforms.transform import Selection

Array = np.ndarray[Any, np.dtype[np.float64]]
Linear = Callable[[Any], Any]


class Linearised:
    """A function from a flat array to an array, linearised at one point: its value and `t -> J t`, from one run.

    Attributes:
        value: the value at the point.
    """

    def __init__(self, f: Callable[[Any], Any], x: Array, function: object, transform: str) -> None:
        self._x = x.copy()
        self._push = Linearized(lambda own: [f(own)], [self._x], transform, function)
        self.value = self._push.values[0]

    def __call__(self, t: Any) -> Any:
        """Return `J t`."""
        found = self._push([t])[0]
        return found if isinstance(found, Recorded) else np.array(found, np.float64)

    def matrix(self) -> Array:
        """Return `J`, with many directions in one forward pass."""
        recorder = self._push.recorder
        width = pushed_size(recorder) // 4
        rows = of_identity(recorder, [self._x], 0, lambda ts: [self(ts[0])], None if recorder.monitor is None else 1, width)
        m = np.size(self.value)
        return np.ascontiguousarray(np.reshape(rows[0], (-1, m)).T) if rows else np.zeros((m, 0))


class Objective:
    """A function from a flat array to a number, with gradient, Hessian and Hessian-vector products.

    Value and gradient at a point come from one run of the function. Its trace is kept until the next point.

    Attributes:
        failures: the errors of solvers inside the function, at points after the first one. At such a point the value is
            infinite, so that SciPy takes a shorter step. `None`: the errors are raised.
    """

    def __init__(
        self,
        f: Callable[[Any], Any],
        function: Callable[..., Any],
        transform: str,
        *,
        differentiate: bool = True,
        failures: list[ImplicitError] | None = None,
    ) -> None:
        self._f = _returning_a_number(f, function, transform)
        self._differentiate = differentiate
        self._function, self._transform = function, transform
        self.failures = failures
        self._started = False
        self._gradient = gradient_function(Selection(transform, self._f, 0, None))
        self._at: Array | None = None
        self._value = 0.0
        self._pull: Any = None
        self._grad: Array | None = None
        self._line: Linearised | None = None

    def _go_to(self, x: Any) -> None:
        x = np.asarray(x, np.float64)
        if self._at is not None and (x == self._at).all():
            return
        x = x.copy()  # SciPy writes the next point into the same memory
        self._at = self._grad = self._line = self._pull = None
        try:
            if self._differentiate:
                value, self._pull = pulled_back(self._transform, self._f, (x,))
            else:
                value = self._f(x.copy())
        except ImplicitError as error:
            if self.failures is None or not self._started:
                raise
            self.failures.append(error)
            value, self._grad = np.inf, np.zeros(x.shape)
        if is_lazy(value):  # one pass over the data gives both
            value, self._grad = compute(value, None if self._pull is None else self._pull(1.0)[0])
        self._value, self._started = float(value), True
        self._at = x

    def fun(self, x: Any) -> float:
        """Return the value at a point."""
        self._go_to(x)
        return self._value

    def jac(self, x: Any) -> Array:
        """Return the gradient at a point, shape `(n,)`."""
        self._go_to(x)
        if self._grad is None:
            pull, self._pull = self._pull, None  # the trace is no longer needed
            self._grad = compute(self._gradient(self._at) if pull is None else pull(1.0)[0])
        return self._grad.copy()

    def _direction(self, x: Any) -> Linearised:
        self._go_to(x)
        if self._line is None:
            assert self._at is not None
            self._line = Linearised(self._gradient, self._at, self._function, self._transform)
        return self._line

    def hess(self, x: Any) -> Array:
        """Return the Hessian at a point, shape `(n, n)`."""
        matrix: Array = compute(self._direction(x).matrix())
        return matrix

    def hessp(self, x: Any, p: Any) -> Array:
        """Return the product of the Hessian at a point with a vector `p`; a further vector at the same point costs one pass."""
        product: Array = compute(self._direction(x)(np.asarray(p, np.float64).reshape(-1)))
        return product


def _returning_a_number(f: Callable[[Any], Any], function: Callable[..., Any], transform: str) -> Callable[[Any], Any]:
    """Return `f` with a check of its result that runs before a transform reads the result."""

    @functools.wraps(function)  # messages of transforms name `function`
    def checked(x: Any) -> Any:
        value = f(x)
        numeric = type(value) in PYTHON_SCALARS or (hasattr(value, "dtype") and hasattr(value, "shape"))
        if numeric and shape_of(value) == () and dtype_of(value).kind in "biuf":
            return value
        found = spec_of(value) if numeric else f"a {type(value).__name__}"
        raise NonScalarError(
            f"{transform} needs a function that returns one real number, but {name_of(function)}, called at {here()}, "
            f"returned {found}. Reduce it (np.sum, np.mean); for residuals whose squares are to be small, use "
            f"functad.optimize.least_squares."
        )

    return checked


class Residuals:
    """A function from a flat array to an array, or a pytree of arrays that is flattened, with its Jacobian.

    Attributes:
        function: the user's function, for messages.
        transform: the name of the called function of `functad.optimize`.
    """

    def __init__(
        self, f: Callable[[Any], Any], function: Callable[..., Any], transform: str, *, differentiate: bool = True
    ) -> None:
        self.function = function
        self.transform = transform
        self._differentiate = differentiate
        self._raw = f
        self._at: Array | None = None
        self._value: Any = None
        self._forward: Linearised | None = None
        self._pull: Any = None
        self._jac: Array | None = None

    def flat(self, x: Any) -> Any:
        """Return the value of the function as a flat array, a Tensor if `x` is a Tensor."""
        return ravel(self._raw(x))[0]

    def _pulled(self, x: Any) -> Any:
        return pulled_back(self.transform, functools.wraps(self.function)(lambda own: self.flat(own)), (x,))

    def _linearised(self, x: Array) -> Linearised:
        return Linearised(self.flat, x, self.function, self.transform)

    def _go_to(self, x: Any) -> None:
        x = np.asarray(x, np.float64)
        if self._at is not None and (x == self._at).all():
            return
        x = x.copy()
        wide = self._value is not None and len(self._value) < len(x)
        self._at = self._jac = self._forward = self._pull = None
        if not self._differentiate:
            value = self.flat(x.copy())
        elif wide:  # fewer results than unknowns: one backward pass per result
            value, self._pull = self._pulled(x)
        else:
            self._forward = self._linearised(x)
            value = self._forward.value
        if dtype_of(value).kind == "c":
            raise OutputError(
                f"{self.transform} of {name_of(self.function)}, called at {here()}: the result is complex, but SciPy's "
                f"methods know real numbers only. Return its real and imaginary parts: (z.real, z.imag)."
            )
        self._value = np.array(compute(value), np.float64)
        self._at = x

    def fun(self, x: Any) -> Array:
        """Return the values at a point, shape `(m,)`."""
        self._go_to(x)
        value: Array = self._value.copy()
        return value

    def jac(self, x: Any) -> Array:
        """Return the Jacobian at a point, shape `(m, n)`."""
        self._go_to(x)
        if self._jac is None:
            m, n = len(self._value), np.shape(x)[0]
            if self._pull is not None or m < n:
                pull = self.backward(x)
                self._jac = np.concatenate([np.zeros((0, n)), *compute([pull(row)[None] for row in np.eye(m)])])
            else:
                self._jac = compute(self.forward(x).matrix())
        return self._jac.copy()

    def forward(self, x: Any) -> Linearised:
        """Return `t -> J t` at a point."""
        self._go_to(x)
        if self._forward is None:
            assert self._at is not None
            self._forward = self._linearised(self._at)
        return self._forward

    def backward(self, x: Any) -> Linear:
        """Return `g -> J^T g` at a point."""
        self._go_to(x)
        if self._pull is None:
            self._pull = self._pulled(self._at)[1]
        pull = self._pull
        return lambda g: pull(np.asarray(g, np.float64).reshape(-1))[0]
