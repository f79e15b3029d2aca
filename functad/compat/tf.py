"""TensorFlow's names for the functions of functad: code for TensorFlow's eager interface runs with changed imports.

    import functad.compat.tf as tf          # in place of: import tensorflow as tf
    from functad.compat.tf import keras     # in place of: from tensorflow import keras

All functions act on Tensors of `functad`, and NumPy functions accept these Tensors too. A missing name raises AttributeError
with the NumPy spelling. The page `notebooks/tensorflow.md` lists the differences from TensorFlow.

Example:
    >>> import functad.compat.tf as tf
    >>> w = tf.Variable([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     loss = tf.reduce_sum(tf.square(w))
    >>> tape.gradient(loss, w).numpy()
    array([2., 4.], dtype=float32)
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from functad.compat import tensors as _names

# Each of these modules registers its names in the table.
for _module in ("arrays", "control", "mathematics"):
    _import_module(f"functad.compat.{_module}")

# These names need modules and optimisers; programs without them do not load them.
_names.later("functad", "Module")
_names.later(
    "functad.optimizers",
    """
    keras.optimizers.Adagrad keras.optimizers.Adam keras.optimizers.AdamW keras.optimizers.RMSprop keras.optimizers.SGD
    keras.optimizers.Optimizer optimizers.Adagrad optimizers.Adam optimizers.AdamW optimizers.RMSprop optimizers.SGD
    optimizers.Optimizer
    """,
)
_names.later(
    "functad.compat.layers",
    """
    keras.Model keras.Sequential keras.layers.Activation keras.layers.Dense keras.layers.Flatten keras.layers.Layer
    keras.models.Model keras.models.Sequential train.AdamOptimizer=adam_optimizer
    train.GradientDescentOptimizer=gradient_descent_optimizer train.MomentumOptimizer=momentum_optimizer
    """,
)
_names.enter("newaxis", None)
_names.make_namespaces()


def __getattr__(name: str) -> _Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _names.find(name)


def __dir__() -> list[str]:
    return _names.names_in("")
