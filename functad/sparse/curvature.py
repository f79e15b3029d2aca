"""Nonlinear interaction of inputs: the sparsity of a Hessian.

Each element that an operation computes by a nonlinear formula is an *event*: a list of pairs of sets of inputs. Each member of
the first set interacts with each member of the second set. `sin(x)` pairs the set of `x` with itself. `x * y` pairs the set of
`x` with the set of `y`. A sum has no pairs, so separable sums stay separate. Each element carries its set of inputs and its set
of events. Only the events of the result count. The `curvature` of a primitive selects its pairs: `none` if its derivatives are
constant between kinks.

Source: A. Walther, Computing sparse Hessians with automatic differentiation, ACM TOMS 34 (2008), nonlinear interaction domains.
The events are an extension: they exclude operations that do not reach the result.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from functad.expressions.spec import dtype_of
from functad.sparse.dependence import AHEAD, BEHIND, Call, aligned, contraction, convolution_pairs, passed
from functad.sparse.sets import Array, Sets, distinct, runs

_LARGEST_PRODUCT = 1 << 24
"""Matrix products with more factors than this are approximated: all factors of a sum interact with each other."""


class Pairs(NamedTuple):
    """Pairs of sets that interact in the element of a result at the position `place`."""

    place: Array
    first: Array
    second: Array


def interactions(call: Call, out: Array) -> Pairs | None:
    """Return the interacting pairs of a call of a primitive, or `None` if the call is linear.

    Args:
        call: the call, with the sets of the arguments.
        out: the sets of the single result.
    """
    primitive = call.primitive
    active = [i for i, sets in enumerate(call.given) if sets is not None]
    if primitive.kind == "multilinear":
        return _of_product(call, out, active)
    match primitive.curvature or ("none" if primitive.kind == "linear" else ""):
        case "none":
            return None
        case "none of reals" if dtype_of(call.values[0]).kind != "c":
            return None
        case "factors":
            return _of_factors(call, out)
        case "product":
            return _pairs(call.given[0], call.given[1], out.shape) if len(active) == 2 else None
        case "quotient":
            if active == [0]:
                return None
            own = _pairs(call.given[1], call.given[1], out.shape)
            return own if len(active) == 1 else _joined([own, _pairs(call.given[0], call.given[1], out.shape)])
    return _pairs(out, out, out.shape)


def _pairs(first: Any, second: Any, shape: tuple[int, ...]) -> Pairs:
    first, second = (np.broadcast_to(sets, shape).ravel() for sets in (first, second))
    return _kept(Pairs(np.arange(len(first)), first, second))


def _kept(pairs: Pairs) -> Pairs:
    keep = (pairs.first != 0) & (pairs.second != 0)
    return pairs if keep.all() else Pairs(*[part[keep] for part in pairs])


def _joined(parts: list[Pairs]) -> Pairs:
    return Pairs(*[np.concatenate(columns) for columns in zip(*parts, strict=True)])


def _of_factors(call: Call, out: Array) -> Pairs:
    """Pair each factor of a product along an axis with the other factors, and not with itself."""
    rows = np.moveaxis(call.of(0), call.params["axis"], -1)
    count = rows.shape[-1]
    if rows.size * count > 2 * _LARGEST_PRODUCT:
        return _pairs(out, out, out.shape)
    i, j = np.triu_indices(count, 1)
    place = np.repeat(np.arange(out.size), len(i))
    return _kept(Pairs(place, rows[..., i].ravel(), rows[..., j].ravel()))


def _of_product(call: Call, out: Array, active: list[int]) -> Pairs | None:
    """Pair each element of an operand with the elements of the other operands that multiply it."""
    if len(active) < 2:
        return None
    if call.primitive.dependence == "convolution":
        place, i, j = convolution_pairs(call)
        return _kept(Pairs(place, call.of(0)[i], call.of(1)[j]))
    if call.primitive.dependence == "cross":
        a, b = call.of(0), call.of(1)
        if a.shape[-1] != 3 or b.shape[-1] != 3:
            return _pairs(out, out, out.shape)
        ways = ((AHEAD, BEHIND), (BEHIND, AHEAD))
        return _joined([_pairs(a[..., one], b[..., other], out.shape) for one, other in ways])
    terms, result = contraction(call)
    order = result + "".join([letter for letter in dict.fromkeys("".join(terms)) if letter not in result])
    factors = [aligned(call.of(i), term, order) for i, term in enumerate(terms)]
    shape = np.broadcast_shapes(*[factor.shape for factor in factors])
    if math.prod(shape) > _LARGEST_PRODUCT:
        return _pairs(out, out, out.shape)
    place = np.arange(out.size).reshape(out.shape + (1,) * (len(order) - len(result)))
    place = np.broadcast_to(place, shape).ravel()
    parts = []
    for one, other in itertools.combinations(active, 2):
        first, second = (np.broadcast_to(factors[k], shape).ravel() for k in (one, other))
        parts.append(_kept(Pairs(place, first, second)))
    return _joined(parts)


class Events:
    """The events of a function, in order of execution.

    Attributes:
        sets: the table of sets of events.
        steps: for each operation with events: the number of its first event, the sets of events before it, and the pairs.
    """

    def __init__(self) -> None:
        self.sets = Sets()
        self.steps: list[tuple[int, Array, Pairs]] = []

    def passed(self, call: Call, given: list[Array | None], found: list[Array]) -> list[Array | None]:
        """Return the sets of events of the elements of each result of a call; `None` if there are none.

        Args:
            call: the call, with sets of inputs.
            given: the sets of events of the arguments.
            found: the sets of inputs of the results.
        """
        before: list[Array | None] = [None] * len(found)
        if any(sets is not None for sets in given):
            before = list(passed(Call(call.primitive, self.sets, given, call.values, call.params, call.shapes)))
        after = []
        for out, sets in zip(found, before, strict=True):
            pairs = interactions(call, out) if len(found) == 1 else _pairs(out, out, out.shape)
            after.append(sets if pairs is None or not len(pairs.place) else self._happened(pairs, sets, out.shape))
        return after

    def _happened(self, pairs: Pairs, before: Array | None, shape: tuple[int, ...]) -> Array:
        """Add an event for each element with pairs, and return the sets of events of all elements."""
        after = np.zeros(math.prod(shape), np.int64) if before is None else before.flatten()
        places = distinct(pairs.place)
        first = self.sets.universe
        parents = after[places]
        after[places] = self.sets.singletons(len(places))
        self.steps.append((first, parents, pairs._replace(place=np.searchsorted(places, pairs.place))))
        return after.reshape(shape)

    def pairs(self, result: Array | None, count: int) -> tuple[Array, Array]:
        """Return the distinct pairs of sets of inputs that interact in the events of a result.

        Args:
            result: the sets of events; `None` if there are none.
            count: the number of sets of inputs.
        """
        reached = np.zeros(self.sets.universe, bool)
        if result is not None:
            reached[self.sets.members(distinct(result))] = True
        found = [np.zeros(0, np.int64)]
        for start, parents, pairs in reversed(self.steps):
            alive = reached[start : start + len(parents)]
            reached[self.sets.members(distinct(parents[alive]))] = True
            counts = alive[pairs.place]
            first, second = pairs.first[counts], pairs.second[counts]
            found.append(distinct(np.minimum(first, second) * count + np.maximum(first, second)))
        keys = distinct(np.concatenate(found))
        return keys // count, keys % count


def multiplied(sets: Sets, first: Array, second: Array) -> tuple[Array, Array]:
    """Return the pairs of members of pairs of sets, in both orders, sorted and distinct.

    Args:
        sets: the table of sets.
        first: ids of sets.
        second: ids of sets, equally many.
    """
    n = sets.universe
    sizes = sets.length[first] * sets.length[second]
    keys = np.zeros(0, np.int64)
    ends = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        done = ends[low] - sizes[low]
        high = max(low + 1, int(np.searchsorted(ends, done + _LARGEST_PRODUCT, "right")))
        a, b = first[low:high], second[low:high]
        lengths = sets.length[b]
        i = sets.members(a).astype(np.int64)
        owner = np.repeat(np.arange(len(a)), sets.length[a])
        j = sets.pool[runs(sets.start[b][owner], lengths[owner])]
        i = np.repeat(i, lengths[owner])
        keys = distinct(np.concatenate([keys, i * n + j, j * np.int64(n) + i]))
        low = high
    return keys // max(n, 1), keys % max(n, 1)
