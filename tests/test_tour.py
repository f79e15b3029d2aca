"""The tour: it runs, learns, saves its picture, and says what is missing."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import functad
from functad import tour
from functad.tour import STYLE_RATE, STYLES, Tour, first_params, loss, loss_and_gradient_by_hand

ROOT = Path(__file__).parents[1]


def test_learns_and_saves_a_picture(tmp_path, capsys):
    picture = tmp_path / "loss.png"
    assert tour.main(["--steps", "400", "--seed", "3", "--out", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "{ lambda scores:float64[4,10]." in printed
    assert float(re.search(r"relative error +(\S+)", printed)[1]) < 1e-6
    assert float(re.search(r"test accuracy +(\S+)%", printed)[1]) > 95
    assert float(re.search(r"train accuracy +(\S+)%", printed)[1]) > 95
    ways = re.findall(r"^(with(?:out)? jit) +(\S+) s +(\S+) +(\S+)%$", printed, re.MULTILINE)
    assert [name for name, *_ in ways] == ["without jit", "with jit"]
    assert ways[0][2:] == ways[1][2:]
    assert all(float(seconds) > 0 and float(accuracy) > 95 for _, seconds, _, accuracy in ways)
    assert float(re.search(r"difference of the parameters in the end +(\S+)", printed)[1]) < 1e-9
    rows = re.findall(r"^(\w+) +(\d\S*) +(\S+)% +(\S+) +(\d+) us$", printed, re.MULTILINE)
    assert [name for name, *_ in rows] == ["transforms", "tape", "gradients_function", "implicit_gradients"]
    for _, last_loss, accuracy, difference, microseconds in rows:
        assert (last_loss, accuracy) == rows[0][1:3]
        assert float(accuracy) > 95
        assert float(difference) < 1e-12
        assert int(microseconds) > 0
    assert f"saved {picture}" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_version_names_what_a_report_of_a_fault_should():
    command = [sys.executable, "-m", "functad", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    expected = [f"functad {functad.__version__}", f"Python {sys.version.split()[0]}", f"NumPy {np.__version__}"]
    assert done.stdout.splitlines()[:3] == expected


def test_one_step_is_enough(tmp_path):
    command = [sys.executable, "-m", "functad", "--steps", "1", "--out", str(tmp_path / "loss.png")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert "1 steps of" in done.stdout
    assert done.stderr == ""


def test_holds_out_a_quarter(tmp_path):
    data = Tour.load(steps=1, seed=0, out=tmp_path)
    assert len(data.held_out_labels) == (len(data.labels) + len(data.held_out_labels)) // 4
    together = np.concatenate([data.images, data.held_out_images])
    assert together.shape == (1797, 64)


def test_gradient_by_hand_is_that_of_functad(tmp_path):
    data = Tour.load(steps=1, seed=1, out=tmp_path)
    arguments = (data.params, *data.batch())
    value, gradient = functad.value_and_grad(loss)(*arguments)
    value_by_hand, by_hand = loss_and_gradient_by_hand(*arguments)
    np.testing.assert_allclose(value, value_by_hand, rtol=1e-12)
    for name, expected in by_hand.items():
        np.testing.assert_allclose(gradient[name], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("style", STYLES)
def test_each_style_takes_the_steps_that_one_takes_by_hand(style, tmp_path):
    data = Tour.load(steps=1, seed=2, out=tmp_path)
    by_hand = first_params(np.random.default_rng(4))
    start = {name: value.copy() for name, value in by_hand.items()}
    params, step = style(start)
    for _ in range(5):
        batch = data.batch()
        expected, slopes = loss_and_gradient_by_hand(by_hand, *batch)
        value, gradient = step(*batch)
        assert set(gradient) == set(slopes)
        np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-12)
        for name, slope in slopes.items():
            np.testing.assert_allclose(np.asarray(gradient[name]), slope, rtol=1e-9, atol=1e-12)
            by_hand[name] = by_hand[name] - STYLE_RATE * slope
    for name, value in by_hand.items():
        np.testing.assert_allclose(np.asarray(params[name]), value, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(start[name], first_params(np.random.default_rng(4))[name])


@pytest.mark.parametrize(("missing", "package"), tour.EXTRA.items())
def test_missing_extra_is_told_in_one_line(missing, package, tmp_path):
    code = f"""
import sys
sys.modules[{missing!r}] = None
from functad.tour import main
sys.exit(main(["--steps", "1", "--out", {str(tmp_path / "loss.png")!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr == f"The tour needs {package}: pip install {package}\n"
    assert done.stdout == ""


def test_help_names_the_options(capsys):
    with pytest.raises(SystemExit) as stopped:
        tour.main(["--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert all(option in printed for option in ("--steps", "--seed", "--out"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--steps", "0"], "no positive number"),
        (["--steps", "many"], "no positive number"),
        (["--out", "."], "is a folder"),
        (["--out", "nowhere/loss.png"], "there is no folder nowhere"),
    ],
)
def test_wrong_options_are_refused_at_once(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as stopped:
        tour.main(arguments)
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err
