"""`tf.function`, `tf.cond` and other control flow, and `tf.debugging`. Nothing is compiled: Python runs as written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from functad.compat.tensorflow.creation import static
from functad.compat.tensorflow.names import enter, named
from functad.compat.tensorflow.tensors import as_tensor, enter_calls
from functad.places import here


@named("errors.InvalidArgumentError")
class InvalidArgumentError(ValueError):
    """A check of `tf.debugging` failed."""


@named("function")
def function(func: Callable[..., Any] | None = None, **options: Any) -> Callable[..., Any]:
    """Return `func` unchanged: nothing is compiled, and options such as `jit_compile` have no effect.

    Example:
        >>> from functad.compat import tf
        >>> @tf.function(jit_compile=True)
        ... def double(x):
        ...     return x * 2
        >>> double(tf.constant(3.0)).numpy()
        np.float32(6.0)
    """
    return function if func is None else func


@named("executing_eagerly")
def executing_eagerly() -> bool:
    """Return `True`."""
    return True


@named("enable_eager_execution enable_v2_behavior")
def enable_eager_execution(*args: Any, **kwargs: Any) -> None:
    """Do nothing: execution is always eager."""


@named("cond")
def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None) -> Any:
    """Return the result of one of two functions; only this function is called."""
    return true_fn() if bool(as_tensor(pred).numpy()) else false_fn()


@named("while_loop")
def while_loop(cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the loop variables after calls of `body(*loop_vars)` while `cond(*loop_vars)` holds."""
    state = loop_vars
    while bool(as_tensor(cond(*state)).numpy()):
        found = body(*state)
        state = found if isinstance(found, (list, tuple)) else (found,)
    return state


@named("name_scope")
@contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Return a context without effect: operations have no names."""
    yield name


@named("device")
@contextmanager
def device(device_name: Any) -> Iterator[None]:
    """Return a context without effect: arrays are in CPU memory."""
    yield


enter("print", print)


# Checks


def _check(holds: bool, what: str, x: Any, y: Any, message: str | None) -> None:
    if not holds:
        note = "" if message is None else f"{message}: "
        raise InvalidArgumentError(f"{note}{x!r} is not {what} {y!r}, at {here()}.")


@named("debugging.assert_near")
def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    message: str | None = None,
    summarize: int | None = None,
    name: Any = None,
) -> None:
    """Raise InvalidArgumentError if `abs(x - y) > atol + rtol * abs(y)`; each default is ten spacings of the dtype at 1."""
    a, b = static(x), static(y)
    spacing = 10 * np.finfo(a.dtype if a.dtype.kind in "fc" else np.float32).eps
    allowed = (spacing if atol is None else static(atol)) + (spacing if rtol is None else static(rtol)) * np.abs(b)
    _check(bool(np.all(np.abs(a - b) <= allowed)), "near", a, b, message)


def _comparison(compare: Callable[[Any, Any], Any], what: str) -> Callable[..., None]:
    def check(x: Any, y: Any, message: str | None = None, summarize: int | None = None, name: str | None = None) -> None:
        a, b = static(x), static(y)
        _check(bool(np.all(compare(a, b))), what, a, b, message)

    check.__doc__ = f"Raise InvalidArgumentError if `x` is not {what} `y` everywhere."
    return check


for _name, _compare, _what in (
    ("equal", np.equal, "equal to"),
    ("greater", np.greater, "greater than"),
    ("greater_equal", np.greater_equal, "greater than, or equal to,"),
    ("less", np.less, "less than"),
    ("less_equal", np.less_equal, "less than, or equal to,"),
):
    enter(f"debugging.assert_{_name}", _comparison(_compare, _what))


@named("debugging.check_numerics")
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Any:
    """Return a Tensor; raise InvalidArgumentError if an element is infinite or NaN."""
    if not np.all(np.isfinite(static(tensor))):
        raise InvalidArgumentError(f"{message}: there is an infinite number or a NaN, at {here()}.")
    return tensor


enter_calls({"debugging.assert_all_finite": (check_numerics, lambda x, message, name=None: (x, message))})
