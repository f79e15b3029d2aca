"""`elementwise_grad`: the derivative of an elementwise function of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

from functad.errors import OutputError
from functad.expressions.spec import shape_of, spec_of
from functad.transforms.calling.boundary import check_result, check_slope, split_aux
from functad.transforms.calling.transform import ArgNames, ArgNums, Selection, transform
from functad.transforms.grad import gradient_function
from functad.trees.structure import flatten

P = ParamSpec("P")


@transform
def elementwise_grad(
    f: Callable[P, Any], argnums: ArgNums = 0, argnames: ArgNames | None = None, has_aux: bool = False
) -> Callable[P, Any]:
    """Return a function that computes the elementwise derivative of `f`: `f'(x[i])` for each element of `x`.

    The result is the gradient of `sum(f(x))`. If `f` is not elementwise, the result is the sum of the rows of its Jacobian.

    Args:
        f: a function of NumPy code that returns one array. Without `f`, the transform returns a decorator.
        argnums, argnames, has_aux: as for `grad`.

    Returns:
        A function with the signature of `f` that returns an array with the shape and dtype of the argument, or `(array, aux)`.

    Raises:
        OutputError: the result of `f` is not one real floating-point array or number.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> elementwise_grad(np.tanh)(np.array([0.0, 1.0])).round(4)
        array([1.  , 0.42])
        >>> elementwise_grad(elementwise_grad(lambda x: x**3))(np.array([1.0, 2.0]))
        array([ 6., 12.])
    """
    selection = Selection("elementwise_grad", f, argnums, argnames)

    @functools.wraps(f)
    def total(*args: P.args, **kwargs: P.kwargs) -> Any:
        out, aux = split_aux(f(*args, **kwargs), has_aux, selection)
        leaves = flatten(out)[0]
        if len(leaves) != 1 or leaves[0] is not out:
            raise OutputError(
                f"{selection.call}: the result is a {type(out).__name__}, and should be one array. Use jacobian or vjp."
            )
        check_result(out, "result", "elementwise_grad", f)
        check_slope(out, "the result", selection)
        if np.dtype(spec_of(out).dtype).kind == "c":
            raise OutputError(
                f"{selection.call}: the result is {spec_of(out)}, and should be real. Use jvp, or grad with holomorphic=True."
            )
        result = np.sum(out) if shape_of(out) else out
        return (result, aux) if has_aux else result

    return gradient_function(Selection("elementwise_grad", total, argnums, argnames), has_aux)
