"""Saving a model to a file and reading it back: one array for each Variable, by its attribute path, in an `.npz` file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from functad.eager.models.array_files import Entry, check_name, opened, write_arrays
from functad.eager.models.module import parts_of
from functad.eager.models.tensor_like import refuse_foreign_rules
from functad.eager.models.variable import Variable
from functad.errors import StateError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here

Entries = dict[str, Entry]


def save(module: Any, path: str | os.PathLike[str]) -> None:
    """Write the values of all Variables in a module to a file.

    The file is an `.npz` file, which `np.load` reads too; its keys are attribute paths such as `layers/0/kernel`. It is written
    beside `path` first and then put in its place, so that a file which was there is whole at any time; if it fails or is
    interrupted, nothing stays.

    Other objects in the module take part if they have two methods: `__functad_state__()` returns a dict of arrays, which are
    saved under the path of the object; `__functad_load__(state)` is given such a dict by `restore`. So an optimiser that is an
    attribute of a model is saved with it.

    Args:
        module: a module, or a list, tuple or dict of modules, Variables and such objects.
        path: of the file; no ending is added.

    Raises:
        StateError: there is nothing to save, two things have the same path, or a file cannot hold a path, as one with a NUL.

    Example:
        >>> import pathlib, tempfile, functad
        >>> layer = functad.nn.Dense(1, inputs=2, rng=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "layer.npz")
        ...     functad.save(layer, file)
        ...     other = functad.nn.Dense(1, inputs=2)
        ...     functad.restore(other, file)
        >>> bool((other.kernel == layer.kernel).all())
        True
    """
    state: dict[str, Any] = {}
    for key, value in _entries(module):
        if key in state:
            raise StateError(
                f"two things would be saved as {key!r}, at {here()}: give one of the attributes or keys another name."
            )
        check_name(key)
        state[key] = np.asarray(value)
        if state[key].dtype.kind not in "biufc":
            raise StateError(f"{key!r} is an array of {state[key].dtype}, at {here()}: only numbers can be saved.")
    if not state:
        raise StateError(f"a {type(module).__name__} without Variables cannot be saved, at {here()}. {_hint(module)}")
    write_arrays(Path(path), state)


def _hint(module: Any) -> str:
    if isinstance(module, (str, os.PathLike)):
        return "The module stands first, the path second."
    return "Layers that take their shape from the first call have to be called once before, or made with `inputs=`."


def _entries(module: Any) -> Iterator[tuple[str, Any]]:
    for path, found in parts_of(module):
        if isinstance(found, Variable):
            yield path, found.copied()
        elif _has_state(found):
            for key, value in found.__functad_state__().items():
                yield f"{path}/{key}" if path else key, value


def _has_state(found: Any) -> bool:
    return hasattr(type(found), "__functad_state__")


def restore(module: Any, path: str | os.PathLike[str] | Mapping[str, Any]) -> None:
    """Read the values of all Variables in a module from a file that `save` wrote, or take them from a dict.

    Everything is compared before anything is assigned: there must be an entry for each Variable, of its shape and dtype, and no
    other. Of a file the arrays are read after that. An object with `__functad_load__` is given the entries below its path. What
    its state names now must be among them and fit; further ones it may take, as an optimiser that has made no step yet, or
    refuse. If it raises, or an interrupt comes, nothing is changed.

    Args:
        module: what was saved, or another of the same structure.
        path: of the file; or a dict of arrays by attribute path, as `values_of` returns it.

    Raises:
        StateError: entries are missing, or too many, or of another shape or dtype: the message names all of them. Or the file
            is damaged, or holds something else than arrays of numbers, or a state out of all proportion; nothing in a file is
            ever executed. Nothing has been assigned then.

    Example:
        >>> import functad
        >>> layer = functad.nn.Dense(1, inputs=1)
        >>> values = functad.values_of(layer)
        >>> functad.restore(layer, values | {"kernel": values["kernel"] * 0 + 2})
        >>> layer([[3.0]]).numpy()
        array([[6.]])
    """
    if isinstance(path, Mapping):
        for key, value in path.items():
            refuse_foreign_rules(value, f"restore with a value for {key!r}")
        given: Any = nullcontext({key: _given(np.asarray(value)) for key, value in path.items()})
    else:
        given = opened(Path(path))
    found = list(parts_of(module))
    variables = {key: variable for key, variable in found if isinstance(variable, Variable)}
    with given as entries:
        wrong: list[str] = []
        for key, variable in variables.items():
            _compare(key, variable, entries, wrong)
        left = {key: entry for key, entry in entries.items() if key not in variables}
        others = _states_below(found, left, wrong)
        if wrong or left:
            wrong += [f"{key} is not in the module" for key in left]
            source = "a dict of values" if isinstance(path, Mapping) else path
            hint = f" {_hint(module)}" if left else ""
            raise StateError(f"{source} does not fit the {type(module).__name__}, at {here()}: {'; '.join(wrong)}.{hint}")
        if not isinstance(path, Mapping):
            _check_sizes(Path(path), [entries[key] for key in variables], others)
        values = [(variable, entries[key].read()) for key, variable in variables.items()]
        states = [(other, {key: entry.read() for key, entry in own.items()}) for other, own in others]
    with ExitStack() as undo:
        for other, state in states:
            undo.callback(other.__functad_load__, other.__functad_state__())
            other.__functad_load__(state)
        for variable, value in values:
            undo.callback(setattr, variable, "_value", variable.held)
            variable.assign(value)
        undo.pop_all()


def _given(array: Any) -> Entry:
    return Entry(array.shape, array.dtype, lambda: array)


def _check_sizes(path: Path, known: list[Entry], others: list[tuple[Any, Entries]]) -> None:
    """Refuse entries of a compressed file that nothing says the size of, if what they take unpacked is out of all proportion.

    Raises:
        StateError: they are larger than the file and much larger than all that was compared.
    """
    states = [(own, other.__functad_state__()) for other, own in others]
    known = known + [own[key] for own, state in states for key in state]
    further = sum([entry.size for own, state in states for key, entry in own.items() if key not in state])
    if further > path.stat().st_size + _PROPORTION * sum([entry.size for entry in known]):
        raise StateError(
            f"{path} holds {further} bytes of state that {', '.join([type(other).__name__ for other, _ in others])} does not "
            f"have yet, out of all proportion to the Variables, at {here()}: nothing of it was read."
        )


_PROPORTION = 100
"""So many times as large as Variables may a state be that an optimiser has had no step to make."""


def _states_below(found: list[tuple[str, Any]], left: Entries, wrong: list[str]) -> list[tuple[Any, Entries]]:
    """Take the entries below objects with a state of their own, and return them with these."""
    others: list[tuple[Any, Entries]] = []
    for where, other in sorted(found, key=lambda pair: -len(pair[0])):  # the innermost takes what lies below it
        if _has_state(other):
            prefix = f"{where}/" if where else ""
            own = {key[len(prefix) :]: left.pop(key) for key in list(left) if key.startswith(prefix)}
            for key, like in other.__functad_state__().items():
                _compare(key, np.asarray(like), own, wrong, prefix)
            others.append((other, own))
    return others


def _compare(key: str, like: Any, entries: Entries, wrong: list[str], prefix: str = "") -> None:
    """Write down if an entry is not there, or does not fit."""
    name, entry = prefix + key, entries.get(key)
    if entry is None:
        wrong.append(f"{name} is missing")
    elif entry.shape != shape_of(like):
        wrong.append(f"{name} has shape {entry.shape} in place of {shape_of(like)}")
    elif entry.dtype.newbyteorder("=") != dtype_of(like).newbyteorder("="):
        wrong.append(f"{name} is of {entry.dtype} in place of {dtype_of(like)}")
