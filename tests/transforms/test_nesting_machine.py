"""Transforms nested at random: a machine that stacks, combines and keeps functions, and compares each with numbers.

`pytest tests/transforms/test_nesting_machine.py --hypothesis-profile=long` looks for an hour instead of seconds, at other nests
each time, and deeper ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, multiple, rule

import functad
from functad.errors import (
    AbstractValueError,
    ConversionError,
    CustomGradientError,
    CustomRuleError,
    LoopWarning,
    UnsupportedError,
)
from tests.transforms.nestings import (
    AGREEMENT,
    PROGRAMS,
    TRANSFORMS,
    VALUE_DEPENDENT,
    Function,
    Measured,
    V,
    W,
    X,
    differences,
    expected,
    plain,
)

LONG = settings().max_examples > 1000  # the profile `long`
MAX_ORDER = 3
MAX_COST = 150 if LONG else 40
POINTS = (X, X * 0.6 + 0.2, -X)
CLOSED = {name for name in TRANSFORMS if name.startswith(("jit", "custom_", "recompute", "checkpoint_sequence"))}
"""Transforms whose functions must be given what they use, or that compile what is made anew for each call."""
names = st.sampled_from(list(TRANSFORMS))
points = st.integers(0, len(POINTS) - 1)


class Node(NamedTuple):
    """A function that was made.

    Attributes:
        function: of three numbers.
        text: how it was made.
        order: how many derivatives are taken in it.
        cost: how many operations it makes, about.
        dependent: it asks for values.
    """

    function: Function
    text: str
    order: int = 0
    cost: int = 1
    dependent: bool = False

    def __repr__(self) -> str:
        return self.text


class Kept(NamedTuple):
    """A pullback or linear function that is called later, what it should give, and the array that it was made at."""

    call: Function
    wanted: Measured
    point: Any
    node: Node


@contextmanager
def refusals(node: Node) -> Iterator[None]:
    """Give up a step that functad refuses for a reason that is told in its documentation, and no other.

    Values are asked for where there are none; what writes meets a Tensor of a tape, which cannot be written into, or plain
    arrays made by adopted code under a tape; a function with rules reads a Variable, which is no argument of it.
    """
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", LoopWarning)
            yield
    except AbstractValueError:
        assert node.dependent, f"{node.text} was refused for want of values, and does not ask for any"
        assume(False)
    except (ConversionError, UnsupportedError, CustomRuleError, CustomGradientError, ValueError) as error:
        asked = {UnsupportedError: "written", CustomRuleError: "variable", CustomGradientError: "variable"}
        word = asked.get(type(error), "adopted" if isinstance(error.__cause__ or error, ConversionError) else "nothing")
        assume(word not in node.text)
        raise


class Nestings(RuleBasedStateMachine):
    """Makes functions of functions."""

    functions = Bundle("functions")
    kept = Bundle("kept")

    def __init__(self) -> None:
        super().__init__()
        self.variable = functad.Variable(np.array([0.3, -0.2, 0.5]), name="weights")

    @initialize(target=functions, first=st.sampled_from(list(PROGRAMS)), second=st.sampled_from(list(PROGRAMS)))
    def begin(self, first: str, second: str) -> Any:
        return multiple(self.program(first), self.program(second))

    def program(self, name: str) -> Node:
        return Node(PROGRAMS[name], name, dependent=name in VALUE_DEPENDENT)

    @rule(target=functions, f=functions)
    def with_variable(self, f: Node) -> Node:
        """Read a Variable, whose value may change."""
        return f._replace(function=lambda x: f.function(x) * self.variable, text=f"({f.text} * variable)")

    @rule(target=functions, f=functions, name=names, point=points)
    def transform(self, f: Node, name: str, point: int) -> Node:
        transform = TRANSFORMS[name]
        text = f"{name}({f.text})"
        order, cost = f.order + transform.order, f.cost * transform.cost
        assume(order <= MAX_ORDER and cost <= MAX_COST)
        # The rule of a function that reads Variables must give derivatives by them too.
        assume(name != "custom_gradient" or not ("variable" in f.text or "implicit" in f.text))
        made = Node(transform.by_functad(f.function), text, order, cost, f.dependent)
        return self.checked(made, lambda x: expected(transform.by_numbers, f.function, x), point)

    @rule(target=functions, f=functions, g=functions, name=names, point=points)
    def closed_over(self, f: Node, g: Node, name: str, point: int) -> Node:
        """Transform a function that reads what another makes of the same argument: it is constant there."""
        transform = TRANSFORMS[name]
        text = f"{name}(lambda y: {f.text}(y) * {g.text}(x))(x)"
        order, cost = f.order + g.order + transform.order, f.cost * transform.cost + g.cost
        assume(order <= MAX_ORDER and cost <= MAX_COST and name not in CLOSED)

        def function(x: Any) -> Any:
            factor = np.cos(g.function(x))
            return transform.by_functad(lambda y: f.function(y) * factor)(x)

        def wanted(x: Any) -> Measured:
            factor = plain(np.cos(g.function(x)))
            return expected(transform.by_numbers, lambda y: f.function(y) * factor, x)

        made = Node(function, text, order, cost, f.dependent or g.dependent)
        return self.checked(made, wanted, point)

    @rule(target=functions, f=functions, g=functions, how=st.sampled_from(["sum", "product", "chain"]))
    def combine(self, f: Node, g: Node, how: str) -> Node:
        assume(f.order + g.order <= MAX_ORDER and f.cost + g.cost <= MAX_COST)
        function = {
            "sum": lambda x: f.function(x) - 0.5 * g.function(x[::-1]),
            "product": lambda x: np.sin(f.function(x)) * g.function(x),
            "chain": lambda x: f.function(0.5 * np.tanh(g.function(x))),
        }[how]
        return Node(function, f"{how}({f.text}, {g.text})", f.order + g.order, f.cost + g.cost, f.dependent or g.dependent)

    def checked(self, made: Node, wanted: Callable[[Any], Measured], point: int) -> Node:
        """Compare a new function with numbers; return it, scaled so that its numbers are of size 1."""
        x = POINTS[point].copy()
        with refusals(made):
            found = plain(made.function(x))
            numbers = wanted(x.copy())
        np.testing.assert_array_equal(x, POINTS[point], err_msg=f"{made.text} wrote into its argument")
        self.compare(found, numbers, made.text)
        size = float(np.max(np.abs(found)))
        return made._replace(function=lambda x: made.function(x) * (1 / size)) if size > 2.0 else made

    def compare(self, found: Any, numbers: Measured, text: str) -> None:
        assert np.shape(found) == np.shape(numbers.value), text
        size = 1.0 + float(np.max(np.abs(numbers.value)))
        assume(np.all(np.isfinite(numbers.value)) and np.all(numbers.doubt <= AGREEMENT * size))  # else a kink is near
        assert np.all(np.abs(found - numbers.value) <= 1e-8 * size + 10 * numbers.doubt), (
            f"{text} gives {found!r}, numbers {numbers.value!r}"
        )

    @rule(value=st.sampled_from([0.3, -0.4, 0.9]))
    def assign(self, value: float) -> None:
        """Change the Variable, under every function that reads it."""
        self.variable.assign(np.array([value, 0.5 - value, 0.2]))

    @rule(f=functions, point=points)
    def gradient(self, f: Node, point: int) -> None:
        """Compare both modes with differences, wherever else a function has been called meanwhile."""
        assume(f.order < MAX_ORDER and f.cost * 3 <= MAX_COST)
        x = POINTS[point].copy()
        with refusals(f):
            pushed = plain(functad.jvp(f.function, (x,), (V,))[1])
            pulled = functad.vjp(f.function, x)[1](W)[0]
            numbers = differences(f.function, x, V)
        self.compare(pushed, numbers, f"jvp({f.text})")
        np.testing.assert_allclose(plain(pulled) @ V, W @ pushed, rtol=1e-8, atol=1e-8, err_msg=f.text)

    @rule(f=functions)
    def by_variable(self, f: Node) -> None:
        """Differentiate by the Variable, by way of implicit gradients and of a tape."""
        assume(f.order < MAX_ORDER and "variable" in f.text)
        old = self.variable.numpy().copy()

        def value() -> Any:
            return np.sum(W * f.function(X))

        def moved(v: Any) -> Any:
            self.variable.assign(v)
            return np.array(plain(value()))

        try:
            with refusals(f):
                pairs = functad.implicit_gradients(lambda: value() + 0.0 * np.sum(self.variable))()
                found = next(slope for slope, variable in pairs if variable is self.variable).numpy()
                with functad.GradientTape() as tape:
                    out = value()
                taped = tape.gradient(out, self.variable) if isinstance(out, functad.Tensor) else None
                wanted = differences(moved, old, V)
        finally:
            self.variable.assign(old)
        np.testing.assert_allclose(np.zeros(3) if taped is None else taped.numpy(), found, 1e-9, 1e-9, err_msg=f.text)
        self.compare(np.asarray(found @ V), wanted, f"the derivative of {f.text} by the Variable")

    @rule(target=kept, f=functions, point=points, mode=st.sampled_from(["vjp", "linearize", "transpose"]))
    def keep(self, f: Node, point: int, mode: str) -> Kept:
        """Make a pullback or linear function to be called later."""
        assume(f.order < MAX_ORDER and f.cost * 3 <= MAX_COST)
        x = POINTS[point].copy()
        with refusals(f):
            wanted = expected("slope" if mode == "linearize" else "pulled", f.function, x)
            linear = functad.linearize(f.function, x)[1]
            pullback = functad.vjp(f.function, x)[1] if mode == "vjp" else linear.transpose
        call = (lambda _: linear(V)) if mode == "linearize" else lambda _: pullback(W)[0]
        return Kept(call, wanted, x, f._replace(text=f"{mode}({f.text})"))

    @rule(one=kept)
    def overwrite(self, one: Kept) -> None:
        """Overwrite the array at which it was made: it keeps what it needs."""
        one.point[...] = 7.0

    @rule(one=consumes(kept))
    def call_kept(self, one: Kept) -> None:
        """Call it twice."""
        for _ in range(2):
            with refusals(one.node):
                found = plain(one.call(None))
            self.compare(found, one.wanted, one.node.text)


TestNestings = Nestings.TestCase
TestNestings.settings = settings(
    max_examples=settings().max_examples if LONG else 60,
    stateful_step_count=30 if LONG else 12,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
