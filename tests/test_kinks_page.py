"""The page on kinks: each row of its tables is what functad answers."""

import re
from pathlib import Path

import numpy as np
import pytest

import functad

PAGE = Path(__file__).parents[1] / "notebooks" / "kinks.md"
ROW = re.compile(
    r"^\| `(?P<expression>.+?)` \| `(?P<point>.+?)` \| `(?P<derivative>.+?)` \| (?P<convention>.+?) \|$", re.MULTILINE
)
NAMES = {"np": np, "inf": np.inf, "nan": np.nan}
ROWS = [match.groups() for match in ROW.finditer(PAGE.read_text())]

KINKED = """
    abs fabs sign maximum minimum fmax fmin max min ptp clip where floor ceil trunc rint round remainder fmod modf copysign
    heaviside sqrt cbrt log log1p arcsin arccos power prod cumprod linalg.norm linalg.det hypot arctan2 std var sort median
    percentile quantile interp logaddexp logaddexp2 sinc nan_to_num nanmax argmax
""".split()  # noqa: SIM905 (a table reads better than quoted names)


def _value(text, dtype):
    return np.array(eval(text, dict(NAMES)), dtype)[()]


def test_every_line_of_a_table_is_a_row():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    heads = sum(line.startswith("| expression") for line in lines)
    assert len(ROWS) == len(lines) - 2 * heads > 90


@pytest.mark.parametrize("name", KINKED)
def test_every_kink_has_a_row(name):
    assert any(re.search(rf"np\.{re.escape(name)}\b", row[0]) for row in ROWS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} at {row[1]}")
def test_row(row, dtype):
    expression, point, derivative, _ = row
    x, expected = _value(point, dtype), _value(derivative, float)

    def f(x):
        return np.sum(eval(expression, {**NAMES, "x": x}))

    with np.errstate(all="ignore"):
        found = functad.grad(f)(x)
        v = np.arange(1, x.size + 1).astype(dtype).reshape(x.shape)[()]
        tangent = functad.jvp(f, (x,), (v,))[1]
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tangent, np.sum(expected * v), rtol=1e-5, atol=1e-6)
