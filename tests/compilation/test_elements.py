"""Elements of small arrays as numbers."""

import numpy as np

import functad
from functad.compilation.elements import with_numbers
from functad.control.scan import SCAN


def test_equations_without_inputs() -> None:
    """A loop that gives constants alone takes nothing."""

    own, body = functad.make_expressions(lambda x: x[0] * x[1])(np.ones(2)), functad.make_expressions(lambda: 1.0)()
    params = {"carries": 0, "rows": 0, "length": 3, "reverse": False, "body": body}
    equations = (*own.equations, type(own.equations[0])(SCAN, (), params, (len(own.specs),)))
    specs = (*own.specs, functad.ArraySpec((3,), np.dtype(float)))
    found = with_numbers(own.replace(equations=equations, specs=specs).check())
    assert found(np.array([2.0, 3.0])) == 6.0
