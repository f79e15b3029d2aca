"""Control flow whose functions write into what they are given, or give what others hold: each gives what its list gives.

An expression list is pure, so what it computes is what each construct means. The same program run step by step, in Python's own
loop, must give that too, or refuse.
"""

import numpy as np
import pytest

import functad
from functad.errors import ControlFlowError, FunctadError
from tests.differences import numerical_jacobian

X = np.array([1.0, 2.0, 3.0])
OUTER = np.array([5.0, 6.0, 7.0])


def two_of_one_array(x):
    def body(s):
        i, a, b = s
        a += 1
        b = b * 2
        return i + 1, b, b

    i, a, b = functad.while_loop(lambda s: s[0] < 3, body, (0, x, x))
    return i + a + 10 * b


def an_array_and_its_view(x):
    def body(i, s):
        a = s[0]
        a += 1
        return a, a[::-1]

    a, b = functad.fori_loop(0, 3, body, (x, x))
    return a + 10 * b


def views_under_while(x):
    def body(s):
        i, a, b = s
        a += b
        return i + 1, a[::-1], a

    return functad.while_loop(lambda s: s[0] < 4, body, (0, x, x))[1]


def scanned(x):
    def step(s, row):
        a, b = s
        a[:] = a + row
        b *= 2
        return (a, a), b

    (a, b), ys = functad.scan(step, (x, x), x)
    return ys + a + 100 * b


def row_as_carry(x):
    def step(a, row):
        row += a
        a *= 3
        return row, a

    carry, ys = functad.scan(step, x, np.stack([x, x, 2 * x]))
    return carry + ys[0] + 10 * ys[1] + 100 * ys[2]


def mapped(x):
    def f(row):
        row += 1
        return row, row

    a, b = functad.map(f, np.stack([x, 2 * x]))
    a += 1
    return a + 10 * b + x


def branch_gives_one_array_twice(x):
    a, b = functad.cond(np.sum(x) > 0, lambda x: (x, x), lambda x: (x, 2 * x), x)
    a += 1
    return b + x


def branch_gives_views(x):
    a, b = functad.switch(1, [lambda x: (x, x), lambda x: (x, x[::-1])], x)
    a += 1
    return b + 10 * x


def combined(x):
    def fn(a, b):
        b += a
        a *= 0
        return b

    return functad.associative_scan(fn, x) + x


def combined_pairs(x):
    def fn(a, b):
        r = b[0]
        r += a[0]
        return r, r

    a, b = functad.associative_scan(fn, (x, x))
    a += 1
    return b


def carry_from_outside(x):
    def body(s):
        i, a = s
        a[:] = a + 1
        return i + 1, OUTER

    return functad.while_loop(lambda s: s[0] < 3, body, (0, x))[1] + 0 * x


def branch_from_outside(x):
    y = functad.cond(np.sum(x) > 0, lambda x: OUTER, lambda x: x, x)
    y += 1
    return y * x


PROGRAMS = [
    two_of_one_array,
    an_array_and_its_view,
    views_under_while,
    scanned,
    row_as_carry,
    mapped,
    branch_gives_one_array_twice,
    branch_gives_views,
    combined,
    combined_pairs,
    carry_from_outside,
    branch_from_outside,
]
each_program = pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)


@each_program
def test_values(f):
    x, outer = X.copy(), OUTER.copy()
    expected = functad.make_expressions(f)(x)(x)
    np.testing.assert_array_equal(f(x), expected)
    np.testing.assert_array_equal(functad.jvp(f, (x,), (np.ones(3),))[0], expected)
    np.testing.assert_array_equal(functad.vjp(f, x)[0], expected)
    np.testing.assert_array_equal(functad.vmap(f)(np.stack([2 * x, x]))[1], expected)
    assert np.array_equal(x, X)
    assert np.array_equal(OUTER, outer)


@each_program
def test_derivatives(f):
    """Those of the program are those of its list, and both are finite differences."""
    recorded = functad.make_expressions(f)(X)
    found = functad.jacrev(f)(X)
    np.testing.assert_allclose(found, functad.jacrev(recorded)(X), rtol=1e-13)
    np.testing.assert_allclose(found, functad.jacfwd(f)(X), rtol=1e-13)
    np.testing.assert_allclose(found, numerical_jacobian(recorded, X), rtol=1e-6, atol=1e-6)


def writing_condition(x):
    def more(s):
        i, a = s
        a[0] += 1
        return i < 3

    return functad.while_loop(more, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1]


def test_a_condition_only_looks():
    """Into arrays of the carry it cannot write; to Tensors that it writes to, nobody else looks."""
    with pytest.raises(ControlFlowError, match=r"writing_condition.more writes into an array that is read-only.*x.copy\(\)"):
        writing_condition(X)
    expected = functad.make_expressions(writing_condition)(X)(X)
    np.testing.assert_array_equal(expected, 8 * X)
    np.testing.assert_array_equal(functad.vjp(writing_condition, X)[0], expected)
    np.testing.assert_array_equal(functad.vmap(writing_condition)(np.stack([X, X]))[0], expected)
    np.testing.assert_array_equal(functad.jacobian(writing_condition)(X), 8 * np.eye(3))


def test_a_condition_may_write_into_a_copy_and_fail_for_other_reasons():
    def more(s):
        a = s.copy()
        a[0] = 10.0
        return a[0] + s[1] < 13

    assert np.array_equal(functad.while_loop(more, lambda s: s + 1, X), X + 1)
    with pytest.raises(ValueError, match="no such thing") as raised:
        functad.while_loop(lambda s: int(" no such thing"), lambda s: s, X)
    assert not isinstance(raised.value, FunctadError)


@pytest.mark.parametrize("derive", [lambda f: f, functad.grad], ids=["plain", "grad"])
def test_filling_an_array_copies_it_once(derive):
    """A step that writes one element of a large carry leaves the rest where it is."""
    places = set()

    def fill(i, a):
        a[i] = 2.0 * i
        inner = a.below if isinstance(a, functad.Tensor) else a
        places.add(inner.__array_interface__["data"][0])
        return a

    derive(lambda x: functad.fori_loop(0, 50, fill, x)[7])(np.ones(1000))
    assert len(places) == 1


def test_what_the_user_keeps_of_a_step_stays():
    kept = []

    def body(i, a):
        a += 1
        kept.append(a)
        return a

    assert np.array_equal(functad.fori_loop(0, 3, body, X), X + 3)
    assert np.array_equal(kept, [X + 1, X + 2, X + 3])
