"""Transformations that divide each element of a gradient by its typical size: the scalings of Adam, RMSprop and Adagrad."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from functad.expressions.spec import dtype_of
from functad.optimizers.transformations import GradientTransformation, fitted, map_alike, real_dtype, remembering
from functad.trees import tree_map


class ScaleByAdamState(NamedTuple):
    """The state of `scale_by_adam`.

    Attributes:
        count: the number of completed steps.
        mu: the running mean of the gradients, a pytree like the parameters.
        nu: the running mean of the squared gradients, a real pytree like the parameters.
    """

    count: Any
    mu: Any
    nu: Any


class ScaleByAmsgradState(NamedTuple):
    """The state of `scale_by_amsgrad`.

    Attributes:
        count: the number of completed steps.
        mu: the running mean of the gradients, a pytree like the parameters.
        nu: the running mean of the squared gradients, a real pytree like the parameters.
        nu_max: the largest mean of the squared gradients so far, a real pytree like the parameters.
    """

    count: Any
    mu: Any
    nu: Any
    nu_max: Any


class ScaleByRmsState(NamedTuple):
    """The state of `scale_by_rms`.

    Attributes:
        nu: the running mean of the squared gradients, a real pytree like the parameters.
    """

    nu: Any


class ScaleByStddevState(NamedTuple):
    """The state of `scale_by_stddev`.

    Attributes:
        mu: the running mean of the gradients, a pytree like the parameters.
        nu: the running mean of the squared gradients, a real pytree like the parameters.
    """

    mu: Any
    nu: Any


class ScaleByRssState(NamedTuple):
    """The state of `scale_by_rss`.

    Attributes:
        sum_of_squares: the sum of the squared gradients, a real pytree like the parameters.
    """

    sum_of_squares: Any


def _squared(g: Any) -> Any:
    """Return `|g|^2`."""
    return g.real * g.real + g.imag * g.imag if dtype_of(g).kind == "c" else g * g


def _squares_like(params: Any, value: Any) -> Any:
    """Return the initial sum or mean of `|g|^2`: a real pytree, also for complex parameters."""
    return tree_map(lambda p: np.zeros_like(p, dtype=real_dtype(p)) + fitted(value, p), params)


def _average(decay: Any, mean: Any, value: Any) -> Any:
    """Return the next running mean: `decay mean + (1 - decay) value`."""
    return fitted(decay, mean) * mean + fitted(1 - decay, value) * value


def _root(v: Any, eps: Any, eps_in_sqrt: bool) -> Any:
    """Return `sqrt(v + eps)` or `sqrt(v) + eps`."""
    eps = fitted(eps, v)
    return np.sqrt(v + eps) if eps_in_sqrt else np.sqrt(v) + eps


def scale_by_adam(
    b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8, eps_root: Any = 0.0, eps_hat: bool = False
) -> GradientTransformation:
    """Return the scaling of Adam; for the formula see `adam`.

    Args:
        b1: decay rate of the mean of the gradients.
        b2: decay rate of the mean of the squared gradients.
        eps: added to the root.
        eps_root: added under the root. A positive value keeps derivatives of the update finite for gradients near zero.
        eps_hat: add `eps` to the root of the mean before bias correction: the "epsilon hat" at the end of section 2 of the
            paper, and `epsilon` in Keras.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> rule = scale_by_adam()
        >>> updates, state = rule.update([np.array([3.0, -0.5])], rule.init([np.zeros(2)]))
        >>> updates[0].round(6)
        array([ 1., -1.])
    """
    return _adam(b1, b2, eps, eps_root, eps_hat, None)


def scale_by_amsgrad(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    eps_hat: bool = False,
    max_corrected: bool = True,
) -> GradientTransformation:
    """Return the scaling of AMSGrad; for the formula see `amsgrad`.

    Args:
        b1, b2, eps, eps_root, eps_hat: as for `scale_by_adam`.
        max_corrected: take the maximum of the bias-corrected means, as in optax. Otherwise take the maximum of the means and
            correct its bias afterwards, as in Keras and PyTorch.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> rule = scale_by_amsgrad(b1=0.0, b2=0.0, eps=0.0)
        >>> state = rule.init(0.0)
        >>> for g in (1.0, 4.0, 2.0):
        ...     updates, state = rule.update(g, state)
        >>> float(updates)
        0.5
    """
    return _adam(b1, b2, eps, eps_root, eps_hat, max_corrected)


def _adam(b1: Any, b2: Any, eps: Any, eps_root: Any, eps_hat: bool, max_corrected: bool | None) -> GradientTransformation:
    """Return the scaling of Adam if `max_corrected` is `None`, else the scaling of AMSGrad."""

    def init(params: Any) -> Any:
        squares = _squares_like(params, 0.0)
        means = np.int64(0), tree_map(np.zeros_like, params), squares
        return ScaleByAdamState(*means) if max_corrected is None else ScaleByAmsgradState(*means, squares)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        count = state.count + 1
        # Computed in double precision: in float32, 1 - 0.999 loses three digits.
        bias, square_bias = 1 - b1**count, 1 - b2**count
        outside = eps / np.sqrt(square_bias) if eps_hat else eps

        def scaled(g: Any, m: Any, v: Any, *largest: Any) -> tuple[Any, ...]:
            m, v = _average(b1, m, g), _average(b2, v, _squared(g))
            square = v if max_corrected is False else v / fitted(square_bias, v)
            if largest:
                square = np.maximum(largest[0], square)
                largest = (square,)
            if max_corrected is False:
                square = square / fitted(square_bias, v)
            if type(eps_root) is not float or eps_root:
                square = square + fitted(eps_root, v)
            return m / fitted(bias, m) / (np.sqrt(square) + fitted(outside, v)), m, v, *largest

        named = [(f"state.{name}", tree) for name, tree in zip(state._fields[1:], state[1:], strict=True)]
        updates, *trees = map_alike(1 + len(named), scaled, ("updates", updates), *named)
        return updates, type(state)(count, *trees)

    return GradientTransformation(init, update)


def scale_by_rms(
    decay: Any = 0.9, eps: Any = 1e-8, initial_scale: Any = 0.0, eps_in_sqrt: bool = True
) -> GradientTransformation:
    """Return the scaling of RMSprop; for the formula see `rmsprop`.

    Args:
        decay: decay rate of the running means, between 0 and 1.
        eps: keeps the denominator positive.
        initial_scale: the initial value of the mean of the squared gradients.
        eps_in_sqrt: whether the denominator is `sqrt(v + eps)` or `sqrt(v) + eps`.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> rule = scale_by_rms(decay=0.75, eps=0.0)
        >>> rule.update([np.array([3.0, -0.5])], rule.init([np.zeros(2)]))[0]
        [array([ 2., -2.])]
    """

    def scaled(g: Any, v: Any) -> tuple[Any, Any]:
        v = _average(decay, v, _squared(g))
        return g / _root(v, eps, eps_in_sqrt), v

    return remembering(lambda params: ScaleByRmsState(_squares_like(params, initial_scale)), scaled)


def scale_by_stddev(
    decay: Any = 0.9, eps: Any = 1e-8, initial_scale: Any = 0.0, eps_in_sqrt: bool = True
) -> GradientTransformation:
    """Return the scaling of the centred RMSprop: by the running standard deviation in place of the root mean square.

    Args:
        decay, eps, initial_scale, eps_in_sqrt: as for `scale_by_rms`.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> rule = scale_by_stddev(decay=0.5, eps=0.0)
        >>> rule.update([np.array([3.0, -0.5])], rule.init([np.zeros(2)]))[0]
        [array([ 2., -2.])]
    """

    def init(params: Any) -> ScaleByStddevState:
        return ScaleByStddevState(tree_map(np.zeros_like, params), _squares_like(params, initial_scale))

    def scaled(g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
        m, v = _average(decay, m, g), _average(decay, v, _squared(g))
        # The variance of equal gradients is zero; rounding may make it negative, with a NaN root.
        return g / _root(np.maximum(v - _squared(m), 0.0), eps, eps_in_sqrt), m, v

    return remembering(init, scaled)


def scale_by_rss(initial_accumulator_value: Any = 0.1, eps: Any = 1e-7) -> GradientTransformation:
    """Return the scaling of Adagrad; for the formula see `adagrad`.

    Args:
        initial_accumulator_value: the initial value of the sums.
        eps: keeps the denominator positive.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> rule = scale_by_rss(initial_accumulator_value=7.0, eps=0.0)
        >>> rule.update([np.array([3.0, -3.0])], rule.init([np.zeros(2)]))[0]
        [array([ 0.75, -0.75])]
    """

    def scaled(g: Any, total: Any) -> tuple[Any, Any]:
        total = _squared(g) + total
        return g / _root(total, eps, True), total

    return remembering(lambda params: ScaleByRssState(_squares_like(params, initial_accumulator_value)), scaled)
