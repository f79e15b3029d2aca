"""Sample calls of registry entries as functions of their differentiable inputs, and the checks of an entry on its samples.

`check_primitive` runs all of them. Each check is a function that raises an `AssertionError` with the entry, the sample call and
the numbers that disagree.

| check | compares |
|---|---|
| `check_complete` | rule, samples and doc exist |
| `check_value` | result under a trace with NumPy's: structure, shapes, dtypes, values |
| `check_forward` | tangent with the numerical derivative, element by element |
| `check_reverse` | cotangents with tangents: `<g, J t> = <g J, t>`; their shapes and dtypes with the inputs |
| `check_linear` | cotangents of a sum of `g` with the sum of cotangents; cotangents for zero `g` with zero |
| `check_second_order` | derivatives of the pullback with respect to inputs and `g`, numerically and across modes |
| `check_abstract` | shape rule and expression list with the concrete result |
| `check_abstract_reverse` | expression list of the pullback with the pullback |
| `check_precision` | float32: dtype of gradients, values against float64 |
| `check_mixtures` | inputs of several dtypes, and Python numbers: value, cotangents |
| `check_complex_refused` | a function without complex support raises, traced or not |
| `check_integers_refused` | `grad` with respect to integers raises |
| `check_refused` | a refused function raises, with its name, the reason and the alternative |
| `check_batches` | `vmap` of the call, its pullback and its pushforward with a loop over examples |
| `check_constant` | a function without derivative records nothing and has derivative zero |
"""

from __future__ import annotations

import bisect
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

import functad
from functad.errors import AbstractValueError, ConversionError, InputError, LoopWarning, UnsupportedError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, is_float_array, shape_of
from functad.primitives import vocabulary
from functad.primitives.entry import ENTRIES, INTERNAL, Entry, Primitive
from functad.primitives.refused import Refused
from functad.primitives.vocabulary import shown_name
from functad.testing.numerical import (
    DIFFERENCE_TOLERANCE,
    EXACT_TOLERANCE,
    agree,
    central_difference,
    directional_derivative,
    pairing,
    random_like,
)
from functad.tracing.trace import Recorded
from functad.transforms.leaves import replaced
from functad.trees import Structure, flatten


def every_entry() -> list[Entry]:
    """Return all entries: NumPy functions, `scipy.special` functions if SciPy is installed, and internal functions of rules.

    The registry `ENTRIES` alone holds only the entries imported so far. Control flow, which has no samples, is not included.

    Returns:
        One entry per function.

    Example:
        >>> [entry.name for entry in every_entry() if entry.function is np.linalg.inv]
        ['inv']
    """
    vocabulary.import_families()
    vocabulary.import_scipy_families()
    import_module("functad.transforms.leaves")  # which is imported on demand too
    return [*ENTRIES.values(), *[primitive for primitive in INTERNAL if not primitive.lists]]


class InputSource:
    """Makes random inputs for sample calls: `array(*shape, low=-2.0, high=2.0)`.

    All real parts from one source differ by at least a thousandth of their interval, and are at least as far from multiples of
    1/2. So finite differences meet no ties and no kinks. The distance is halved when the interval is nearly full, after about
    700 numbers. Sources with the same seed give the same numbers in every dtype, rounded to float32.

    Args:
        dtype: dtype of the inputs.
        seed: seed of the random numbers.

    Example:
        >>> array = InputSource(np.float32)
        >>> array(2, 3).dtype, type(array(low=0.5, high=2.0))
        (dtype('float32'), <class 'numpy.float32'>)
    """

    def __init__(self, dtype: Any, seed: int = 0) -> None:
        self.dtype = np.dtype(dtype)
        self._real = np.random.default_rng([seed, 0])
        self._imaginary = np.random.default_rng([seed, 1])
        self._taken: list[float] = []

    def __call__(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Any:
        """Return an array of the given shape (a NumPy scalar for `()`) with values between `low` and `high`."""
        count = int(np.prod(shape, dtype=int))
        values = np.array([self._draw(low, high) for _ in range(count)], np.float32).reshape(shape).astype(np.float64)
        if self.dtype.kind == "c":
            size = self._imaginary.uniform(0.1, 0.5, shape) * self._imaginary.choice([-1.0, 1.0], shape)
            values = values + 1j * size.astype(np.float32)
        return values.astype(self.dtype)[()]

    def _draw(self, low: float, high: float) -> float:
        gap = (high - low) / 1000
        while True:
            for _ in range(_ATTEMPTS):
                value = float(self._real.uniform(low + gap, high - gap))
                place = bisect.bisect(self._taken, value)
                near = [*self._taken[max(place - 1, 0) : place + 1], round(2 * value) / 2]
                if all(abs(value - other) >= gap for other in near):
                    self._taken.insert(place, value)
                    return value
            gap /= 2  # the interval is full


_ATTEMPTS = 100
"""Number of random numbers in a row that are too close to others before `InputSource` halves the distance."""


@dataclass(frozen=True)
class Call:
    """One sample call of an entry, as a function of its differentiable inputs.

    Attributes:
        entry: the entry.
        number: the index of the sample.
        leaves: all leaves of `(args, kwargs)`.
        structure: the structure of `(args, kwargs)`.
        positions: indices of the differentiable leaves: inexact arrays and NumPy scalars.

    Example:
        >>> call = calls(ENTRIES[np.multiply], np.float64)[0]
        >>> call.result(2.0, 3.0)
        np.float64(6.0)
    """

    entry: Entry
    number: int
    leaves: list[Any]
    structure: Structure
    positions: list[int] = field(default_factory=list)

    @property
    def primals(self) -> list[Any]:
        """The differentiable inputs."""
        return [self.leaves[i] for i in self.positions]

    @cached_property
    def value(self) -> Any:
        """The result of plain NumPy."""
        return self.result(*self.primals)

    def result(self, *primals: Any) -> Any:
        """Call the function with other inputs.

        Args:
            primals: arrays or numbers that replace the differentiable inputs.

        Returns:
            The result of the function, an array or a pytree; for an in-place function, the array that it wrote to.
        """
        args, kwargs = self.structure.unflatten(replaced(self.leaves, self.positions, primals))
        function: Any = self.entry.function if is_public(self.entry) else self.entry
        with np.errstate(all="ignore"), unheard(function):
            if not self.entry.in_place:
                return function(*args, **kwargs)
            target = args[0].copy()
            function(target, *args[1:], **kwargs)
            return target

    def arrays(self, *primals: Any) -> tuple[Any, ...]:
        """Return the arrays and numbers among the results.

        Args:
            primals: arrays or numbers that replace the differentiable inputs.

        Returns:
            A tuple of arrays and numbers.
        """
        return tuple([leaf for leaf in flatten(self.result(*primals))[0] if is_array(leaf)])

    def smooth(self, *primals: Any) -> tuple[Any, ...]:
        """Return the inexact arrays and numbers among the results; only these can have a derivative.

        Args:
            primals: arrays or numbers that replace the differentiable inputs.

        Returns:
            A tuple of arrays and numbers, floating-point or complex.
        """
        return tuple([leaf for leaf in self.arrays(*primals) if dtype_of(leaf).kind in "fc"])

    def __str__(self) -> str:
        args, kwargs = self.structure.unflatten([_short(leaf) for leaf in self.leaves])
        inside = ", ".join([*map(str, args), *[f"{key}={value}" for key, value in kwargs.items()]])
        return f"{self.entry.name}({inside}) [sample {self.number}]"


def is_public(entry: Entry) -> bool:
    """Return `True` if users call the function of an entry; rules call other entries directly."""
    return ENTRIES.get(entry.function) is entry


def is_array(value: Any) -> bool:
    """Return `True` if a value is an array, a NumPy scalar, a number or a Tensor."""
    if type(value) in PYTHON_SCALARS:
        return True
    return not isinstance(value, type) and hasattr(value, "dtype") and hasattr(value, "shape")


def is_constant(entry: Entry) -> bool:
    """Return `True` if an entry declares derivative zero."""
    return entry.kind == "constant"


def unheard(function: Any) -> AbstractContextManager[None]:
    """Return a context that hides the warning of a function deprecated by NumPy; entries stay checked until NumPy removes them.

    Other functions get a null context, because changing warning filters takes longer than most calls.
    """
    return _unheard(function.__name__) if "deprecated" in (getattr(function, "__doc__", None) or "") else nullcontext()


@contextmanager
def _unheard(name: str) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", rf"`?(numpy\.)?{name}`? is deprecated", DeprecationWarning)
        yield


class _Shown(str):
    __slots__ = ()
    __repr__ = str.__str__


def _short(leaf: Any) -> Any:
    if isinstance(leaf, (np.ndarray, np.generic)):
        return _Shown(f"{leaf.dtype.name}[{','.join(map(str, leaf.shape))}]")
    return leaf


def calls(entry: Entry, dtype: Any, seed: int = 0) -> list[Call]:
    """Return the sample calls of an entry with inputs of a dtype.

    Args:
        entry: one of `every_entry()`.
        dtype: floating-point or complex.
        seed: seed of the random inputs.

    Returns:
        One `Call` per sample; an empty list for an entry without samples.

    Example:
        >>> [str(call) for call in calls(ENTRIES[np.sin], np.float32)][1]
        'sin(float32[3]) [sample 1]'
    """
    if entry.samples is None:
        return []
    result = []
    for number, sample in enumerate(entry.samples(InputSource(dtype, seed))):
        leaves, structure = flatten(sample)
        positions = [i for i, leaf in enumerate(leaves) if is_float_array(leaf)]
        result.append(Call(entry, number, leaves, structure, positions))
    return result


SINGLE_TOLERANCE = 2e-5
"""For float32 results against float64 ones: some hundred roundings."""

DOUBLE_TYPES = (np.float64, np.complex128)
SINGLE_TYPES = (np.float32, np.complex64)


def check_primitive(entry: Entry, *, seed: int = 0) -> None:
    """Run every check that applies to an entry, on all its samples, in all four inexact dtypes.

    Args:
        entry: a primitive, composite or constant.
        seed: seed of the random inputs.

    Example:
        >>> from functad.primitives.entry import ENTRIES
        >>> check_primitive(ENTRIES[np.sin])

    Raises:
        AssertionError: a check failed; the message has the check, the call and the numbers.
    """
    check_complete(entry)
    if isinstance(entry, Refused):
        for call in calls(entry, np.float64, seed):
            check_refused(call)
        return
    takes_complex = entry.complex
    for dtype in (*DOUBLE_TYPES, *SINGLE_TYPES):
        if np.dtype(dtype).kind == "c" and not takes_complex:
            for call in calls(entry, dtype, seed)[:3] if is_public(entry) else ():
                check_complex_refused(call)
            continue
        doubles = calls(entry, np.float64 if np.dtype(dtype).kind == "f" else np.complex128, seed)
        for call, double in zip(calls(entry, dtype, seed), doubles, strict=True):
            check_call(call, np.random.default_rng(seed), double)
        if dtype in DOUBLE_TYPES:
            check_batches(entry, dtype, seed)
    for call in calls(entry, np.float64, seed)[:1]:
        check_integers_refused(call)


def check_call(call: Call, generator: np.random.Generator, double: Call | None = None) -> None:
    """Run every check that applies to one call; in single precision, only the comparisons with double precision."""
    check_value(call)
    if not call.primals:
        return
    if double is not None and call.primals[0].dtype in SINGLE_TYPES:
        check_precision(call, double, generator)
        check_mixtures(call, generator)
        return
    check_abstract(call)
    if is_constant(call.entry):
        check_constant(call, generator)
        if not is_public(call.entry):  # internal entries such as `stop_gradient` cut a nonzero derivative on purpose
            return
    if not call.smooth(*call.primals):
        return
    check_forward(call, generator)
    check_reverse(call, generator)
    check_linear(call, generator)
    check_abstract_reverse(call, generator)
    check_second_order(call, generator)
    check_mixtures(call, generator)


def check_complete(entry: Entry) -> None:
    """Check that an entry has a doc, samples and its rules.

    Args:
        entry: a primitive, composite or constant.

    Example:
        >>> from functad.primitives.entry import ENTRIES
        >>> check_complete(ENTRIES[np.sin])
    """
    assert (entry.doc or "").strip(), f"{entry.name} has no doc: one line that says what its derivative is"
    assert entry.samples is not None, f"{entry.name} has no samples: samples=lambda array: [(args, kwargs), ...]"
    assert list(entry.samples(InputSource(np.float64))), f"{entry.name} has an empty list of samples"
    if isinstance(entry, Primitive) and not is_constant(entry):
        assert any(rule is not None for rule in entry.vjps), f"{entry.name} has no VJP rule, and is not entered as constant"
        assert entry.joint or len(entry.vjps) >= len(entry.names), (
            f"{entry.name} takes {len(entry.names)} arrays and has {len(entry.vjps)} VJP rules; None stands for derivative zero"
        )


def _agree_all(
    call: Call, found: Iterable[Any], expected: Iterable[Any], tolerance: float, what: str, *, typed: bool = True
) -> None:
    """Compare sequences of arrays; `what` names an element, with `{}` for its index."""
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        agree(a, b, tolerance, f"{call}: {what.format(i)}", typed=typed)


def _are_zero(call: Call, cotangents: Iterable[Any], what: str) -> None:
    for i, ct in enumerate(cotangents):
        assert not np.any(ct), f"{call}: cotangent {i} of {what} is {ct}"


def _random_results(call: Call, generator: np.random.Generator) -> tuple[Any, ...]:
    """Return random numbers like the results of a call: cotangents."""
    return tuple([random_like(value, generator) for value in call.smooth(*call.primals)])


def _agree_pairing(left: tuple[Any, Any], right: tuple[Any, Any], tolerance: float, what: str, call: Call) -> None:
    """Compare two pairings, relative to the sum of the absolute values of their terms."""
    found, expected = pairing(*left), pairing(*right)
    size = max(1.0, *(pairing([np.abs(a) for a in x], [np.abs(b) for b in y]) for x, y in (left, right)))
    wrong = abs(found - expected) / size
    assert wrong <= tolerance, f"{call}: {what}: {found!r} is not {expected!r}; off by {wrong:.1e} (allowed {tolerance:.0e})"


def _traced(call: Call, then: Callable[[Any], Any] = lambda out: out) -> Any:
    """Return the result of a call under a reverse trace; `then` sees the Tensors."""
    return functad.vjp(lambda *primals: ((), then(call.result(*primals))), *call.primals, has_aux=True)[2]


def check_value(call: Call) -> None:
    """Check that the result under a trace equals NumPy's in structure, types, shapes, dtypes and values."""
    if not call.primals:
        return
    kinds: list[type] = []

    def with_kinds(out: Any) -> Any:
        kinds[:] = [leaf.__class__ for leaf in flatten(out)[0]]
        return out

    found, structure = flatten(_traced(call, with_kinds))
    expected, wanted = flatten(call.value)
    assert structure == wanted, f"{call} returns {structure} under a trace, and not {wanted}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if not is_array(b):
            assert a == b, f"{call}: result {i} is {a!r} under a trace, and not {b!r}"
            continue
        kind: type = b.__class__
        assert kinds[i] is kind, f"{call}: result {i} is a {kinds[i].__name__} under a trace, and not a {kind.__name__}"
        agree(a, b, 1e-5 if dtype_of(b) in SINGLE_TYPES else EXACT_TOLERANCE, f"{call}: result {i} under a trace")


def check_forward(call: Call, generator: np.random.Generator) -> None:
    """Check the tangents of the results against numerical derivatives, element by element."""
    direction = [random_like(x, generator) for x in call.primals]
    expected, tolerances = directional_derivative(call.smooth, call.primals, direction)
    values, tangents = functad.jvp(call.smooth, tuple(call.primals), tuple(direction))
    for i, (t, fd, tolerance) in enumerate(zip(tangents, expected, tolerances, strict=True)):
        assert dtype_of(t) == dtype_of(values[i]), f"{call}: tangent {i} is {dtype_of(t)}, the result {dtype_of(values[i])}"
        agree(t, fd, tolerance, f"{call}: the tangent of result {i}", typed=False)


def check_reverse(call: Call, generator: np.random.Generator) -> None:
    """Check that cotangents have the shape and dtype of their inputs, and that `<g, J t> = <g J, t>`."""
    direction = [random_like(x, generator) for x in call.primals]
    values, pullback = functad.vjp(call.smooth, *call.primals)
    g = tuple(random_like(value, generator) for value in values)
    cotangents = pullback(g)
    for i, (ct, x) in enumerate(zip(cotangents, call.primals, strict=True)):
        assert shape_of(ct) == shape_of(x), f"{call}: cotangent {i} has shape {shape_of(ct)}, its input {shape_of(x)}"
        assert dtype_of(ct) == dtype_of(x), f"{call}: cotangent {i} is {dtype_of(ct)}, its input {dtype_of(x)}"
    single = any(dtype_of(x) in SINGLE_TYPES for x in (*call.primals, *values))
    tolerance = SINGLE_TOLERANCE if single else EXACT_TOLERANCE
    tangents = functad.jvp(call.smooth, tuple(call.primals), tuple(direction))[1]
    _agree_pairing((cotangents, direction), (g, tangents), tolerance, "the pull-back paired with a tangent", call)


def check_linear(call: Call, generator: np.random.Generator) -> None:
    """Check that the pullback is linear: `pull(a - 3 b) = pull(a) - 3 pull(b)`, and `pull(0)` is exactly zero."""
    values, pullback = functad.vjp(call.smooth, *call.primals)
    left, right = (tuple(random_like(value, generator) for value in values) for _ in range(2))
    together = pullback(tuple(a - 3 * b for a, b in zip(left, right, strict=True)))
    expected = [a - 3 * b for a, b in zip(pullback(left), pullback(right), strict=True)]
    _agree_all(call, together, expected, 10 * EXACT_TOLERANCE, "cotangent {} of a sum", typed=False)
    _are_zero(call, pullback(tuple(np.zeros_like(value)[()] for value in values)), "zero")


def check_second_order(call: Call, generator: np.random.Generator) -> None:
    """Check the derivatives of the pullback with respect to inputs and `g`: numerically, and in three compositions of modes."""
    primals, count = call.primals, len(call.primals)
    g = _random_results(call, generator)

    def pull(*both: Any) -> Any:
        return functad.vjp(call.smooth, *both[:count])[1](tuple(both[count:]))

    point = (*primals, *g)
    direction = tuple(random_like(x, generator) for x in point)
    expected = central_difference(pull, point, direction)
    tangents = functad.jvp(pull, point, direction)[1]
    _agree_all(call, tangents, expected, DIFFERENCE_TOLERANCE, "second order: the derivative of cotangent {}", typed=False)
    values, pullback = functad.vjp(pull, *point)
    weights = tuple(random_like(value, generator) for value in values)
    _agree_pairing(
        (pullback(weights), direction), (weights, tangents), 10 * EXACT_TOLERANCE, "second order: reverse over reverse", call
    )
    # Compute `<g, D^2 f[t, t]>` by forward over forward and by forward over reverse.
    t = direction[:count]
    twice = functad.jvp(lambda *given: functad.jvp(call.smooth, given, t)[1], tuple(primals), t)[1]
    bent = functad.jvp(pull, point, (*t, *[x * 0 for x in g]))[1]
    _agree_pairing((g, twice), (bent[:count], t), 10 * EXACT_TOLERANCE, "second order: forward over forward", call)


def check_abstract(call: Call) -> None:
    """Check the shape rule and the expression list against the concrete result.

    Constants and entries marked `value_dependent` may raise `AbstractValueError`: the shape of their result depends on values.
    """
    expected = call.arrays(*call.primals)
    try:
        expressions = functad.make_expressions(call.arrays)(*call.primals)
    except AbstractValueError:
        allowed = is_constant(call.entry) or call.entry.value_dependent
        assert allowed, f"{call} asks for values that an abstract trace does not have"
        return
    specs = functad.eval_shape(call.arrays, *call.primals)
    assert len(specs) == len(expected), f"{call} has {len(specs)} results in an abstract trace, and not {len(expected)}"
    for spec, value in zip(specs, expected, strict=True):
        wanted = (shape_of(value), dtype_of(value))
        assert (spec.shape, spec.dtype) == wanted, f"{call}: the shape rule gives {spec}, the result is {wanted[1]}{wanted[0]}"
    expressions.check()
    _agree_all(call, expressions(*call.primals), expected, EXACT_TOLERANCE, "result {} of the expression list")


def check_abstract_reverse(call: Call, generator: np.random.Generator) -> None:
    """Check the expression list of a pullback: compilation needs rules that can be traced without values."""
    if call.entry.value_dependent:
        return
    seeds = _random_results(call, generator)

    def pulled(*primals: Any) -> Any:
        return functad.vjp(call.smooth, *primals)[1](seeds)

    expressions = functad.make_expressions(pulled)(*call.primals).check()
    found, expected = expressions(*call.primals), pulled(*call.primals)
    _agree_all(call, found, expected, EXACT_TOLERANCE, "cotangent {} of the expression list")


def check_precision(call: Call, double: Call, generator: np.random.Generator) -> None:
    """Check that gradients in single precision keep their dtype and agree with double precision."""
    if not call.smooth(*call.primals):
        return
    check_reverse(call, generator)
    values, pullback = functad.vjp(call.smooth, *call.primals)
    exact_values, exact_pullback = functad.vjp(double.smooth, *double.primals)
    g = tuple(random_like(value, generator) for value in values)
    exact_g = tuple(a.astype(dtype_of(b)) for a, b in zip(g, exact_values, strict=True))
    _agree_all(call, pullback(g), exact_pullback(exact_g), SINGLE_TOLERANCE, "cotangent {} in single precision", typed=False)


def check_mixtures(call: Call, generator: np.random.Generator) -> None:
    """Check value and cotangents for inputs of mixed dtypes and for Python numbers, if NumPy accepts them without a warning."""
    for mixed in mixtures(call):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                mixed.result(*mixed.primals)
        except (TypeError, np.exceptions.ComplexWarning):
            continue
        check_value(mixed)
        if mixed.smooth(*mixed.primals):
            check_reverse(mixed, generator)


def mixtures(call: Call) -> Iterator[Call]:
    """Yield the call with other types of inputs.

    If there are several inputs, the first becomes real, then single precision. Then arguments of shape `()` become Python
    numbers, which are weakly typed.
    """
    first = call.positions[:1] if len(call.positions) > 1 else []
    paths = call.structure.paths("")
    whole = [i for i in call.positions if call.leaves[i].shape == () and paths[i].count("[") == 2]  # no elements of lists
    numbers = [i for i in whole if is_public(call.entry) and call.leaves[i].dtype.kind == "f"]
    changes: list[tuple[Callable[[Any], Any], list[int]]] = [
        (np.real, first),
        (_to_single, first),
        (np.generic.item, numbers),
    ]
    for convert, positions in changes:
        leaves = list(call.leaves)
        for i in positions:
            leaves[i] = convert(leaves[i])
        if any(
            type(a) is not type(b) or dtype_of(a) != dtype_of(b)
            for a, b in zip(leaves, call.leaves, strict=True)
            if is_array(b)
        ):
            yield replace(call, leaves=leaves)


def _to_single(value: Any) -> Any:
    return value.astype(np.complex64 if value.dtype.kind == "c" else np.float32)


def check_complex_refused(call: Call) -> None:
    """Check that a call with complex inputs raises a `TypeError` under a trace, from NumPy or because the rules are real only.

    A function without derivative may instead behave as in NumPy.
    """
    if not call.primals:
        return
    try:
        call.result(*call.primals)
    except TypeError:
        pass
    else:
        if is_constant(call.entry):
            return
    try:
        _traced(call)
    except TypeError:
        return
    raise AssertionError(f"{call} accepts complex numbers under a trace, but its rules are said not to")


def check_integers_refused(call: Call) -> None:
    """Check that `grad` with respect to integers raises."""
    if not call.primals:
        return
    integers = [np.real(x).astype(np.int64) for x in call.primals]
    try:
        functad.grad(lambda *primals: call.smooth(*primals)[0].sum(), argnums=tuple(range(len(integers))))(*integers)
    except InputError:
        return
    raise AssertionError(f"{call}: grad accepts integers")


def check_refused(call: Call) -> None:
    """Check that a refused function raises under a trace, and check the parts of the message."""
    entry = call.entry
    assert isinstance(entry, Refused)
    assert call.primals, f"{call} has no input that could be a Tensor"
    try:
        _traced(call)
    except UnsupportedError as refusal:
        message = str(refusal)
    else:
        raise AssertionError(f"{call} is said to be refused, but a Tensor passes")
    for part in (shown_name(entry.function), entry.why, entry.instead):
        assert part in message, f"{call}: {part!r} is not in the message: {message}"


def check_constant(call: Call, generator: np.random.Generator) -> None:
    """Check that a function without derivative records nothing, returns plain results and has derivative zero."""

    def function(*primals: Any) -> Any:
        arrays = call.arrays(*primals)
        recorded = [a for a in arrays if isinstance(a, Recorded) and a.recorder.records[a.slot] is not None]
        assert not recorded, f"{call} is recorded, though its derivative is zero"
        return call.smooth(*primals)

    values, pullback = functad.vjp(function, *call.primals)
    _are_zero(call, pullback(tuple(random_like(value, generator) for value in values)), "a function without derivative")


EXAMPLES = 5
"""Number of examples in a batch. No sample has an axis of this length, so mixed-up axes give a wrong shape."""


def check_batches(entry: Entry, dtype: Any, seed: int = 0) -> None:
    """Check the sample calls of an entry under `vmap`: all inputs batched and, if they are real, single inputs batched."""
    for examples in zip(*[calls(entry, dtype, seed + i) for i in range(EXAMPLES)], strict=True):
        if examples[0].primals:
            check_batch(examples, np.random.default_rng(seed))


def check_batch(examples: Sequence[Call], generator: np.random.Generator) -> None:
    """Check one sample call; `examples` holds the call once per example, each with its own inputs."""
    call = examples[0]
    real = all(dtype_of(primal).kind == "f" for primal in call.primals)  # batching of single inputs does not depend on dtype
    count = len(call.primals)
    alone = [{i} for i in range(min(count, 3))] if real and count > 1 else []
    for chosen in ({*range(count)}, *alone):
        try:
            _compare_batch(call.arrays, examples, chosen, "result")
        except (AbstractValueError, ConversionError, UnsupportedError, ValueError) as refusal:
            if len(chosen) == count and call.entry.value_dependent:
                return
            _check_refusal(call, chosen, refusal)
    if is_constant(call.entry) or not call.smooth(*call.primals):
        return
    seeds = _random_results(call, generator)
    tangents = tuple([random_like(primal, generator) for primal in call.primals])
    every = {*range(count)}
    _compare_batch(lambda *primals: functad.vjp(call.smooth, *primals)[1](seeds), examples, every, "cotangent")
    _compare_batch(lambda *primals: functad.jvp(call.smooth, primals, tangents)[1], examples, every, "tangent")


def _check_refusal(call: Call, chosen: set[int], refusal: Exception) -> None:
    """Raise unless an abstract trace of the same inputs raises too: NumPy does not check every argument for Tensors."""
    indices = sorted(chosen)
    if len(chosen) == len(call.primals):
        raise AssertionError(f"{call} is refused: {refusal}") from refusal

    function = functad.make_expressions(lambda *given: call.arrays(*replaced(call.primals, indices, given)))
    try:
        function(*[call.primals[i] for i in indices])
    except type(refusal):
        return
    raise AssertionError(f"{call} with inputs {indices} batched is refused: {refusal}") from refusal


def _compare_batch(function: Callable[..., Any], examples: Sequence[Call], chosen: set[int], what: str) -> None:
    """Compare `vmap` of a function with calls for the first and the last example only, because the calls dominate the time."""
    call = examples[0]
    rows = [[example.primals[i] if i in chosen else primal for i, primal in enumerate(call.primals)] for example in examples]
    given = [np.stack(column) if i in chosen else column[0] for i, column in enumerate(zip(*rows, strict=True))]
    axes = tuple([0 if i in chosen else None for i in range(len(given))])
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        try:
            found = functad.vmap(function, in_axes=axes)(*given)
        except LoopWarning as warning:
            raise AssertionError(f"{call}: {warning}") from None
    picked = [0, -1]
    expected = [function(*rows[i]) for i in picked]
    for i, (whole, column) in enumerate(zip(found, zip(*expected, strict=True), strict=True)):
        assert shape_of(whole)[:1] == (EXAMPLES,), f"{call}: result {i} has shape {shape_of(whole)}, and no batch axis in front"
        where = f"{call}: {what} {i} of a batch with inputs {sorted(chosen)} batched"
        agree(whole[picked], np.stack(column), EXACT_TOLERANCE, where)
