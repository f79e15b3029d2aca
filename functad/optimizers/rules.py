"""Named rules as pure transformations: `sgd`, `adam`, `adamw`, `amsgrad`, `rmsprop` and `adagrad`.

`learning_rate` is a number or a schedule: a function of the number of completed steps. For complex parameters, the descent
direction is the conjugate of the result of `functad.grad`: pass `functad.tree_map(np.conj, gradients)`.
"""

from __future__ import annotations

from typing import Any

from functad.optimizers.scalings import scale_by_adam, scale_by_amsgrad, scale_by_rms, scale_by_rss, scale_by_stddev
from functad.optimizers.transformations import (
    GradientTransformation,
    add_decayed_weights,
    chain,
    scale_by_learning_rate,
    trace,
)


def sgd(learning_rate: Any, momentum: Any = None, nesterov: bool = False) -> GradientTransformation:
    """Return gradient descent: `p -> p - learning_rate t` with `t = g`, or with momentum `t -> g + momentum t`.

    With `nesterov` the step is `-learning_rate (g + momentum t)`: Nesterov's accelerated gradient in the form of Sutskever,
    Martens, Dahl and Hinton (On the importance of initialization and momentum in deep learning, ICML 2013).

    Args:
        learning_rate: a number or a schedule.
        momentum: between 0 and 1. `None`: plain descent without a state.
        nesterov: use Nesterov momentum.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> import numpy as np, functad
        >>> from functad.optimizers import apply_updates
        >>> loss = lambda params: np.sum((params["w"] - 3.0) ** 2)
        >>> params = {"w": np.zeros(2)}
        >>> rule = sgd(0.1, momentum=0.5)
        >>> state = rule.init(params)
        >>> for _ in range(30):
        ...     updates, state = rule.update(functad.grad(loss)(params), state)
        ...     params = apply_updates(params, updates)
        >>> params["w"].round(3)
        array([3., 3.])
    """
    descent = scale_by_learning_rate(learning_rate)
    return chain(descent) if momentum is None else chain(trace(momentum, nesterov), descent)


def adam(learning_rate: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8, eps_root: Any = 0.0) -> GradientTransformation:
    """Return Adam: steps of the running mean gradient over its running root mean square, both with bias correction.

    In step `k` for a gradient `g`: `m -> b1 m + (1 - b1) g`, `v -> b2 v + (1 - b2) g^2`, and `p -> p - learning_rate m / (1 -
    b1^k) / (sqrt(v / (1 - b2^k) + eps_root) + eps)` (Kingma and Ba, Adam: A method for stochastic optimization, ICLR 2015,
    algorithm 1).

    Args:
        learning_rate: a number or a schedule; approximately the size of the steps.
        b1: decay rate of the mean of the gradients.
        b2: decay rate of the mean of the squared gradients.
        eps: added to the root, so that a vanishing gradient makes no large step.
        eps_root: added under the root. A positive value keeps derivatives of the update finite.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> import numpy as np, functad
        >>> from functad.optimizers import apply_updates
        >>> loss = lambda w: np.sum((w - np.array([1.0, 100.0])) ** 2)
        >>> w, rule = np.zeros(2), adam(0.1)
        >>> state = rule.init(w)
        >>> updates, state = rule.update(functad.grad(loss)(w), state)
        >>> updates.round(6)
        array([0.1, 0.1])

        The derivative of the loss after one step with respect to the learning rate:

        >>> def after(rate):
        ...     rule = adam(rate)
        ...     updates, _ = rule.update(functad.grad(loss)(w), rule.init(w))
        ...     return loss(apply_updates(w, updates))
        >>> float(functad.grad(after)(0.1).round(4))
        -201.6
    """
    return chain(scale_by_adam(b1, b2, eps, eps_root), scale_by_learning_rate(learning_rate))


def adamw(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    weight_decay: Any = 1e-4,
    mask: Any = None,
) -> GradientTransformation:
    """Return Adam with decoupled weight decay: the step of `adam` plus `p -> p - learning_rate weight_decay p`.

    The decay is not divided by the size of the gradients, unlike an L2 term in the loss (Loshchilov and Hutter, Decoupled
    weight decay regularization, ICLR 2019, algorithm 2).

    Args:
        learning_rate: a number or a schedule; it also multiplies the decay.
        b1, b2, eps, eps_root: as for `adam`.
        weight_decay: the strength of the decay.
        mask: selects the parameters with decay: a pytree of `True` and `False`, or a function from the parameters to such a
            pytree.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes. Its `update` needs `params`.

    Example:
        >>> import numpy as np
        >>> from functad.optimizers import apply_updates
        >>> rule = adamw(0.1, weight_decay=0.5, mask=lambda params: {name: name != "bias" for name in params})
        >>> params = {"bias": 2.0, "w": np.array([2.0])}
        >>> updates, state = rule.update({"bias": 0.0, "w": np.zeros(1)}, rule.init(params), params)
        >>> apply_updates(params, updates)
        {'bias': np.float64(2.0), 'w': array([1.9])}
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def amsgrad(learning_rate: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8, eps_root: Any = 0.0) -> GradientTransformation:
    """Return AMSGrad: Adam with steps that do not grow when gradients shrink.

    It is `adam` with the largest `v / (1 - b2^k)` so far in place of the current one (Reddi, Kale and Kumar, On the convergence
    of Adam and beyond, ICLR 2018, algorithm 2, with the bias correction of Adam). Keras and PyTorch divide the largest `v` by
    the current `1 - b2^k`: `scale_by_amsgrad(max_corrected=False)`.

    Args:
        learning_rate: a number or a schedule; approximately the size of the steps.
        b1, b2, eps, eps_root: as for `adam`.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> rule = amsgrad(0.1, b1=0.0, b2=0.5)
        >>> state = rule.init(0.0)
        >>> for g in (10.0, 1.0, 1.0):
        ...     updates, state = rule.update(g, state)
        >>> round(float(updates), 3)
        -0.01
    """
    return chain(scale_by_amsgrad(b1, b2, eps, eps_root), scale_by_learning_rate(learning_rate))


def rmsprop(
    learning_rate: Any,
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: Any = None,
    nesterov: bool = False,
) -> GradientTransformation:
    """Return RMSprop: steps of the gradient over its running root mean square.

    `v -> decay v + (1 - decay) g^2` and `p -> p - learning_rate g / sqrt(v + eps)` (Hinton, Neural networks for machine
    learning, lecture 6e, 2012). Momentum sums the steps, including the learning rate.

    Args:
        learning_rate: a number or a schedule.
        decay: decay rate of the mean of the squared gradients.
        eps: keeps the denominator positive.
        initial_scale: the initial value of the mean of the squared gradients.
        eps_in_sqrt: whether the denominator is `sqrt(v + eps)`, as in TensorFlow, or `sqrt(v) + eps`, as in PyTorch.
        centered: divide by the standard deviation: `v - m^2` in place of `v`, with the running mean `m` of the gradients.
        momentum: between 0 and 1, or `None`.
        nesterov: as for `sgd`.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> import numpy as np
        >>> rule = rmsprop(0.1, decay=0.75)
        >>> updates, state = rule.update(np.array([1e-2, 1e3]), rule.init(np.zeros(2)))
        >>> updates.round(3)
        array([-0.2, -0.2])
    """
    scaling = scale_by_stddev if centered else scale_by_rms
    parts = [scaling(decay, eps, initial_scale, eps_in_sqrt), scale_by_learning_rate(learning_rate)]
    return chain(*parts) if momentum is None else chain(*parts, trace(momentum, nesterov))


def adagrad(learning_rate: Any, initial_accumulator_value: Any = 0.1, eps: Any = 1e-7) -> GradientTransformation:
    """Return Adagrad: steps of the gradient over the root of the sum of all squared gradients.

    `s -> s + g^2` and `p -> p - learning_rate g / sqrt(s + eps)` (Duchi, Hazan and Singer, Adaptive subgradient methods for
    online learning and stochastic optimization, JMLR 12, 2011). Elements with rare gradients keep long steps.

    Args:
        learning_rate: a number or a schedule.
        initial_accumulator_value: the initial value of the sums.
        eps: keeps the denominator positive; must be positive if `initial_accumulator_value` is zero.

    Returns:
        A `GradientTransformation`, over pytrees of arrays of any shapes and dtypes.

    Example:
        >>> import numpy as np
        >>> rule = adagrad(1.0, initial_accumulator_value=0.0)
        >>> state = rule.init(np.zeros(1))
        >>> for _ in range(4):
        ...     updates, state = rule.update(np.array([5.0]), state)
        >>> updates.round(3)
        array([-0.5])
    """
    return chain(scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate))
