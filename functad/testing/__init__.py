"""Checks of derivatives, for functad's primitives and for user functions; `import functad` does not import this package.

Example:
    >>> import numpy as np
    >>> from functad.primitives.entry import ENTRIES
    >>> from functad.testing import check_primitive
    >>> check_primitive(ENTRIES[np.sin])
"""

from functad.errors import NothingComparedError, WrongDerivativeError
from functad.testing.gradients import assert_differentiable, check_grads
from functad.testing.numerical import central_difference, complex_step, directional_derivative
from functad.testing.primitive_checks import Call, InputSource, calls, check_complete, check_primitive, every_entry
from functad.testing.programs.program import Program, draw_program
from functad.testing.rule_checks import check_rules

__all__ = [
    "Call",
    "InputSource",
    "NothingComparedError",
    "Program",
    "WrongDerivativeError",
    "assert_differentiable",
    "calls",
    "central_difference",
    "check_complete",
    "check_grads",
    "check_primitive",
    "check_rules",
    "complex_step",
    "directional_derivative",
    "draw_program",
    "every_entry",
]
