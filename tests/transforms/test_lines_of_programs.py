"""The user's lines and the phases of all equations of lists from nested transforms, tapes, loops and custom rules."""

import numpy as np
import pytest

import functad


def squares(x):
    return x * x


def waves(x):
    y = squares(x)
    return np.sum(np.sin(y))


def read(x):
    y = np.exp(x)
    return y[0] * y[2] + np.sum(y[1:])


def written(x):
    y = np.zeros_like(x)
    y[1:] = np.sin(x[:-1])
    return np.sum(y * x)


def decomposed(x):
    a = np.outer(x, x) + np.eye(3)
    q, r = np.linalg.qr(a)
    return np.sum(q) + np.sum(r)


def swept(x):
    def step(h, v):
        h = np.tanh(h + v)
        return h, h * v

    last, all_ = functad.scan(step, 0.0, x)
    return last + np.sum(all_)


def chosen(x):
    def large(v):
        return np.sum(v * v)

    def small(v):
        return np.sum(np.cos(v))

    return functad.cond(x[0] > 0.5, large, small, x)


def repeated(x):
    def body(v):
        return np.sin(v)

    return np.sum(functad.fori_loop(0, 3, lambda i, v: body(v), x))


@functad.custom_vjp
def ruled(x):
    return x * x


def ruled_back(kept, g):
    slope = kept * 2.0
    return (g * slope,)


ruled.defvjp(lambda x: (x * x, x), ruled_back)


def by_rule(x):
    return np.sum(np.exp(ruled(x)))


def by_segment(x):
    inner = functad.checkpoint(lambda v: np.sin(squares(v)))
    return np.sum(inner(x) * x)


def by_tape(x):
    source = functad.constant(x)
    with functad.GradientTape() as tape:
        tape.watch(source)
        value = read(source) * waves(source)
    return tape.gradient(value, source)


def by_two_tapes(x):
    source = functad.constant(x)
    with functad.GradientTape() as outer:
        outer.watch(source)
        with functad.GradientTape() as inner:
            inner.watch(source)
            value = waves(source)
        slope = np.sum(inner.gradient(value, source))
    return outer.gradient(slope, source)


def by_nested_tape(x):
    source = functad.constant(x)
    with functad.GradientTape() as outer, functad.GradientTape() as inner:
        outer.watch(source)
        inner.watch(source)
        middle = squares(source)
        value = waves(middle)
    return inner.gradient(value, middle), outer.gradient(value, source)


def by_accumulator(x):
    source = functad.constant(x)
    with functad.ForwardAccumulator(source, np.ones(3)) as accumulator:
        value = waves(source)
    return accumulator.jvp(value)


def by_pullback(x):
    value, pull = functad.vjp(squares, x)
    return pull(np.sin(value))[0]


def by_failure(x):
    def refused(v):
        return np.sum(np.sin(v) * v)

    try:
        functad.grad(lambda v: refused(failing(v)))(x)
    except KeyError:
        return np.cos(x)


@functad.custom_vjp
def failing(x):
    return x


def failing_back(kept, g):
    raise KeyError


failing.defvjp(lambda x: (x * 1.0, x), failing_back)


def by_debugged(x):
    with functad.debug_nans():
        return functad.grad(waves)(x)


def by_jvp(f):
    return lambda x: functad.jvp(f, (x,), (x,))


def summed(f):
    return lambda x: np.sum(f(x))


def by_batch(x):
    return functad.vmap(lambda v: np.sin(v) * v)(x)


def by_batch_of_gradients(x):
    rows = np.stack([x, x])
    return functad.vmap(functad.grad(waves))(rows)


def by_linearization(x):
    push = functad.linearize(waves, x)[1]
    return push(x)


def by_compiled(x):
    return functad.jit(functad.grad(waves))(x)


LISTED = functad.make_expressions(functad.grad(waves))(np.ones(3))

PROGRAMS = {
    "value": waves,
    "grad": functad.grad(waves),
    "grad twice": functad.grad(summed(functad.grad(waves))),
    "grad of a NumPy function": functad.grad(np.sum),
    "grad, read": functad.grad(read),
    "grad, written": functad.grad(written),
    "grad, decomposed": functad.grad(decomposed),
    "grad, scan": functad.grad(swept),
    "grad, cond": functad.grad(chosen),
    "grad, loop": functad.grad(repeated),
    "grad, rule": functad.grad(by_rule),
    "grad, checkpoint": functad.grad(by_segment),
    "grad, tape": functad.grad(summed(by_tape)),
    "grad, vmap": functad.grad(summed(by_batch)),
    "grad, list": functad.grad(summed(LISTED)),
    "jvp": by_jvp(waves),
    "jvp, read": by_jvp(read),
    "jvp, decomposed": by_jvp(decomposed),
    "jvp, scan": by_jvp(swept),
    "jvp, checkpoint": by_jvp(by_segment),
    "hvp": lambda x: functad.hvp(waves, (x,), (x,)),
    "jacobian": functad.jacobian(squares),
    "hessian": functad.hessian(waves),
    "vmap": by_batch,
    "vmap, grad": by_batch_of_gradients,
    "tape": by_tape,
    "two tapes": by_two_tapes,
    "nested tape": by_nested_tape,
    "accumulator": by_accumulator,
    "pullback": by_pullback,
    "linearize": by_linearization,
    "jit": by_compiled,
    "list": LISTED,
    "error": by_failure,
    "debug_nans": by_debugged,
}


def runs(expressions, indent=""):
    """Return the phase and the line of each run of equations; the runs of inner lists are indented."""
    found = []
    for e in expressions.equations:
        row = f"{indent}{e.place.phase} {e.place.text}".rstrip()
        if found[-1:] != [row]:
            found.append(row)
        for inner in functad.tree_leaves(list(e.params.values())):
            if isinstance(inner, functad.Expressions):
                found += runs(inner, indent + "  ")
    return found


EXPECTED = """
== value
forward return x * x
forward return np.sum(np.sin(y))
== grad
forward return x * x
forward return np.sum(np.sin(y))
backward return np.sum(np.sin(y))
backward return x * x
== grad twice
forward return x * x
forward return np.sum(np.sin(y))
backward return np.sum(np.sin(y))
backward return x * x
forward return lambda x: np.sum(f(x))
backward return x * x
backward return np.sum(np.sin(y))
backward return x * x
== grad of a NumPy function
forward
== grad, read
forward y = np.exp(x)
forward return y[0] * y[2] + np.sum(y[1:])
backward return y[0] * y[2] + np.sum(y[1:])
backward y = np.exp(x)
== grad, written
forward y[1:] = np.sin(x[:-1])
forward return np.sum(y * x)
backward return np.sum(y * x)
backward y[1:] = np.sin(x[:-1])
backward
== grad, decomposed
forward a = np.outer(x, x) + np.eye(3)
forward q, r = np.linalg.qr(a)
forward return np.sum(q) + np.sum(r)
backward q, r = np.linalg.qr(a)
backward a = np.outer(x, x) + np.eye(3)
== grad, scan
forward last, all_ = functad.scan(step, 0.0, x)
  forward h = np.tanh(h + v)
  forward return h, h * v
  backward h = np.tanh(h + v)
forward return last + np.sum(all_)
backward last, all_ = functad.scan(step, 0.0, x)
  backward return h, h * v
  backward h = np.tanh(h + v)
== grad, cond
forward return functad.cond(x[0] > 0.5, large, small, x)
  forward return np.sum(np.cos(v))
  forward return np.sum(v * v)
backward return functad.cond(x[0] > 0.5, large, small, x)
  backward return np.sum(np.cos(v))
  backward return np.sum(v * v)
== grad, loop
forward return np.sum(functad.fori_loop(0, 3, lambda i, v: body(v), x))
  forward return np.sum(functad.fori_loop(0, 3, lambda i, v: body(v), x))
  forward return np.sin(v)
  backward return np.sin(v)
forward return np.sum(functad.fori_loop(0, 3, lambda i, v: body(v), x))
backward return np.sum(functad.fori_loop(0, 3, lambda i, v: body(v), x))
  backward return np.sin(v)
== grad, rule
forward ruled.defvjp(lambda x: (x * x, x), ruled_back)
forward return np.sum(np.exp(ruled(x)))
backward return np.sum(np.exp(ruled(x)))
backward slope = kept * 2.0
backward return (g * slope,)
== grad, checkpoint
forward return np.sum(inner(x) * x)
backward return np.sum(inner(x) * x)
backward return x * x
backward return np.sum(inner(x) * x)
backward return x * x
backward return np.sum(inner(x) * x)
== grad, tape
forward y = np.exp(x)
forward return y[0] * y[2] + np.sum(y[1:])
forward return x * x
forward return np.sum(np.sin(y))
forward value = read(source) * waves(source)
backward value = read(source) * waves(source)
backward return np.sum(np.sin(y))
backward return x * x
backward return y[0] * y[2] + np.sum(y[1:])
backward y = np.exp(x)
forward return lambda x: np.sum(f(x))
backward y = np.exp(x)
backward return y[0] * y[2] + np.sum(y[1:])
backward return x * x
backward return np.sum(np.sin(y))
backward value = read(source) * waves(source)
backward return np.sum(np.sin(y))
backward return x * x
backward return y[0] * y[2] + np.sum(y[1:])
backward y = np.exp(x)
== grad, vmap
forward return functad.vmap(lambda v: np.sin(v) * v)(x)
forward return lambda x: np.sum(f(x))
backward return functad.vmap(lambda v: np.sin(v) * v)(x)
== grad, list
forward return x * x
forward return np.sum(np.sin(y))
backward return np.sum(np.sin(y))
backward return x * x
forward return lambda x: np.sum(f(x))
backward return x * x
backward return np.sum(np.sin(y))
backward return x * x
== jvp
forward return x * x
forward return np.sum(np.sin(y))
tangent return x * x
tangent return np.sum(np.sin(y))
== jvp, read
forward y = np.exp(x)
forward return y[0] * y[2] + np.sum(y[1:])
tangent y = np.exp(x)
tangent return y[0] * y[2] + np.sum(y[1:])
== jvp, decomposed
forward a = np.outer(x, x) + np.eye(3)
forward q, r = np.linalg.qr(a)
forward return np.sum(q) + np.sum(r)
tangent a = np.outer(x, x) + np.eye(3)
tangent q, r = np.linalg.qr(a)
tangent return np.sum(q) + np.sum(r)
== jvp, scan
forward last, all_ = functad.scan(step, 0.0, x)
  forward h = np.tanh(h + v)
  forward return h, h * v
forward return last + np.sum(all_)
tangent last, all_ = functad.scan(step, 0.0, x)
  tangent last, all_ = functad.scan(step, 0.0, x)
  tangent h = np.tanh(h + v)
  tangent return h, h * v
  tangent last, all_ = functad.scan(step, 0.0, x)
tangent return last + np.sum(all_)
== jvp, checkpoint
forward return np.sum(inner(x) * x)
tangent return x * x
tangent inner = functad.checkpoint(lambda v: np.sin(squares(v)))
tangent return x * x
tangent inner = functad.checkpoint(lambda v: np.sin(squares(v)))
tangent return np.sum(inner(x) * x)
== hvp
forward return x * x
forward return np.sum(np.sin(y))
backward return np.sum(np.sin(y))
backward return x * x
tangent return x * x
tangent return np.sum(np.sin(y))
tangent return x * x
== jacobian
forward return x * x
backward return x * x
forward
== hessian
forward return x * x
forward return np.sum(np.sin(y))
backward return np.sum(np.sin(y))
backward return x * x
tangent return x * x
tangent return np.sum(np.sin(y))
tangent return x * x
tangent return np.sum(np.sin(y))
tangent return x * x
tangent return np.sum(np.sin(y))
tangent return x * x
forward
== vmap
forward return functad.vmap(lambda v: np.sin(v) * v)(x)
== vmap, grad
forward rows = np.stack([x, x])
forward return x * x
forward return np.sum(np.sin(y))
backward return np.sum(np.sin(y))
backward return x * x
== tape
forward y = np.exp(x)
forward return y[0] * y[2] + np.sum(y[1:])
forward return x * x
forward return np.sum(np.sin(y))
forward value = read(source) * waves(source)
backward value = read(source) * waves(source)
backward return np.sum(np.sin(y))
backward return x * x
backward return y[0] * y[2] + np.sum(y[1:])
backward y = np.exp(x)
== two tapes
forward return x * x
forward return np.sum(np.sin(y))
backward return np.sum(np.sin(y))
backward return x * x
forward slope = np.sum(inner.gradient(value, source))
backward return x * x
backward return np.sum(np.sin(y))
backward return x * x
== nested tape
forward return x * x
forward return np.sum(np.sin(y))
backward return np.sum(np.sin(y))
backward return x * x
backward return np.sum(np.sin(y))
backward return x * x
== accumulator
forward return x * x
forward return np.sum(np.sin(y))
tangent return x * x
tangent return np.sum(np.sin(y))
== pullback
forward return x * x
forward return pull(np.sin(value))[0]
backward return x * x
== linearize
forward return x * x
forward return np.sum(np.sin(y))
backward return np.sum(np.sin(y))
backward return x * x
backward return np.sum(np.sin(y))
backward return push(x)
== jit
forward return x * x
backward return np.sum(np.sin(y))
backward return x * x
forward return functad.jit(functad.grad(waves))(x)
== list
forward return x * x
forward return np.sum(np.sin(y))
backward return np.sum(np.sin(y))
backward return x * x
== error
forward failing.defvjp(lambda x: (x * 1.0, x), failing_back)
forward return np.sum(np.sin(v) * v)
backward return np.sum(np.sin(v) * v)
forward return np.cos(x)
== debug_nans
forward return x * x
forward return np.sum(np.sin(y))
backward return np.sum(np.sin(y))
backward return x * x
"""
SECTIONS = dict(section.split("\n", 1) for section in EXPECTED.strip().removeprefix("== ").split("\n== "))


@pytest.mark.parametrize("name", PROGRAMS)
def test_equations_have_the_lines_and_phases_of_their_operations(name):
    listed = functad.make_expressions(PROGRAMS[name])(np.array([0.5, 1.0, 2.0]))
    assert runs(listed) == SECTIONS[name].strip("\n").split("\n")


def test_every_program_has_its_lines():
    assert list(SECTIONS) == list(PROGRAMS)
