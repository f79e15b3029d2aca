"""Masked arrays, matrices and arrays with units have operations of their own: whoever records or compiles refuses them."""

from typing import Any

import numpy as np
import pytest

import functad
from functad import errors
from functad.errors import FunctadError


class Lengths(np.ndarray):
    """An array whose ufuncs are its own, as those of units."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return "metres"


FOREIGN = {
    "masked": (np.ma.masked_array([1.0, 2.0], [True, False]), r"Pass \.data and \.mask"),
    "masked by nothing": (np.ma.masked_array([1.0, 2.0]), r"Pass \.data and \.mask"),
    "units": (np.ones(2).view(Lengths), "Use the numbers"),
    "matrix": (np.ones((2, 2)), "multiply by @"),  # NumPy warns of each that is made, so the test makes it
}
PLAIN = {name: np.array(a, copy=True, subok=False) for name, (a, _) in FOREIGN.items()}


def square(x: Any) -> Any:
    return x * x


MODEL = {"v": functad.Variable([5.0, 5.0]), "m": functad.Variable(np.full((2, 2), 5.0))}
CALLS = {
    "jit": lambda a, p: functad.jit(square)(a),
    "jit after an array": lambda a, p: (f := functad.jit(square), f(p), f(a)),
    "jit by name": lambda a, p: functad.jit(lambda *, x: x * x)(x=a),
    "jit in a tree": lambda a, p: functad.jit(lambda t: t["x"] * 2.0)({"x": a}),
    "jit by llvm": lambda a, p: functad.jit(square, backend="llvm")(a),
    "jit of grad": lambda a, p: functad.jit(functad.grad(lambda x: np.sum(x * x)))(a),
    "make_expressions": lambda a, p: functad.make_expressions(square)(a),
    "a list": lambda a, p: functad.make_expressions(square)(p)(a),
    "eval_shape": lambda a, p: functad.eval_shape(square, a),
    "jacobian_sparsity": lambda a, p: functad.jacobian_sparsity(square, a),
    "linear_transpose": lambda a, p: functad.linear_transpose(lambda x: 2 * x, a),
    "grad": lambda a, p: functad.grad(lambda x: np.sum(x * x))(a),
    "jvp": lambda a, p: functad.jvp(square, (p,), (a,)),
    "vmap": lambda a, p: functad.vmap(square)(a),
    "scan over rows": lambda a, p: functad.scan(lambda c, row: (c + np.sum(row), c), 0.0, a),
    "scan of a carry": lambda a, p: functad.scan(lambda c, row: (c * row, row), a, np.ones(2)),
    "while_loop": lambda a, p: functad.while_loop(lambda c: np.sum(c) < 3, lambda c: c * 2.0, a),
    "sparse_jacobian": lambda a, p: functad.sparse_jacobian(square)(a),
    "operand on the right": lambda a, p: functad.grad(lambda q: np.sum(q * a))(p),
    "constant": lambda a, p: functad.constant(a),
    "assign": lambda a, p: MODEL["v" if p.ndim == 1 else "m"].assign(a),
    "restore": lambda a, p: functad.restore(MODEL, functad.values_of(MODEL) | {"v" if p.ndim == 1 else "m": a}),
    "apply_gradients": lambda a, p: functad.optimizers.SGD(0.1).apply_gradients([(a, MODEL["v" if p.ndim == 1 else "m"])]),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("call", CALLS)
def test_arrays_with_rules_of_their_own_are_refused(call: str, kind: str) -> None:
    a, text = FOREIGN[kind]
    if kind == "matrix":
        a = np.asmatrix(a)
    with pytest.raises(FunctadError, match=rf"test_foreign_rules\.py:\d+.*{text}"):
        CALLS[call](a, PLAIN[kind])
    for variable in MODEL.values():
        assert np.all(variable.numpy() == 5.0)


@pytest.mark.parametrize(
    "f", [lambda m, t: m * t, lambda m, t: m / t, lambda m, t: m[0] * t, lambda m, t: np.ma.where(t > 0, t, m)]
)
def test_masked_arrays_on_the_left_of_a_tensor_name_their_cure(f: Any) -> None:
    with pytest.raises(
        errors.ConversionError, match=r"test_foreign_rules\.py:\d+.*Pass \.data and \.mask.* \[conversion\]"
    ) as caught:
        functad.grad(lambda t: np.sum(f(FOREIGN["masked"][0], t)))(np.ones(2))
    assert "adopt" not in str(caught.value)
