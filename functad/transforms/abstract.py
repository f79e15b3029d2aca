"""Tracing without values: `make_expressions` and `eval_shape`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from functad.expressions.expressions import Expressions
from functad.primitives.safe import PASS, SINGULAR
from functad.process import setting
from functad.transforms.calling.transform import transform
from functad.transforms.lists import trace

P = ParamSpec("P")


@transform
def make_expressions(f: Callable[P, Any]) -> Callable[P, Expressions]:
    """Return a function that traces `f` and returns its expression list.

    The trace is abstract: only shapes and dtypes of the arguments matter, and `f` cannot branch on values. Values that do not
    depend on the arguments are computed during the trace and become constants of the list.

    Args:
        f: a function of NumPy code. Without `f`, the transform returns a decorator.

    Returns:
        A function with the signature of `f` that returns an `Expressions`. Its arguments may be arrays, numbers, `ArraySpec`s
        or pytrees of them.

    Raises:
        InputError: an argument is not a pytree of arrays.
        OutputError: the result of `f` is not a pytree of arrays.
        AbstractValueError: `f` needs the value of a Tensor.

    Example:
        >>> import numpy as np
        >>> make_expressions(lambda x, y: {"sum": x + y})(np.zeros((2, 3), np.float32), 1.0)
        { lambda x:float32[2,3] y:float[].
          a:float32[2,3] = add x y
          return a }
    """

    @functools.wraps(f)
    def made(*args: P.args, **kwargs: P.kwargs) -> Expressions:
        from functad.transforms.random_states import frozen_in  # noqa: PLC0415 - `import functad` needs no lists
        from functad.transforms.source_lines import noted_lines  # noqa: PLC0415 - the same

        with frozen_in("make_expressions", f, [f]), noted_lines(), setting(PASS, SINGULAR):
            return trace("make_expressions", f, args, kwargs)

    return made


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of `f(*args, **kwargs)` without computing the values.

    Args:
        f: a function of NumPy code.
        args: arrays, numbers, `ArraySpec`s or pytrees of them.
        kwargs: the same types, by name.

    Returns:
        The result of `f` with an `ArraySpec` in place of each array.

    Raises:
        InputError, OutputError, AbstractValueError: as for `make_expressions`.

    Example:
        >>> import functad, numpy as np
        >>> eval_shape(lambda a, b: a @ b, functad.ArraySpec((1000000, 3), np.dtype(float)), np.zeros((3, 2)))
        float64[1000000,2]
    """
    expressions = trace("eval_shape", f, args, kwargs)
    return expressions.output_structure.unflatten(expressions.results)
