"""A plugin of pytest that runs every test inside a trace, where the arrays that `functad.numpy` makes are Tensors.

For tests of others that take the module under test from outside, such as those of data-apis, which are on no package index.
From a checkout of array-api-tests, with the folder of functad on the path:

    ARRAY_API_TESTS_MODULE=functad.numpy pytest array_api_tests
    ARRAY_API_TESTS_MODULE=functad.numpy pytest -p tests.portability.in_trace array_api_tests

What differs from the standard, in NumPy and so here, is in `standard_excused.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import functad


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Run a test inside a trace."""
    test = pyfuncitem.obj

    def run(**kwargs: Any) -> None:
        functad.jvp(lambda x: test(**kwargs) or x, (1.0,), (1.0,))

    pyfuncitem.obj = run
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test
