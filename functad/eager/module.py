"""`Module`: a class with Variables and further modules in its attributes, the search for them, and `functional_call`.

The search visits attributes in the order of their names. The parts of a module itself come first, then the parts of each of
its modules. The search enters lists, tuples, dicts and dataclasses, and visits each object once.

`functional_call` runs a module as a function of the values of its Variables, so that `grad` and `jvp` work on models.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any

import numpy as np

from functad.eager.variable import SCOPE, Variable, refuse_foreign_rules, standing_in
from functad.errors import StateError
from functad.expressions.spec import shape_of
from functad.places import here, name_of
from functad.primitives.operands import as_operand, read
from functad.process import setting
from functad.tracing.trace import Recorded, resolve
from functad.trees import _ordered as ordered_keys

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Module:
    """Base class for layers and models, with Variables in its attributes.

    Subclasses keep Variables and other modules in attributes, also inside nested lists, tuples, dicts and dataclasses.

    Args:
        name: the name in name scopes. Default: the name of the class in snake case.

    Raises:
        ValueError: the name is not an identifier.
        TypeError: the name is not a string.

    Example:
        >>> import numpy as np, functad
        >>> class Line(functad.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.slope = functad.Variable(2.0)
        ...         self.offset = functad.Variable(1.0)
        ...
        ...     def __call__(self, x):
        ...         return self.slope * x + self.offset
        >>> line = Line()
        >>> line
        Line with 2 Variables of 2 numbers, 16 B
          path    dtype    shape  numbers  bytes
          offset  float64  ()           1    8 B
          slope   float64  ()           1    8 B
        >>> with functad.GradientTape() as tape:
        ...     y = line(3.0)
        >>> [float(g) for g in tape.gradient(y, line.trainable_variables)]
        [1.0, 3.0]
    """

    _frozen = False

    def __init__(self, name: str | None = None) -> None:
        name = _WORD.sub("_", type(self).__name__).lower() if name is None else name
        if not isinstance(name, str):
            raise TypeError(
                f"the name of a {type(self).__name__} is a {type(name).__name__}, at {here()}: it must be a string. Layers of "
                f"a Sequential go into one list."
            )
        if not name.isidentifier():
            raise ValueError(f"{name!r} cannot be the name of a module, at {here()}: use letters, digits and underscores.")
        scope = SCOPE.get()
        self._name = name
        self._scope = f"{scope}/{name}" if scope else name

    @property
    def name(self) -> str:
        """The name of the module.

        Raises:
            AttributeError: `super().__init__()` was not called.
        """
        self._require_name()
        return self._name

    def _require_name(self) -> None:
        if "_name" not in vars(self):
            kind = type(self).__name__
            raise AttributeError(f"{kind} has no name, at {here()}: call super().__init__() first in {kind}.__init__.")

    @property
    def name_scope(self) -> NameScope:
        """A context in which the names of new Variables and modules begin with the name of this module and a slash."""
        self._require_name()
        return NameScope(self._scope)

    @staticmethod
    def with_name_scope(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that runs in the name scope of its module. For use as a decorator.

        Args:
            method: a method of a subclass of `Module`.

        Returns:
            A method with the same signature.

        Example:
            >>> import functad
            >>> class Scale(functad.Module):
            ...     @functad.Module.with_name_scope
            ...     def build(self):
            ...         self.factor = functad.Variable(1.0, name="factor")
            >>> scale = Scale()
            >>> scale.build()
            >>> scale.factor.name
            'scale/factor'
        """

        @functools.wraps(method)
        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return scoped

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The Variables of the module, then of its submodules, each in the order of attribute names."""
        return tuple(found for _, found in parts_of(self) if isinstance(found, Variable))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """The trainable Variables of the module and its submodules."""
        return tuple(variable for variable in self.variables if variable.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        """The Variables of the module and its submodules that are not trainable."""
        return tuple(variable for variable in self.variables if not variable.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """The modules inside the module, at any depth, in the order of the search."""
        return tuple(found for _, found in parts_of(self) if isinstance(found, Module) and found is not self)

    @property
    def trainable(self) -> bool:
        """Whether the module is trained. Set it to `False` to freeze all its Variables, and to `True` to unfreeze them.

        Variables of a frozen module are not in `trainable_variables`, and tapes follow them only after `watch`. Submodules
        are frozen too, and so are objects that are later assigned to attributes. Variables made with `trainable=False` are
        never trainable.

        Example:
            >>> import functad
            >>> model = functad.nn.Sequential([functad.nn.Dense(3, inputs=2), functad.nn.Dense(1, inputs=3)])
            >>> model.layers[0].trainable = False
            >>> [variable.name for variable in model.trainable_variables]
            ['dense/bias', 'dense/kernel']
        """
        return not self._frozen

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        object.__setattr__(self, "_frozen", not trainable)
        _freeze(self, not trainable)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if self._frozen and name != "trainable":
            _freeze(value, frozen=True)

    def __repr__(self) -> str:
        from functad.eager.shown import module_text  # noqa: PLC0415 - only displays need it

        return module_text(
            type(self).__name__, [(path, found) for path, found in parts_of(self) if isinstance(found, Variable)]
        )

    def _repr_html_(self) -> str:
        from functad.eager.shown import module_markup  # noqa: PLC0415 - as above

        parts = list(parts_of(self))
        variables = [(path, found) for path, found in parts if isinstance(found, Variable)]
        modules = [(path, found) for path, found in parts if isinstance(found, Module) and found is not self]
        return module_markup(type(self).__name__, vars(self).get("_name", ""), variables, modules)


def _freeze(root: Any, frozen: bool) -> None:
    for _, found in parts_of(root):
        if isinstance(found, Variable):
            found.freeze(frozen)
        elif isinstance(found, Module):
            object.__setattr__(found, "_frozen", frozen)


class NameScope:
    """The context manager of `Module.name_scope`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._open: list[AbstractContextManager[None]] = []

    def __enter__(self) -> str:
        scope = setting(SCOPE, self.name)
        scope.__enter__()
        self._open.append(scope)
        return self.name

    def __exit__(self, *exception: object) -> None:
        self._open.pop().__exit__(None, None, None)


def parts_of(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield pairs of attribute path and object for the parts of a module or of a container of modules and Variables.

    The parts are Variables, modules (with the root, at the empty path), and objects with a method `__functad_state__`. A path
    consists of attribute names, indices and keys, as in `layers/0/kernel`.
    """
    seen = {id(root)}
    if _is_kept(root):
        yield "", root
    owners = [("", root)]
    while owners:
        path, owner = owners.pop()
        modules: list[tuple[str, Any]] = []
        waiting = _children(path, owner)
        while waiting:
            where, found = waiting.pop()
            if id(found) in seen:
                continue
            if _is_kept(found):
                seen.add(id(found))
                yield where, found
            if isinstance(found, Module):
                modules.append((where, found))
            elif children := _children(where, found):
                seen.add(id(found))
                waiting += children
        owners += reversed(modules)


def _is_kept(found: Any) -> bool:
    return isinstance(found, (Variable, Module)) or hasattr(type(found), "__functad_state__")


def _children(path: str, found: Any) -> list[tuple[str, Any]]:
    """Return the children of a module or container in reverse order; an empty list for another object."""
    steps: Iterable[tuple[Any, Any]]
    if isinstance(found, Module):
        steps = sorted(vars(found).items(), key=itemgetter(0))
    elif isinstance(found, dict):
        steps = [(key, found[key]) for key in ordered_keys(found)]
    elif isinstance(found, tuple) and hasattr(found, "_fields"):
        steps = zip(found._fields, found, strict=True)
    elif isinstance(found, (list, tuple)):
        steps = enumerate(found)
    elif dataclasses.is_dataclass(found) and not isinstance(found, type) and not getattr(found, "is_tree_leaf", False):
        steps = sorted(
            ((field.name, getattr(found, field.name, None)) for field in dataclasses.fields(found)), key=itemgetter(0)
        )
    else:
        return []
    return [(f"{path}/{step}" if path else str(step), child) for step, child in steps][::-1]


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
