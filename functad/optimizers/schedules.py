"""Schedules: functions from the number of completed steps to a learning rate or another setting.

They are plain NumPy code without branches on the number of steps. They accept one number or an array of numbers (for a plot),
and can be differentiated with respect to their settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functad.errors import OptimizerError
from functad.optimizers.transformations import Schedule
from functad.places import here


def _check_steps(schedule: str, **settings: Any) -> None:
    for name, steps in settings.items():
        if not steps > 0:
            raise OptimizerError(f"{schedule}, called at {here()}, needs {name} above 0, but got {steps}.")


def constant_schedule(value: Any) -> Schedule:
    """Return a constant schedule.

    Args:
        value: a number.

    Returns:
        A function of the number of completed steps that returns `value`.

    Example:
        >>> constant_schedule(0.1)(1000)
        0.1
    """
    return lambda count: value


def polynomial_schedule(
    init_value: Any, end_value: Any, power: Any, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """Return the schedule `(init_value - end_value) (1 - t)^power + end_value`, with `t` from 0 to 1 and then constant.

    Args:
        init_value: the initial value.
        end_value: the final value.
        power: 1 for a straight line, 2 for a parabola with final slope zero.
        transition_steps: the number of steps of the transition.
        transition_begin: the number of steps before the transition.

    Returns:
        A `Schedule`: a function of the number of completed steps, or of an array of such numbers.

    Raises:
        OptimizerError: `transition_steps` is not positive.

    Example:
        >>> [float(polynomial_schedule(1.0, 0.0, 2, 4)(count)) for count in range(6)]
        [1.0, 0.5625, 0.25, 0.0625, 0.0, 0.0]
    """
    _check_steps("polynomial_schedule", transition_steps=transition_steps)

    def schedule(count: Any) -> Any:
        left = 1 - np.clip(count - transition_begin, 0, transition_steps) / transition_steps
        return (init_value - end_value) * left**power + end_value

    return schedule


def linear_schedule(init_value: Any, end_value: Any, transition_steps: int, transition_begin: int = 0) -> Schedule:
    """Return a linear schedule from `init_value` to `end_value`, then constant.

    Args:
        init_value, end_value, transition_steps, transition_begin: as for `polynomial_schedule`.

    Returns:
        A `Schedule`: a function of the number of completed steps, or of an array of such numbers.

    Raises:
        OptimizerError: `transition_steps` is not positive.

    Example:
        >>> linear_schedule(0.0, 1.0, 4)(np.arange(6))
        array([0.  , 0.25, 0.5 , 0.75, 1.  , 1.  ])
    """
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def piecewise_constant_schedule(init_value: Any, boundaries_and_scales: Mapping[int, Any] | None = None) -> Schedule:
    """Return a piecewise constant schedule, multiplied by a factor at given steps.

    Args:
        init_value: the initial value.
        boundaries_and_scales: a mapping from the first step of each factor to the factor.

    Returns:
        A `Schedule`: a function of the number of completed steps, or of an array of such numbers.

    Example:
        >>> piecewise_constant_schedule(1.0, {2: 0.5, 4: 0.1})(np.arange(6))
        array([1.  , 1.  , 0.5 , 0.5 , 0.05, 0.05])
    """
    factors = sorted((boundaries_and_scales or {}).items())

    def schedule(count: Any) -> Any:
        value = init_value
        for boundary, factor in factors:
            value = np.where(count < boundary, value, value * factor)
        return value

    return schedule


def exponential_decay(
    init_value: Any,
    transition_steps: int,
    decay_rate: Any,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: Any = None,
) -> Schedule:
    """Return the schedule `init_value decay_rate^(count / transition_steps)`.

    Args:
        init_value: the initial value.
        transition_steps: the number of steps per factor `decay_rate`.
        decay_rate: the factor.
        transition_begin: the number of steps before the decay.
        staircase: change the value only every `transition_steps` steps.
        end_value: a lower bound if `decay_rate` is less than one, else an upper bound.

    Returns:
        A `Schedule`: a function of the number of completed steps, or of an array of such numbers.

    Raises:
        OptimizerError: `transition_steps` is not positive.

    Example:
        >>> exponential_decay(1.0, 2, 0.25)(np.arange(5))
        array([1.    , 0.5   , 0.25  , 0.125 , 0.0625])
    """
    _check_steps("exponential_decay", transition_steps=transition_steps)

    def schedule(count: Any) -> Any:
        times = np.maximum(count - transition_begin, 0) / transition_steps
        value = init_value * decay_rate ** (np.floor(times) if staircase else times)
        if end_value is None:
            return value
        return np.where(decay_rate < 1.0, np.maximum(value, end_value), np.minimum(value, end_value))[()]

    return schedule


def cosine_decay_schedule(init_value: Any, decay_steps: int, alpha: Any = 0.0, exponent: Any = 1.0) -> Schedule:
    """Return the schedule `init_value ((1 - alpha) c^exponent + alpha)` with `c = (1 + cos(pi count / decay_steps)) / 2`.

    This is half a cosine wave from `init_value` to `alpha init_value`, then constant (Loshchilov and Hutter, SGDR: Stochastic
    gradient descent with warm restarts, ICLR 2017).

    Args:
        init_value: the initial value.
        decay_steps: the number of steps of the decay.
        alpha: the final value as a fraction of `init_value`.
        exponent: the exponent of the wave.

    Returns:
        A `Schedule`: a function of the number of completed steps, or of an array of such numbers.

    Raises:
        OptimizerError: `decay_steps` is not positive.

    Example:
        >>> cosine_decay_schedule(1.0, 4)(np.arange(6)).round(4)
        array([1.    , 0.8536, 0.5   , 0.1464, 0.    , 0.    ])
    """
    _check_steps("cosine_decay_schedule", decay_steps=decay_steps)
    return _cosine(init_value, alpha * init_value, decay_steps, exponent)


def _cosine(start: Any, end: Any, steps: int, exponent: Any) -> Schedule:
    def schedule(count: Any) -> Any:
        wave = 0.5 * (1 + np.cos(np.pi * np.minimum(count, steps) / steps))
        return (start - end) * wave**exponent + end

    return schedule


def warmup_cosine_decay_schedule(
    init_value: Any, peak_value: Any, warmup_steps: int, decay_steps: int, end_value: Any = 0.0, exponent: Any = 1.0
) -> Schedule:
    """Return a schedule with a linear warmup, followed by a decay along half a cosine wave.

    Args:
        init_value: the initial value.
        peak_value: the value after `warmup_steps`.
        warmup_steps: the number of steps of the warmup.
        decay_steps: the total number of steps, including the warmup.
        end_value: the final value.
        exponent: the exponent of the wave.

    Returns:
        A `Schedule`: a function of the number of completed steps, or of an array of such numbers.

    Raises:
        OptimizerError: `warmup_steps` is not positive, or `decay_steps` is not larger.

    Example:
        >>> warmup_cosine_decay_schedule(0.0, 1.0, 2, 6)(np.arange(8)).round(4)
        array([0.    , 0.5   , 1.    , 0.8536, 0.5   , 0.1464, 0.    , 0.    ])
    """
    falling = decay_steps - warmup_steps
    _check_steps("warmup_cosine_decay_schedule", warmup_steps=warmup_steps, **{"decay_steps - warmup_steps": falling})
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    return join_schedules([rise, _cosine(peak_value, end_value, falling, exponent)], [warmup_steps])


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Return the concatenation of schedules; each schedule counts its steps from zero.

    Args:
        schedules: the parts.
        boundaries: the first step of each part after the first.

    Returns:
        A `Schedule`: a function of the number of completed steps, or of an array of such numbers.

    Raises:
        OptimizerError: the number of boundaries is not the number of parts minus one.

    Example:
        >>> join_schedules([constant_schedule(0.5), linear_schedule(1.0, 0.0, 4)], [2])(np.arange(6))
        array([0.5 , 0.5 , 1.  , 0.75, 0.5 , 0.25])
    """
    if not schedules or len(boundaries) != len(schedules) - 1:
        raise OptimizerError(
            f"join_schedules, called at {here()}, needs one boundary between each two schedules, but got {len(boundaries)} for "
            f"{len(schedules)} schedules."
        )

    def schedule(count: Any) -> Any:
        value = schedules[0](count)
        for boundary, following in zip(boundaries, schedules[1:], strict=True):
            # Before its boundary a part is evaluated at its step 0, because negative steps may be undefined.
            value = np.where(count < boundary, value, following(np.maximum(count - boundary, 0)))
        return value

    return schedule
