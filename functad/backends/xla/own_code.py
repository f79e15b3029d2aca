"""Primitives with short NumPy code, used by rules: the code is traced, and the list is replayed."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any

from functad.backends.xla.replay import replay
from functad.backends.xla.table import Call, row
from functad.primitives.elementwise.bessel import BESSEL_I
from functad.primitives.elementwise.special import SINC_DERIVATIVE
from functad.primitives.linalg import degenerate, determinants
from functad.primitives.linalg.least_squares import singular
from functad.transforms.lists import trace


@row(
    *(SINC_DERIVATIVE, BESSEL_I, determinants.cofactor_slopes, determinants.cofactor_bends),
    *(degenerate.misfit, singular),
)
def _traced(call: Call, *values: Any, **params: Any) -> Any:
    expressions = trace("jit", functools.partial(call.primitive.compute, **params), call.given)
    found = replay(expressions, values)
    return found if call.primitive.multiple else found[0]


if find_spec("scipy") is not None:
    from functad.primitives.scipy_special.elementary import EXPREL_DERIVATIVE

    row(EXPREL_DERIVATIVE)(_traced)
