"""Check that inner lists of equations, such as the body of a loop, fit their arrays; shape rules check only the results."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

from functad.export.data import DamagedError
from functad.expressions.expressions import Constant, Equation, Expressions, inner_lists
from functad.expressions.spec import ArraySpec, spec_or_none
from functad.primitives.entry import Primitive
from functad.transforms.leaves import ZERO_WINS

_PARAMS: dict[str, dict[str, type]] = {
    "scan": {"carries": int, "rows": int, "length": int, "reverse": bool, "body": Expressions},
    "loop": {"carries": int, "cond": Expressions, "body": Expressions},
    "branches": {"branches": tuple},
}
"""The types of the parameters of control flow, by `Primitive.lists`."""


def check_calls(expressions: Expressions) -> None:
    """Check the calls of primitives by the equations of a list, and that inner lists fit their inputs.

    Raises:
        DamagedError: a call or an inner list is wrong.
    """
    for equation in expressions.equations:
        specs = [_spec(source, expressions) for source in equation.inputs]
        inner = equation.primitive.inner
        if inner is not None:
            _same(inner.specs[: len(inner.inputs)], specs, "a checkpoint is given other arrays than its list takes")
            check_calls(inner.check())
        elif equation.primitive is ZERO_WINS:
            body = equation.params.get("body")
            if set(equation.params) != {"body"} or type(body) is not Expressions or len(body.outputs) != 1:
                raise DamagedError("a contraction has no list with one result")
            _same(body.specs[: len(body.inputs)], specs, "a contraction is given other arrays than its list takes")
            check_calls(body.check())
        elif equation.primitive.lists:
            _check_control(equation, specs)
        elif _lists(equation):
            raise DamagedError(f"{equation.primitive.name} has a list")
        else:
            _check_arguments(equation)
        for own in _lists(equation):
            check_calls(own)


def _lists(equation: Equation) -> list[Expressions]:
    return [own for _, own in inner_lists(equation.params)]


def _spec(source: int | Constant, expressions: Expressions) -> ArraySpec | None:
    return spec_or_none(source.value) if isinstance(source, Constant) else expressions.specs[source]


def _check_arguments(equation: Equation) -> None:
    primitive = equation.primitive
    signature = _signature(primitive)
    if signature is not None:
        signature.bind(*equation.inputs, **equation.params)
        return
    given, count = len(equation.inputs), getattr(primitive.compute, "nin", None)
    if count is None:  # the shape rule has checked the parameters
        count = len(primitive.names) or given
    elif equation.params:
        count = -1
    if given != count:
        raise DamagedError(f"{primitive.name} has other arguments")


@functools.lru_cache(maxsize=1024)  # Python parses the signature of a C function at every call
def _signature(primitive: Primitive) -> inspect.Signature | None:
    """Return the signature of a primitive; `None` for a ufunc, which has `nin`, and for C functions before NumPy 2.4."""
    try:
        return inspect.signature(primitive.compute)
    except ValueError:
        return None


def _check_control(equation: Equation, specs: Sequence[ArraySpec | None]) -> None:
    """Check the parameters and inner lists of a loop or of branches."""
    params, primitive = equation.params, equation.primitive
    wanted = _PARAMS[primitive.lists]
    if params.keys() != wanted.keys() or not all(type(params[key]) is kind for key, kind in wanted.items()):
        raise DamagedError(f"{primitive.name} has other parameters")
    what = f"the lists of {primitive.name} do not fit its arrays"
    if primitive.lists == "branches":
        for branch in params["branches"]:
            if not isinstance(branch, Expressions):
                raise DamagedError(what)
            _same(branch.specs[: len(branch.inputs)], specs[1:], what)
            _same(branch.results, params["branches"][0].results, what)
        if not params["branches"] or specs[0] is None or specs[0].shape or specs[0].dtype.kind not in "biu":
            raise DamagedError(what)
        return
    carries, body = params["carries"], params["body"]
    rows = params.get("rows", 0)
    if not (0 <= carries <= carries + rows <= len(specs) and rows >= 0 <= params.get("length", 0)):
        raise DamagedError(what)
    taken = [_row(s, params["length"]) if carries <= i < carries + rows else s for i, s in enumerate(specs)]
    _same(body.specs[: len(body.inputs)], taken, what)
    _same(body.results[:carries], specs[:carries], what)
    if primitive.lists == "loop":
        test = params["cond"]
        _same(test.specs[: len(test.inputs)], taken, what)
        _same([ArraySpec(spec.shape, spec.dtype) for spec in test.results][1:], [], what)
        if len(test.results) != 1 or test.results[0].shape or len(body.results) != carries:
            raise DamagedError(what)


def _row(spec: ArraySpec | None, length: int) -> ArraySpec | None:
    return ArraySpec(spec.shape[1:], spec.dtype) if spec is not None and spec.shape[:1] == (length,) else None


def _same(found: Sequence[Any], wanted: Sequence[Any], what: str) -> None:
    """Raise `DamagedError` if shapes or dtypes differ."""
    if len(found) != len(wanted) or any(
        a is None or b is None or (a.shape, a.dtype) != (b.shape, b.dtype) for a, b in zip(found, wanted, strict=True)
    ):
        raise DamagedError(what)
