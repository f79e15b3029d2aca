"""Caches keyed by values of the user: two values that `==` calls equal, but functions tell apart, have entries of their own."""

from __future__ import annotations

import dataclasses
import decimal
from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad import errors
from functad.backends.source import _text_of
from functad.immutable import Exact

NUMBERS = (1, True, 1.0, np.int64(1), np.float32(1), np.True_, 0, False, 0.0, -0.0, 1j, complex(0.0, -1.0), complex(-0.0, 1.0))
BACKENDS = ("llvm", "numpy")


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True)
class Box:
    value: Any


@functad.register_tree(static=["factor"])
@dataclasses.dataclass
class Scaled:
    array: Any
    factor: Any


WRAPPED: dict[str, tuple[Any, Any]] = {
    "itself": (lambda v: v, lambda w: w),
    "tuple": (lambda v: (v,), lambda w: w[0]),
    "nested tuples": (lambda v: (("a", (v,)), 2), lambda w: w[0][1][0]),
    "frozenset": (lambda v: frozenset([v]), lambda w: next(iter(w))),
    "namedtuple": (lambda v: Pair(v, 2), lambda w: w.first),
    "dataclass": (Box, lambda w: w.value),
    "dataclass in a tuple": (lambda v: (Box(Pair(v, v)),), lambda w: w[0].value.second),
    "slice": (lambda v: slice(v, None), lambda w: w.start),
}


def same(found: Any, expected: Any) -> bool:
    return type(found) is type(expected) and repr(found) == repr(expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", WRAPPED)
def test_static_arguments_are_told_apart_by_type_and_sign(how: str, backend: str) -> None:
    wrap, unwrap = WRAPPED[how]
    x = np.arange(3) - 1

    def f(x: Any, w: Any) -> Any:
        return x * unwrap(w)

    compiled = functad.jit(f, static_argnums=1, backend=backend)
    with np.errstate(invalid="ignore"):
        for v in (*NUMBERS, *NUMBERS[::-1])[: 15 if backend == "llvm" else None]:
            assert same(compiled(x, wrap(v)), f(x, wrap(v))), v


@pytest.mark.parametrize("how", WRAPPED)
def test_nan_is_compiled_once(how: str) -> None:
    wrap, unwrap = WRAPPED[how]
    f = functad.jit(lambda x, w: x * unwrap(w), static_argnums=1, backend="numpy")
    for _ in range(3):
        assert np.isnan(f(1.0, wrap(float("nan"))))
    assert f.cache_info().size == 1


def test_keys_of_dicts_are_told_apart_by_type() -> None:
    def f(d: Any) -> Any:
        return {type(key).__name__: value * key for key, value in d.items()}

    for kind in (dict, OrderedDict, lambda d: defaultdict(None, d)):
        compiled = functad.jit(f, backend="numpy")
        for key in (1, True, 1.0, np.int64(1), 0.0, -0.0):
            d = kind({key: np.arange(3) - 1})
            assert same(compiled(d), f(d)), key


def test_static_fields_are_told_apart_by_type() -> None:
    def f(s: Scaled) -> Any:
        return s.array * s.factor

    compiled = functad.jit(f, backend="numpy")
    for v in (*NUMBERS[:10], (float("nan")), (float("nan"))):
        s = Scaled(np.arange(3) - 1, v)
        assert same(compiled(s), f(s)), v
    assert compiled.cache_info().size == 11


def test_strings_and_what_else_is_static_by_itself() -> None:
    f = functad.jit(lambda x, how: f"{type(how).__name__} {how!r}" and x * (2 if type(how) is str else 3))
    assert (f(1.0, "a"), f(1.0, np.str_("a")), f(1.0, "a")) == (2.0, 3.0, 2.0)
    g = functad.jit(lambda x, kind: x.astype(kind))
    for kind in (np.dtype("float32"), np.float32, "float32", np.dtype("int64"), np.int64):
        assert g(np.ones(2), kind).dtype == kind
    assert functad.jit(lambda x, d: x * len(str(d)))(1, decimal.Decimal("1.0")) == 3


def test_digits_of_a_decimal_count() -> None:
    f = functad.jit(lambda x, d: x * len(str(d)))
    assert (f(1, decimal.Decimal("1.0")), f(1, decimal.Decimal("1.00"))) == (3, 4)


def test_an_own_comparison_counts_besides_type() -> None:
    class Name:
        def __init__(self, text: str) -> None:
            self.text = text

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Name) and self.text == other.text

        def __hash__(self) -> int:
            return hash(self.text)

    f = functad.jit(lambda x, name: x * len(name.text))
    assert (f(1.0, Name("ab")), f(1.0, Name("ab")), f(1.0, Name("abc"))) == (2.0, 2.0, 3.0)
    assert f.cache_info().size == 2


def test_a_dataclass_with_an_own_comparison_keeps_it() -> None:
    @dataclasses.dataclass(frozen=True)
    class Tagged:
        value: float
        tag: str = dataclasses.field(compare=False, default="")

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Tagged) and self.tag == other.tag

        def __hash__(self) -> int:
            return hash(self.tag)

    assert Exact(Tagged(1.0, "a")) != Exact(Tagged(1.0, "b"))
    assert Exact(Tagged(1.0, "a")) == Exact(Tagged(1.0, "a"))
    assert Exact(Tagged(1.0, "a")) != Exact(Tagged(1, "a"))


def test_unhashable_values_are_named() -> None:
    f = functad.jit(lambda x, n: x, static_argnums=1)
    with pytest.raises(errors.InputError, match="a static argument is a list, which"):
        f(1.0, [1])
    with pytest.raises(errors.InputError, match="a static argument is a tuple, which"):
        f(1.0, ([1],))
    assert f.cache_info().size == 0


# fmt: off
ON_ONE_LINE = (lambda x: x * 2, lambda x: x * 2.0, lambda x: x - 2, lambda x: x * -0.0, lambda x: x * 0.0)
# fmt: on


def test_functions_on_one_line_have_texts_of_their_own() -> None:
    texts = ["lambda x: x * 2", "lambda x: x * 2.0", "lambda x: x - 2", "lambda x: x * -0.0", "lambda x: x * 0.0"]
    assert [_text_of(f.__code__) for f in ON_ONE_LINE] == texts


def test_functions_of_another_library_are_kept_by_type_of_their_options() -> None:
    pytest.importorskip("jax", reason="the bridge needs JAX")
    f = functad.from_jax(lambda x, sign: x * (2.0 if str(sign) == "-0.0" else 3.0))
    given = [functad.value_and_grad(lambda x, s=s: np.sum(f(x, s)))(np.ones(2, np.float32))[0] for s in (0.0, -0.0)]
    assert given == [6.0, 4.0]
