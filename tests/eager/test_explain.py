"""`tape.explain`, `missing="raise"` and `tape.stats`: why there is no gradient, and what a tape holds."""

import re

import numpy as np
import pytest

import functad
from functad import GradientTape, errors


def line(number):
    return rf"{re.escape(__file__)}:{number}"


def recorded(f, value=3.0, **options):
    """Return a persistent tape that recorded a function of a watched constant, the result and the constant."""
    x = functad.constant(value)
    with GradientTape(persistent=True, **options) as tape:
        tape.watch(x)
        y = f(x)
    return tape, y, x


def test_connected():
    tape, y, x = recorded(lambda x: x * x)
    assert "there is a gradient" in tape.explain(y, x)


def test_never_watched():
    x = functad.constant(3.0)
    with GradientTape() as tape:
        y = x * x
    assert re.match(r"the Tensor was never watched.*tape.watch\(x\).*functad.grad", tape.explain(y, x))


def test_watched_too_late():
    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        y = x * x
        tape.watch(x)
    assert "before the source was watched" in tape.explain(y, x)
    with GradientTape(persistent=True) as tape:
        z = functad.constant(1.0)
        tape.watch(z)
        y = x * z
        tape.watch(x)
    assert "after the target: watch it before it is used" in tape.explain(y, x)


def test_made_outside():
    tape, y, x = recorded(lambda x: x * x)
    z = y * x
    assert "computed outside the `with` block" in tape.explain(z, x)
    assert tape.gradient(z, x) is None


def test_not_used():
    x, z = functad.constant(3.0), functad.constant(5.0)
    with GradientTape() as tape:
        tape.watch([x, z])
        y = z * z
    assert "nothing that the tape records uses the source" in tape.explain(y, x)


def test_used_but_not_for_the_target():
    x, z = functad.constant(3.0), functad.constant(5.0)
    with GradientTape() as tape:
        tape.watch([x, z])
        x * 2
        y = z * z
    assert "not in what leads to the target" in tape.explain(y, x)


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (lambda x: x.astype(int), "a cast to integers"),
        (lambda x: x > 1.0, "comparison"),
        (lambda x: functad.constant(3), "int64"),
    ],
)
def test_target_of_integers(cut, said):
    tape, y, x = recorded(cut)
    assert said in tape.explain(y, x)


def test_source_of_integers():
    n = functad.constant(3)
    with GradientTape() as tape:
        y = n * 2.0
    assert "integers have no derivative" in tape.explain(y, n)


CUTS = {
    "numpy": (lambda x: functad.constant(x.numpy()) * 2.0, r"numpy\(\)"),
    "stop_gradient": (lambda x: functad.stop_gradient(x) * 2.0, "stop_gradient"),
    "floor": (lambda x: np.floor(x) * 2.0, "floor"),
    "cast": (lambda x: functad.constant(x.astype(int)) * 2.0, "astype_integer"),
    "floor-divide": (lambda x: (x // 2.0) * 2.0, "floor_divide"),
    "argmax": (lambda x: functad.constant(np.argmax(x)) * 2.0, "argmax"),
}


COMPARED = {
    "operator": (lambda x, w: (x > 1.0) * w, "greater"),
    "reflected": (lambda x, w: (1.0 <= x) * w, "greater_equal"),  # noqa: SIM300 - it is another method
    "equal": (lambda x, w: (x == 3.0) * w, "equal"),
    "of two": (lambda x, w: (2.0 * x != x) * w, "not_equal"),
    "the other of two": (lambda x, w: (w < x) * w, "less"),
    "function": (lambda x, w: np.less(x, 4.0) * w, "less"),
    "cast": (lambda x, w: (x >= 1.0).astype(float) * w, "greater_equal"),
    "where": (lambda x, w: np.where(x > 1.0, 2.0, 3.0) * w, "greater"),
    "mask": (lambda x, w: np.ones(1)[(x > 1.0) & True] * w, "greater"),
    "logic": (lambda x, w: np.logical_not(x) * w, "logical_not"),
}


@pytest.mark.parametrize("case", COMPARED)
def test_line_of_a_comparison(case):
    f, said = COMPARED[case]
    x, w = functad.constant(3.0), functad.constant(2.0)
    with GradientTape(persistent=True) as tape:
        tape.watch([x, w])
        y = f(x, w)
    assert re.search(rf"left the tape by {said} at {line(f.__code__.co_firstlineno)}", tape.explain(y, x))
    assert "there is a gradient" in tape.explain(y, w)


@pytest.mark.parametrize(
    "f", [lambda x: (x > 1.0) * 2.0, lambda x: np.where(x > 1.0, 2.0, 3.0), lambda x: float(x.numpy() > 1.0)]
)
def test_plain_values_that_were_to_be_targets(f):
    tape, y, x = recorded(f)
    assert re.search(rf"left the tape by .* at {line(f.__code__.co_firstlineno)}", tape.explain([np.asarray(y)], x))
    with pytest.raises(TypeError, match="target is a str"):
        tape.explain("y", x)
    with pytest.raises(TypeError, match="source is a ndarray"):
        tape.explain(y + x, np.ones(2))


def test_what_cuts_is_told_before_what_may_only_check():
    def f(x):
        if x > 0 and not np.isnan(x):
            return functad.constant(x.astype(int)) * 2.0
        return x

    tape, y, x = recorded(f)
    assert re.search(rf"astype_integer at {line(f.__code__.co_firstlineno + 2)}", tape.explain(y, x))
    tape, y, x = recorded(lambda x: [x * 2.0 > 0, functad.constant(np.argmax(x)) * 2.0][1])
    assert "argmax" in tape.explain(y, x)


def test_many_comparisons_leave_room_for_what_cuts():
    def f(x):
        y = x
        for _ in range(2000):
            y = y * 1.0
            assert y > 0
        return functad.constant(y.numpy()) * 2.0

    tape, y, x = recorded(f)
    assert "numpy()" in tape.explain(y, x)


@pytest.mark.parametrize("case", CUTS)
def test_line_where_the_value_left_the_tape(case):
    f, said = CUTS[case]
    tape, y, x = recorded(f)
    assert re.search(rf"left the tape by {said}.* at {line(f.__code__.co_firstlineno)}", tape.explain(y, x))


def test_cut_in_the_middle_of_a_path():
    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        number = y.numpy()
        z = functad.constant(number) * x
    assert "there is a gradient" in tape.explain(z, x)
    assert re.search(rf"left the tape by numpy\(\) at {line('[0-9]+')}", tape.explain(z, y))


def test_assignment():
    v, w = functad.Variable(1.0), functad.Variable(2.0)
    with GradientTape(persistent=True) as tape:
        v.assign(w * w)
        with pytest.warns(errors.UnconnectedWarning, match=line("[0-9]+")):
            y = v * 3.0
    assert tape.gradient(y, w) is None
    assert re.search(rf"left the tape by assign.* at {line('[0-9]+')}", tape.explain(y, w))


def test_a_variable_that_is_read_by_numpy():
    v = functad.Variable(2.0)
    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * v.numpy()
    assert re.search(rf"left the tape by numpy\(\) at {line('[0-9]+')}", tape.explain(y, v))
    assert tape.watched_variables() == (v,)
    with GradientTape() as tape:
        functad.values_of([v])  # of copies that are no business of the tape nothing is noted
    assert tape.watched_variables() == ()


def test_watched_late_beside_another_path():
    w, x = functad.constant(2.0), functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(w)
        y = w * x
        tape.watch(x)
        z = y + x**2
        other = w * 5.0
    assert float(tape.gradient(z, x)) == 6.0
    late = "watched after 1 operation had been recorded: what was computed from it until then does not count"
    assert late in tape.explain(z, x)
    assert late in tape.explain(other, x)
    assert tape.explain(z, w) == "the tape does record a path, so there is a gradient."


def test_cut_beside_another_path():
    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * functad.constant((x * 2.0).numpy()) if y > 0 else y
        z.numpy()  # nothing of what leads to it is lost
    assert re.fullmatch(
        rf"the tape does record a path.* What else depends on it left the tape by numpy\(\) at {line('[0-9]+')}\.",
        tape.explain(z, x),
    )
    tape, y, x = recorded(lambda x: x * x if x > 0 else x)
    assert tape.explain(y, x) == "the tape does record a path, so there is a gradient."


def test_another_object_of_equal_value():
    tape, y, _ = recorded(lambda x: x * x)
    assert "another Tensor of equal value" in tape.explain(y, functad.constant(3.0))
    assert "never watched" in tape.explain(y, functad.constant(4.0))


def test_variables():
    fixed, unread = functad.Variable(1.0, trainable=False), functad.Variable(1.0)
    with GradientTape() as tape:
        y = fixed * functad.Variable(2.0)
    assert "not trainable" in tape.explain(y, fixed)
    assert "not read while the tape recorded" in tape.explain(y, unread)
    with GradientTape(watch_accessed_variables=False) as tape:
        y = unread * 2.0
    assert "watch_accessed_variables" in tape.explain(y, unread)


def test_source_after_the_target():
    tape, y, x = recorded(lambda x: x * x)
    with tape:
        z = y * x
    assert "after the target" in tape.explain(y, z)


def test_spent_and_unentered_tapes():
    x = functad.constant(3.0)
    tape = GradientTape()
    assert "never entered" in tape.explain(x, x)
    with tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    assert "what it recorded is gone" in tape.explain(y, x)


def test_several_targets():
    tape, y, x = recorded(lambda x: [x * x, x.astype(int)])
    assert "there is a gradient" in tape.explain(y, x)
    assert "there is a gradient" in tape.explain(y[::-1], x)


def test_one_source_is_asked_about_at_a_time():
    tape, y, x = recorded(lambda x: x * x)
    assert "there is a gradient" in tape.explain(y, [x])
    for sources in ([x, y], []):
        with pytest.raises(TypeError, match=f"explain.. with {len(sources)} sources"):
            tape.explain(y, sources)


def test_missing_raises_with_the_explanation():
    x, z = functad.constant(3.0), functad.constant(5.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(errors.NoPathError, match=r"no gradient by sources\['b'\], at .*never watched"):
        tape.gradient(y, {"a": x, "b": z}, missing="raise")
    assert float(tape.gradient(y, {"a": x}, missing="raise")["a"]) == 6


def test_missing_raises_on_a_tape_that_is_not_persistent():
    x, z = functad.constant(3.0), functad.constant(5.0)
    with GradientTape() as tape:
        tape.watch([x, z])
        y = x * x
    with pytest.raises(errors.NoPathError, match="nothing that the tape records uses the source"):
        tape.gradient(y, z, missing="raise")
    assert float(tape.gradient(y, x)) == 6  # what was refused did not spend it


def test_statistics():
    tape, _, _ = recorded(lambda x: np.sum(np.sin(x) * x + 1.0), np.ones(1000))
    assert tape.stats() == {"records": 4, "bytes": 16000}  # sin x and x
    tape, _, _ = recorded(lambda x: x + 1.0 + x, np.ones(1000))
    assert tape.stats() == {"records": 2, "bytes": 0}
    assert GradientTape().stats() == {"records": 0, "bytes": 0}
