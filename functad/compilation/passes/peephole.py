"""Constant folding, common subexpression elimination and peephole rewrites, in one pass over a list.

A row of the table of rewrites is two NumPy functions with the same results. The first function is traced once into a tree of
primitives, the pattern. The second function is traced for each kind of arguments found, so that dtypes and weak types follow
NumPy. A rewrite that would change the shape or dtype of the result is not applied.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, spec_of
from functad.primitives.entry import Primitive
from functad.primitives.safe import MENDED
from functad.transforms.lists import trace

LARGEST_FOLDED = 2**16
"""Maximal bytes of a folded result. A larger result is folded only if the constants it replaces are as large."""

_SMALLEST_FLOAT = 4
"""Minimal item size for rewrites that change digits or zeros. Half precision overflows too soon."""

_ROUNDS = 8
"""Maximal number of rows that are applied to one equation in succession."""

_LARGE = 1000
"""Minimal number of elements at which NumPy reads an array more slowly than it converts a number."""

_NUMBERS = (np.generic, *PYTHON_SCALARS)


class Rewriter:
    """A pass that rewrites a list, equation by equation.

    Args:
        expressions: the list.
        index: the patterns to search for.
        exact: `True` if results must not change in any bit. Arrays then also keep their memory layout.

    Attributes:
        specs: the specs of all slots, new slots included.
        equations: the equations written so far.
        made: the equations with one result, by the slot of the result.
        moved: the replacement sources of slots that are no longer computed.
        uses: the number of readers of each slot.
        applied: the number of rewrites applied.
    """

    def __init__(self, expressions: Expressions, index: Index, exact: bool = False) -> None:
        self.expressions = expressions
        self.index = index
        self.exact = exact
        self.specs = list(expressions.specs)
        self.equations: list[Equation | None] = []
        self.made: dict[int, Equation] = {}
        self.moved: dict[int, Any] = {}
        self.uses = [0] * len(self.specs)
        for s in itertools.chain.from_iterable([*[e.inputs for e in expressions.equations], expressions.outputs]):
            if type(s) is int:
                self.uses[s] += 1
        self.seen: dict[Any, tuple[Any, ...]] = {}
        self.numbers: dict[int, tuple[Any, Any]] = {}
        self.arrays: dict[int, tuple[Any, Any]] = {}
        self.applied = 0

    def run(self) -> Expressions:
        """Return the rewritten list."""
        for equation in self.expressions.equations:
            self.write(equation)
        outputs = tuple([self.moved.get(s, s) if type(s) is int else s for s in self.expressions.outputs])
        kept = tuple([e for e in self.equations if e is not None])
        return self.expressions.replace(equations=kept, outputs=outputs, specs=tuple(self.specs))

    def write(self, equation: Equation, rounds: int = 0) -> None:
        """Write an equation or its replacement."""
        moved = self.moved
        inputs = tuple([moved.get(s, s) if type(s) is int else s for s in equation.inputs])
        e = equation if inputs == equation.inputs else Equation(equation.primitive, inputs, equation.params, equation.outputs)
        if not any(type(s) is int for s in inputs) and self._fold(e):
            return
        e = self._narrowed(e)
        key = self._key(e)
        known = None if key is None else self.seen.get(key)
        if known is not None:
            for old, new in zip(e.outputs, known, strict=True):
                self._replace(e, old, new)
            return
        if len(e.outputs) == 1 and rounds < _ROUNDS:
            for pattern in self.index.candidates(e, self.made, self.number_of):
                found = match(pattern.root, e, self.made, self.number_of)
                if found is not None and self._apply(pattern, found, rounds):
                    if key is not None:
                        self.seen[key] = (moved[e.outputs[0]],)
                    return
        if key is not None:
            self.seen[key] = e.outputs
        self.equations.append(e)
        if len(e.outputs) == 1:
            self.made[e.outputs[0]] = e

    def number_of(self, source: Any) -> Any:
        """Return the common value of all elements of a constant (a Python number for an array), or `None` if they differ."""
        if type(source) is not Constant:
            return None
        value = source.value
        if isinstance(value, _NUMBERS):
            return value
        known = self.numbers.get(id(value))
        if known is None:
            known = self.numbers[id(value)] = _uniform(value), value
        return known[0]

    def _key(self, equation: Equation) -> Any:
        """Return a key that is equal for equations with equal results, or `None` if there is no such key."""
        primitive = equation.primitive
        if primitive.inner is not None or primitive.owner is not None or primitive.lists:
            return None
        try:
            parts = tuple([self._constant_key(s.value) if type(s) is Constant else s for s in equation.inputs])
            key = primitive, parts, _params_key(equation.params)
            hash(key)
        except TypeError:
            return None
        return key

    def _constant_key(self, value: Any) -> Any:
        if type(value) is not np.ndarray:
            return "constant", _value_key(value)
        known = self.arrays.get(id(value))
        if known is None:
            known = self.arrays[id(value)] = _value_key(value), value
        return known[0]

    def _fold(self, e: Equation) -> bool:
        """Fold an equation of constants, if the result is small. Return `True` if it was folded."""
        primitive = e.primitive
        if primitive.inner is not None or primitive.owner is not None or primitive.lists or not e.inputs:
            return False
        values = [s.value for s in e.inputs if type(s) is Constant]
        if not all(type(v) is np.ndarray or isinstance(v, _NUMBERS) for v in values):
            return False
        size = sum(spec.size * spec.dtype.itemsize for spec in map(self.specs.__getitem__, e.outputs))
        if size > max(LARGEST_FOLDED, sum(getattr(v, "nbytes", 8) for v in values)):
            return False
        try:
            with np.errstate(all="ignore"):
                out = primitive.compute(*values, **e.params)
        except Exception:  # noqa: BLE001 - the program raises the error when it runs
            return False
        results = out if primitive.multiple else (out,)
        if any(spec_of(r) != self.specs[s] for r, s in zip(results, e.outputs, strict=True)):
            return False
        for result, slot in zip(results, e.outputs, strict=True):
            self.moved[slot] = Constant(result)
        return True

    def _narrowed(self, e: Equation) -> Equation:
        """Return an elementwise equation with scalars in place of constant arrays with equal elements.

        Another input must have the shape of the result. A NumPy scalar takes part in dtype promotion, as the array does. A
        Python number does not, so it is used only if all arrays have the same dtype.
        """
        if len(e.inputs) < 2 or len(e.outputs) != 1 or not _is_elementwise(e.primitive):
            return e
        [slot] = e.outputs
        spec = self.specs[slot]
        if self.exact and spec.ndim > 1:  # the layout of such an array may decide the layout of the result
            return e
        found = {i: n for i, s in enumerate(e.inputs) if _is_large(s) and (n := self.number_of(s)) is not None}
        if getattr(e.primitive.python, "__name__", "") == "pow":  # NumPy uses another function for scalar exponents such as 0.5
            found.pop(1, None)
        if not found or not any(type(o) is int and self.specs[o].shape == spec.shape for o in e.inputs):
            return e
        one_dtype = len({own.dtype for s in e.inputs if not (own := self._spec(s)).weak}) == 1
        scalars = {i: n if one_dtype else e.inputs[i].value.dtype.type(n) for i, n in found.items()}  # type: ignore[union-attr]
        inputs = tuple([Constant(scalars[i]) if i in scalars else s for i, s in enumerate(e.inputs)])
        given = [s.value if isinstance(s, Constant) else self.specs[s] for s in inputs]
        return Equation(e.primitive, inputs, e.params, e.outputs) if e.primitive.spec(*given, **e.params) == spec else e

    def _apply(self, pattern: Pattern, found: Found, rounds: int) -> bool:
        """Replace the matched equations, if the row is valid for them. Return `True` if they were replaced."""
        row, root = pattern.row, found.equations[-1]
        slot = root.outputs[0]
        out = self.specs[slot]
        if out.dtype.kind not in row.kinds or (row.changes and out.dtype.itemsize < _SMALLEST_FLOAT):
            return False
        inner = [e.outputs[0] for e in found.equations[:-1]]
        saved = [s for s in inner if self.uses[s] == 1]
        if row.once and len(saved) < len(inner):
            return False
        if row.scalars and any(type(s) is Constant and np.ndim(s.value) for e in found.equations for s in e.inputs):
            return False
        known = {name: self._known(name, s, out.dtype) for name, s in found.given.items()}
        if not all(_is_in_range(k, out.dtype) for name, k in known.items() if name.startswith("c")):
            return False
        if not row.mixed and not self._of_one_dtype(out, inner, known):
            return False
        if row.where is not None and not row.where(**known, **({"out": out} if pattern.checks_out else {})):
            return False
        made = _second(pattern, tuple(known.items()), out, tuple(e.params for e in found.equations))
        if made is None or len(made.equations) > 1 + len(saved) + row.more:
            return False
        if not made.equations and not out.shape and not out.weak and not self._is_number(found, made.outputs[0]):
            return False
        self._put(made, [found.given[name] for name in pattern.names if not is_constant(name)], root, rounds)
        self.applied += 1
        return True

    def _is_number(self, found: Found, result: Any) -> bool:
        """Return `True` if the replacement of a scalar is a scalar too. Some functions return arrays of shape `()`."""
        if type(result) is Constant:
            return True
        arrays = [s for name, s in found.given.items() if not is_constant(name)]
        producer = self._producer(arrays[result])
        while producer is not None and producer.primitive is MENDED:  # it may return its argument
            producer = self._producer(producer.inputs[0])
        return producer is not None and producer.primitive.zero_d is False

    def _producer(self, source: Any) -> Equation | None:
        return self.made.get(source) if type(source) is int else None

    def _known(self, name: str, source: Any, dtype: np.dtype[Any]) -> Any:
        """Return the value of a constant argument, or the spec of another argument."""
        if name.startswith("c"):  # values computed from it need the precision of the result
            return dtype.type(source) if issubclass(type(source), np.generic) else source
        return source.value if name.startswith("k") else self._spec(source)

    def _spec(self, source: Any) -> ArraySpec:
        return self.specs[source] if type(source) is int else spec_of(source.value)

    def _of_one_dtype(self, out: ArraySpec, inner: Sequence[int], known: Mapping[str, Any]) -> bool:
        """Return `True` if all values have the dtype of the result. Weak types fit every dtype."""
        dtype = out.dtype
        if any(self.specs[s].dtype != dtype for s in inner):
            return False
        return all(k.dtype == dtype or k.weak for k in known.values() if type(k) is ArraySpec)

    def _put(self, made: Expressions, given: Sequence[Any], root: Equation, rounds: int) -> None:
        """Write the equations of a replacement, and redirect readers of the old result to its result."""
        places: dict[int, Any] = dict(enumerate(given))
        uses = self.uses
        for equation in made.equations:
            inputs = tuple([places[s] if type(s) is int else s for s in equation.inputs])
            slots = tuple(range(len(self.specs), len(self.specs) + len(equation.outputs)))
            self.specs += [made.specs[s] for s in equation.outputs]
            uses += [0] * len(slots)
            for s in inputs:
                if type(s) is int:
                    uses[s] += 1
            self.write(Equation(equation.primitive, inputs, equation.params, slots), rounds + 1)
            places |= {s: self.moved.get(new, new) for s, new in zip(equation.outputs, slots, strict=True)}
        result = made.outputs[0]
        self._replace(root, root.outputs[0], places[result] if type(result) is int else result)

    def _replace(self, equation: Equation, slot: int, source: Any) -> None:
        """Redirect the readers of `slot`, a result that is no longer computed, to `source`."""
        self.moved[slot] = source
        if type(source) is int:
            self.uses[source] += self.uses[slot]
        if slot == equation.outputs[0]:
            self._release(equation)

    def _release(self, equation: Equation) -> None:
        """Remove an equation from the use counts, with every equation that has no reader left."""
        waiting = [equation]
        while waiting:
            for s in inputs_of(waiting.pop()):
                self.uses[s] -= 1
                if self.uses[s] == 0 and s in self.made:
                    waiting.append(self.made[s])


def _second(pattern: Pattern, known: tuple[tuple[str, Any], ...], out: ArraySpec, params: Sequence[Any]) -> Expressions | None:
    """Return the replacement of a pattern as a list, or `None` if the spec of its result differs."""
    key: Any = id(pattern.row), tuple([(name, _value_key(k)) for name, k in known])
    if "out" in pattern.wants:
        key = *key, out
    if "params" in pattern.wants:
        key = *key, tuple([_params_key(p) for p in params])
    if key not in _SECONDS:
        if len(_SECONDS) > 10_000:
            _SECONDS.clear()
        given = dict(known)
        extra = {"out": out, "params": params}
        arrays = [name for name in pattern.names if not is_constant(name)]

        def second(*own: Any) -> Any:
            values = given | dict(zip(arrays, own, strict=True)) | {name: extra[name] for name in pattern.wants}
            with np.errstate(all="ignore"):
                return pattern.row.after(**values)

        made = trace("simplify", second, [given[name] for name in arrays])
        _SECONDS[key] = made, pattern
    made = _SECONDS[key][0]
    return made if made.results == [out] else None


_SECONDS: dict[Any, tuple[Expressions, Pattern]] = {}
"""Replacement functions, traced, by row and kinds of arguments."""


def reorders(dtype: np.dtype[Any]) -> bool:
    """Return `True` if sums and products of this dtype may be reordered.

    Half precision has 11 bits: a running sum of ones stops at 2048, and another order gives another number.
    """
    return dtype.kind == "f" and dtype.itemsize >= _SMALLEST_FLOAT


def _is_elementwise(primitive: Primitive) -> bool:
    function = primitive.function
    return primitive.kind == "elementwise" or (isinstance(function, np.ufunc) and function.signature is None)


def _is_in_range(c: Any, dtype: np.dtype[Any]) -> bool:
    """Return `True` if a number stays finite and nonzero when it is converted to the dtype of the result."""
    if dtype.kind != "f":
        return True
    try:
        with np.errstate(all="ignore"):
            own = dtype.type(c)
    except OverflowError:  # a Python integer beyond float64
        return False
    return bool((np.isfinite(own) or not np.isfinite(c)) and (own != 0 or c == 0))


def _is_large(source: Any) -> bool:
    return (
        type(source) is Constant and type(source.value) is np.ndarray and source.value.size >= _LARGE and source.value.ndim > 0
    )


def _uniform(value: Any) -> Any:
    """Return the common value of all elements of an array, or `None` if any element differs in a bit."""
    if type(value) is not np.ndarray or not value.size or value.dtype.kind not in "biuf":
        return None
    first = value.flat[0]
    if not any(value.strides):
        return first.item()
    if value.size > 1 and value.flat[value.size - 1] != first:
        return None
    same = value == first
    if value.dtype.kind == "f" and first == 0:
        same &= np.signbit(value) == np.signbit(first)
    return first.item() if same.all() else None


def _params_key(params: Mapping[str, Any]) -> Any:
    return tuple([(name, _value_key(value)) for name, value in params.items()]) if params else ()


def _value_key(value: Any) -> Any:
    """Return a hashable key of a value. The key of an array contains its bytes."""
    kind = type(value)
    if kind is ArraySpec or kind is str or value is None:
        return value
    if issubclass(kind, np.ndarray):
        return "array", value.dtype, value.shape, value.tobytes()
    if issubclass(kind, np.generic) or kind in PYTHON_SCALARS:
        return kind, repr(value)
    if isinstance(value, (tuple, list)):
        return kind, tuple(map(_value_key, value))
    if isinstance(value, slice):
        return "slice", value.start, value.stop, value.step
    return value


_FLOAT = np.dtype(np.float64)


class Row(NamedTuple):
    """One rewrite: two functions with the same results, and the differences that are allowed.

    Attributes:
        before: the function to search for. Arguments are arrays. A name that begins with `c` is a constant number, a name
            that begins with `k` is a constant array.
        after: the replacement. It may also take `out`, the spec of the result, and `params`, the parameters of the matched
            equations, in order.
        changes: the differences that are allowed, in words; empty if results are equal bit for bit.
        error: the maximal change of the result, in units in the last place. `None` for reordered sums: their error is relative
            to the sum of absolute values.
        where: returns `True` if the row is valid for the constants, and for the specs of the other arrays, which it takes by
            the names of the arguments. It may also take `out`.
        kinds: the kinds of dtypes for which the row is valid.
        once: the row applies only if the matched inner results have no other reader. Otherwise it would save nothing.
        free: `True` if the matched equations may have any parameters.
        mixed: `True` if the dtypes of arguments and results may differ.
        scalars: `True` if constants must be scalars; a constant array with equal elements does not match.
        fused: `True` if the row also helps backends that fuse operations.
        more: the number of additional equations at which the replacement is still cheaper.
        shapes: the shapes of arguments by name, for tracing and for tests. Default: all arguments have one shape.
    """

    before: Callable[..., Any]
    after: Callable[..., Any]
    changes: str = ""
    error: float | None = 0.0
    where: Callable[..., Any] | None = None
    kinds: str = "fiu"
    once: bool = False
    free: bool = False
    mixed: bool = False
    scalars: bool = False
    fused: bool = True
    more: int = 0
    shapes: Mapping[str, tuple[int, ...]] = {}


class Node(NamedTuple):
    """A call of a primitive in a pattern.

    Attributes:
        primitive: the primitive.
        params: the parameters; `None` matches any parameters.
        inputs: each is a `Node`, the name of an argument, or a `Constant`.
    """

    primitive: Primitive
    params: Mapping[str, Any] | None
    inputs: tuple[Any, ...]


class Pattern(NamedTuple):
    """One tree of primitives that a row matches.

    Attributes:
        row: the row.
        root: the root of the tree.
        names: the names of the arguments.
        wants: the names among `out` and `params` that `row.after` takes.
        checks_out: `True` if `row.where` takes `out`.
    """

    row: Row
    root: Node
    names: tuple[str, ...]
    wants: tuple[str, ...]
    checks_out: bool


class Found(NamedTuple):
    """A match of a pattern.

    Attributes:
        given: the source of each argument, by name.
        equations: the matched equations, with the outermost last.
    """

    given: dict[str, Any]
    equations: list[Equation]


def patterns_of(row: Row) -> Iterator[Pattern]:
    """Yield the patterns of a row. Commutative operations give patterns with both orders of inputs."""
    names = tuple(inspect.signature(row.before).parameters)
    wants = tuple([name for name in inspect.signature(row.after).parameters if name in ("out", "params")])
    checks_out = row.where is not None and "out" in inspect.signature(row.where).parameters
    specs = [ArraySpec(() if n.startswith("c") else row.shapes.get(n, (2, 3)), _FLOAT) for n in names]
    expressions = trace("simplify", row.before, specs)
    for root in _trees(expressions, expressions.outputs[0], names, row.free):
        yield Pattern(row, root, names, wants, checks_out)


def _trees(expressions: Expressions, source: Any, names: Sequence[str], free: bool) -> list[Any]:
    """Return the trees that compute a source, one for each order of commutative inputs."""
    if type(source) is Constant:
        return [source]
    if source < len(names):
        return [names[source]]
    [equation] = [e for e in expressions.equations if source in e.outputs]
    choices = [_trees(expressions, s, names, free) for s in equation.inputs]
    params = None if free else equation.params
    orders: list[tuple[Any, ...]] = list(itertools.product(*choices))
    if commutes(equation.primitive):
        orders += [order[::-1] for order in orders]
    unique = {repr(order): order for order in orders}
    return [Node(equation.primitive, params, order) for order in unique.values()]


def is_constant(name: str) -> bool:
    """Return `True` if an argument of a row is a constant."""
    return name.startswith(("c", "k"))


def commutes(primitive: Primitive) -> bool:
    """Return `True` if the two inputs of a primitive may be swapped."""
    return primitive.ufunc is np.add or primitive.ufunc is np.multiply


def match(node: Node, equation: Equation, made: Mapping[int, Equation], number_of: Callable[[Any], Any]) -> Found | None:
    """Return the match of a pattern at an equation, or `None`.

    Args:
        node: the root of the pattern.
        equation: the equation to compare with the root.
        made: the equations with one result, by the slot of the result.
        number_of: returns the common value of all elements of a constant source, or `None` if there is none.
    """
    found = Found({}, [])
    return found if _fits(node, equation, made, number_of, found) else None


def _fits(node: Node, equation: Equation, made: Any, number_of: Any, found: Found) -> bool:
    if equation.primitive is not node.primitive or len(equation.inputs) != len(node.inputs):
        return False
    if node.params is not None and node.params != equation.params:
        return False
    for part, source in zip(node.inputs, equation.inputs, strict=True):
        kind = type(part)
        if kind is str:
            if not _binds(part, source, number_of, found.given):
                return False
        elif kind is Constant:
            number = number_of(source)
            if number is None or not _same_number(number, part.value):
                return False
        else:
            inner = made.get(source) if type(source) is int else None
            if inner is None or not _fits(part, inner, made, number_of, found):
                return False
    found.equations.append(equation)
    return True


def _binds(name: str, source: Any, number_of: Any, given: dict[str, Any]) -> bool:
    if name.startswith("c"):
        source = number_of(source)
        if source is None:
            return False
    elif name.startswith("k") and (type(source) is not Constant or type(source.value) is not np.ndarray):
        return False
    if name not in given:
        given[name] = source
        return True
    known = given[name]
    return type(known) is int and known == source


def _same_number(a: Any, b: Any) -> bool:
    """Return `True` if two real numbers are equal, including the sign of a zero."""
    kind = np.asarray(a).dtype.kind
    return kind != "c" and bool(a == b) and (b != 0 or bool(np.signbit(float(a)) == np.signbit(float(b))))


class Index:
    """Patterns, indexed by the root primitive and the producers of its inputs, so that few are tried per equation."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.by_root: dict[Any, list[Pattern]] = {}
        for row in rows:
            for pattern in patterns_of(row):
                self.by_root.setdefault(pattern.root.primitive, []).append(pattern)
        self.by_inputs: dict[Any, list[Pattern]] = {}

    def candidates(
        self, equation: Equation, made: Mapping[int, Equation], number_of: Callable[[Any], Any]
    ) -> Sequence[Pattern]:
        """Return the patterns that may match an equation, judged by the primitives and numbers of its inputs."""
        patterns = self.by_root.get(equation.primitive)
        if patterns is None:
            return ()
        kinds: list[Any] = [equation.primitive]
        for s in equation.inputs:
            if type(s) is int:
                kinds.append(maker.primitive if (maker := made.get(s)) else None)
            else:
                number = number_of(s)
                kinds.append(Constant if number is None else float(number) if _is_listed(number) else _OTHER)
        key = tuple(kinds)
        known = self.by_inputs.get(key)
        if known is None:
            known = self.by_inputs[key] = [p for p in patterns if all(map(_may_be, p.root.inputs, kinds[1:]))]
        return known


_OTHER = "another number"
_LISTED = frozenset([-1, 0, 0.5, 1, 2, 3, 4])
"""The numbers that occur in patterns."""


def _is_listed(number: Any) -> bool:
    return not isinstance(number, (complex, np.complexfloating)) and number in _LISTED


def _may_be(part: Any, kind: Any) -> bool:
    if type(part) is Node:
        return part.primitive is kind
    number = type(kind) is float or kind is _OTHER
    if type(part) is Constant:
        return type(kind) is float and part.value == kind
    return number if part.startswith("c") else True
