"""The expression list: a traced function as immutable data that can be printed, checked and evaluated.

Every value has a slot, an integer. The inputs have the first slots, the results of the equations follow in order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np

from functad.errors import CheckError, StructureError
from functad.expressions.records import FORWARD, OBSERVERS, Place, begun, checker, ended, inputs_of, last_readers, observed_run
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, spec_of, spec_or_none
from functad.immutable import Immutable, assign
from functad.places import here
from functad.primitives.entry import Primitive
from functad.primitives.operands import foreign_rules
from functad.trees import Structure, difference, flatten


class Constant(Immutable):
    """A value embedded in an expression list: an array, a scalar, or a Tensor of an enclosing trace."""

    __slots__ = ("value",)

    value: Any

    def __init__(self, value: Any) -> None:
        assign(self, "value", value)

    def __repr__(self) -> str:
        if type(self.value) in PYTHON_SCALARS:
            return repr(self.value)
        if issubclass(type(self.value), np.generic):
            return f"{self.value.item()!r}:{self.value.dtype.name}"
        spec = spec_or_none(self.value)
        return repr(self.value) if spec is None else f"<{spec}>"


def source_spec(source: int | Constant, specs: Sequence[ArraySpec]) -> ArraySpec:
    """Return the spec of a slot or a constant. `None`, an omitted argument, counts as a Python integer."""
    if not isinstance(source, Constant):
        return specs[source]
    return spec_of(0 if source.value is None else source.value)


_NO_PARAMS: Mapping[str, Any] = MappingProxyType({})
"""The empty parameters of most equations."""


class _Parts(NamedTuple):
    """The parts of an equation. A tuple is created in a quarter of the time of an object with five attributes."""

    primitive: Primitive
    inputs: tuple[int | Constant, ...]
    params: Mapping[str, Any]
    outputs: tuple[int, ...]
    place: Place | None


class Equation(Immutable, _Parts):
    """One call of a primitive: `outputs = primitive(*inputs, **params)`. Equations are compared by identity.

    Attributes:
        primitive: the called primitive.
        inputs: a slot or a constant for each array argument.
        params: the keyword arguments.
        outputs: slots of the results.
        place: the location in the user's code; `None` if places were not recorded.
    """

    __slots__ = ()

    def __new__(
        cls,
        primitive: Primitive,
        inputs: tuple[int | Constant, ...],
        params: Mapping[str, Any],
        outputs: tuple[int, ...],
        place: Place | None = None,
    ) -> Self:
        """Return a new equation with immutable parameters."""
        # Parameters of another equation are immutable already; passes rewrite lists often, so they are not copied again.
        if not params:
            params = _NO_PARAMS
        elif type(params) is not MappingProxyType:
            params = MappingProxyType(dict(params))
        return tuple.__new__(cls, (primitive, inputs, params, outputs, place))

    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__

    def __reduce__(self) -> Any:
        return Equation, (self.primitive, self.inputs, dict(self.params), self.outputs, self.place)

    def __repr__(self) -> str:
        return f"Equation({self.primitive!r}, inputs={self.inputs}, params={dict(self.params)}, outputs={self.outputs})"


class Expressions(Immutable):
    """A function as a list of equations. `make_expressions` creates it; calling it evaluates it.

    Attributes:
        inputs: names of the inputs; their slots are `0, 1, ...`.
        equations: the equations in execution order.
        outputs: a slot or a constant for each leaf of the result.
        specs: the spec of every slot.
        input_structure: the structure of the arguments `(args, kwargs)`, with the inputs as leaves.
        output_structure: the structure of the result, with the outputs as leaves.

    Example:
        >>> import numpy as np, functad
        >>> expressions = functad.make_expressions(lambda x: np.sum(np.sin(x) * x))(np.zeros(3))
        >>> expressions
        { lambda x:float64[3].
          a:float64[3] = sin x
          b:float64[3] = multiply a x
          c:float64[] = sum b
          return c }
        >>> expressions(np.ones(3)).round(4)
        np.float64(2.5244)
    """

    __slots__ = ("equations", "input_structure", "inputs", "output_structure", "outputs", "specs")

    inputs: tuple[str, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[int | Constant, ...]
    specs: tuple[ArraySpec, ...]
    input_structure: Structure
    output_structure: Structure

    def __init__(
        self,
        inputs: tuple[str, ...],
        equations: tuple[Equation, ...],
        outputs: tuple[int | Constant, ...],
        specs: tuple[ArraySpec, ...],
        input_structure: Structure,
        output_structure: Structure,
    ) -> None:
        assign(self, "inputs", inputs)
        assign(self, "equations", equations)
        assign(self, "outputs", outputs)
        assign(self, "specs", specs)
        assign(self, "input_structure", input_structure)
        assign(self, "output_structure", output_structure)

    @property
    def results(self) -> list[ArraySpec]:
        """The specs of the leaves of the result."""
        return [source_spec(s, self.specs) for s in self.outputs]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the list on arguments with the structure, shapes and dtypes that the list was made for.

        Raises:
            StructureError: the arguments do not match; the message names the argument.
        """
        leaves = fitting(self, args, kwargs)
        constants = [source.value for source in self.outputs if isinstance(source, Constant)]
        observer = checker()
        found = evaluate(self, leaves) if observer is None else observer.called(self, leaves)
        results = own_arrays(found, roots_of((*leaves, *constants)))
        return self.output_structure.unflatten(results)

    def _constants(self) -> list[Any]:
        """Return the constants that the equations read."""
        return [s.value for equation in self.equations for s in equation.inputs if isinstance(s, Constant)]

    def _dtypes(self) -> set[np.dtype[Any]]:
        """Return the dtypes of all arrays in the list."""
        return {spec.dtype for spec in self.specs} | {value.dtype for value in self._constants() if hasattr(value, "dtype")}

    def replace(self, **changes: Any) -> Expressions:
        """Return a copy of the list with some attributes changed.

        Args:
            changes: new values of attributes, by name. They are not validated; call `check` for that.

        Returns:
            A new list; this list is unchanged.

        Raises:
            TypeError: an attribute does not exist.

        Example:
            >>> import numpy as np, functad
            >>> both = functad.make_expressions(lambda x: (np.sin(x), np.cos(x)))(1.0)
            >>> both.replace(equations=both.equations[:1], outputs=(1, 1))(0.0)
            (np.float64(0.0), np.float64(0.0))
        """
        return Expressions(**{**self.__getstate__(), **changes})

    __replace__ = replace  # the protocol of `copy.replace`

    def check(self) -> Expressions:
        """Return the list itself if it is well formed.

        Raises:
            CheckError: a slot is read before it is assigned or assigned twice, a spec is missing, or the shape rule of a
                primitive contradicts the specs of the list.
        """
        known = set(range(len(self.inputs)))
        for number, equation in enumerate(self.equations):
            where = f"equation {number} ({equation.primitive.name})"
            for slot in inputs_of(equation):
                if slot not in known:
                    raise CheckError(f"{where} reads slot {slot} before it is made, at {here()}")
            for slot in equation.outputs:
                if slot in known or not 0 <= slot < len(self.specs):
                    raise CheckError(f"{where} makes slot {slot}, which is taken or has no spec, at {here()}")
                known.add(slot)
            self._check_specs(equation, where)
            for _, inner in inner_lists(equation.params):
                inner.check()
        for source in self.outputs:
            if not isinstance(source, Constant) and source not in known:
                raise CheckError(f"the list returns slot {source}, which is never made, at {here()}")
        return self

    def _check_specs(self, equation: Equation, where: str) -> None:
        given = [self._known(source) for source in equation.inputs]
        found = equation.primitive.spec(*given, **equation.params)
        expected = tuple(self.specs[slot] for slot in equation.outputs)
        if (found if equation.primitive.multiple else (found,)) != expected:
            raise CheckError(f"{where} gives {found}, but the list says {expected}, at {here()}")

    def _known(self, source: int | Constant) -> Any:
        """Return the input of a shape rule: the spec of a slot or a Tensor, or the value of a plain constant."""
        if not isinstance(source, Constant):
            return self.specs[source]
        return spec_of(source.value) if hasattr(type(source.value), "__functad_dispatch__") else source.value

    def table(self, most: int | None = 400) -> str:
        """Return the equations as a text table of at most 80 columns, with types, bytes and source lines.

        Args:
            most: the largest number of equations to show; `None` for all.

        Returns:
            The table with totals in the last line, for `print`.

        Example:
            >>> import numpy as np, functad
            >>> listed = functad.make_expressions(lambda x: np.sum(np.sin(x) * x))(np.zeros(3))
            >>> for row in listed.table().splitlines():
            ...     print(row[:35].strip())
            equation          result      bytes
            a = sin x         float64[3]   24 B
            b = multiply a x  float64[3]   24 B
            c = sum b         float64[]     8 B
            3 equations: results 56 B, inputs 2
        """
        from functad.expressions.listing import list_table  # noqa: PLC0415 - `import functad` needs no displays

        return list_table(self, most)

    def _repr_html_(self) -> str:
        from functad.expressions.listing import list_markup  # noqa: PLC0415 - as above

        return list_markup(self)

    def names(self) -> dict[int, str]:
        """Return the printed name of each slot."""
        names = dict(enumerate(self.inputs))
        fresh = _fresh_names(set(self.inputs))
        return names | {slot: next(fresh) for equation in self.equations for slot in equation.outputs}

    def _rows(self) -> list[Row]:
        """Return the equations with the printed names of their slots, for displays."""
        names = self.names()
        return [Row(e, names, tuple([self.specs[slot] for slot in e.outputs])) for e in self.equations]

    def _returned(self) -> str:
        """Return the text of the outputs."""
        names = self.names()
        return ", ".join([_name(source, names) for source in self.outputs])

    def __repr__(self) -> str:
        typed = "".join(f" {name}:{spec}" for name, spec in zip(self.inputs, self.specs, strict=False))
        lines = [f"{{ lambda{typed}."]
        for row in self._rows():
            left = ", ".join(f"{name}:{spec}" for name, spec in zip(row.outputs, row.specs, strict=True))
            lines.append(f"  {left} = {row.call}")
            for name, inner in row.lists:
                lines += [f"    {line}" for line in f"{name}: {inner!r}".splitlines()]
        return "\n".join([*lines, f"  return {self._returned()} }}"])


class Row(NamedTuple):
    """An equation for displays. The texts are made when they are read.

    Attributes:
        equation: the equation.
        names: the printed names of all slots of its list.
        specs: the specs of the results.
    """

    equation: Equation
    names: dict[int, str]
    specs: tuple[ArraySpec, ...]

    @property
    def outputs(self) -> list[str]:
        """The names of the results."""
        return [self.names[slot] for slot in self.equation.outputs]

    @property
    def call(self) -> str:
        """The primitive with its parameters, and the names of the inputs."""
        return " ".join([call_name(self.equation), *[_name(source, self.names) for source in self.equation.inputs]])

    @property
    def text(self) -> str:
        """The equation without its types."""
        return f"{', '.join(self.outputs)} = {self.call}"

    @property
    def types(self) -> str:
        """The types of the results."""
        return ", ".join(map(str, self.specs))

    @property
    def nbytes(self) -> int:
        """The bytes of the results."""
        return sum([spec.nbytes for spec in self.specs])

    @property
    def lists(self) -> list[tuple[str, Expressions]]:
        """The nested lists, such as the body of a loop, with their names."""
        return inner_lists(self.equation.params)


_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
"""Rank of each kind of number. A Python number is accepted for dtypes of its own or a higher rank."""

_WIDEST = frozenset(PYTHON_SCALARS.values())


def fitting(expressions: Expressions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the leaves of the arguments of an expression list, converted to the expected specs.

    Shapes and dtypes must match the specs. A Python number is converted to an expected dtype of the same or a higher kind. A
    NumPy number is accepted for an expected Python number if the dtypes in the list stay the same.

    Raises:
        StructureError: the arguments do not match.
    """
    structure, names = expressions.input_structure, expressions.inputs
    leaves, own = flatten((args, kwargs))
    if own != structure:
        raise StructureError(
            f"an expression list was called with other arguments than it was made for ({', '.join(names) or 'none'}), at "
            f"{here()}: {difference(structure, own, '(args, kwargs)')}. Make a list for these with make_expressions."
        )
    for i, (leaf, spec) in enumerate(zip(leaves, expressions.specs, strict=False)):
        if type(leaf) is np.ndarray and leaf.shape == spec.shape and leaf.dtype == spec.dtype and not spec.weak:
            continue  # the common case
        if spec.weak and spec_or_none(leaf) == ArraySpec((), spec.dtype) and _WIDEST.issuperset(expressions._dtypes()):
            continue
        leaves[i] = _fitted(leaf, spec, names[i])
    return leaves


def _fitted(leaf: Any, spec: ArraySpec, name: str) -> Any:
    """Return a leaf converted to the expected spec.

    Raises:
        StructureError: a lossless conversion does not exist.
    """
    kind = type(leaf)
    if kind in PYTHON_SCALARS:
        given = PYTHON_SCALARS[kind]
        if spec.shape == () and _RANK[given.kind] <= _RANK[spec.dtype.kind] and (given.kind == "b") == (spec.dtype.kind == "b"):
            value = spec.dtype.type(leaf)
            return value.item() if spec.weak else value
    own = spec_or_none(leaf)
    shown = f"a {kind.__name__}"
    if own is None:
        reason = "pass an array or a number."
    elif (rules := foreign_rules(leaf)) is not None:
        reason = f"no array of NumPy's own. {rules}"
    elif own.shape == spec.shape and own.weak == spec.weak and own.dtype.newbyteorder("=") == spec.dtype:
        return leaf
    elif own.weak and own.shape == spec.shape and own.dtype.kind == spec.dtype.kind:
        return leaf.astype(spec.dtype)  # a Tensor that represents a Python number
    else:
        shown, reason = str(own), f"shapes, constants and dtypes in it are those of {spec}. "
        if own.shape != spec.shape:
            reason += "Make a list for this shape with make_expressions, or apply vmap to the list for a batch."
        elif spec.weak:
            reason += f"It was made for a number of Python, which yields to the dtypes of arrays: pass {repr(spec)[:-2]}(x)."
        else:
            reason += f"Pass x.astype({spec.dtype.name!r}), or make a list for this dtype with make_expressions."
    raise StructureError(
        f"an expression list that was made for {spec} as {name} was called with {shown} there, at {here()}: {reason}"
    )


def evaluate(expressions: Expressions, inputs: Sequence[Any]) -> list[Any]:
    """Return the output leaves of a list for given input leaves. Each value is released after its last use.

    The inputs may be arrays or Tensors. Operations on Tensors are recorded, so a list can be differentiated again.
    """
    return evaluator(expressions)(inputs)


def evaluator(expressions: Expressions) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that evaluates the list, for lists that run many times, such as loop bodies.

    The preparation (mainly the last use of each value) is done once. It takes half the time of a short list.
    """
    last = last_readers(expressions.equations, expressions.outputs)
    constants: dict[int, Any] = {}
    slots = len(expressions.specs)

    def place(source: int | Constant) -> int:
        """Return the position of an input in the values of a run. Constants follow the slots."""
        if isinstance(source, Constant):
            constants[slots + len(constants)] = source.value
            return slots + len(constants) - 1
        return source

    steps = []
    for number, equation in enumerate(expressions.equations):
        dropped = {slot for slot in inputs_of(equation) if last[slot] == number}
        places = [place(source) for source in equation.inputs]
        steps.append((equation.primitive, places, dict(equation.params), equation.outputs, tuple(dropped)))
    results = [place(source) for source in expressions.outputs]
    empty = [None] * (slots - len(expressions.inputs)) + list(constants.values())

    def run(inputs: Sequence[Any]) -> list[Any]:
        observers = begun(FORWARD, expressions) if OBSERVERS.get() else ()
        try:
            values = [*inputs, *empty]
            for primitive, places, params, outputs, dropped in (
                observed_run(steps, expressions.equations, observers) if observers else steps
            ):
                out = primitive(*[values[i] for i in places], **params)
                if primitive.multiple:
                    for slot, value in zip(outputs, out, strict=True):
                        values[slot] = value
                else:
                    values[outputs[0]] = out
                for slot in dropped:
                    values[slot] = None
            return [values[i] for i in results]
        finally:
            if observers:
                ended(observers)

    return run


def _name(source: int | Constant, names: dict[int, str]) -> str:
    return repr(source) if isinstance(source, Constant) else names[source]


def call_name(equation: Equation) -> str:
    """Return the name of the called primitive with its parameters, without nested lists."""
    inner = {name.partition("[")[0] for name, _ in inner_lists(equation.params)}
    params = {key: value for key, value in equation.params.items() if key not in inner}
    shown = [f"{key}={_param(value)}" for key, value in params.items() if value is not None and value is not False]
    return equation.primitive.name + (f"[{' '.join(shown)}]" if shown else "")


def inner_lists(params: Mapping[str, Any]) -> list[tuple[str, Expressions]]:
    """Return the nested lists among parameters, such as the body of a loop, with their names."""
    found = []
    for key, value in params.items():
        if isinstance(value, Expressions):
            found.append((key, value))
        elif isinstance(value, tuple):
            found += [(f"{key}[{i}]", item) for i, item in enumerate(value) if isinstance(item, Expressions)]
    return found


def _param(value: Any) -> str:
    if issubclass(type(value), (np.ndarray, np.generic)) and np.ndim(value):
        return f"<{spec_of(value)}>"
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, slice):
        return ":".join("" if part is None else str(part) for part in (value.start, value.stop, value.step)).removesuffix(":")
    if isinstance(value, tuple):
        return f"({','.join(map(_param, value))})"
    if value is Ellipsis:
        return "..."
    return str(value)


def _fresh_names(taken: set[str]) -> Iterator[str]:
    """Yield the names a, b, ..., z, aa, ab, ... that are not in `taken`."""
    for length in itertools.count(1):
        for letters in itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=length):
            name = "".join(letters)
            if name not in taken:
                yield name


def root_of(array: Any) -> Any:
    """Return the array at the end of the chain of bases, as far as the bases are NumPy arrays."""
    while issubclass(type(array.base), np.ndarray):
        array = array.base
    return array


def roots_of(values: Iterable[Any]) -> set[int]:
    """Return the ids of the roots of the arrays among values."""
    return {id(root_of(value)) for value in values if issubclass(type(value), np.ndarray)}


def own_arrays(leaves: Iterable[Any], known: set[int]) -> list[Any]:
    """Return the leaves, with copies of read-only arrays and of arrays that share memory with known arrays.

    Args:
        leaves: the leaves; only NumPy arrays are copied.
        known: the roots (`roots_of`) of arrays that results must not alias. The roots of the results are added.
    """
    result = []
    for leaf in leaves:
        if issubclass(type(leaf), np.ndarray):
            root = id(leaf if leaf.base is None else root_of(leaf))
            if root in known or not leaf.flags.writeable:
                leaf = leaf.copy("K")
                root = id(leaf)
            known.add(root)
        result.append(leaf)
    return result
