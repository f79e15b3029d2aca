"""Optimisers: pure functions over pytrees, and objects that update variables.

A pure optimiser is a pair `(init, update)` as in optax: `adam(1e-3)`, `chain(clip_by_global_norm(1.0), sgd(schedule))`. It can
itself be differentiated. The classes `SGD`, `Adam`, `AdamW`, `RMSprop` and `Adagrad` have the names and settings of Keras, and
the method `apply_gradients`.

Example:
    >>> import functad
    >>> from functad.optimizers import adam, apply_updates
    >>> loss = lambda params: (params["a"] - 1.0) ** 2 + (params["b"] + 2.0) ** 2
    >>> params, rule = {"a": 0.0, "b": 0.0}, adam(0.1)
    >>> state = rule.init(params)
    >>> for _ in range(200):
    ...     updates, state = rule.update(functad.grad(loss)(params), state)
    ...     params = apply_updates(params, updates)
    >>> {name: round(float(value), 2) for name, value in params.items()}
    {'a': 1.0, 'b': -2.0}
"""

from functad.optimizers.optimizer import Optimizer, VariableLike
from functad.optimizers.rules import adagrad, adam, adamw, amsgrad, rmsprop, sgd
from functad.optimizers.scalings import (
    ScaleByAdamState,
    ScaleByAmsgradState,
    ScaleByRmsState,
    ScaleByRssState,
    ScaleByStddevState,
    scale_by_adam,
    scale_by_amsgrad,
    scale_by_rms,
    scale_by_rss,
    scale_by_stddev,
)
from functad.optimizers.schedules import (
    constant_schedule,
    cosine_decay_schedule,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant_schedule,
    polynomial_schedule,
    warmup_cosine_decay_schedule,
)
from functad.optimizers.standard import SGD, Adagrad, Adam, AdamW, RMSprop
from functad.optimizers.transformations import (
    EmptyState,
    GradientTransformation,
    ScaleByScheduleState,
    Schedule,
    TraceState,
    add_decayed_weights,
    apply_updates,
    chain,
    clip,
    clip_by_global_norm,
    clip_by_norm,
    global_norm,
    scale,
    scale_by_learning_rate,
    scale_by_schedule,
    trace,
)

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "EmptyState",
    "GradientTransformation",
    "Optimizer",
    "RMSprop",
    "ScaleByAdamState",
    "ScaleByAmsgradState",
    "ScaleByRmsState",
    "ScaleByRssState",
    "ScaleByScheduleState",
    "ScaleByStddevState",
    "Schedule",
    "TraceState",
    "VariableLike",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "amsgrad",
    "apply_updates",
    "chain",
    "clip",
    "clip_by_global_norm",
    "clip_by_norm",
    "constant_schedule",
    "cosine_decay_schedule",
    "exponential_decay",
    "global_norm",
    "join_schedules",
    "linear_schedule",
    "piecewise_constant_schedule",
    "polynomial_schedule",
    "rmsprop",
    "scale",
    "scale_by_adam",
    "scale_by_amsgrad",
    "scale_by_learning_rate",
    "scale_by_rms",
    "scale_by_rss",
    "scale_by_schedule",
    "scale_by_stddev",
    "sgd",
    "trace",
    "warmup_cosine_decay_schedule",
]
