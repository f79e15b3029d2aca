"""Second derivatives: the Hessian, its products, its diagonal and trace; and the divergence of a vector field.

All are forward mode over reverse mode: the gradient is recorded once, on concrete values, and tangents are pushed through the
records, many at a time (see `functad.transforms.seeds`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np

from functad.errors import InputError
from functad.expressions.spec import shape_of, spec_of
from functad.places import here, name_of
from functad.tracing.recorder import FORWARD, Recorded, Recorder
from functad.transforms.arguments import ArgNames, ArgNums, Inputs, Selection, by_argument, enter, traced
from functad.transforms.forward import jvp, push_forward
from functad.transforms.gradient import grad, value_and_grad, vjp
from functad.transforms.jacobian import jacfwd, pushed_size
from functad.transforms.seeds import chunks, identity_rows, in_batch, inexact, size_of
from functad.trees import flatten

P = ParamSpec("P")


def hessian(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Return a function that gives the Hessian of `f`: `H[i, j] = d^2 f(x) / d x[i] d x[j]`.

    Args:
        f: a function of NumPy code that returns one number.
        argnums: position, or positions, of the arguments to differentiate.
        argnames: name, or names, of arguments to differentiate; they take the place of the default `argnums=0`.
        has_aux: `f` returns a pair `(value, aux)`, of which `aux` is handed through.
        holomorphic: arguments and value are complex, and the complex derivative is meant.
        chunk_size: so many columns, at most, are computed at a time; by default as many as take some 100 MB.

    Returns:
        A function with the signature of `f`. For an array argument it returns an array of shape
        `argument.shape + argument.shape`; in general the structure of the arguments, at each leaf of which is that structure
        again. With `has_aux` it returns `(hessian, aux)`.

    Raises:
        NonScalarError: `f` returned something else than one number.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
        array([[6., 2.],
               [2., 0.]])
    """
    gradient = grad(f, argnums, argnames, has_aux, holomorphic)
    return jacfwd(gradient, argnums, argnames, has_aux, holomorphic, chunk_size=chunk_size)


def value_grad_and_hessian(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Return a function that gives the value of `f`, its gradient and its Hessian, from one evaluation.

    Arguments and errors are those of `hessian`.

    Returns:
        A function with the signature of `f` that returns `(value, gradient, hessian)`.

    Example:
        >>> import numpy as np
        >>> value, gradient, h = value_grad_and_hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        >>> float(value), gradient, h
        (9.0, array([ 3., 12.]), array([[ 6.,  0.],
               [ 0., 12.]]))
    """
    both = value_and_grad(f, argnums, argnames)

    def gradient_and_all(*args: P.args, **kwargs: P.kwargs) -> Any:
        value, gradient = both(*args, **kwargs)
        return gradient, (value, gradient)

    second = jacfwd(gradient_and_all, argnums, argnames, has_aux=True, chunk_size=chunk_size)

    @functools.wraps(f)
    def derivatives(*args: P.args, **kwargs: P.kwargs) -> Any:
        columns, (value, gradient) = second(*args, **kwargs)
        return value, gradient, columns

    return derivatives


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the product of the Hessian of `f` with a direction, `H(x) t`, at the cost of a few evaluations of `f`.

    Args:
        f: a function of NumPy code that returns one number.
        primals: the tuple of its arguments, all of which are differentiated: arrays, numbers or trees of them.
        tangents: the tuple of directions, of the structures, shapes and dtypes of the arguments.

    Returns:
        The product, like the only argument; for several arguments a tuple with one for each.

    Raises:
        NonScalarError: `f` returned something else than one number.
        StructureError: the tangents do not match the arguments.

    Example:
        >>> import numpy as np
        >>> hvp(lambda x: x[0] ** 2 * x[1], (np.array([1.0, 3.0]),), (np.array([1.0, 0.0]),))
        array([6., 2.])
    """
    _check_tuples("hvp", f, primals, tangents)
    product = jvp(grad(f, tuple(range(len(primals)))), primals, tangents)[1]
    return product[0] if len(primals) == 1 else product


def gauss_newton_product(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], loss: Callable[[Any], Any] | None = None
) -> Any:
    """Return the product of the Gauss-Newton matrix of `loss(f(x))` with a direction: `J^T H J t`.

    `J` is the Jacobian of `f` and `H` the Hessian of `loss` at `f(x)`. The matrix is positive semidefinite if `loss` is convex,
    and the Hessian where `f` is linear (Schraudolph, Neural Computation 14, 2002).

    Args:
        f: a function of NumPy code that returns an array or a tree of arrays: residuals, or the outputs of a model.
        primals: the tuple of its arguments, all of which are differentiated.
        tangents: the tuple of directions, of the structures, shapes and dtypes of the arguments.
        loss: a function from the result of `f` to one number; by default half the sum of squares, so that `H` is the identity.

    Returns:
        The product, like the only argument; for several arguments a tuple with one for each.

    Raises:
        StructureError: the tangents do not match the arguments.
        NonScalarError: `loss` returned something else than one number.

    Example:
        >>> import numpy as np
        >>> a = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 1.0]])
        >>> gauss_newton_product(lambda x: a @ x, (np.zeros(2),), (np.array([1.0, 0.0]),))
        array([2., 3.])
    """
    _check_tuples("gauss_newton_product", f, primals, tangents)
    value, pushed = jvp(f, primals, tangents)
    if loss is not None:
        pushed = hvp(loss, (value,), (pushed,))
    product = vjp(f, *primals)[1](pushed)
    return product[0] if len(primals) == 1 else product


def _check_tuples(transform: str, f: Callable[..., Any], primals: Any, tangents: Any) -> None:
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise InputError(
            f"{transform} of {name_of(f)}, called at {here()}: primals and tangents are the tuples of all arguments; write "
            f"{transform}(f, (x,), (t,)) for one."
        )


def hessian_diagonal(
    f: Callable[P, Any], argnums: ArgNums = 0, argnames: ArgNames | None = None, chunk_size: int | None = None
) -> Callable[P, Any]:
    """Return a function that gives the diagonal of the Hessian of `f`: `d^2 f(x) / d x[i]^2`.

    It is exact, and takes a product with the Hessian for each element; the Hessian itself is never held as a whole.

    Args:
        f: a function of NumPy code that returns one number.
        argnums: position, or positions, of the arguments to differentiate.
        argnames: name, or names, of arguments to differentiate; they take the place of the default `argnums=0`.
        chunk_size: so many products, at most, are computed at a time; by default as many as take some 100 MB.

    Returns:
        A function with the signature of `f` that returns the diagonal, with structure and shapes of the argument.

    Raises:
        NonScalarError: `f` returned something else than one number.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> hessian_diagonal(lambda x: np.sum(x**3) + x[0] * x[1])(np.array([1.0, 2.0]))
        array([ 6., 12.])
    """
    selection = Selection("hessian_diagonal", f, argnums, argnames)
    gradient = grad(f, argnums, argnames)

    @functools.wraps(f)
    def diagonal(*args: P.args, **kwargs: P.kwargs) -> Any:
        return selection.pack(_diagonals(selection, gradient, args, kwargs, chunk_size))

    return diagonal


def laplacian(
    f: Callable[P, Any], argnums: ArgNums = 0, argnames: ArgNames | None = None, chunk_size: int | None = None
) -> Callable[P, Any]:
    """Return a function that gives the Laplacian of `f`: `sum_i d^2 f(x) / d x[i]^2`, the trace of the Hessian.

    Args:
        f: a function of NumPy code that returns one number.
        argnums: position, or positions, of the arguments to differentiate.
        argnames: name, or names, of arguments to differentiate; they take the place of the default `argnums=0`.
        chunk_size: so many elements, at most, are taken at a time; by default as many as take some 100 MB.

    Returns:
        A function with the signature of `f` that returns one number: the sum over all elements of the selected arguments.

    Example:
        >>> import numpy as np
        >>> float(laplacian(lambda x: np.sum(x**4))(np.array([1.0, 2.0])))
        60.0
    """
    selection = Selection("laplacian", f, argnums, argnames)
    return _trace_of(selection, grad(f, argnums, argnames), chunk_size)


def divergence(
    f: Callable[P, Any], argnums: ArgNums = 0, argnames: ArgNames | None = None, chunk_size: int | None = None
) -> Callable[P, Any]:
    """Return a function that gives the divergence of a vector field: `sum_i d f(x)[i] / d x[i]`, the trace of its Jacobian.

    Args:
        f: a function of NumPy code whose result has structure and shapes of the selected argument.
        argnums: position, or positions, of the arguments to differentiate.
        argnames: name, or names, of arguments to differentiate; they take the place of the default `argnums=0`.
        chunk_size: so many columns, at most, are computed at a time; by default as many as take some 100 MB.

    Returns:
        A function with the signature of `f` that returns one number.

    Raises:
        InputError: an argument cannot be differentiated, or the result has other shapes.

    Example:
        >>> import numpy as np
        >>> float(divergence(lambda x: x * x[::-1])(np.array([1.0, 2.0, 5.0])))
        10.0
    """
    return _trace_of(Selection("divergence", f, argnums, argnames), f, chunk_size)


def _trace_of(selection: Selection, field: Callable[P, Any], chunk_size: int | None) -> Callable[P, Any]:
    @functools.wraps(selection.function)
    def trace(*args: P.args, **kwargs: P.kwargs) -> Any:
        total: Any = None
        for leaf in flatten(_diagonals(selection, field, args, kwargs, chunk_size))[0]:
            part = np.sum(leaf)
            total = part if total is None else total + part
        return np.float64(0.0) if total is None else total

    return trace


def _diagonals(
    selection: Selection,
    field: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    chunk_size: int | None,
) -> list[Any]:
    """Return the diagonal of the Jacobian of a vector field, for each selected argument."""
    recorder = Recorder(FORWARD, selection.transform, selection.function)
    inputs = enter(recorder, selection, args, kwargs)
    leaves = flatten(traced(recorder, field, inputs.args, inputs.kwargs))[0]
    _check_field(selection, inputs, leaves)
    width = max(pushed_size(recorder) // 4, 1)
    found = []
    for j, (primal, leaf) in enumerate(zip(inputs.primals, leaves, strict=True)):
        if not isinstance(leaf, Recorded) or leaf.recorder is not recorder:
            found.append(np.zeros(shape_of(primal), inexact(primal))[()])
            continue
        parts = [
            _part_of_diagonal(selection, recorder, j, leaf.slot, primal, part)
            for part in chunks(size_of(primal), 1 if recorder.watch is not None else chunk_size, width)
        ]
        whole = np.concatenate(parts) if parts else np.zeros(0, inexact(primal))
        whole = whole.reshape(shape_of(primal))
        found.append(whole if shape_of(whole) else whole[()])
    return by_argument(inputs, found)


def _part_of_diagonal(selection: Selection, recorder: Recorder, j: int, slot: int, primal: Any, part: slice) -> Any:
    def walk(seed: Any) -> list[Any]:
        tangents: list[Any] = [None] * recorder.inputs
        tangents[j] = seed
        return [push_forward(recorder.equations, tangents, [slot])[slot]]

    (columns,) = in_batch(selection.transform, selection.function, identity_rows(primal, part), walk)
    rows = part.stop - part.start
    if columns is None:
        return np.zeros(rows, inexact(primal))
    return columns.reshape(rows, size_of(primal))[np.arange(rows), np.arange(part.start, part.stop)]


def _check_field(selection: Selection, inputs: Inputs, leaves: list[Any]) -> None:
    """Raise unless the result of a vector field looks like its arguments."""
    shapes = [shape_of(primal) for primal in inputs.primals]
    if [shape_of(leaf) for leaf in leaves] == shapes:
        return
    found = ", ".join([str(spec_of(leaf)) for leaf in leaves])
    wanted = ", ".join([str(spec_of(primal)) for primal in inputs.primals])
    raise InputError(
        f"{selection.transform} of {name_of(selection.function)}, called at {here()}: the result ({found}) has not the shapes "
        f"of the selected arguments ({wanted})."
    )
