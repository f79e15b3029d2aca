"""Functions with a gradient of their own under `vmap`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
from functad import grad, vmap
from functad.errors import AbstractValueError

XS = np.random.default_rng(0).normal(size=(3, 4))


@functad.custom_gradient
def scaled_sine(x: Any, y: Any) -> Any:
    """Return `y sin(x)`, with derivatives that are not its own, so that one sees which are taken."""
    return np.sin(x) * y, lambda g: (g * 2 * x, g * np.sin(x) * 3)


def _loss(x: Any, y: Any) -> Any:
    return (scaled_sine(x, y) ** 2).sum()


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_values_and_gradients(axes: tuple[Any, Any]) -> None:
    x, y = (XS if axis == 0 else XS[0] for axis in axes)
    rows = [(XS[i] if axes[0] == 0 else x, XS[i] if axes[1] == 0 else y) for i in range(3)]
    np.testing.assert_allclose(vmap(_loss, axes)(x, y), [float(_loss(*row)) for row in rows])
    found = vmap(grad(_loss, (0, 1)), axes)(x, y)
    for i, row in enumerate(rows):
        for a, b in zip(found, grad(_loss, (0, 1))(*row), strict=True):
            np.testing.assert_allclose(a[i], b)


def test_gradient_of_vmap() -> None:
    found = grad(lambda xs: vmap(_loss)(xs, xs * 2).sum())(XS)
    np.testing.assert_allclose(found, [grad(lambda x: _loss(x, x * 2))(x) for x in XS])


def test_function_is_run_for_all_examples_at_once() -> None:
    calls = []

    @functad.custom_gradient
    def halved(x: Any) -> Any:
        calls.append(x)
        return np.where(np.sum(x) > 0, x, x / 2), lambda g: g

    np.testing.assert_allclose(vmap(halved)(XS), [x if x.sum() > 0 else x / 2 for x in XS])
    assert len(calls) < len(XS)

    @functad.custom_gradient
    def asking(x: Any) -> Any:
        return (x if x.sum() > 0 else x / 2), lambda g: g

    with pytest.raises(AbstractValueError, match=r"in vmap of test_.*\.asking, `x\.sum\(\) > 0` at .*Choose between values"):
        vmap(asking)(XS)


@pytest.mark.filterwarnings("ignore::functad.errors.LoopWarning")  # with Variables the examples are taken one by one
def test_variables_have_their_gradients() -> None:
    w = functad.Variable(2.0, name="w")

    @functad.custom_gradient
    def weighted(x: Any) -> Any:
        return x * w, lambda g, variables: (g * w, [(g * x).sum()])

    with functad.GradientTape() as tape:
        y = np.sum(vmap(weighted)(XS) ** 2)
    np.testing.assert_allclose(tape.gradient(y, w), np.sum(4 * XS**2))
    found = vmap(grad(lambda x: np.sum(weighted(x) ** 2)))(XS)
    np.testing.assert_allclose(found, 8 * XS)
