"""The pytest plugin with the fixture `check_grads`; it imports functad only when a test requests the fixture.

A wheel installs this file as the top-level module `functad_pytest_plugin`. pytest imports its plugins at every start, and a
module inside the package would import functad for tests that never differentiate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def check_grads(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return `functad.testing.check_grads`; failures show only the message, without the traceback of functad.

    A test `def test_loss(check_grads): check_grads(loss, [weights, data])` fails if a derivative of `loss` is wrong.
    """
    from functad.errors import NothingComparedError, WrongDerivativeError  # noqa: PLC0415 - see above
    from functad.testing.gradients import check_grads as check  # noqa: PLC0415

    def checked(f: Callable[..., Any], args: Any, *rest: Any, **keywords: Any) -> None:
        try:
            check(f, args, *rest, **keywords)
        except (WrongDerivativeError, NothingComparedError) as wrong:
            message = f"{request.node.nodeid}: {wrong}"
        else:
            return
        pytest.fail(
            message.replace(": functad gives", ":\n    functad gives").replace(", differences", "\n    differences"),
            pytrace=False,
        )

    return checked
