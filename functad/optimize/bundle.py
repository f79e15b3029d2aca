"""`scipy_bundle`: a function with exact derivatives in SciPy's form, for direct calls of SciPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from functad.errors import ImplicitError
from functad.optimize.bounds import flat_bounds
from functad.optimize.derivatives import Array, Objective
from functad.optimize.unknowns import Unknowns


class ScipyBundle(Objective):
    """A function of a pytree as functions of a flat float64 array, with exact derivatives. `scipy_bundle` returns it.

    Value and gradient at a point share one run of the function. All Hessian-vector products at a point share another run.

    Args:
        f, x0, args, kwargs: as for `scipy_bundle`.
        transform: the name of the function that the user called, for messages.
        differentiate: whether derivatives are needed.
        failures: a list that collects each `ImplicitError` of a solver inside `f`; the value is infinite at such a point.
            Errors at the first point, and all errors without a list, are raised.

    Attributes:
        x0: the start, shape `(n,)`.
        fun: `fun(x) -> float`.
        jac: `jac(x) -> (n,)`, the gradient.
        hess: `hess(x) -> (n, n)`.
        hessp: `hessp(x, p) -> (n,)`, the Hessian-vector product.
        unravel: converts a flat array to a pytree.

    Example:
        >>> import numpy as np
        >>> bundle = ScipyBundle(lambda p: (p["a"] - 1) ** 2 + p["b"] ** 4, {"a": 0.0, "b": 1.0})
        >>> bundle.jac(bundle.x0)
        array([-2.,  4.])
    """

    def __init__(
        self,
        f: Callable[..., Any],
        x0: Any,
        args: Any = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        transform: str = "scipy_bundle",
        differentiate: bool = True,
        failures: list[ImplicitError] | None = None,
    ) -> None:
        self.unknowns = Unknowns(x0, transform, f)
        rest = args if isinstance(args, tuple) else (args,)
        named, tree = dict(kwargs or {}), self.unknowns.tree

        @functools.wraps(f)  # messages of transforms name `f`
        def flat(x: Any) -> Any:
            return f(tree(x), *rest, **named)

        self.flat = flat
        super().__init__(flat, f, transform, differentiate=differentiate, failures=failures)
        self.x0: Array = self.unknowns.flat
        self.unravel: Callable[[Any], Any] = self.unknowns.restore

    def value_and_grad(self, x: Any) -> tuple[float, Array]:
        """Return value and gradient at a point, in SciPy's form for `jac=True`.

        Args:
            x: the point, an array of shape `(n,)`.

        Returns:
            A pair: a float, and an array of shape `(n,)`.
        """
        return self.fun(x), self.jac(x)

    def ravel(self, tree: Any) -> Array:
        """Return a pytree like the start as a flat array.

        Args:
            tree: a pytree with the structure and shapes of `x0`.

        Returns:
            A float64 array of shape `(n,)`.

        Raises:
            StructureError: the structure or a shape differs from `x0`.
        """
        return self.unknowns.flatten(tree, "tree")

    def bounds(self, bounds: Any) -> Any:
        """Return bounds on the pytree as `scipy.optimize.Bounds`: a pair `(low, high)` for each leaf, `None` for no bound.

        Args:
            bounds: a pytree like `x0`, or a prefix of it, with pairs `(low, high)` of arrays or numbers as leaves.

        Returns:
            A `scipy.optimize.Bounds` with arrays of shape `(n,)`.

        Raises:
            StructureError: the bounds do not fit the start.
        """
        return flat_bounds(bounds, self.unknowns)

    def __repr__(self) -> str:
        return f"ScipyBundle(n={np.size(self.x0)}, x0={self.unknowns.structure!r})"


def scipy_bundle(f: Callable[..., Any], x0: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> ScipyBundle:
    """Return a function in SciPy's form: value, gradient, Hessian and Hessian-vector products on flat arrays.

    Args:
        f: a function of NumPy code that returns one real number.
        x0: its first argument: an array, number, or pytree of them. Leaves of every floating-point dtype become float64.
        args: further positional arguments, passed unchanged.
        kwargs: keyword arguments, passed unchanged.

    Returns:
        A `ScipyBundle` with `fun`, `jac`, `hess`, `hessp`, `value_and_grad`, `x0`, `ravel`, `unravel` and `bounds`.

    Raises:
        InputError: a leaf of `x0` is not a floating-point number.
        NonScalarError: (by `fun`) the result of the function is not one real number.

    Example:
        >>> import numpy as np
        >>> import functad
        >>> from scipy import optimize
        >>> b = scipy_bundle(lambda p: np.sum((p["w"] - 3.0) ** 2) + p["c"] ** 2, {"w": np.zeros(2), "c": 1.0})
        >>> result = optimize.minimize(b.value_and_grad, b.x0, jac=True, method="L-BFGS-B")
        >>> functad.tree_map(lambda leaf: np.round(leaf, 6) + 0.0, b.unravel(result.x))
        {'c': np.float64(0.0), 'w': array([3., 3.])}
    """
    return ScipyBundle(f, x0, args, kwargs)
