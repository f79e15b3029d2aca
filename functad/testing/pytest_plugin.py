"""The pytest plugin: the fixture `check_grads`. It imports functad when a test asks for the fixture, and not before.

In a wheel this file is a module of its own beside the package, `functad_pytest_plugin`: pytest imports its plugins at every
start, also for tests that never differentiate, and importing a module of a package imports the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def check_grads(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`functad.testing.check_grads`; a failure shows what is wrong, and nothing of how it was found.

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
