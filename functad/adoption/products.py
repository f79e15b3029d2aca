"""`A.dot(t)` in adopted code, where `A` is a plain array, whose method is C code that asks a Tensor for its values.

Functions that call such a method get other code: what stands before `.dot` becomes the first argument of `product`. That code
is compiled from their file, if what is compiled from it unchanged is the code that they have.
"""

from __future__ import annotations
import __future__

import ast
import dis
import functools
import linecache
import operator
from contextlib import suppress
from itertools import pairwise
from types import CodeType
from typing import Any

import numpy as np

from functad.adoption.arrays import has_tensors
from functad.adoption.code import steps_of
from functad.primitives.linalg.sparse_products import is_sparse
from functad.primitives.operands import as_operand, is_traced

PRODUCT = "__functad_product__"
"""The name of `product` among the globals of adopted code."""


def product(a: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The product that `a.dot` is, also of an array and a Tensor."""
    if len(args) == 1 and has_tensors(args):
        b = as_operand(args[0])
        return a @ b if is_sparse(a) else np.dot(a, b) if type(a) is np.ndarray or is_traced(a) else a.dot(b)
    return a.dot(*args, **kwargs)


def with_products(code: CodeType) -> CodeType:
    """Return the code of a function in which `a.dot(b)` is a call of `product`; itself if there is none, or no source of it."""
    if not _calls_dot(code) or code.co_name == "<lambda>":
        return code
    known = _CHANGED.get(id(code))
    if known is None:
        known = _CHANGED[id(code)] = code, _changed(code)
    return known[1]


_CHANGED: dict[int, tuple[CodeType, CodeType]] = {}  # by identity, as code of different files may be equal


def _calls_dot(code: CodeType) -> bool:
    """Say whether a function calls a method `dot`, of something else than NumPy, or one in it does."""
    if "dot" in code.co_names:
        for (_, before), (_, name) in pairwise(steps_of(code)):
            if name == "dot" and before not in ("np", "numpy"):
                return True
    return any(map(_calls_dot, _parts(code)))


def _parts(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def _changed(code: CodeType) -> CodeType:
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    end = _last_line(code) - code.co_firstlineno + 1
    for count in range(end, min(end + 10, len(lines) + 1)):  # brackets may close on the lines after the last expression
        with suppress(SyntaxError, ValueError):
            tree = ast.parse(_nested(code, lines[:count]))
            ast.increment_lineno(tree, code.co_firstlineno - 3)
            here, products = _found(code, tree), _Products()
            changed = ast.fix_missing_locations(products.visit(tree))
            if not products.count or _signature(here) != _signature(code):  # the file may be another one by now
                break
            found = _found(code, changed)
            if found.co_freevars == code.co_freevars:
                code = found.replace(co_qualname=code.co_qualname)
            break
    return code


_OPERATIONS = (dis.opmap["BINARY_OP"], dis.opmap["COMPARE_OP"])


def _signature(code: CodeType) -> list[Any]:
    """Return parts in which two codes of the same function agree, which may differ in how they look names up."""
    own = [code.co_varnames, code.co_freevars, code.co_cellvars, sorted(code.co_names)]
    consts = [const for const in code.co_consts if not isinstance(const, CodeType)]
    operations = [step for step in steps_of(code) if step[0] in _OPERATIONS]
    return [*own, consts, operations, *map(_signature, _parts(code))]


def _last_line(code: CodeType) -> int:
    ends = [end for _, end, _, _ in code.co_positions() if end is not None]
    return max([code.co_firstlineno, *ends, *map(_last_line, _parts(code))])


def _nested(code: CodeType, lines: list[str]) -> str:
    """Return the text of a function within others that give it its free variables, and its class, on two lines before it."""
    if lines[0][0] not in " \t":
        return "\n\n" + "".join(lines)
    scope = code.co_qualname.split(".")[-2]
    variables = ", ".join([name for name in code.co_freevars if name != "__class__"])
    return f"def scope({variables}):\n class {'scope' if scope == '<locals>' else scope}:\n" + "".join(lines)


def _found(code: CodeType, tree: ast.Module) -> CodeType:
    """Return the code of the function that a tree defines."""
    waiting: list[CodeType] = [compile(tree, code.co_filename, "exec", code.co_flags & _FUTURE, dont_inherit=True)]
    while waiting:
        found = waiting.pop()
        if (found.co_name, found.co_firstlineno) == (code.co_name, code.co_firstlineno):
            return found
        waiting += _parts(found)
    return code


_FUTURE = functools.reduce(operator.or_, [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names])


class _Products(ast.NodeTransformer):
    """Replaces `a.dot(b)` by `product(a, b)`, where both stand in the same place of the file.

    Attributes:
        count: the number of calls that were replaced.
    """

    count = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace the call, after those within it."""
        self.generic_visit(node)
        method = node.func
        if not isinstance(method, ast.Attribute) or method.attr != "dot":
            return node
        if isinstance(method.value, ast.Name) and method.value.id in ("np", "numpy"):
            return node
        self.count += 1
        function = ast.copy_location(ast.Name(PRODUCT, ast.Load()), method)
        return ast.copy_location(ast.Call(function, [method.value, *node.args], node.keywords), node)
