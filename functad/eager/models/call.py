"""`functional_call`: run a module as a function of the values of its Variables, so that `grad` and `jvp` work on models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from typing import Any

import numpy as np

from functad.eager.models.module import Module, parts_of
from functad.eager.models.variable import Variable, refuse_foreign_rules, standing_in
from functad.errors import StateError
from functad.expressions.spec import shape_of
from functad.places import here, name_of
from functad.primitives.operands import as_operand, read
from functad.tracing.traces.base import Recorded, resolve


def values_of(module: Any, trainable: bool | None = None) -> dict[str, Any]:
    """Return the values of the Variables in a module by their attribute paths, such as `layers/0/kernel`.

    Args:
        module: a module, or a list, tuple or dict of modules and Variables.
        trainable: `True` selects trainable Variables, `False` the other Variables, `None` all.

    Returns:
        A dict with copies of the values, as arrays and numbers, for `functional_call`.

    Example:
        >>> import functad
        >>> layer = functad.nn.Dense(1, inputs=2, rng=0)
        >>> {path: value.shape for path, value in functad.values_of(layer).items()}
        {'bias': (1,), 'kernel': (2, 1)}
    """
    wanted = (True, False) if trainable is None else (trainable,)
    return {path: v.copied() for path, v in parts_of(module) if isinstance(v, Variable) and v.trainable in wanted}


def functional_call(module: Any, values: Mapping[str, Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a module with given values in place of the values of its Variables. The Variables do not change.

    In the call, a read of a Variable returns the given value, which may be a Tensor of a transform or tape. Tapes opened in the
    call follow the value as they follow the Variable. Earlier tapes treat it as independent of the Variable. In the call,
    assignments to Variables with given values raise. Other threads and coroutines see the Variables' own values.

    Args:
        module: a module, or a method of a module.
        values: values by attribute path, as from `values_of`, for all or some of the Variables. The shapes must be equal to the
            shapes of the Variables; a value keeps its own dtype.
        *args: positional arguments for the module.
        **kwargs: keyword arguments for the module.

    Returns:
        The result of the module. A coroutine runs with the given values too.

    Raises:
        StateError: a path names no Variable of the module, or a shape differs.
        TypeError: `module` is not a module or is a generator, or `values` is not a dict.

    Example:
        >>> import numpy as np, functad
        >>> layer = functad.nn.Dense(1, inputs=2, rng=0)
        >>> def loss(values):
        ...     return np.sum(functad.functional_call(layer, values, np.ones((3, 2))))
        >>> functad.grad(loss)(functad.values_of(layer))["kernel"]
        array([[3.],
               [3.]])
    """
    owner: Any = module if isinstance(module, Module) else getattr(module, "__self__", None)
    if not isinstance(owner, Module):
        raise TypeError(
            f"functional_call of {name_of(module)}, at {here()}: the first argument must be a Module or its method."
        )
    if not callable(module):
        raise TypeError(
            f"functional_call of a {type(module).__name__}, at {here()}: it has no __call__. Define one, or pass a method."
        )
    if not isinstance(values, Mapping):
        raise TypeError(
            f"functional_call with values that are a {type(values).__name__}, at {here()}: the second argument must be a dict "
            f"by the paths of Variables, as functad.values_of(module) returns it."
        )
    found = {path: variable for path, variable in parts_of(owner) if isinstance(variable, Variable)}
    wrong = [f"{path!r} is no Variable of it" for path in values if path not in found]
    given = [(found[path], _own(value, found[path])) for path, value in values.items() if path in found]
    wrong += [
        f"{path!r} has shape {shape_of(value)} in place of {variable.shape}"
        for (variable, value), path in zip(given, (path for path in values if path in found), strict=True)
        if shape_of(value) != variable.shape
    ]
    if wrong:
        known = ", ".join(found) or "none; layers that take their shape from the first call have to be called once before"
        raise StateError(
            f"functional_call of a {type(owner).__name__}, at {here()}: {'; '.join(wrong)}. Its Variables are: {known}."
        )
    with standing_in(given):
        out = module(*args, **kwargs)
    if isinstance(out, (Generator, AsyncGenerator)):
        raise TypeError(
            f"functional_call of a generator, at {here()}: it runs after the call has ended. Return a list instead."
        )
    return _awaited(given, out) if isinstance(out, Coroutine) else out


async def _awaited(given: list[tuple[Variable, Any]], out: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine with the given values, and return its result."""
    with standing_in(given):
        return await out


def _own(value: Any, variable: Variable) -> Any:
    """Return a Tensor of a trace as it is, another value as a copy; a Python number gets the dtype of the Variable."""
    if issubclass(type(value), (bool, int, float, complex)) and not issubclass(type(value), np.generic):
        return np.asarray(value, variable.dtype)[()]
    refuse_foreign_rules(value, "functional_call with a value")
    plain = resolve(read(as_operand(value)))
    return plain if isinstance(plain, Recorded) else np.array(plain)[()]
