"""`einsum`: sums of products, with one letter for each axis.

Each number of operands has its own primitive. So each operand has its own rule, with the other operands as its only residuals.
Records contain explicit subscripts: no ellipsis, and the letters of the result after `->`.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from functad.expressions.spec import PLAIN, ArraySpec, spec_of, stand_in
from functad.primitives.arranging.shapes import query
from functad.primitives.batching import one_by_one
from functad.primitives.entry import Primitive, Rule, Samples
from functad.primitives.kinds import composite, linear
from functad.primitives.operands import is_traced, refuse_out, strong

Shape = tuple[int, ...]
Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]

_SYMBOLS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # integers of sublists index this string
_LARGE = 20_000


def _einsum(*operands: Any, subscripts: str, optimize: Any) -> Any:
    if optimize is False and len(operands) == 2:
        optimize = is_by_blas(subscripts, operands[0].size * operands[1].size)
    return np.einsum(subscripts, *operands, optimize=optimize)


class Contraction(NamedTuple):
    """A sum of products in the notation of `np.einsum`, without an ellipsis. Axes with the same letter are the same.

    Attributes:
        terms: for each operand, the letters of its axes. An axis that NumPy broadcasts has length 1.
        result: the letters of the axes of the result.
    """

    terms: tuple[str, ...]
    result: str

    def role(self, letter: str) -> str:
        """Return the role of an axis of two operands: `depth` (summed), `batch` (in both), `row` or `column` (in one)."""
        a, b = self.terms
        if letter not in self.result:
            return "depth"
        return "batch" if letter in a and letter in b else "row" if letter in a else "column"

    @property
    def has_diagonals(self) -> bool:
        """`True` if a letter occurs twice in an operand."""
        return any(term.count(letter) > 1 for term in self.terms for letter in term if letter != " ")

    @property
    def is_matrix_product(self) -> bool:
        """`True` for two operands with rows, columns and summed axes that both have, and without diagonals."""
        a, b = map(set, self.terms)
        roles = set(map(self.role, a | b))
        return {"row", "column", "depth"} <= roles and (a ^ b) <= set(self.result) and not self.has_diagonals

    def sizes(self, shapes: Sequence[Shape]) -> dict[str, int]:
        """Return the length of each axis, given the shapes of the operands."""
        found: dict[str, int] = {}
        for term, shape in zip(self.terms, shapes, strict=True):
            for letter, n in zip(term, shape, strict=True):
                found[letter] = n if found.get(letter, 1) == 1 else found[letter]
        return found

    def compact(self, shapes: Sequence[Shape]) -> tuple[Contraction, dict[str, int]]:
        """Return a contraction with a space for each axis of length 1 of an array, and the lengths of the other axes."""
        sizes = self.sizes(shapes)
        result = tuple([sizes[letter] for letter in self.result])
        *terms, out = [
            "".join([letter if n > 1 else " " for letter, n in zip(term, shape, strict=True)])
            for term, shape in zip((*self.terms, self.result), (*shapes, result), strict=True)
        ]
        return Contraction(tuple(terms), out), {letter: n for letter, n in sizes.items() if n > 1}

    def length(self, role: str, sizes: Mapping[str, int]) -> int:
        """Return the product of the lengths of all axes with a role."""
        return math.prod([n for letter, n in sizes.items() if self.role(letter) == role])


@lru_cache(maxsize=4096)
def terms_of(subscripts: str) -> Contraction:
    """Return the letters of each operand and the letters of the result."""
    inputs, _, result = subscripts.partition("->")
    return Contraction(tuple(inputs.split(",")), result)


@lru_cache(maxsize=4096)
def _is_matrix_product(subscripts: str) -> bool:
    return terms_of(subscripts).is_matrix_product


def is_by_blas(subscripts: str, products: int) -> bool:
    """Return `True` if BLAS should compute an einsum of two arrays; 300 x 300 take 4 ms, not 13. `products`: their sizes."""
    return products > _LARGE and _is_matrix_product(subscripts)


def _einsum_spec(*operands: Any, subscripts: str, optimize: Any) -> ArraySpec:
    specs = [spec_of(a) for a in operands]
    terms, result = terms_of(subscripts)
    sizes: dict[str, int] = {}
    for term, spec in zip(terms, specs, strict=True):
        for letter, n in zip(term, spec.shape, strict=True):
            if sizes.setdefault(letter, n) == 1:
                sizes[letter] = n
            elif n not in (1, sizes[letter]):
                raise ValueError(f"einsum {subscripts!r}: the axes called {letter!r} have lengths {sizes[letter]} and {n}")
    return ArraySpec(tuple([sizes[letter] for letter in result]), np.result_type(*[spec.dtype for spec in specs]))


@lru_cache(maxsize=4096)
def _recipe(subscripts: str, position: int, shape: Shape) -> tuple[str, tuple[bool, ...], Shape, str]:
    """Return the steps that compute the cotangent of the operand at `position`, with the given shape.

    The cotangent is broadcast along a letter that occurs only in this operand. It is summed over an axis of length 1, which
    may have been broadcast. A letter that occurs twice reads a diagonal, so the cotangent is placed on the diagonal.

    Returns:
        The subscripts of the einsum of `g` with the other operands, empty for `g` itself; a flag for each letter of the
        operand, `True` if this einsum returns it; the lengths of all letters; and the subscripts that read the diagonal, or "".
    """
    terms, result = terms_of(subscripts)
    own = terms[position]
    rest = terms[:position] + terms[position + 1 :]
    lengths = dict(zip(own, shape, strict=True))
    known = set(result).union(*rest)
    target = "".join([letter for letter, n in lengths.items() if letter in known and n != 1])
    contraction = ",".join([result, *rest]) + "->" + target if rest or target != result else ""
    diagonal = f"{own}->{''.join(lengths)}" if len(lengths) < len(own) else ""
    return contraction, tuple([letter in target for letter in lengths]), tuple(lengths.values()), diagonal


def _pull(g: Any, subscripts: str, optimize: Any, position: int, shape: Shape, others: tuple[Any, ...]) -> Any:
    """Return the cotangent of one operand, an einsum of `g` with the other operands."""
    contraction, given, full, diagonal = _recipe(subscripts, position, shape)
    if contraction:
        path = optimize if isinstance(optimize, (bool, str)) else "greedy"
        g = _contract((g, *others), contraction, path)
    if g.shape != full:
        lengths = iter(g.shape)
        g = np.broadcast_to(g.reshape(tuple([next(lengths) if present else 1 for present in given])), full)
    return SPREAD(g, subscripts=diagonal, shape=shape) if diagonal else g


def _rule(position: int, names: list[str]) -> Rule:
    """Return the VJP rule of one operand; its signature names the residuals: the operand's shape and the other operands."""

    def pull(g: Any, subscripts: str, optimize: Any, shape: Shape, *others: Any) -> Any:
        return _pull(g, subscripts, optimize, position, shape, others)

    read = ["g", "subscripts", "optimize", f"{names[position]}_shape", *names[:position], *names[position + 1 :]]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    pull.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in read])  # type: ignore[attr-defined]
    return pull


def _canonical_samples(count: int) -> Samples:
    def samples(array: Any) -> Calls:
        others = [array(3) for _ in range(count - 1)]
        diagonal = (array(3, 2, 3), *others), "aba" + ",a" * (count - 1) + "->ab"
        if count == 1:
            calls = [((array(2, 3),), "ab->ba"), ((array(2, 3),), "ab->b"), diagonal, ((array(2, 2),), "aa->")]
        else:
            calls = [((array(2, 3), *others), "ab" + ",b" * (count - 1) + "->a"), diagonal]
        return [(arrays, {"subscripts": subscripts, "optimize": False}) for arrays, subscripts in calls]

    return samples


class _Einsum(Primitive):
    def __reduce__(self) -> Any:
        return einsum_of, (len(self.names),)


@cache
def einsum_of(count: int) -> Primitive:
    """Return the primitive for `count` operands."""
    names = [f"a{i}" for i in range(count)]
    return _Einsum(
        np.einsum,
        name="einsum",
        kind="multilinear",
        names=names,
        compute=_einsum,
        vjps=tuple([_rule(i, names) for i in range(count)]),
        spec=_einsum_spec,
        samples=_canonical_samples(count),
        internal=True,
        doc="linear in each operand",
        views="always" if count == 1 else "",  # transposes and diagonals
        zero_d=False,
        batch=_einsum_batch,
        dependence="einsum",
    )


def _einsum_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    """Use an unused letter for the batch axis, or compute the examples one by one if no letter is left."""
    subscripts = params["subscripts"]
    terms, result = terms_of(subscripts)
    letter = next((symbol for symbol in _SYMBOLS if symbol not in subscripts), None)
    if letter is None:
        return one_by_one(primitive, size, values, batched, params)
    given = [letter * own + term for term, own in zip(terms, batched, strict=True)]
    optimize = params["optimize"] if isinstance(params["optimize"], (bool, str)) else "greedy"
    return primitive(*values, subscripts=f"{','.join(given)}->{letter}{result}", optimize=optimize)


for _count in (1, 2, 3):
    einsum_of(_count)


def _contract(arrays: Sequence[Any], subscripts: str, optimize: Any) -> Any:
    return einsum_of(len(arrays))(*arrays, subscripts=subscripts, optimize=optimize)


def _spread(x: Any, *, subscripts: str, shape: Shape) -> Any:
    """Return zeros of a shape with `x` on the diagonal that `einsum(subscripts, ...)` reads from an array of this shape."""
    if type(x) in PLAIN:
        whole = np.zeros(shape, x.dtype)
        np.einsum(subscripts, whole)[...] = x  # einsum returns a view if it only rearranges
        return whole
    own, result = subscripts.split("->")  # arrays of another library may have no views: broadcast x, and a mask
    mask: Any = np.zeros(shape, np.bool_)
    np.einsum(subscripts, mask)[...] = True
    x = x.transpose([result.index(letter) for letter in dict.fromkeys(own)])
    x = x[tuple([slice(None) if own.index(letter) == i else None for i, letter in enumerate(own)])]
    return np.where(np.asarray(mask, like=x), x, x.dtype.type(0))


def _spread_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    (own,), result = terms_of(params["subscripts"])
    letter = next((symbol for symbol in _SYMBOLS if symbol not in own), None)
    if letter is None:
        return one_by_one(primitive, size, values, batched, params)
    return primitive(values[0], subscripts=f"{letter}{own}->{letter}{result}", shape=(size, *params["shape"]))


SPREAD = linear(
    _spread,
    lambda g, subscripts: _contract((g,), subscripts, False),
    name="spread",
    spec=lambda x, *, subscripts, shape: ArraySpec(shape, spec_of(x).dtype),
    samples=lambda array: [((array(3, 2),), {"subscripts": "aba->ab", "shape": (3, 2, 3)})],
    internal=True,
    doc="lays an array on a diagonal of zeros; the transpose of reading the diagonal",
    batch=_spread_batch,
    fresh=True,
    decomposition=True,
    dependence="moved",
)


def _letters(sublist: Iterable[Any]) -> str:
    """Return the letters for the integers of a sublist."""
    return "".join(["..." if item is Ellipsis else _SYMBOLS[operator.index(item)] for item in sublist])


def _split(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Return the subscripts and operands of a call in either form: `"ij,jk", a, b` or `a, [0, 1], b, [1, 2], [0, 2]`."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), list(operands[1:])
    pairs = len(operands) // 2
    subscripts = ",".join([_letters(sublist) for sublist in operands[1 : 2 * pairs : 2]])
    if len(operands) % 2:
        subscripts += "->" + _letters(operands[-1])
    return subscripts, list(operands[0 : 2 * pairs : 2])


@lru_cache(maxsize=4096)
def explicit_subscripts(subscripts: str, ndims: tuple[int, ...]) -> str:
    """Return subscripts with letters in place of ellipses, and with the letters of the result.

    Args:
        subscripts: as for `np.einsum`, without spaces.
        ndims: the number of axes of each operand.

    Raises:
        ValueError: the subscripts do not fit the operands.

    Example:
        >>> explicit_subscripts("...ij,jk", (3, 2))
        'Aij,jk->Aik'
    """
    inputs, arrow, result = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"einsum {subscripts!r}: there are {len(terms)} terms and {len(ndims)} operands")
    extra = []
    for term, ndim in zip(terms, ndims, strict=True):
        named = len(term.replace("...", "", 1))
        extra.append(ndim - named if "..." in term else 0)
        if extra[-1] < 0 or named + extra[-1] != ndim:
            raise ValueError(f"einsum {subscripts!r}: the term {term!r} is for another number of axes than {ndim}")
    most = max(extra)
    dots = "".join([letter for letter in _SYMBOLS if letter not in subscripts][:most])
    terms = [term.replace("...", dots[most - n :], 1) for term, n in zip(terms, extra, strict=True)]
    if arrow and most and "..." not in result:
        raise ValueError(f"einsum {subscripts!r}: the result needs an ellipsis too")
    if not arrow:
        counts = Counter(inputs.replace("...", "").replace(",", ""))
        result = "..." + "".join(sorted(letter for letter, n in counts.items() if n == 1))
    result = result.replace("...", dots, 1)
    if len(set(result)) != len(result) or not set(result) <= set("".join(terms)) or not set("".join(terms)) <= set(_SYMBOLS):
        raise ValueError(f"einsum {subscripts!r}: each letter of the result must occur there once, and in an operand")
    return ",".join(terms) + "->" + result


def _hashable(optimize: Any) -> Any:
    """Return the keyword `optimize` with a path, a list, as a tuple."""
    return tuple(map(_hashable, optimize)) if isinstance(optimize, (list, tuple)) else optimize


def _einsum_samples(array: Any) -> Calls:
    a, b, c = array(2, 3), array(3, 2), array(3)
    return [
        (("ij,jk->ik", a, b), {}), (("ij,jk", a, b), {}), (("ij,kj->", a, a), {}), (("ij,j->i", a, c), {"optimize": True}),
        (("i,i", c, c), {}), (("i,j->ij", c, c), {}), (("ij->ji", a), {}), (("ij->", a), {}), (("ij->j", a), {}),
        (("ii->i", array(3, 3)), {}), (("ii", array(3, 3)), {}), (("iji->j", array(2, 3, 2)), {}),
        (("ii,ij->j", array(2, 2), a), {}), (("ij,j->j", a, c), {}), (("i,j->", c, array(2)), {}),
        (("...ij,...jk->...ik", array(2, 2, 3), b), {}), (("...i->...", array(2, 1, 3)), {}), (("i...,i...", a, array(2)), {}),
        (("bij,bjk->bik", array(2, 2, 3), array(2, 3, 1)), {}), (("ij , jk", array(2, 3), array(1, 2)), {}),
        (("ij,ij->ij", a, array(1, 3)), {}), (("ij,jk,k->i", a, b, array(2)), {"optimize": "greedy"}),
        (("ij,jk,kl,l->i", a, b, array(2, 2), array(2)), {}), ((",i->i", array(), c), {}), (("i->i", array(0)), {}),
        (("ij,jk", a, b), {"optimize": ["einsum_path", (0, 1)]}), ((a, [0, 1], b, [1, 2], [2, 0]), {}),
        ((a, [0, 1], b, [1, 2]), {}), ((array(2, 2, 3), [Ellipsis, 4], c, [4]), {}),
    ]  # fmt: skip


@composite(np.einsum, samples=_einsum_samples, doc="linear in each operand: that of a product of sums")
def einsum(
    *operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, order: str = "K", casting: Any = "safe"
) -> Any:
    """Return the sum of products given by the subscripts."""
    refuse_out(out, "einsum")
    subscripts, arrays = _split(operands)
    arrays = [strong(a) if hasattr(a, "ndim") else np.asarray(a) for a in arrays]
    if dtype is not None:
        for a in arrays:
            if not np.can_cast(a.dtype, dtype, casting):
                raise TypeError(f"einsum cannot cast {a.dtype} to {np.dtype(dtype)} by the rule {casting!r}")
        arrays = [a.astype(dtype) for a in arrays]
    subscripts = explicit_subscripts(subscripts, tuple([a.ndim for a in arrays]))
    return _contract(arrays, subscripts, _hashable(optimize))


@query(
    np.einsum_path,
    samples=lambda array: [(("ij,jk,k", array(2, 3), array(3, 2), array(2)), {})],
    doc="an order of contractions, read from the shapes",
)
def einsum_path(*operands: Any, optimize: Any = "greedy", **keywords: Any) -> Any:
    """Return an efficient order of contractions, and its description."""
    shapes = [stand_in(spec_of(a)) if is_traced(a) else a for a in operands]
    return np.einsum_path(*shapes, optimize=optimize, **keywords)
