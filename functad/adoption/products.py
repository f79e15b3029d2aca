"""`A.dot(t)` in adopted code, for a plain array `A`: the C method would ask the Tensor `t` for its values.

The bytecode of functions that call such a method is changed: `product` is loaded instead of the method, and the object before
`.dot` becomes its first argument. The instruction that loads a method has enough cache entries for this, so nothing else moves:
no source is needed, and line numbers stay the same.
"""

from __future__ import annotations

import dis
import sys
from itertools import pairwise
from types import CodeType
from typing import Any

import numpy as np

from functad.adoption.arrays import PLAIN_TYPES, has_tensors
from functad.adoption.code import steps_of
from functad.adoption.standing import ABSENT
from functad.primitives.linalg.sparse_products import is_sparse
from functad.primitives.operands import as_operand, is_traced

PRODUCT = "__functad_product__"
"""The name of `product` in the globals of adopted code."""


def product(a: Any, b: Any = ABSENT, /, *args: Any, **kwargs: Any) -> Any:
    """Return `a.dot(b)`, also for an array and a Tensor."""
    if args or kwargs or b is ABSENT:
        return a.dot(*args, **kwargs) if b is ABSENT else a.dot(b, *args, **kwargs)
    if type(b) not in PLAIN_TYPES and has_tensors((b,)):
        b = as_operand(b)
        return a @ b if is_sparse(a) else np.dot(a, b) if type(a) is np.ndarray or is_traced(a) else a.dot(b)
    return a.dot(b)


def with_products(code: CodeType) -> CodeType:
    """Return the code of a function with `a.dot(b)` replaced by a call of `product`; the same code if it has none."""
    consts = tuple([with_products(const) if isinstance(const, CodeType) else const for const in code.co_consts])
    if any(a is not b for a, b in zip(consts, code.co_consts, strict=True)):
        code = code.replace(co_consts=consts)
    if "dot" not in code.co_names:
        return code
    names = (*code.co_names, PRODUCT)
    body = bytearray(code.co_code)
    for (_, before, _), (operation, name, place) in pairwise(steps_of(code)):
        is_call = operation == _METHOD and (body[place + 1] & 1 or not _FLAGGED)
        if name == "dot" and is_call and before not in ("np", "numpy"):
            _load_product(body, place, len(names) - 1)
    return code.replace(co_names=names, co_code=bytes(body)) if body != code.co_code else code


def _load_product(body: bytearray, place: int, index: int) -> None:
    """Replace the instruction that loads a method by instructions that load a global below the object of the method."""
    end = place + 2
    while body[end] == _CACHE:
        end += 2
    operand = index << 1
    extended = [_EXTENDED, operand >> 8] if operand >= 1 << 8 else []
    found = [*extended, _GLOBAL, operand & 255, *[_CACHE, 0] * _CACHES_OF_GLOBAL, dis.opmap["SWAP"], 2]
    if len(found) > end - place or operand >= 1 << 16:
        return
    body[place:end] = bytes([*found, *[dis.opmap["NOP"], 0] * ((end - place - len(found)) // 2)])
    while place and body[place - 2] == _EXTENDED:  # a prefix of the old operand
        place -= 2
        body[place : place + 2] = dis.opmap["NOP"], 0


_CACHE, _EXTENDED, _GLOBAL = dis.opmap["CACHE"], dis.opmap["EXTENDED_ARG"], dis.opmap["LOAD_GLOBAL"]
_FLAGGED = sys.version_info >= (3, 12)
"""Python 3.12 and later: one instruction reads attributes and loads methods; the lowest operand bit marks a method call."""
_METHOD = dis.opmap["LOAD_ATTR" if _FLAGGED else "LOAD_METHOD"]


def _reads_a_global() -> Any:
    return PRODUCT


_AFTER_GLOBAL = _reads_a_global.__code__.co_code.partition(bytes([_GLOBAL]))[2][1:]
_CACHES_OF_GLOBAL = (len(_AFTER_GLOBAL) - len(_AFTER_GLOBAL.lstrip(bytes([_CACHE])))) // 2
