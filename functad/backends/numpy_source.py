"""The backend `numpy`: an expression list as straight-line Python source of NumPy calls.

Each equation becomes a line. Values are deleted after their last reader. Large elementwise results reuse the memory of dead
arrays, never of an input, a constant or a view. Several elementwise functions of one large shape are computed block by block,
so that intermediate values stay in the cache.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import keyword
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.backends.blocks import Block, BlockWriter, arranged
from functad.backends.careful import Again, Careful, nan_test
from functad.backends.python_loops import LOCAL_NAMES, ArrayLoop, NumberLoop, NumberLoopText
from functad.backends.short_text import is_fresh, is_power, makes_numbers, placed_lines, short_text, ufunc_of
from functad.backends.source import OPERATORS, Definitions, NoTextError, identifier
from functad.expressions.expressions import Constant, Equation, Expressions, inner_lists, own_arrays, roots_of
from functad.expressions.records import inputs_of, last_readers
from functad.primitives.elementwise.complex_numbers import IMAG

_LARGE = 16_384
"""Bytes from which an array is reused; the allocation of a smaller array takes less time than an `out` argument."""


def module_text(expressions: Expressions, name: str, form: Form) -> str:
    """Return the source of a module that runs without functad, with a function that computes a list.

    Raises:
        NoTextError: a value or function in the list has no text.
    """
    writer = _Writer(expressions, name, parameters=form.parameters)
    writer.text(form)
    for key, value in writer.definitions.objects.items():
        if type(value) is not np.ndarray:
            raise NoTextError(getattr(value, "name", None) or getattr(value, "__name__", repr(value)))
        writer.definitions.embed(key, value)
    writer.lines.clear()
    return writer.text(form)


class NumpyProgram:
    """An expression list as Python source, and the function that the source defines.

    Attributes:
        source: the source text.
        objects: maps a name in the source to an object without text: a large constant or a function of functad.
        function: the compiled function if all its results own their memory, else `None`.
        gives_numbers: all results of shape `()` are NumPy scalars.
        nbytes: the length of the source.
    """

    def __init__(
        self,
        expressions: Expressions,
        name: str = "run",
        exact: bool = False,
        careful: Expressions | None = None,
        checked: Sequence[int] = (),
        finite: bool = False,
        again: Again | None = None,
    ) -> None:
        """Compile a list.

        Args:
            expressions: the list.
            name: the name of the function in the source.
            exact: sums keep NumPy's order of summation.
            careful: a fallback list with the same inputs and outputs, computed if a checked result has a NaN.
            checked: the positions of the results to check for a NaN.
            finite: an infinity triggers the fallback, too.
            again: recomputes the results if the fallback list, or this list without a fallback, gives a NaN.
        """
        writer = _Writer(expressions, name, exact=exact)
        if careful is not None:
            self.careful = writer.careful = Careful(careful, NumpyProgram, again)
        writer.checked, writer.finite, writer.again = checked, finite, again
        self.source = writer.text()
        self.objects, self.nbytes = writer.definitions.objects, len(self.source)
        self._owned = writer.owned()
        self.gives_numbers = all(makes_numbers(own) for own in (expressions, careful) if own is not None)
        space: dict[str, Any] = dict(self.objects)
        exec(compile(self.source, f"<functad.jit {name}>", "exec"), space)  # noqa: S102 - the text was made above
        space["__functad_text__"] = self.source, name
        self._run: Callable[..., tuple[Any, ...]] = space[name]
        self.function = self._run if self._owned else None
        self._constants = [] if self._owned else constant_arrays(expressions)
        self._foreign = roots_of(self._constants)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes of an unpickled program."""
        self.__dict__.update(state)
        self._foreign = roots_of(self._constants)

    def __call__(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Return the output leaves for the input leaves. Arrays in the result never share memory with other arrays."""
        out = self._run(*leaves)
        if self._owned:
            return out
        return own_arrays(out, roots_of(leaves) | self._foreign)


def constant_arrays(expressions: Expressions) -> list[Any]:
    """Return the constant arrays of a list and its inner lists: a loop or a branch may return one of them."""
    sources = [*expressions.outputs, *[s for e in expressions.equations for s in e.inputs]]
    found = [s.value for s in sources if isinstance(s, Constant) and type(s.value) is np.ndarray]
    for equation in expressions.equations:
        found += [constant for _, inner in inner_lists(equation.params) for constant in constant_arrays(inner)]
    return found


class Form(NamedTuple):
    """The arguments and the result of a function in a text.

    Attributes:
        header: the text of the parameters.
        parameters: the names of the parameters.
        leaves: for each leaf of the arguments, the expression that reads the leaf.
        result: the text of the result, with `{}` in the places of the leaves.
    """

    header: str
    parameters: Sequence[str]
    leaves: Sequence[str]
    result: str

    def functions(self, names: Sequence[str], lines: Sequence[str], name: str, inner: Callable[[], str]) -> list[str]:
        """Return the definitions of the function.

        If a parameter such as `np` shadows a name in the lines, the lines become a separate function of the leaves.

        Args:
            names: the names of the leaves in the lines.
            lines: the lines that compute and return the result.
            name: the name of the function.
            inner: returns the name for the separate function.
        """
        given = [f"{leaf} = {path}" for leaf, path in zip(names, self.leaves, strict=True) if leaf != path]
        read = {node.id for node in ast.walk(ast.parse(_definition("f", "", lines))) if isinstance(node, ast.Name)}
        if not read & (set(self.parameters) - set(names)):
            return [_definition(name, self.header, [*given, *lines])]
        own = inner()
        called = f"return {own}({', '.join(self.leaves)})"
        return [_definition(own, ", ".join(names), lines), _definition(name, self.header, [called])]


def _definition(name: str, header: str, lines: Sequence[str]) -> str:
    return "\n".join([f"def {name}({header}):", *[f"    {line}" for line in lines]])


class _Writer:
    """Writes the lines of a list.

    Attributes:
        name: the name of the function.
        definitions: the definitions in front of the lines.
        names: maps a slot to the name of its value; names in a loop begin with a prefix.
        roots: maps a slot to the slot of the array that its value may alias.
        fresh: roots that are arrays of the program.
        of_constants: slots that may share the memory of a constant.
        locked: slots that may hold a read-only view.
        targets: maps a slot of the step of a loop to the buffer with a row for its value.
        careful: the fallback for results with a NaN, or `None`.
        checked: the positions of the results to check for a NaN.
        finite: checked results are checked for infinities, too.
    """

    def __init__(
        self,
        expressions: Expressions,
        name: str,
        definitions: Definitions | None = None,
        prefix: str | None = None,
        exact: bool = False,
        parameters: Sequence[str] = (),
    ) -> None:
        self.expressions, self.blocks = arranged(expressions, sums=not exact)
        expressions = self.expressions
        self.exact = exact
        self.name = name
        self.targets: Mapping[int, str] = {}
        self.careful: Careful | None = None
        self.again: Again | None = None
        self.checked: Sequence[int] = ()
        self.finite = False
        if prefix is None:
            self.names = dict(enumerate(_argument_names(expressions.inputs, parameters)))
            self.names |= {s: f"v{s}" for e in expressions.equations for s in e.outputs}
        else:
            self.names = {s: f"{prefix}_{s}" for s in range(len(expressions.specs))}
        self.definitions = definitions or Definitions({name, *parameters, *self.names.values()})
        self.roots: dict[int, int] = {}
        self.fresh: set[int] = set()
        self.of_constants: set[int] = set()
        self.locked: set[int] = set()
        self.lines: list[str] = []
        for equation in expressions.equations:
            self._find_root(equation)
        self.loops = self._number_loops()
        self.lists = self._lists()
        self.last = last_readers(expressions.equations, expressions.outputs)
        self._ends = self._last_of_roots()

    def _find_root(self, equation: Equation) -> None:
        """Record the ownership of the results of an equation."""
        given = inputs_of(equation)
        fresh = is_fresh(equation)
        if not fresh and (self._is_read_only(equation) or not self.locked.isdisjoint(given)):
            self.locked.update(equation.outputs)
        if not fresh and (not self.of_constants.isdisjoint(given) or _may_return_constant(equation)):
            self.of_constants.update(equation.outputs)
        for slot in equation.outputs:
            if fresh:
                self.fresh.add(slot)
            elif given:  # a view of any argument: all share one lifetime
                self.roots[slot] = root = self._root(given[0])
                for other in {self._root(s) for s in given[1:]} - {root}:
                    self.roots[other] = root
                    if other not in self.fresh:
                        self.fresh.discard(root)
                if any(isinstance(s, Constant) and type(s.value) is np.ndarray for s in equation.inputs):
                    self.fresh.discard(root)  # the result may be the constant itself

    def _is_read_only(self, equation: Equation) -> bool:
        """Return `True` if NumPy makes the result read-only, as the imaginary part of a real array."""
        of_real = equation.primitive is IMAG and all(self.expressions.specs[s].dtype.kind != "c" for s in inputs_of(equation))
        return of_real or equation.primitive.views == "read-only"

    def _number_loops(self) -> dict[int, NumberLoop]:
        """Return the loops over Python numbers by the positions of their equations."""
        found: dict[int, NumberLoop] = {}
        for number, equation in enumerate(self.expressions.equations):
            if equation.primitive.lists:
                loop = NumberLoop.of(equation, self.names[equation.outputs[0]], self.exact)
                if loop is not None:
                    found[number] = loop
        return found

    def _lists(self) -> set[str]:
        """Return the names of scan rows that only number loops write and read: they are Python lists, not arrays."""
        specs, outputs = self.expressions.specs, self.expressions.outputs
        made = {s for loop in self.loops.values() for s in loop.equation.outputs[loop.params["carries"] :]}
        made = {s for s in made if len(specs[s].shape) == 1}.difference([s for s in outputs if type(s) is int])
        for number, equation in enumerate(self.expressions.equations):
            read, loop = equation.inputs, self.loops.get(number)
            if loop is not None:
                first = loop.params["carries"]
                read = (*read[:first], *read[first + loop.params["rows"] :])
            made.difference_update([s for s in read if type(s) is int])
        return {self.names[s] for s in made}

    def _root(self, slot: int) -> int:
        while slot in self.roots:
            slot = self.roots[slot]
        return slot

    def _last_of_roots(self) -> dict[int, int]:
        """Return, for each root, the last equation that reads a value in the memory of the root."""
        found: dict[int, int] = {}
        for slot, number in self.last.items():
            root = self._root(slot)
            found[root] = max(found.get(root, -1), number)
        return found

    def owned(self) -> bool:
        """Return `True` if all results are writable arrays of the program that share no memory."""
        roots = [self._root(s) if not isinstance(s, Constant) else None for s in self.expressions.outputs]
        plain = [s for s in self.expressions.outputs if isinstance(s, Constant) and type(s.value) is np.ndarray]
        return (
            not plain
            and self.locked.isdisjoint([s for s in self.expressions.outputs if type(s) is int])
            and all(r is None or r in self.fresh for r in roots)
            and len(roots) == len(set(roots)) + (max(0, roots.count(None) - 1))
        )

    def text(self, form: Form | None = None) -> str:
        """Return the whole source of a function.

        Args:
            form: the form of its arguments and result. By default the function takes leaves and returns a tuple of leaves.
        """
        names = [self.names[i] for i in range(len(self.expressions.inputs))]
        self.write()
        results = [self._source(s) for s in self.expressions.outputs]
        if form is None:
            result = f"({', '.join(results)}{',' if len(results) == 1 else ''})"
        else:
            result = form.result.format(*map(self._unshared, self.expressions.outputs, results))
        lines = [*self._first_lines(names), *self.lines, *self._last_lines(names, results), f"return {result}"]
        own = self.definitions
        if form is None:
            body = [_definition(self.name, ", ".join(names), lines)]
        else:
            body = form.functions(names, lines, self.name, lambda: own.local("compute"))
        imports = [
            f"import {module} as {alias}" if alias != module else f"import {module}" for alias, module in own.imports.items()
        ]
        constants = [f"{key} = {text}" for key, text in own.constants.items()]
        parts = ["\n".join([*imports, "", *constants]).rstrip(), *own.functions.values(), *body]
        return "\n\n\n".join(part.rstrip() for part in parts) + "\n"

    def _unshared(self, source: int | Constant, text: str) -> str:
        """Return the text of a result. A result that may alias a constant is copied, which protects the next call."""
        shared = type(source.value) is np.ndarray if isinstance(source, Constant) else source in self.of_constants
        return f"{text}.copy()" if shared else text

    def _first_lines(self, names: Sequence[str]) -> list[str]:
        if self.careful is None:
            return []
        careful = self.definitions.object(self.careful, "careful")
        return [f"if {careful}.is_usual:", f"    return {careful}({', '.join(names)})"]

    def _last_lines(self, names: Sequence[str], values: Sequence[str]) -> list[str]:
        """Return the lines that recompute the results if a checked result has a NaN."""
        results = [self.expressions.outputs[i] for i in self.checked]
        tests = [
            nan_test(self.names[s], self.expressions.specs[s], self.finite) for s in dict.fromkeys(results) if type(s) is int
        ]
        if not any(tests):
            return []
        head = f"if {' or '.join(filter(None, tests))}:"
        if self.careful is None:
            again = self.definitions.object(self.again, "again")
            return [head, f"    return {again}(({', '.join(values)},), ({', '.join([*names, ''])}))"]
        careful = self.definitions.object(self.careful, "careful")
        return [head, f"    return {careful}({', '.join(names)})"]

    def write(self) -> None:
        """Write the lines of all equations."""
        number = 0
        while number < len(self.expressions.equations):
            block, equation = self.blocks.get(number), self.expressions.equations[number]
            if block is not None:
                self.lines += self._block(block)
            elif number in self.loops:
                self.lines.append(self._number_loop(self.loops[number]))
            elif equation.primitive.lists == "scan" and equation.params["length"]:
                self.lines += self._loop(equation)
            else:
                self.lines += self._lines_of(number, equation)
            stop = number + 1 if block is None else block.stop
            self._drop(number, stop)
            number = stop

    def _block(self, block: Block) -> list[str]:
        """Define a function that computes a cluster in blocks, and return the line that calls the function."""
        if not block.results:  # in a list that is not simplified
            return []
        writer = BlockWriter(self.expressions, block, self.names, self.definitions, self._source)
        self.definitions.functions[writer.name] = writer.text
        return [writer.call()]

    def _number_loop(self, loop: NumberLoop) -> str:
        """Define a function that runs a number loop, and return the line that calls the function."""
        given = [self._source(s) for s in loop.equation.inputs]
        made = [self.names[s] for s in loop.equation.outputs]
        text = NumberLoopText(loop, given, made, self.lists, self.definitions)
        name = self.definitions.local(f"loop_{made[0]}")
        self.definitions.functions[name] = text.definition(name, self._loop(loop.equation))
        return f"{', '.join(made)} = {name}({', '.join(text.arguments)})"

    def _loop(self, equation: Equation) -> list[str]:
        """Return the lines of a `scan`: a Python loop, which is faster than one call per step."""
        body, made = equation.params["body"], [self.names[s] for s in equation.outputs]
        step = _Writer(body, self.name, self.definitions, made[0], self.exact)
        loop = ArrayLoop(equation, made, self.definitions, in_place=not self.exact and not step.blocks)
        step.targets = loop.targets
        step.write()
        given = [self._source(s) for s in equation.inputs]
        return loop.lines(given, step.names, step.lines, [step._source(s) for s in body.outputs])

    def _source(self, source: int | Constant) -> str:
        if not isinstance(source, Constant):
            return self.names[source]
        if type(source.value) is np.ndarray:  # created once, not in each run
            return self.definitions.object(source.value, "constant")
        text = self.definitions.text(source.value)
        return f"({text})" if text.startswith("-") else text

    def _lines_of(self, number: int, equation: Equation) -> list[str]:
        """Return the lines of one equation."""
        if not self.exact:
            given = [self._source(s) for s in equation.inputs]
            lines = placed_lines(equation, self.names[equation.outputs[0]], given, self.expressions.specs, self.definitions)
            if lines is not None:
                return lines
        left = ", ".join(self.names[s] for s in equation.outputs) + (
            "," if equation.primitive.multiple and len(equation.outputs) == 1 else ""
        )
        return [f"{left} = {self._right(number, equation)}"]

    def _right(self, number: int, equation: Equation) -> str:
        primitive, given = equation.primitive, [self._source(s) for s in equation.inputs]
        ufunc = ufunc_of(equation, self.expressions)
        if ufunc is not None and equation.outputs[0] in self.targets:
            return f"{self.definitions.text(ufunc, ufunc.__name__)}({', '.join([*given, self.names[equation.outputs[0]]])})"
        short = short_text(equation, given, self.expressions.specs, self.definitions, self.exact)
        if short is not None:
            return short
        if ufunc is not None:
            target = (
                None if ufunc is np.power or ufunc.signature is not None else self._dead_buffer(number, equation)
            )  # x ** 2 is a square
            if target is not None:
                return f"{self.definitions.text(ufunc, ufunc.__name__)}({', '.join([*given, target])})"
            if primitive.python in OPERATORS and (ufunc is not np.power or is_power(ufunc, equation, self.expressions)):
                return self.definitions.call(primitive.python, given, {})
        function = primitive if primitive.inner is not None else primitive.compute if ufunc is None else ufunc
        return self.definitions.call(function, given, equation.params)

    def _dead_buffer(self, number: int, equation: Equation) -> str | None:
        """Return the name of a dead argument with memory that the result can reuse; `None` if there is none."""
        [slot] = equation.outputs
        spec = self.expressions.specs[slot]
        if spec.size * spec.dtype.itemsize < _LARGE:
            return None
        for source in inputs_of(equation):
            if source in self.fresh and self._ends[self._root(source)] == number and self.expressions.specs[source] == spec:
                return self.names[source]
        return None

    def _drop(self, start: int, stop: int) -> None:
        """Delete the values that the equations from `start` to `stop` read for the last time."""
        equations = self.expressions.equations[start:stop]
        inside = {s for e in equations for s in e.outputs} if stop > start + 1 else set()
        read = {s for e in equations for s in inputs_of(e)} - inside
        dead = sorted({s for s in read if self.last[s] < stop and s >= len(self.expressions.inputs)})
        dead += [] if inside else [s for e in equations for s in e.outputs if s not in self.last]
        if dead:
            self.lines.append(f"del {', '.join(self.names[s] for s in dead)}")


_RESERVED = frozenset(["np", *keyword.kwlist, *dir(builtins), *LOCAL_NAMES])
"""Names that have a meaning in the source."""


def _argument_names(paths: Sequence[str], parameters: Collection[str] = ()) -> list[str]:
    """Return distinct identifiers for the inputs, similar to their paths.

    Args:
        paths: the paths of the inputs. No identifier begins with `v` (values) or `_` (other names of the source).
        parameters: names that only an input with the same path may have.
    """
    names: dict[int, str] = {}
    taken = set(_RESERVED)
    for i, path in enumerate(paths):
        if path not in taken and path.isidentifier() and identifier(path) == path and path[0] not in "_v":
            names[i] = path
            taken.add(path)
    taken.update(parameters)
    for i, path in enumerate(paths):
        if i not in names:
            base = identifier(path).strip("_")
            base = base if base.isidentifier() and not base.startswith("v") else f"x_{base}"
            names[i] = next(name for n in itertools.count() if (name := f"{base}_{n}" if n else base) not in taken)
            taken.add(names[i])
    return [names[i] for i in range(len(paths))]


def _may_return_constant(equation: Equation) -> bool:
    """Return `True` if a result may be or view a constant array of the equation or of its inner lists."""
    if not (equation.primitive.views or equation.primitive.lists):
        return False
    arrays = any(isinstance(s, Constant) and type(s.value) is np.ndarray for s in equation.inputs)
    return arrays or any(constant_arrays(inner) for _, inner in inner_lists(equation.params))
