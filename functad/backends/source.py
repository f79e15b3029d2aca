"""Source text of Python functions and values, for generated code that runs without functad.

A primitive computes its result with a short NumPy function. The generated line is the body of this function, with the names
of the arguments and the values of the parameters inserted. Imports, constants and helper functions come first, each once.
"""

from __future__ import annotations

import ast
import base64
import builtins
import dis
import functools
import inspect
import keyword
import math
import operator
import sys
import types
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from functad.expressions.spec import ArraySpec
from functad.immutable import exact_key

_LARGEST_LITERAL = 16
"""Arrays with more elements become named constants instead of literals."""

_MODULES = ("numpy", "numpy.linalg", "numpy.fft", "numpy.lib.array_utils", "scipy.special", "scipy.linalg", "math", "operator")
OPERATORS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.matmul: "@", operator.pow: "**",
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
    operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.lshift: "<<", operator.rshift: ">>",
    operator.floordiv: "//", operator.mod: "%",
}  # fmt: skip
"""The symbols of Python's operators of two operands, by their functions."""

_SIGNS = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}


class NoTextError(Exception):
    """An object cannot be written as text that runs without functad."""


def identifier(text: str) -> str:
    """Return an identifier that resembles `text`. Texts that Python treats as the same identifier give equal results."""
    name = "".join(c if f"a{c}".isidentifier() else "_" for c in unicodedata.normalize("NFKC", text))
    return name if name.isidentifier() else f"x_{name}"


class Definitions:
    """The definitions in front of generated code: imports, constants and functions, each once.

    Attributes:
        reserved: names that already have another meaning.
        imports: maps an alias to the name of its module.
        constants: maps a name to the text of a container or dtype that functions look up.
        functions: maps a name to the text of a function.
        objects: maps a name to an object without text, which is passed to the code as it is.
        alone: `True` if the code runs without functad, so that a decomposition replaces a function without text.
    """

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self.reserved = set(reserved)
        self.imports: dict[str, str] = {"np": "numpy"}
        self.constants: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.objects: dict[str, Any] = {}
        self.alone = False
        self._names: dict[int, tuple[str, Any]] = {}
        self._locals: dict[str, str] = {}
        self._suffixes: dict[str, int] = {}

    def local(self, hint: str) -> str:
        """Return an unused name, always the same name for the same hint."""
        if hint not in self._locals:
            self._locals[hint] = name = self._free(hint)
            self.reserved.add(name)
        return self._locals[hint]

    def text(self, value: Any, hint: str = "constant") -> str:
        """Return an expression for a value. A value without text gets a name in `objects`."""
        try:
            return self.literal(value)
        except NoTextError:
            return self.object(value, hint)

    def literal(self, value: Any) -> str:
        """Return an expression for a value that runs without functad.

        Raises:
            NoTextError: the value has no such expression.
        """
        kind = type(value)
        if value is None or value is Ellipsis or kind in (bool, int, str, bytes):
            return "..." if value is Ellipsis else repr(value)
        if kind is float or kind is complex:
            return _number(value)
        if kind in (tuple, list, set, frozenset):
            return self._collection(value)
        if kind is dict:
            return "{" + ", ".join(f"{self.literal(k)}: {self.literal(v)}" for k, v in value.items()) + "}"
        if kind is slice:
            return f"slice({self.literal(value.start)}, {self.literal(value.stop)}, {self.literal(value.step)})"
        if isinstance(value, np.dtype):
            return f"np.dtype({value.str!r})" if value.kind in "biufcSU" else _refused(value)
        if issubclass(kind, np.generic):
            return f"np.{kind.__name__}({_number(value.item())})" if kind.__name__ in vars(np) else _refused(value)
        if kind is np.ndarray and value.size <= _LARGEST_LITERAL and value.dtype.kind in "biufc":
            shape = f".reshape({value.shape})" if not value.size and value.ndim > 1 else ""  # lists lose an empty shape
            return f"np.array({_nested(value)}, {self.literal(value.dtype)}){shape}"
        return self._reference(value)

    def _collection(self, value: Any) -> str:
        parts = ", ".join(map(self.literal, value))
        if type(value) is tuple:
            return f"({parts},)" if len(value) == 1 else f"({parts})"
        return f"[{parts}]" if type(value) is list else f"{type(value).__name__}([{parts}])"

    def _reference(self, value: Any) -> str:
        """Return the qualified name of a function, class or module, or the name of its definition."""
        if isinstance(value, types.ModuleType):
            return self._module(value.__name__)
        name = getattr(value, "__name__", None)
        if isinstance(name, str):
            if vars(builtins).get(name) is value:
                return name
            for module in _MODULES:
                if module in sys.modules and getattr(sys.modules[module], name, None) is value:
                    return f"{self._module(module)}.{name}"
        if isinstance(value, (types.BuiltinMethodType, types.MethodType)) and isinstance(value.__self__, np.ufunc):
            return f"{self.literal(value.__self__)}.{value.__name__}"
        if isinstance(value, types.FunctionType):
            return self.function(value)
        return _refused(value)

    def _module(self, name: str) -> str:
        root = name.partition(".")[0]
        if root not in ("numpy", "scipy", "math", "operator"):
            return _refused(name)
        if root == "numpy":
            return "np" + name.removeprefix("numpy")
        return self._imported(name)

    def _imported(self, name: str) -> str:
        """Return the alias of a module, and import the module if necessary."""
        known = next((alias for alias, module in self.imports.items() if module == name), None)
        if known is None:
            known = self._free(name.replace(".", "_"))
            self.imports[known] = name
        return known

    def object(self, value: Any, hint: str) -> str:
        """Return the name of an object that is passed to the code as it is."""
        known = self._names.get(id(value))
        if known is None:
            known = self._names[id(value)] = (self._free(hint), value)
            self.objects[known[0]] = value
        return known[0]

    def constant(self, value: Any, hint: str) -> str:
        """Return an expression for a global or closure value of a function. A container becomes a named constant.

        Raises:
            NoTextError: the value has no expression.
        """
        text = self.literal(value)
        if not isinstance(value, (dict, set, frozenset, np.dtype)):
            return text
        known = next((name for name, other in self.constants.items() if other == text), None)
        if known is None:
            known = self._free(hint)
            self.constants[known] = text
        return known

    def embed(self, name: str, array: Any) -> None:
        """Define the constant `name` with the elements of `array` in the text."""
        if array.size <= _LARGEST_LITERAL and array.dtype.kind in "biufc":
            self.constants[name] = self.literal(array)
            return
        data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        base64_name = self._imported("base64")
        self.constants[name] = (
            f"np.frombuffer({base64_name}.b64decode({data!r}), {self.literal(array.dtype)}).reshape({array.shape!r})"
        )

    def _free(self, hint: str) -> str:
        base = identifier(hint.strip("_<>") or "value")
        base = "compute" if base == "lambda" else base
        taken = (
            self.reserved, self.constants, self.functions, self.objects, self.imports, vars(builtins), keyword.kwlist
        )  # fmt: skip
        number = self._suffixes.get(base, 0)
        name = f"{base}_{number}" if number else base
        while any(name in names for names in taken):
            number += 1
            name = f"{base}_{number}"
        self._suffixes[base] = number
        return name

    def has_text(self, function: Any) -> bool:
        """Return `True` if a function has text that runs without functad."""
        try:
            self.literal(function)
        except NoTextError:
            return False
        return True

    def function(self, function: types.FunctionType) -> str:
        """Define a Python function by its source, and return its name.

        Raises:
            NoTextError: the function has no source, or uses a value without text.
        """
        known = self._names.get(id(function))
        if known is not None:
            return known[0]
        node = syntax(function)
        name = self._free(function.__name__)
        self._names[id(function)] = (name, function)
        self.functions[name] = ""
        try:
            text = self._definition(function, node, name)
        except NoTextError:
            del self._names[id(function)]
            raise
        finally:
            del self.functions[name]
        self.functions[name] = text  # after the functions that it calls
        return name

    def _definition(self, function: types.FunctionType, node: Any, name: str) -> str:
        body = _Names(self, function).visit(node)
        if isinstance(body, ast.Lambda):
            return f"def {name}({ast.unparse(body.args)}):\n    return {ast.unparse(body.body)}\n"
        body.name, body.decorator_list, body.returns = name, [], None
        return ast.unparse(ast.fix_missing_locations(body)) + "\n"

    def call(self, function: Any, arguments: Sequence[str], params: Mapping[str, Any]) -> str:
        """Return an expression for a call: an operator, the inlined body of a short function, or a call by name."""
        if function in OPERATORS and len(arguments) == 2 and not params:
            return f"{arguments[0]} {OPERATORS[function]} {arguments[1]}"
        if function in _SIGNS and not params:
            return f"{_SIGNS[function]}{arguments[0]}"
        if isinstance(function, types.FunctionType):
            try:
                return self._inlined(function, arguments, params)
            except NoTextError:
                pass
        given = [*arguments, *[f"{name}={self.text(value, name)}" for name, value in params.items()]]
        return f"{self.text(function, getattr(function, '__name__', 'function'))}({', '.join(given)})"

    def _inlined(self, function: types.FunctionType, arguments: Sequence[str], params: Mapping[str, Any]) -> str:
        """Return the body of a one-expression function with the arguments substituted for its parameters."""
        text = _value_of(function.__code__)
        if text is None or _is_wrapped(function):
            return _refused(function)
        bound = inspect.signature(function).bind(
            *arguments, **{name: _Literal(self.text(v, name)) for name, v in params.items()}
        )
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in bound.signature.parameters.values()):
            return _refused(function)
        for name, parameter in bound.signature.parameters.items():
            if name not in bound.arguments:
                bound.arguments[name] = _Literal(self.literal(parameter.default))
        given = {name: _expression(argument) for name, argument in bound.arguments.items()}
        return ast.unparse(_Names(self, function, given).visit(_expression(text)))


class _Literal(str):
    """The text of the value of a parameter."""

    __slots__ = ()


class _Names(ast.NodeTransformer):
    """Substitutes names in a function: parameters by the given arguments, global and closure names by their values."""

    def __init__(
        self, definitions: Definitions, function: types.FunctionType, given: Mapping[str, ast.expr] | None = None
    ) -> None:
        self.definitions = definitions
        self.given = given or {}
        self.local = {*function.__code__.co_varnames, *function.__code__.co_cellvars} - self.given.keys()
        self.bound: frozenset[str] = frozenset()  # names that the enclosing inner functions and comprehensions bind
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self.outside = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Substitute a name unless the function or an inner scope binds it. Refuse a replacement with a shadowed name."""
        if node.id in self.bound or (node.id not in self.given and (node.id in self.local or node.id not in self.outside)):
            return node
        if node.id in self.given:
            found, hidden = self.given[node.id], self.bound
        else:
            text = self.definitions.constant(self.outside[node.id], node.id)
            found, hidden = ast.parse(text, mode="eval").body, self.bound | self.local
        if any(isinstance(part, ast.Name) and part.id in hidden for part in ast.walk(found)):
            _refused(node.id)
        return found

    def _visit_scope(self, node: Any) -> Any:
        """Visit an inner scope without substituting the names that the scope binds."""
        around, self.bound = self.bound, self.bound | _bound_in(node)
        visited = self.generic_visit(node)
        self.bound = around
        return visited

    visit_Lambda = visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_scope  # noqa: N815 - ast's names

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """Fold a conditional expression whose test is constant."""
        test = self.visit(node.test)
        known = _decided(test)
        if known is None:
            return ast.IfExp(test, self.visit(node.body), self.visit(node.orelse))
        return self.visit(node.body if known else node.orelse)  # type: ignore[no-any-return]

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Remove an annotation."""
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """Turn an annotated assignment into a plain one."""
        if node.value is None:
            return None
        return self.visit(ast.Assign([node.target], node.value, lineno=node.lineno))  # type: ignore[no-any-return]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        """Refuse an import from functad."""
        return _refused(node.module) if (node.module or "").startswith("functad") else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Remove the docstring and the decorators."""
        node.decorator_list, node.returns = [], None
        if len(node.body) > 1 and _documented_at_most(node.body[:1]):
            node.body = node.body[1:]
        return self._visit_scope(node)  # type: ignore[no-any-return]


_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _bound_in(scope: ast.AST) -> frozenset[str]:
    """Return the names that a function or comprehension binds: its parameters and assigned names, without inner scopes."""
    names, waiting = set(), list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.arg, ast.FunctionDef)):
            names.add(node.arg if isinstance(node, ast.arg) else node.name)
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))
    return frozenset(names)


def _decided(test: ast.expr) -> bool | None:
    """Return the value of a constant condition; `None` if only the running program can decide it."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.IsNot)) and len(test.ops) == 1:
        literals = (ast.Constant, ast.Tuple, ast.List, ast.Dict)
        left, right = test.left, test.comparators[0]
        if isinstance(left, literals) and isinstance(right, ast.Constant) and right.value is None:
            return (isinstance(left, ast.Constant) and left.value is None) == isinstance(test.ops[0], ast.Is)
    return None


def _documented_at_most(nodes: Sequence[ast.stmt]) -> bool:
    """Return `True` if there are no statements but a docstring."""
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in nodes)


def syntax(function: types.FunctionType) -> Any:
    """Return a new syntax tree of a function: a `FunctionDef` or a `Lambda`.

    Raises:
        NoTextError: the source is not available.
    """
    if _is_wrapped(function):
        return _refused(function)
    text = _text_of(function.__code__)
    if text is None:
        return _refused(function)
    [node] = ast.parse(text).body
    return node.value if isinstance(node, ast.Expr) else node


def _is_wrapped(function: types.FunctionType) -> bool:
    """Return `True` if a call differs from the source: a decorated function or a generator."""
    return getattr(function, "__wrapped__", None) is not None or inspect.isgeneratorfunction(function)


def _expression(text: str) -> ast.expr:
    """Return a new syntax tree of an expression, with a fast path for names."""
    return (
        ast.Name(text, ast.Load()) if text.isidentifier() and not keyword.iskeyword(text) else ast.parse(text, mode="eval").body
    )


@functools.lru_cache(maxsize=4096)
def _value_of(code: types.CodeType) -> str | None:
    """Return the text of the result of a one-expression function; `None` for other functions."""
    text = _text_of(code)
    if text is None:
        return None
    [node] = ast.parse(text).body
    body: Any = node.value if isinstance(node, ast.Expr) else node
    if isinstance(body, ast.Lambda):
        body = body.body
    elif isinstance(body.body[-1], ast.Return) and _documented_at_most(body.body[:-1]):
        body = body.body[-1].value
    if not isinstance(body, ast.expr) or any(isinstance(part, (ast.Lambda, ast.comprehension)) for part in ast.walk(body)):
        return None
    return ast.unparse(body)


@functools.lru_cache(maxsize=4096)
def _text_of(code: types.CodeType) -> str | None:
    """Return the source text of a code object; `None` if it is not available."""
    for node in _functions_of(code.co_filename).get(code.co_firstlineno, ()):
        if _compiles_to(node, code):
            return ast.unparse(node)
    return None


@functools.lru_cache(maxsize=256)
def _functions_of(path: str) -> dict[int, list[Any]]:
    """Return the functions in a file by their first line numbers."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return {}
    found: dict[int, list[Any]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            decorators = getattr(node, "decorator_list", [])
            first = decorators[0].lineno if decorators else node.lineno
            found.setdefault(first, []).append(node)
    return found


def _compiles_to(node: Any, code: types.CodeType) -> bool:
    """Return `True` if a function node has this code object: several functions may begin on one line."""
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    if list(code.co_varnames[: len(names)]) != names:
        return False
    if isinstance(node, ast.FunctionDef):
        return node.name == code.co_name
    found = [c for c in compile(ast.Expression(node), code.co_filename, "eval").co_consts if isinstance(c, types.CodeType)]
    return bool(found) and _meaning(found[0]) == _meaning(code)


def _meaning(code: types.CodeType) -> tuple[Any, ...]:
    """Return operators, names and constants of code, to tell functions on one line apart: `x * 2`, `x * 2.0`, `x - 2`."""
    constants = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
    operators = [step.argrepr for step in dis.get_instructions(code) if step.opname == "BINARY_OP"]
    return operators, code.co_names, exact_key(tuple(constants))


def _number(value: Any) -> str:
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    return repr(value) if not isinstance(value, float) or math.isfinite(value) else f"float({str(value)!r})"


def _nested(value: Any) -> str:
    nested = issubclass(type(value), np.ndarray) and value.ndim
    return f"[{', '.join(map(_nested, value))}]" if nested else _number(value.item())


def _refused(value: Any) -> NoReturn:
    raise NoTextError(repr(value) if not isinstance(value, ArraySpec) else "a spec")
