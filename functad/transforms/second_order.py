"""Second derivatives: the Hessian, its products, its diagonal and trace; and the divergence of a vector field.

Second derivatives use forward mode over reverse mode. The gradient is recorded once, on concrete values. Tangents are pushed
through the records in batches (see `functad.transforms.jacobian`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from functad.errors import InputError
from functad.expressions.spec import shape_of, spec_of
from functad.tracing.concrete import ForwardRecorder
from functad.tracing.trace import Recorder
from functad.transforms.boundary import (
    Inputs,
    check_slope,
    checked_leaves,
    own_aux,
    split_aux,
    traced,
    wrap_inputs,
)
from functad.transforms.forward import push_through
from functad.transforms.grad import gradient_function, pulled_back
from functad.transforms.jacobian import jacobian_function, of_identity, pushed_size
from functad.transforms.linear import LinearFunction, check_counts, pushed_along
from functad.transforms.reverse import zero_tangent
from functad.transforms.transform import ArgNames, ArgNums, Selection, check_chunk_size, transform

P = ParamSpec("P")
R = TypeVar("R")


@transform
def hessian(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Return a function that computes the Hessian of `f`: `H[i, j] = d^2 f(x) / d x[i] d x[j]`.

    Args:
        f: a function of NumPy code that returns one number. Without `f`, the transform returns a decorator.
        argnums, argnames, has_aux, holomorphic: as for `grad`.
        chunk_size: the maximal number of columns computed at a time. By default, a chunk takes about 100 MB.

    Returns:
        A function with the signature of `f`. For an array argument it returns an array of shape
        `argument.shape + argument.shape` with the dtype of the argument. For pytrees it returns the structure of the arguments,
        with this structure again at each leaf. With `has_aux` it returns `(hessian, aux)`.

    Raises:
        NonScalarError: the result of `f` is not one real number.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
        array([[6., 2.],
               [2., 0.]])
    """
    gradient = gradient_function(Selection("hessian", f, argnums, argnames), has_aux, holomorphic)
    selection = Selection("hessian", gradient, argnums, argnames)
    return jacobian_function(selection, has_aux, holomorphic, mode="forward", chunk_size=chunk_size)


@transform
def value_grad_and_hessian(
    f: Callable[P, R],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, tuple[R, Any, Any]]:
    """Return a function that computes the value, gradient and Hessian of `f` in one evaluation: `(f(x), g, H)`.

    `g[i] = d f(x) / d x[i]` and `H[i, j] = d^2 f(x) / d x[i] d x[j]`, as for `grad` and `hessian`.

    Args:
        f: the function. Without `f`, the transform returns a decorator.
        argnums, argnames, has_aux, holomorphic, chunk_size: as for `hessian`.

    Returns:
        A function with the signature of `f` that returns `(value, gradient, hessian)`, or `((value, aux), gradient, hessian)`.
        Gradient and Hessian have the forms that `grad` and `hessian` return.

    Raises:
        NonScalarError, InputError: as for `grad`.

    Example:
        >>> import numpy as np
        >>> value, gradient, h = value_grad_and_hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        >>> float(value), gradient, h
        (9.0, array([ 3., 12.]), array([[ 6.,  0.],
               [ 0., 12.]]))
    """
    transform = "value_grad_and_hessian"
    both = gradient_function(Selection(transform, f, argnums, argnames), has_aux, holomorphic, with_value=True)

    @functools.wraps(f)
    def gradient_and_all(*args: P.args, **kwargs: P.kwargs) -> Any:
        value, gradient = both(*args, **kwargs)
        return gradient, (value, gradient)

    selection = Selection(transform, gradient_and_all, argnums, argnames)
    second = jacobian_function(selection, True, holomorphic, mode="forward", chunk_size=chunk_size)

    @functools.wraps(f)
    def derivatives(*args: P.args, **kwargs: P.kwargs) -> tuple[R, Any, Any]:
        columns, (value, gradient) = second(*args, **kwargs)
        return value, gradient, columns

    return derivatives


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return the Hessian-vector product `H(x) t`, at the cost of a few evaluations of `f`.

    Args:
        f: a function of NumPy code that returns one number.
        primals: the tuple of the arguments of `f`: arrays, numbers or pytrees of them. All are differentiated.
        tangents: the tuple of tangents, with the structures, shapes and dtypes of the arguments.
        has_aux: `f` returns a pair `(value, aux)`, and `aux` is returned unchanged.

    Returns:
        The product, with the structure of the argument; a tuple of products if there are several arguments. With `has_aux` the
        result is `(product, aux)`.

    Raises:
        NonScalarError: the result of `f` is not one real number.
        StructureError: the tangents do not match the arguments.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> hvp(lambda x: x[0] ** 2 * x[1], (np.array([1.0, 3.0]),), (np.array([1.0, 0.0]),))
        array([6., 2.])
    """
    return _hessian_product("hvp", f, primals, tangents, has_aux)


def _hessian_product(transform: str, f: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool) -> Any:
    count = len(primals) if isinstance(primals, (tuple, list)) else 1
    gradient = gradient_function(Selection(transform, f, range(count)), has_aux)
    _, product, *aux = pushed_along(transform, gradient, primals, tangents, has_aux=has_aux)
    return _of_arguments(product, aux)


def _of_arguments(products: Any, aux: Sequence[Any]) -> Any:
    """Return the products of all arguments as a tuple, or the product of a single argument alone."""
    result = products[0] if len(products) == 1 else products
    return (result, *aux) if aux else result


def gauss_newton_product(
    f: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    loss: Callable[[Any], Any] | None = None,
    has_aux: bool = False,
) -> Any:
    """Return the product of the Gauss-Newton matrix of `loss(f(x))` with a tangent: `J^T H J t`.

    `J` is the Jacobian of `f`, and `H` is the Hessian of `loss` at `f(x)`. The matrix is positive semidefinite if `loss` is
    convex. It equals the Hessian of `loss(f(x))` if `f` is linear (Schraudolph, Neural Computation 14, 2002).

    Args:
        f: a function of NumPy code that returns an array or a pytree of arrays: residuals, or the outputs of a model.
        primals: the tuple of the arguments of `f`: arrays, numbers or pytrees of them. All are differentiated.
        tangents: the tuple of tangents, with the structures, shapes and dtypes of the arguments.
        loss: a function from the result of `f` to one number. The default is half the sum of squares: `H` is the identity.
        has_aux: `f` returns a pair `(value, aux)`; `aux` is returned unchanged, and `loss` takes only the value.

    Returns:
        The product, with the structure of the argument; a tuple of products if there are several arguments. With `has_aux` the
        result is `(product, aux)`.

    Raises:
        StructureError: the tangents do not match the arguments.
        NonScalarError: the result of `loss` is not one number.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> a = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 1.0]])
        >>> gauss_newton_product(lambda x: a @ x, (np.zeros(2),), (np.array([1.0, 0.0]),))
        array([2., 3.])
    """
    transform = "gauss_newton_product"
    check_counts(transform, f, primals, tangents)
    value, linear, *aux = pulled_back(transform, f, tuple(primals), has_aux=has_aux, kind=LinearFunction)
    pushed: Any = linear(*tangents)  # from the same trace: `f` runs once
    if loss is not None:
        pushed = _hessian_product(transform, loss, (value,), (pushed,), has_aux=False)
    return _of_arguments(linear.transpose(pushed), aux)


@transform
def hessian_diagonal(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Return a function that computes the diagonal of the Hessian of `f`: `d^2 f(x) / d x[i]^2`.

    The diagonal is exact. It takes one Hessian-vector product per element, and the full Hessian is never in memory.

    Args:
        f: a function of NumPy code that returns one number. Without `f`, the transform returns a decorator.
        argnums, argnames, has_aux: as for `grad`.
        chunk_size: the maximal number of products computed at a time. By default, a chunk takes about 100 MB.

    Returns:
        A function with the signature of `f` that returns the diagonal, or `(diagonal, aux)`. The diagonal has the structure,
        shapes and dtypes of the argument.

    Raises:
        NonScalarError: the result of `f` is not one real number.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> hessian_diagonal(lambda x: np.sum(x**3) + x[0] * x[1])(np.array([1.0, 2.0]))
        array([ 6., 12.])
    """
    selection = Selection("hessian_diagonal", f, argnums, argnames)
    return _of_diagonals(Inputs.pack, selection, gradient_function(selection, has_aux), has_aux, chunk_size)


@transform
def laplacian(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Return a function that computes the Laplacian of `f`: `sum_i d^2 f(x) / d x[i]^2`, the trace of the Hessian.

    Args:
        f: a function of NumPy code that returns one number. Without `f`, the transform returns a decorator.
        argnums, argnames, has_aux: as for `grad`.
        chunk_size: the maximal number of Hessian-vector products computed at a time. By default, a chunk takes about 100 MB.

    Returns:
        A function with the signature of `f` that returns one number, or `(number, aux)`. The sum runs over all elements of the
        selected arguments.

    Raises:
        NonScalarError: the result of `f` is not one real number.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> float(laplacian(lambda x: np.sum(x**4))(np.array([1.0, 2.0])))
        60.0
    """
    selection = Selection("laplacian", f, argnums, argnames)
    return _of_diagonals(_sum, selection, gradient_function(selection, has_aux), has_aux, chunk_size)


@transform
def divergence(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Return a function that computes the divergence of a vector field: `sum_i d f(x)[i] / d x[i]`, the trace of its Jacobian.

    Args:
        f: a function of NumPy code. Its result has the structure and shapes of the selected argument. Without `f`, the
            transform returns a decorator.
        argnums, argnames, has_aux: as for `grad`.
        chunk_size: the maximal number of columns computed at a time. By default, a chunk takes about 100 MB.

    Returns:
        A function with the signature of `f` that returns one number, or `(number, aux)`.

    Raises:
        InputError: an argument cannot be differentiated, or the result has other shapes than the argument.

    Example:
        >>> import numpy as np
        >>> float(divergence(lambda x: x * x[::-1])(np.array([1.0, 2.0, 5.0])))
        10.0
    """
    return _of_diagonals(_sum, Selection("divergence", f, argnums, argnames), f, has_aux, chunk_size)


def _sum(inputs: Inputs, diagonals: list[Any]) -> Any:
    parts = [np.sum(diagonal) for diagonal in diagonals]
    return sum(parts[1:], parts[0]) if parts else np.float64(0.0)


def _of_diagonals(
    make: Callable[[Inputs, list[Any]], Any],
    selection: Selection,
    field: Callable[..., Any],
    has_aux: bool,
    chunk_size: int | None,
) -> Callable[..., Any]:
    """Return a function that computes `make(inputs, diagonals)`: one diagonal of the Jacobian of a field per leaf."""
    check_chunk_size(selection.transform, selection.function, chunk_size)

    @functools.wraps(selection.function)
    def derived(*args: Any, **kwargs: Any) -> Any:
        recorder = ForwardRecorder(selection.transform, selection.function)
        inputs = wrap_inputs(recorder, selection, args, kwargs)
        out, aux = split_aux(traced(recorder, field, inputs.args, inputs.kwargs), has_aux, selection)
        found = _diagonals(recorder, inputs, _check_field(selection, inputs, out), chunk_size)
        result = make(inputs, found)
        return (result, own_aux(aux, recorder, inputs.primals)) if has_aux else result

    return derived


def _diagonals(recorder: Recorder, inputs: Inputs, leaves: list[Any], chunk_size: int | None) -> list[Any]:
    """Return the diagonals of the Jacobian of a vector field with result leaves `leaves`, one per leaf of the arguments."""
    width = max(pushed_size(recorder) // 4, 1)
    chunk_size = chunk_size if recorder.monitor is None else 1
    found = []
    for j, (primal, leaf) in enumerate(zip(inputs.primals, leaves, strict=True)):
        push = functools.partial(push_through, recorder, outs=[leaf])
        (diagonal,) = of_identity(recorder, inputs.primals, j, push, chunk_size, width, diagonal=True) or [None]
        shape = shape_of(primal)
        whole = zero_tangent(primal) if diagonal is None else diagonal.reshape(shape)
        found.append(whole if shape or diagonal is None else whole[()])
    return found


def _check_field(selection: Selection, inputs: Inputs, out: Any) -> list[Any]:
    """Return the leaves of the result of a vector field; raise an error unless their shapes match the arguments."""
    leaves, structure = checked_leaves(out, selection.transform, selection.function)
    for leaf, path in zip(leaves, structure.paths("result"), strict=True):
        check_slope(leaf, path, selection)
    if list(map(shape_of, leaves)) == list(map(shape_of, inputs.primals)):
        return leaves
    found, wanted = [", ".join([str(spec_of(leaf)) for leaf in part]) for part in (leaves, inputs.primals)]
    raise InputError(f"{selection.call}: the result ({found}) has not the shapes of the selected arguments ({wanted}).")
