"""The loop IR: its text, its check, and the analysis of positions."""

import math
import re

import numpy as np
import pytest

import functad
from functad.loops.ir import (
    Allocate,
    Block,
    Call,
    For,
    Function,
    If,
    Leave,
    Load,
    Loop,
    MalformedError,
    Op,
    Store,
    affine,
    check,
    literal,
    number_of,
    walk,
)

LOAD = Load("%x", "double", "%a", "%i")
SQUARE = Op("%y", "mul", "double", "double", ("%x", "%x"))
STORE = Store("double", "%b", "%i", "%y")


def function(*body, parameters=(("ptr", "%a"), ("ptr", "%b"), ("i64", "%n")), result=None):
    return Function("@f", parameters, body, result)


def over(*body, stop="%n"):
    return For("%i", "0", stop, 1, body, vector=True)


def test_text_shows_the_nest_as_a_reader_writes_it():
    assert str(function(over(LOAD, SQUARE, STORE))).splitlines() == [
        "f(a:ptr, b:ptr, n:i64):",
        "  for i in 0..n, vector:",
        "    x:double = a[i]",
        "    y:double = mul x, x",
        "    b[i] = y:double",
    ]


def test_text_shows_branches_blocks_loops_and_calls():
    whole = function(
        Allocate("%m", "double", 2),
        Store("double", "%m", "0", literal(1.5, "double")),
        Block(
            "block1", (Loop("loop2", (Call("%c", "i1", "@go_on", (("ptr", "%m"),)), Leave("block1", "%c"), Leave("loop2"))),)
        ),
        Op("%less", "lt", "i1", "i64", ("%n", "3")),
        If("%less", (Call("", "void", "@work", (("ptr", "%m"), ("i64", "7"))),)),
        result=("i64", "%n"),
    )
    check(whole)
    assert str(whole).splitlines() == [
        "f(a:ptr, b:ptr, n:i64):",
        "  m:ptr = 2 x double on the stack",
        "  m[0] = 1.5:double",
        "  block block1:",
        "    loop loop2:",
        "      c:i1 = go_on(m)",
        "      leave block1 if c",
        "      leave loop2",
        "  less:i1 = lt n, 3",
        "  if less:",
        "    work(m, 7)",
        "  return n",
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ((over(SQUARE, STORE),), "%x of type double is not defined here"),
        ((over(LOAD), SQUARE), "%x of type double is not defined here"),
        ((over(LOAD, LOAD),), "%x is defined twice"),
        ((over(LOAD, Op("%y", "mul", "i64", "i64", ("%x", "%i"))),), "%x of type i64 is of type double"),
        ((over(LOAD, SQUARE, STORE, stop="%a"),), "%a of type i64 is of type ptr"),
        ((over(LOAD, Op("%y", "sqrt", "double", "double", ("%x", "%x"))),), "sqrt does not take 2 operands"),
        ((over(LOAD, Op("%y", "root", "double", "double", ("%x",))),), "root does not take 1 operands"),
        ((Loop("loop1", (Leave("loop2"),)),), "no body loop2 around"),
        ((Loop("loop1", (Leave("loop1", "%n"),)),), "%n of type i1 is of type i64"),
    ],
)
def test_check_refuses_what_breaks_a_rule(body, message):
    check(function(over(LOAD, SQUARE, STORE)))
    with pytest.raises(MalformedError, match=f"^@f: {re.escape(message)}"):
        check(function(*body))


@pytest.mark.parametrize("number", [0.0, -0.0, 0.1, -1e-320, 1e308, math.inf, math.nan, np.pi])
def test_literals_of_real_numbers_lose_no_digit(number):
    for kind in ("double", "float"):
        expected = float(np.float32(number)) if kind == "float" and abs(number) < 1e38 else number
        if kind == "double" or abs(number) < 1e38 or not math.isfinite(number):
            found = number_of(literal(number, kind), kind)
            assert found == expected or (math.isnan(found) and math.isnan(expected))
            assert math.copysign(1, found) == math.copysign(1, expected)


def test_literals_of_integers_wrap_around():
    assert [literal(2**63, "i64"), literal(-1, "i32"), literal(True, "i1")] == [str(-(2**63)), "-1", "1"]


def test_positions_are_sums_of_indices_with_coefficients():
    made = {
        node.result: node
        for node in (
            Op("%p", "mul", "i64", "i64", ("%i", "12")),
            Op("%q", "add", "i64", "i64", ("%p", "%j")),
            Op("%r", "sub", "i64", "i64", ("5", "%q")),
            Op("%s", "add", "i64", "i64", ("%r", "%j")),
            Op("%t", "mul", "i64", "i64", ("%i", "%j")),
            Op("%u", "urem", "i64", "i64", ("%i", "4")),
        )
    }
    assert affine("7", made) == ({}, 7)
    assert affine("%i", made) == ({"%i": 1}, 0)
    assert affine("%q", made) == ({"%i": 12, "%j": 1}, 0)
    assert affine("%s", made) == ({"%i": -12}, 5)
    assert affine("%t", made) is None
    assert affine("%u", made) == ({"%u": 1}, 0)


def test_dump_shows_the_functions_of_a_program():
    pytest.importorskip("llvmlite", reason="the backend llvm needs llvmlite, of the extra `jit`")
    lowered = functad.jit(lambda x: np.sum(np.sin(x) * x), backend="llvm").lower(np.ones(100))
    text = lowered.dump("loops")
    assert "for i" in text
    assert "functad.sin.f64" in text
    assert lowered.dump("llvm") == lowered.compile().program.text
    with pytest.raises(functad.errors.InputError, match="the backend 'llvm' has no stage 'text'"):
        lowered.dump("text")
    with pytest.raises(functad.errors.InputError, match="the backend 'numpy' has no stage 'loops'"):
        functad.jit(np.sin, backend="numpy").lower(1.0).dump("loops")


def test_environment_prints_the_loops_of_each_compilation(monkeypatch, capfd):
    pytest.importorskip("llvmlite", reason="the backend llvm needs llvmlite, of the extra `jit`")
    monkeypatch.setenv("FUNCTAD_DUMP", "loops")
    functad.jit(lambda x: x * x + 1.0, backend="llvm")(np.ones(100))
    printed = capfd.readouterr().err
    assert "-- loops" in printed
    assert "for i" in printed


def test_walk_yields_the_nodes_of_all_bodies():
    nest = over(LOAD, If("%c", (SQUARE,)))
    assert list(walk([nest])) == [nest, LOAD, nest.body[1], SQUARE]
