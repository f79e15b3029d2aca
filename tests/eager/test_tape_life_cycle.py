"""The life of a tape: entering, leaving, stopping, resetting, being asked, and which errors say what went wrong."""

import contextlib
import copy
import re

import numpy as np
import pytest

import functad
from functad import GradientTape, errors


@pytest.fixture
def x():
    return functad.constant(3.0)


def squared(x, **options):
    """Return a tape that has recorded the square of a constant, and the square."""
    with GradientTape(**options) as tape:
        tape.watch(x)
        y = x * x
    return tape, y


def test_entering_gives_the_tape_itself():
    tape = GradientTape()
    with tape as entered:
        assert entered is tape


@pytest.mark.parametrize("method", ["gradient", "jacobian", "batch_jacobian"])
def test_tape_that_was_never_entered_cannot_be_asked(method):
    x = functad.constant([[3.0]])
    with pytest.raises(errors.TapeError, match=rf"{method}\(\) at {re.escape(__file__)}:\d+: .* never entered"):
        getattr(GradientTape(), method)(x, x)


def test_tape_that_was_never_entered_cannot_watch(x):
    with pytest.raises(RuntimeError, match="not entered"):
        GradientTape().watch(x)


def test_errors_tell_a_spent_tape_from_one_that_was_never_entered(x):
    tape, y = squared(x)
    tape.gradient(y, x)
    for ask in (lambda: tape.gradient(y, x), lambda: tape.stop_recording().__enter__()):
        with pytest.raises(RuntimeError, match="has given its gradient already") as caught:
            ask()
        assert "never entered" not in str(caught.value)
    with pytest.raises(RuntimeError, match="tape that is spent"):
        tape.watch(x)
    with pytest.raises(RuntimeError, match="never entered") as caught:
        GradientTape(persistent=True).gradient(x, x)
    assert "already" not in str(caught.value)


@pytest.mark.parametrize("first", ["gradient", "jacobian"])
@pytest.mark.parametrize("second", ["gradient", "jacobian"])
def test_second_request_to_a_spent_tape_raises(x, first, second):
    tape, y = squared(x)
    assert float(getattr(tape, first)(y, x)) == 6
    with pytest.raises(RuntimeError, match=r"has given its gradient already.*persistent=True"):
        getattr(tape, second)(y, x)


def test_persistent_tape_answers_again_and_again(x):
    tape, y = squared(x, persistent=True)
    assert [float(tape.gradient(y, x)) for _ in range(3)] == [6, 6, 6]
    assert float(tape.jacobian(y, x)) == 6


def test_entering_a_recording_tape_raises():
    with GradientTape() as tape:
        with pytest.raises(errors.TapeStateError, match="recording already"), tape:
            pass
        assert isinstance(errors.TapeStateError(""), ValueError)


def test_reentry_before_the_gradient_continues(x):
    tape, y = squared(x)
    outside = y * 2.0
    with tape:
        z = y * x
    assert float(tape.gradient(z, x)) == 27
    tape, y = squared(x)
    outside = y * 2.0
    with tape:
        z = outside * x
    assert float(tape.gradient(z, x)) == 18  # what was made outside is a constant


@pytest.mark.parametrize("persistent", [False, True])
def test_reentry_after_another_tape_has_watched_the_source(x, persistent):
    tape, y = squared(x, persistent=True)
    other, z = squared(x, persistent=persistent)
    with tape:
        w = x * y
    with other:
        u = x * z
    assert float(tape.gradient(w, x)) == 27
    assert float(other.gradient(u, x)) == 27
    assert tape.gradient(u, x) is None


def test_reentry_of_a_spent_tape_starts_empty(x):
    tape, y = squared(x)
    tape.gradient(y, x)
    with tape:
        y = x * x
    assert tape.gradient(y, x) is None
    with tape:
        tape.watch(x)
        y = x**3
    assert float(tape.gradient(y, x)) == 27


def test_gradient_inside_a_tape_ends_its_recording(x):
    v = functad.Variable(1.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
        g = tape.gradient(y, x)
        assert float(g) == 6
        z = v * x
        assert tape.watched_variables() == ()
        with pytest.raises(RuntimeError):
            tape.watch(x)
        with pytest.raises(ValueError, match="not recording"):
            tape.reset()
        with pytest.raises(RuntimeError), tape.stop_recording():
            pass
    with pytest.raises(RuntimeError):
        tape.gradient(z, x)


def test_gradient_inside_a_persistent_tape_is_recorded_and_warns_once(x, monkeypatch):
    monkeypatch.setattr(GradientTape, "_warned", False)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        with pytest.warns(RuntimeWarning, match="inside its own persistent tape") as said:
            g = tape.gradient(y, x)
        h = tape.gradient(g, x)
        k = tape.gradient(h, x)
    assert [float(a) for a in (g, h, k)] == [27, 18, 6]
    assert said[0].filename == __file__
    assert [float(tape.gradient(a, x)) for a in (y, g, h)] == [27, 18, 6]


def test_tape_survives_an_error_in_its_body(x):
    tape = GradientTape()
    with contextlib.suppress(ZeroDivisionError), tape:
        tape.watch(x)
        y = x * x
        1 / 0  # noqa: B018
    assert repr(tape) == "GradientTape(left, 1 records)"
    z = x * y  # not recorded any more
    assert float(tape.gradient([y, z], x)) == 6


def test_tapes_may_be_left_in_any_order(x):
    first, second = GradientTape(), GradientTape()
    first.__enter__()
    second.__enter__()
    first.watch(x)
    second.watch(x)
    y = x * x
    first.__exit__(None, None, None)
    z = y * x
    second.__exit__(None, None, None)
    w = z * x
    assert float(second.gradient(z, x)) == 27
    assert first.gradient(z, x) is None
    assert functad.gradients_function(lambda a: a * w)(2.0)[0] == 81


def test_tapes_left_in_any_order_each_give_their_own(x):
    first, second = GradientTape(persistent=True), GradientTape(persistent=True)
    first.__enter__()
    second.__enter__()
    first.watch(x)
    second.watch(x)
    y = x * x
    first.__exit__(None, None, None)
    z = y * x
    second.__exit__(None, None, None)
    w = z * x
    assert [None if (g := second.gradient(a, x)) is None else float(g) for a in (y, z, w)] == [6, 27, None]
    assert [None if (g := first.gradient(a, x)) is None else float(g) for a in (y, z, w)] == [6, None, None]


def test_watching_with_a_tape_that_was_left_raises(x):
    tape, _ = squared(x)
    with pytest.raises(RuntimeError, match=r"left.*would not be recorded"):
        tape.watch(x)
    with GradientTape(), pytest.raises(RuntimeError, match="left"):
        tape.watch(x)


REFUSED = {
    "unconnected": (
        lambda t, y, x: t.gradient(y, x, unconnected_gradients="ZERO"),
        ValueError,
        "unconnected_gradients is 'ZERO'",
    ),
    "missing": (lambda t, y, x: t.gradient(y, x, missing="warn"), ValueError, "missing is 'warn'"),
    "target-none": (lambda t, y, x: t.gradient(None, x), TypeError, "target is None"),
    "target-none-inside": (lambda t, y, x: t.gradient([y, None], x), TypeError, "None in target"),
    "target-float": (lambda t, y, x: t.gradient(9.0, x), TypeError, "target is a float"),
    "target-array": (lambda t, y, x: t.gradient([y, np.ones(2)], x), TypeError, r"target\[1\] is a ndarray"),
    "source-none": (lambda t, y, x: t.gradient(y, None), TypeError, "sources is None"),
    "source-none-inside": (lambda t, y, x: t.gradient(y, [x, None]), TypeError, "None in sources"),
    "source-float": (lambda t, y, x: t.gradient(y, {"a": 3.0}), TypeError, r"sources\['a'\] is a float"),
    "seed-shape": (lambda t, y, x: t.gradient(y, x, np.ones(3)), ValueError, r"shape \(3,\).*shape \(\)"),
    "seed-count": (lambda t, y, x: t.gradient([y, y], x, [1.0]), ValueError, "1 seeds for 2 targets"),
    "seed-more": (lambda t, y, x: t.gradient(y, x, [1.0, 2.0]), ValueError, "2 seeds for 1 targets"),
    "seed-complex": (lambda t, y, x: t.gradient(y, x, 1j), TypeError, "complex"),
    "jacobian-list": (lambda t, y, x: t.jacobian([y], x), TypeError, "one Tensor"),
    "jacobian-unconnected": (lambda t, y, x: t.jacobian(y, x, "all"), ValueError, "unconnected_gradients"),
    "batch-rank": (lambda t, y, x: t.batch_jacobian(y, x), ValueError, "two axes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_request_does_not_spend_the_tape(x, case):
    call, kind, text = REFUSED[case]
    tape, y = squared(x)
    with pytest.raises(kind, match=text) as caught:
        call(tape, y, x)
    assert __file__ in str(caught.value)
    assert float(tape.gradient(y, x)) == 6


# stop_recording and reset


def test_stop_recording_stops_this_tape_alone(x):
    with GradientTape() as outer, GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        with inner.stop_recording():
            a = x * x
        y = a * x
    assert float(outer.gradient(y, x)) == 27
    assert float(inner.gradient(y, x)) == 9


def test_recording_resumes_after_an_error(x):
    with GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(ZeroDivisionError), tape.stop_recording():
            1 / 0  # noqa: B018
        y = x * x
    assert float(tape.gradient(y, x)) == 6


def test_stop_recording_needs_a_recording_tape(x):
    with pytest.raises(RuntimeError, match="never entered"), GradientTape().stop_recording():
        pass
    tape, y = squared(x)
    with pytest.raises(ValueError, match="not recording"), tape.stop_recording():
        pass
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match="has given its gradient"), tape.stop_recording():
        pass
    with GradientTape() as tape, tape.stop_recording(), pytest.raises(ValueError), tape.stop_recording():
        pass


def test_watching_while_stopped_raises(x):
    with GradientTape() as tape, tape.stop_recording(), pytest.raises(RuntimeError, match="stopped"):
        tape.watch(x)


def test_gradient_while_stopped(x):
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            assert float(tape.gradient(y, x)) == 6
        assert "spent" in repr(tape)


def test_gradients_taken_while_stopped_are_not_recorded(x):
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        before = tape.stats()["records"]
        with tape.stop_recording():
            g = tape.gradient(y, x)
        assert float(g) == 27
        assert tape.stats()["records"] == before
    assert tape.gradient(g, x) is None


def test_reset_drops_records_and_watches(x):
    with GradientTape() as tape:
        tape.watch(x)
        a = x * x
        tape.reset()
        tape.watch(x)
        y = a + x**3
    assert float(tape.gradient(y, x)) == 27
    with GradientTape() as tape:
        tape.watch(x)
        tape.reset()
        y = x * x
    assert tape.gradient(y, x) is None


def test_reset_forgets_variables_until_they_are_read_again():
    v = functad.Variable(2.0)
    with GradientTape() as tape:
        a = v * v
        assert len(tape.watched_variables()) == 1
        tape.reset()
        assert tape.watched_variables() == ()
        y = a * v
        assert len(tape.watched_variables()) == 1
    assert float(tape.gradient(y, v)) == 4


def test_reset_needs_a_recording_tape(x):
    with pytest.raises(ValueError, match="not recording"):
        GradientTape().reset()
    tape, _ = squared(x)
    with pytest.raises(ValueError):
        tape.reset()
    with GradientTape() as tape, tape.stop_recording(), pytest.raises(ValueError):
        tape.reset()


def test_reset_of_one_tape_leaves_the_other(x):
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape() as inner:
            inner.watch(x)
            a = x * x
            inner.reset()
            inner.watch(x)
            y = a * x
        assert inner.gradient(y, x).numpy() == 9
    assert float(outer.gradient(y, x)) == 27


def test_state_is_printed(x):
    tape = GradientTape()
    assert "not entered" in repr(tape)
    with tape:
        tape.watch(x)
        y = x * x
        assert repr(tape) == "GradientTape(recording, 1 records)"
        with tape.stop_recording():
            assert repr(tape) == "GradientTape(stopped, 1 records)"
    assert "left" in repr(tape)
    tape.gradient(y, x)
    assert "spent" in repr(tape)
    assert "persistent" in repr(GradientTape(persistent=True))


def test_copies_of_watched_tensors_are_other_objects(x):
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
    twin = functad.constant(copy.copy(x.numpy()))
    assert tape.gradient(y, twin) is None
