"""Optimisers with the names, settings and defaults of Keras: `SGD`, `Adam`, `AdamW`, `RMSprop` and `Adagrad`.

Each applies a pure rule to variables, with the conventions of Keras where the pure functions differ. Momentum sums steps
including the learning rate, which matters if the learning rate changes. `epsilon` has its position in Keras. In contrast to
Keras, Adam counts the steps of each variable separately, so the bias correction of a variable starts with its first gradient.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from functad.errors import OptimizerError
from functad.optimizers.optimizer import Optimizer
from functad.optimizers.rules import adagrad, rmsprop
from functad.optimizers.scalings import scale_by_adam, scale_by_amsgrad
from functad.optimizers.transformations import GradientTransformation, chain, scale, trace
from functad.places import here


def _between_zero_and_one(optimizer: Optimizer, **settings: float) -> None:
    for name, value in settings.items():
        if not 0 <= value < 1:
            raise OptimizerError(f"{type(optimizer).__name__}, made at {here()}, needs {name} from 0 to below 1, got {value}.")


class SGD(Optimizer):
    """Gradient descent, optionally with momentum.

    `m -> momentum m - learning_rate g` and `p -> p + m`; with `nesterov`, `p -> p + momentum m - learning_rate g` (Sutskever,
    Martens, Dahl and Hinton, On the importance of initialization and momentum in deep learning, ICML 2013). The function `sgd`
    multiplies by the learning rate after the sum; both agree if the learning rate is constant.

    Args:
        learning_rate: a number or a schedule.
        momentum: from 0 to below 1.
        nesterov: use Nesterov momentum.
        weight_decay, clipnorm, clipvalue, global_clipnorm: see `Optimizer`.

    Raises:
        OptimizerError: `momentum` is out of range.

    Example:
        >>> import numpy as np, functad
        >>> w, optimizer = functad.Variable([0.0, 0.0]), SGD(0.1, momentum=0.5)
        >>> for _ in range(30):
        ...     with functad.GradientTape() as tape:
        ...         loss = np.sum((w - 3.0) ** 2)
        ...     optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        >>> w.numpy().round(3), optimizer.iterations
        (array([3., 3.]), 30)
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
    ) -> None:
        _between_zero_and_one(self, momentum=momentum)
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm)
        self.momentum, self.nesterov = momentum, nesterov

    @override
    def rule(self, learning_rate: Any) -> GradientTransformation:
        descent = scale(-learning_rate)
        return chain(descent, trace(self.momentum, self.nesterov)) if self.momentum else descent

    def moves_rows_alone(self) -> bool:
        """Return `True` if there is no momentum, which also updates rows without a gradient."""
        return not self.momentum


class Adam(Optimizer):
    """Adam: steps of the running mean gradient over its running root mean square.

    `m -> beta_1 m + (1 - beta_1) g`, `v -> beta_2 v + (1 - beta_2) g^2`, and in step `k` `p -> p - learning_rate sqrt(1 -
    beta_2^k) / (1 - beta_1^k) m / (sqrt(v) + epsilon)` (Kingma and Ba, Adam: A method for stochastic optimization, ICLR 2015,
    end of section 2). `epsilon` is the "epsilon hat" of the paper, as in Keras. It corresponds to `eps = epsilon / sqrt(1 -
    beta_2^k)` in the function `adam`, PyTorch and algorithm 1 of the paper: 32 times `epsilon` in the first step, and `epsilon`
    in the limit.

    Args:
        learning_rate: a number or a schedule.
        beta_1: decay rate of the mean of the gradients.
        beta_2: decay rate of the mean of the squared gradients.
        epsilon: keeps the denominator positive.
        amsgrad: divide by the root of the largest `v` so far in place of the current `v`, so that steps do not grow when
            gradients shrink (Reddi, Kale and Kumar, On the convergence of Adam and beyond, ICLR 2018).
        weight_decay, clipnorm, clipvalue, global_clipnorm: see `Optimizer`.

    Raises:
        OptimizerError: `beta_1` or `beta_2` is out of range.

    Example:
        >>> Adam(epsilon=1e-8)
        Adam(learning_rate=0.001, iterations=0)
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
    ) -> None:
        _between_zero_and_one(self, beta_1=beta_1, beta_2=beta_2)
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad

    @override
    def rule(self, learning_rate: Any) -> GradientTransformation:
        settings = self.beta_1, self.beta_2, self.epsilon
        if self.amsgrad:
            scaling = scale_by_amsgrad(*settings, eps_hat=True, max_corrected=False)
        else:
            scaling = scale_by_adam(*settings, eps_hat=True)
        return chain(scaling, scale(-learning_rate))


class AdamW(Adam):
    """Adam with decoupled weight decay: the step of `Adam` plus `p -> p - learning_rate weight_decay p`.

    Loshchilov and Hutter, Decoupled weight decay regularization, ICLR 2019, algorithm 2.

    Args:
        learning_rate: a number or a schedule; it also multiplies the decay.
        weight_decay: the strength of the decay.
        beta_1, beta_2, epsilon, amsgrad: as for `Adam`.
        clipnorm, clipvalue, global_clipnorm: see `Optimizer`.

    Example:
        >>> AdamW().weight_decay
        0.004
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay, clipnorm, clipvalue, global_clipnorm)


class RMSprop(Optimizer):
    """RMSprop: steps of the gradient over its running root mean square.

    `v -> rho v + (1 - rho) g^2` and `p -> p - learning_rate g / sqrt(v + epsilon)` (Hinton, Neural networks for machine
    learning, lecture 6e, 2012). PyTorch has `sqrt(v) + epsilon`, and multiplies by the learning rate after the momentum sum.

    Args:
        learning_rate: a number or a schedule.
        rho: decay rate of the mean of the squared gradients.
        momentum: from 0 to below 1; it sums the steps.
        epsilon: keeps the denominator positive.
        centered: divide by the standard deviation in place of the root mean square.
        weight_decay, clipnorm, clipvalue, global_clipnorm: see `Optimizer`.

    Raises:
        OptimizerError: `rho` or `momentum` is out of range.

    Example:
        >>> RMSprop(momentum=0.9)
        RMSprop(learning_rate=0.001, iterations=0)
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
    ) -> None:
        _between_zero_and_one(self, rho=rho, momentum=momentum)
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm)
        self.rho, self.momentum, self.epsilon, self.centered = rho, momentum, epsilon, centered

    @override
    def rule(self, learning_rate: Any) -> GradientTransformation:
        return rmsprop(learning_rate, self.rho, self.epsilon, centered=self.centered, momentum=self.momentum or None)


class Adagrad(Optimizer):
    """Adagrad: steps of the gradient over the root of the sum of all squared gradients.

    `s -> s + g^2` and `p -> p - learning_rate g / sqrt(s + epsilon)` (Duchi, Hazan and Singer, Adaptive subgradient methods for
    online learning and stochastic optimization, JMLR 12, 2011). PyTorch has `sqrt(s) + epsilon`, and sums that begin at 0.

    Args:
        learning_rate: a number or a schedule.
        initial_accumulator_value: the initial value of the sums.
        epsilon: keeps the denominator positive.
        weight_decay, clipnorm, clipvalue, global_clipnorm: see `Optimizer`.

    Example:
        >>> Adagrad().initial_accumulator_value
        0.1
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
    ) -> None:
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm)
        self.initial_accumulator_value, self.epsilon = initial_accumulator_value, epsilon

    @override
    def rule(self, learning_rate: Any) -> GradientTransformation:
        return adagrad(learning_rate, self.initial_accumulator_value, self.epsilon)
