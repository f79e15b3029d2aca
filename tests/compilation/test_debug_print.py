"""`functad.debug.print` prints the same lines in the same order, eagerly and compiled, in loops, branches and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import UnsupportedError
from tests.compilation.test_every_entry import installed

show = functad.debug.print
BACKENDS = [name for name in ("numpy", "llvm", "xla") if installed(name)]


def straight(x: Any) -> Any:
    y = np.sin(x)
    show("y = {}", y)
    z = y * 2
    show("z = {z}, x = {x}", z=z, x=x)
    show("no values")
    show("z = {z}, x = {x}", z=z, x=x)
    return np.sum(z)


def scanned(x: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        show("{} c = {:.4f}, r = {:.4f}", "carry", c, r)
        c = np.sin(c) + r
        show("end")
        return c, c * 2

    show("before {:.4f}", x)
    out, _ = functad.scan(step, x, np.arange(4.0))
    show("after {:.4f}", out)
    return out


def dead(x: Any) -> Any:
    functad.scan(lambda c, r: (show("c = {:.3f}", c), (c + r, r))[1], x, np.arange(3.0))
    return x * 2.0


def looped(x: Any) -> Any:
    def body(c: Any) -> Any:
        show("c = {:.3f}", c)
        return c * 2

    return functad.while_loop(lambda c: c < 10, body, x)


def branched(x: Any) -> Any:
    def negative(x: Any) -> Any:
        show("negative {:.2f}", x)
        return -x

    return functad.cond(x > 1, lambda x: x * x, negative, x)


def unchanging(x: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        show("x = {:.3f}", x)
        return c + 1, None

    return functad.scan(step, 0.0, None, length=3)[0] * x


def mapped(x: Any) -> Any:
    return np.sum(functad.map(lambda r: (show("r = {:.3f}", r), r * 2)[1], np.arange(3.0) + x))


def nested(x: Any) -> Any:
    def outer(c: Any, r: Any) -> Any:
        show("outer {:.3f}", c)
        c, _ = functad.scan(lambda c, r: (show("  inner {:.3f}", c), (c * r, None))[1], c, np.arange(1.0, 3.0))
        show("after inner {:.3f}", c)
        return c, None

    return functad.scan(outer, x, np.arange(2.0))[0]


NUMBERS: dict[str, Callable[..., Any]] = {
    "straight": straight,
    "scan": scanned,
    "dead loop": dead,
    "while": looped,
    "cond": branched,
    "loop-invariant": unchanging,
    "map": mapped,
    "nested": nested,
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "gradient": functad.grad,
    "tangent": lambda f: lambda x: functad.jvp(f, (x,), (x,))[1],
    "second derivative": lambda f: functad.grad(functad.grad(f)),
}


def lines(capsys: pytest.CaptureFixture[str], f: Callable[..., Any], *args: Any) -> list[str]:
    f(*args)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NUMBERS)
def test_compiled_code_prints_what_eager_code_does(capsys: Any, name: str, form: str, backend: str) -> None:
    f, x = FORMS[form](NUMBERS[name]), np.float64(0.5)
    expected = lines(capsys, f, x)
    compiled = functad.jit(f, backend=backend)
    assert len(expected) > 0
    assert lines(capsys, compiled, x) == expected
    assert lines(capsys, compiled, x) == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NUMBERS)
def test_derivative_of_a_compiled_function_prints_once(capsys: Any, name: str, backend: str) -> None:
    expected = lines(capsys, NUMBERS[name], np.float64(0.5))
    assert lines(capsys, functad.grad(functad.jit(NUMBERS[name], backend=backend)), np.float64(0.5)) == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [straight, scanned, branched])
def test_batches_print_a_line_for_each_example(capsys: Any, f: Any, backend: str) -> None:
    x = np.array([0.5, 1.5])
    expected = lines(capsys, functad.vmap(f), x)
    assert lines(capsys, functad.jit(functad.vmap(f), backend=backend), x) == expected
    assert lines(capsys, functad.vmap(functad.jit(f, backend=backend)), x) == expected


def test_batch_lines() -> None:
    printed: list[str] = []

    class Text(str):
        __slots__ = ()

        def format(self, *args: Any, **kwargs: Any) -> str:
            printed.append(super().format(*args, **kwargs))
            return printed[-1]

    functad.vmap(lambda x: functad.vmap(lambda y: show(Text("{:.0f}"), x * y))(np.arange(1.0, 3.0)))(np.array([1.0, 10.0]))
    assert sorted(printed) == ["1", "10", "2", "20"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_without_results_print(capsys: Any, backend: str) -> None:
    count = functad.Variable(0.0)

    @functad.jit(backend=backend)
    def step(x: Any) -> None:
        show("count = {}, x = {p[x]}", count, p={"x": x})
        count.assign(count + x)
        show("count = {}", count)

    assert lines(capsys, step, 1.5) == ["count = 0.0, x = 1.5", "count = 1.5"]
    assert lines(capsys, step, 2.0) == ["count = 1.5, x = 2.0", "count = 3.5"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_derivative_with_a_nan_prints_once(capsys: Any, backend: str) -> None:
    def entropy(x: Any) -> Any:
        show("x = {}", x)
        return np.sum(np.where(x > 0, x * np.log(x), 0.0))

    x = np.array([0.0, 1.0])
    with np.errstate(all="ignore"):
        assert lines(capsys, functad.jit(functad.grad(entropy), backend=backend), x) == ["x = [0. 1.]"]


def test_lists_show_and_repeat_the_print(capsys: Any) -> None:
    expressions = functad.make_expressions(straight)(0.5)
    assert capsys.readouterr().out == ""
    assert str(expressions).count("print[text=") == 4
    assert len(lines(capsys, expressions, 0.5)) == 4


def test_text_without_values_prints_at_once(capsys: Any) -> None:
    show("{} and {x}", 1, x=np.arange(2))
    assert capsys.readouterr().out == "1 and [0 1]\n"


def test_programs_without_functad_do_not_print(tmp_path: Path) -> None:
    source = functad.to_source(scanned, 0.5)
    assert "print" not in source
    space: dict[str, Any] = {}
    exec(source, space)
    assert space["scanned"](0.5) == scanned(0.5)
    if installed("llvm"):
        with pytest.raises(UnsupportedError, match=r"Python runs functad.debug.print, at .*test_debug_print.py:\d+"):
            functad.jit(straight).lower(0.5).object_file(tmp_path / "straight")
