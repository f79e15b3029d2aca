"""Rewrites of equations for native code: for example, a mean becomes a sum and a division."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.backends.native.lowering import lowered
from functad.backends.native.plan import FEW, is_native
from functad.errors import AbstractValueError, UnsupportedError
from functad.expressions.expressions import Constant, Equation, Expressions, source_spec
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS
from functad.primitives.arranging.join import STACK
from functad.primitives.batching import along_axes, along_axis
from functad.primitives.entry import Branches, Primitive
from functad.primitives.indexing.index_map import IndexMap, is_basic, stacked
from functad.primitives.indexing.place import PLACE, PLACE_ADD
from functad.primitives.indexing.read import ADD_PIECE, GATHER, GETITEM, SCATTER, taken_apart
from functad.primitives.indexing.write import ADD_TO, WRITE
from functad.primitives.table import Table
from functad.transforms.lists import trace

Source = int | Constant


class Rewritten:
    """An expression list during the rewrite.

    Attributes:
        specs: the specs of its slots.
        equations: the equations so far.
        made: the equation of the original list that computes each slot.
    """

    def __init__(self, expressions: Expressions) -> None:
        self.specs = list(expressions.specs)
        self.equations: list[Equation] = []
        self.made = {s: e for e in expressions.equations for s in e.outputs}

    def spec(self, source: Source) -> ArraySpec:
        """Return the shape and dtype of a slot or constant."""
        return source_spec(source, self.specs)

    def add(self, primitive: Any, inputs: Sequence[Source], like: ArraySpec, shape: tuple[int, ...], /, **params: Any) -> int:
        """Append an equation with a result of shape `shape` and the dtype of `like`; return the slot of the result."""
        self.specs.append(ArraySpec(shape, like.dtype))
        self.equations.append(Equation(primitive, tuple(inputs), params, (len(self.specs) - 1,)))
        return len(self.specs) - 1

    def end(self, primitive: Primitive, inputs: Sequence[Source], outputs: tuple[int, ...], /, **params: Any) -> bool:
        """Append the equation that computes the original outputs, and return `True`."""
        self.equations.append(Equation(primitive, tuple(inputs), params, outputs))
        return True

    def inline(self, inner: Expressions, inputs: Sequence[Source], outputs: tuple[int, ...]) -> None:
        """Append the equations of a list with one result, which become the equations of `outputs`."""
        count = len(inner.inputs)
        slots: dict[int, Source] = dict(enumerate(inputs))
        slots |= {s: len(self.specs) + s - count for s in range(count, len(inner.specs))}
        slots |= dict(zip(inner.outputs, outputs, strict=True))  # type: ignore[arg-type]
        self.specs += inner.specs[count:]
        for e in inner.equations:
            own = [slots[s] if type(s) is int else s for s in e.inputs]
            self.equations.append(Equation(e.primitive, tuple(own), e.params, tuple([slots[s] for s in e.outputs])))  # type: ignore[misc]


Form = Callable[[Rewritten, Equation], bool]

FORMS: Table[Form] = Table()
"""The function that rewrites the equations of each primitive. It returns `False` if it leaves an equation unchanged."""

form: Callable[..., Callable[[Form], Form]] = FORMS.add


def rewritten(expressions: Expressions) -> Expressions:
    """Return an expression list with each equation of `FORMS` replaced by equations that native code computes."""
    if not any(FORMS.find(e.primitive) or e.primitive.decomposition for e in expressions.equations):
        return expressions
    found = Rewritten(expressions)
    for equation in expressions.equations:
        rewrite = FORMS.find(equation.primitive)
        native = all(found.spec(s).dtype in KINDS and found.spec(s).size for s in (*equation.inputs, *equation.outputs))
        done = native and (rewrite(found, equation) if rewrite else _decomposed(found, equation, expressions))
        if not done:
            found.equations.append(equation)
    return expressions.replace(equations=tuple(found.equations), specs=tuple(found.specs))


def _decomposed(found: Rewritten, equation: Equation, expressions: Expressions) -> bool:
    """Write the decomposition of a function along axes, if native code computes the decomposition only."""
    primitive, specs = equation.primitive, [found.spec(s) for s in equation.inputs]
    function, results = primitive.decomposition, [found.specs[s] for s in equation.outputs]
    if function is None or isinstance(function, Branches) or primitive.batch not in (along_axes, along_axis):
        return False
    if primitive.multiple or lowered(equation, expressions) is not None:
        return False
    exact = all(spec.dtype.kind in "biu" for spec in results)
    if not specs[0].shape or not (exact or specs[0].dtype.kind == "f"):
        return False
    try:
        inner = rewritten(trace("jit", lambda *arrays: function(*arrays, **equation.params), specs))
    except AbstractValueError:
        return False
    alike = [(spec.shape, spec.dtype) for spec in inner.results] == [(spec.shape, spec.dtype) for spec in results]
    if not alike or type(inner.outputs[0]) is not int or not is_native(inner):
        return False
    found.inline(inner, equation.inputs, equation.outputs)
    return True


def _taken_apart(index: Any) -> tuple[Any, list[Constant]] | None:
    """Split a known index into its template and its index arrays; `None` if it has no arrays, or a single bool."""
    if is_basic(index):
        return None
    try:
        template, arrays = taken_apart(index)
    except UnsupportedError:
        return None
    return template, [Constant(np.asarray(array, np.int64)) for array in arrays]


@form(GETITEM)
def _getitem(found: Rewritten, equation: Equation) -> bool:
    parts = _taken_apart(equation.params["index"])
    return parts is not None and found.end(GATHER, [*equation.inputs, *parts[1]], equation.outputs, template=parts[0])


@form(SCATTER)
def _scatter(found: Rewritten, equation: Equation) -> bool:
    indices = equation.params["indices"]
    apart = [_taken_apart(index) for index in indices]
    if all(map(is_basic, indices)) or any(a is None and not is_basic(i) for a, i in zip(apart, indices, strict=True)):
        return False
    pairs = list(zip(equation.inputs, apart, indices, strict=True))
    basic = [(source, index) for source, parts, index in pairs if parts is None]
    rest = [(source, *parts) for source, parts, _ in pairs if parts is not None]
    params = {name: equation.params[name] for name in ("shape", "dtype")}
    steps: list[tuple[Primitive, list[Source], dict[str, Any]]] = []
    if basic:
        steps.append((SCATTER, [s for s, _ in basic], {"indices": tuple([i for _, i in basic]), **params}))
    for source, template, arrays in rest:
        if steps:
            steps.append((PLACE_ADD, [source, *arrays], {"template": template, "path": ()}))
        else:
            steps.append((ADD_PIECE, [source, *arrays], {"template": template, **params}))
    like, total = found.specs[equation.outputs[0]], None
    for number, (primitive, inputs, own) in enumerate(steps):
        inputs = inputs if total is None else [total, *inputs]
        if number == len(steps) - 1:
            return found.end(primitive, inputs, equation.outputs, **own)
        total = found.add(primitive, inputs, like, like.shape, **own)
    return False


@form(WRITE, ADD_TO)
def _write(found: Rewritten, equation: Equation) -> bool:
    parts = _taken_apart(equation.params["index"])
    if parts is None:
        return False
    template, arrays = parts
    primitive = PLACE_ADD if equation.primitive.adds else PLACE
    inputs = [*equation.inputs, *arrays]
    return found.end(primitive, inputs, equation.outputs, template=template, path=equation.params["path"])


# Windows


@form(STACK)
def _windows(found: Rewritten, equation: Equation) -> bool:
    """Rewrite a stack of equidistant windows of an array as one gather, which is a view if the array is in memory."""
    sources = [found.made.get(s) if type(s) is int else None for s in equation.inputs]
    first, out = sources[0], found.specs[equation.outputs[0]]
    if len(sources) < 2 or first is None or out.size <= FEW:
        return False
    windows = [e for e in sources if e is not None and e.primitive is GETITEM and e.inputs == first.inputs]
    if len(windows) < len(sources) or not all(is_basic(e.params["index"]) for e in windows):
        return False
    shape = found.spec(first.inputs[0]).shape
    chosen = stacked([IndexMap.of(shape, e.params["index"]) for e in windows], equation.params["axis"] % out.ndim)
    places = [] if chosen is None else chosen.index_arrays()
    if np.broadcast_shapes(*[own.shape for own in places]) != out.shape:
        return False
    inputs = [*first.inputs, *map(Constant, places)]
    return found.end(GATHER, inputs, equation.outputs, template=("i",) * len(shape))
