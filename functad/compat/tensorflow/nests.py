"""`tf.nest`: nested lists, tuples, namedtuples and dicts. Dicts are ordered by sorted keys; all other objects are leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from functad.compat.tensorflow.names import named
from functad.places import here


@named("nest.is_nested")
def is_nested(structure: Any) -> bool:
    """Return `True` if `structure` is a list, a tuple, a namedtuple, a dict or a range."""
    return isinstance(structure, (list, tuple, dict, range))


def _sorted_keys(structure: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(structure)
    except TypeError:
        raise TypeError(
            f"a dict with the keys {list(structure)}, at {here()}, has no order: its keys must be sortable."
        ) from None


def _parts(structure: Any) -> list[Any]:
    if isinstance(structure, dict):
        return [structure[key] for key in _sorted_keys(structure)]
    return list(structure)


def _rebuilt(structure: Any, parts: Sequence[Any]) -> Any:
    """Return a container of the same type and key order with new parts."""
    if isinstance(structure, dict):
        by_key = dict(zip(_sorted_keys(structure), parts, strict=True))
        pairs = [(key, by_key[key]) for key in structure]
        return defaultdict(structure.default_factory, pairs) if isinstance(structure, defaultdict) else type(structure)(pairs)
    if isinstance(structure, range):
        return list(parts)
    return type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)


@named("nest.flatten")
def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Return the leaves of a nested structure; an object that is not nested is its own leaf."""
    return [leaf for part in _parts(structure) for leaf in flatten(part)] if is_nested(structure) else [structure]


@named("nest.pack_sequence_as")
def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """Return leaves in the structure of another object.

    Raises:
        TypeError: the leaves are not in a list or tuple.
        ValueError: the number of leaves differs from the structure.
    """
    if not isinstance(flat_sequence, (list, tuple)):
        raise TypeError(f"flat_sequence is a {type(flat_sequence).__name__}, at {here()}: give a list of the leaves.")
    wanted = len(flatten(structure))
    if len(flat_sequence) != wanted:
        raise ValueError(f"flat_sequence has {len(flat_sequence)} elements, and the structure {wanted}, at {here()}.")
    return _packed(structure, iter(flat_sequence))


def _packed(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    return _rebuilt(structure, [_packed(part, leaves) for part in _parts(structure)])


@named("nest.assert_same_structure")
def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Raise an error if two structures are nested differently.

    Args:
        nest1: a nested structure.
        nest2: the other structure.
        check_types: container types must match too; all dicts count as one type.
        expand_composites: has no effect.

    Raises:
        ValueError: numbers of parts or keys differ, or only one of the structures is a leaf.
        TypeError: container types differ.
    """
    if is_nested(nest1) != is_nested(nest2):
        raise ValueError(f"{nest1!r} and {nest2!r} do not have the same structure, at {here()}: one of them is a leaf.")
    if not is_nested(nest1):
        return
    if check_types and not _same_type(nest1, nest2):
        raise TypeError(
            f"a {type(nest1).__name__} and a {type(nest2).__name__} are not the same type of container, at {here()}. "
            f"check_types=False compares the numbers of parts alone."
        )
    if len(nest1) != len(nest2):
        raise ValueError(
            f"a {type(nest1).__name__} of {len(nest1)} and a {type(nest2).__name__} of {len(nest2)} do not have the same "
            f"structure, at {here()}."
        )
    if isinstance(nest1, dict) and isinstance(nest2, dict) and set(nest1) != set(nest2):
        raise ValueError(f"dicts with the keys {list(nest1)} and {list(nest2)}, at {here()}, do not have the same structure.")
    for one, other in zip(_parts(nest1), _parts(nest2), strict=True):
        assert_same_structure(one, other, check_types)


def _same_type(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return True
    if hasattr(one, "_fields") and hasattr(other, "_fields"):
        return type(one).__name__ == type(other).__name__ and one._fields == other._fields
    return type(one) is type(other)


@named("nest.map_structure")
def map_structure(func: Callable[..., Any], *structure: Any, check_types: bool = True, expand_composites: bool = False) -> Any:
    """Apply a function to the corresponding leaves of several structures.

    Raises:
        TypeError: `func` is not callable, or container types differ.
        ValueError: no structure was given, or the numbers of parts differ.
    """
    if not callable(func):
        raise TypeError(f"map_structure() of a {type(func).__name__}, at {here()}: its first argument is the function.")
    if not structure:
        raise ValueError(f"map_structure() without a structure, at {here()}: give at least one.")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in zip(*map(flatten, structure), strict=True)])
