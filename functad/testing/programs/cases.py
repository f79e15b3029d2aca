"""Cases: a random program with a mode of compilation and calls, and the comparison with eager execution.

A case is a function `case(compiled, *args)` in source text. `compiled` is `jit` with one backend, or the identity for the
expected results. A case builds one compiled function and calls it several times, so that it also tests warm caches. The
comparison is leaf by leaf: type, dtype, shape, flags, and values up to rounding.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import functad
from functad.expressions.spec import is_array
from functad.testing.programs.borders import PRELUDE, STORED, draw_lines
from functad.testing.programs.drafts import Choose, literal
from functad.testing.programs.program import (
    DisagreementError,
    Examination,
    Finding,
    NothingToCompare,
    Program,
    checked,
    draw_program,
    finished,
)

MODES = {
    "value": "f = compiled(program)",
    "value_and_grad": "f = compiled(lambda *xs: F.value_and_grad(lambda *ys: total(program(*ys)), argnums=floats(xs))(*xs))",
    "grad_of_jit": "g = compiled(program)\nf = lambda *xs: F.grad(lambda *ys: total(g(*ys)), argnums=floats(xs))(*xs)",
    "jvp": "f = compiled(lambda *xs: F.jvp(program, xs, tuple([np.ones_like(x) for x in xs])))",
    "jvp_of_jit": "g = compiled(program)\nf = lambda *xs: F.jvp(g, xs, tuple([np.ones_like(x) for x in xs]))",
    "vmap": "g = compiled(F.vmap(program))\nf = lambda *xs: g(*[np.stack([x, x]) for x in xs])",
    "vmap_of_jit": "g = compiled(program)\nf = lambda *xs: F.vmap(g)(*[np.stack([x, x]) for x in xs])",
}
"""Source lines by mode; they define the function that `case` calls."""

CALLS = {
    "same": "return [f(*args), f(*args)]",
    "values": "return [f(*args), f(*others(args)), f(*args)]",
    "layouts": "return [f(*args), f(*gaps(args))]",
    "static": "return [f(*args, n) for n in ({static},)]",
    "cold": "return captured(f, {place!r}, {stored}, args)",
    "warm": "store({place!r}, {stored})\nf(*args)\nreturn captured(f, {place!r}, {stored}, args)",
    "warm_in_grad": "store({place!r}, {stored})\nF.grad(lambda x: np.sum(x) + total(f(*args)) * 0)(1.0)\n"
    "return captured(f, {place!r}, {stored}, args)",
}
"""Source lines by kind of calls: repeated, with other values or layouts, with static values, or with a captured Tensor."""


WAYS = """
def eager(f, **options):
    return f


def exact(f, **options):
    return F.jit(f, backend="numpy", exact=True, **options)


def jit(f, **options):
    return F.jit(f, backend={backend!r}, **options)
"""
"""The possible arguments `compiled` of `case`."""

XLA_WAYS = (
    WAYS.replace("    return F.jit(f, backend={", "    made = F.jit(f, backend={")
    + """    return lambda *args: F.tree_map(plain, made(*args))


def plain(x):
    return np.array(x)[()] if type(x).__module__.startswith("jax") else x
"""
)
"""`WAYS` for the backend `xla`. Results become NumPy arrays, because JAX would compute with them in single precision."""


@dataclass(frozen=True, repr=False)
class Case(Program):
    """A program with its mode of compilation and calls.

    Attributes:
        backend: the backend of `jit`.
        mode: a name from `MODES`.
        calls: a name from `CALLS`.
        place: the expression that reads the captured value; empty if there is none.
        static: the values of the static argument `n`, one for each call, as source texts.
    """

    backend: str = "numpy"
    mode: str = "value"
    calls: str = "values"
    place: str = ""
    static: tuple[str, ...] = ()

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters of the program."""
        return [*super().parameters, *(["n"] if self.static else [])]

    @property
    def definitions(self) -> str:
        """The definitions of the program and of `case`."""
        parts = {"static": ", ".join(self.static), "place": self.place, "stored": STORED}
        made = MODES[self.mode].replace("(program)", "(program, static_argnames='n')") if self.static else MODES[self.mode]
        text = f"{made}\n{CALLS[self.calls].format(**parts)}"
        if self.place:
            text = f"store({self.place!r}, {STORED})\n{text}"
        lines = "".join(f"    {line}\n" for line in text.splitlines())
        ways = (XLA_WAYS if self.backend == "xla" else WAYS).format(backend=self.backend)
        return "\n\n".join([PRELUDE.strip("\n") + "\n", self.source, ways, f"def case(compiled, *args):\n{lines}"])

    @property
    def function(self) -> Callable[..., Any]:
        """The case as a function of the arguments, without compilation."""
        return lambda *inputs: self.called("eager", inputs)

    def called(self, way: str, inputs: Sequence[Any]) -> Any:
        """Return the results of all calls of the case, `eager`, by `jit`, or `exact`."""
        space: dict[str, Any] = {"np": np}
        exec(compile(self.definitions, "<random program>", "exec"), space)  # noqa: S102 - drawn from a fixed grammar
        with np.errstate(all="ignore"):
            space["compiled"] = space[way]
            return space["case"](space[way], *inputs)

    def __repr__(self) -> str:
        """The source; it ends by printing the eager and the compiled results."""
        ends = "print(case(eager, *inputs))\nprint(case(jit, *inputs))\n"
        return f"import numpy as np\n\n{self.definitions}\n\ninputs = [{', '.join(self.texts)}]\n{ends}"

    __str__ = __repr__


def draw_case(choose: Choose, *, backend: str = "numpy") -> Case:
    """Return a random case for a backend of `jit`.

    A third of the programs come from `draw_program`; the others test the limits of `jit` (`draw_lines`).
    """
    place = ""
    static: tuple[str, ...] = ()
    if choose(3) == 0:
        program = _plain(choose)
    else:
        draft = draw_lines(choose)
        program, place, static = finished(draft), draft.place, draft.static
    modes = ["value", "value", *_modes(program.inputs)]
    calls = ["values", "values", "same", "layouts"]
    if static:
        modes, calls = ["value"], ["static"]
    elif place:
        modes, calls = ["value"], ["cold", "warm", "warm_in_grad"]
    parts = {**program.parts, "texts": program.texts or tuple(map(literal, program.inputs))}
    mode, call = modes[choose(len(modes))], calls[choose(len(calls))]
    return Case(**parts, backend=backend, mode=mode, calls=call, place=place, static=static)


def _plain(choose: Choose) -> Program:
    """Return a program that writes to arrays and has inputs in any memory order, or one that mixes types of numbers."""
    if choose(3) == 0:
        return draw_program(
            choose,
            families=("numbers", "elementwise", "selection"),
            mutation=("numbers",),
            numbers=True,
            max_operations=5,
        )
    writes: Sequence[str] = ((), ("mutation",), ("mutation", "scratch"), ("mutation", "views"))[choose(4)]
    return draw_program(choose, mutation=writes, layouts=True, max_operations=5)


def _modes(inputs: Sequence[Any]) -> list[str]:
    """Return the names of the modes that the inputs allow."""
    floats = [isinstance(x, float) or (is_array(x) and x.dtype.kind == "f") for x in inputs]
    modes = ["value_and_grad", "value_and_grad", "grad_of_jit"] if any(floats) else []
    modes += ["jvp", "jvp_of_jit"] if all(floats) else []
    return [*modes, "vmap", "vmap_of_jit"]


class CaseExamination(Examination):
    """The comparison of one case with eager execution."""

    program: Case

    def __init__(self, case: Case) -> None:
        self.program = case
        self.inputs = case.inputs
        self.before = [np.array(x) for x in self.inputs]
        own = [np.exp(np.zeros((), x.dtype)).real.itemsize for x in self.inputs if is_array(x) and x.dtype.kind in "biufc"]
        self._computed = min([size for size in (2, 4) if f"float{8 * size}" in case.source], default=8)  # dtypes in the lines
        self._precision = min(own, default=8)  # bytes of the least precise input, as a floating-point number

    def findings(self, checks: Sequence[str] = ()) -> Iterator[Finding]:
        """Run the comparison and check the arguments."""
        yield checked("compiled", self.check_compiled)
        yield checked("arguments", self.check_arguments)

    def check_compiled(self) -> None:
        """Compare the compiled results, or the exception, with the eager ones."""
        expected, error = _outcome(self.program, "eager", self.inputs)
        if isinstance(error, (functad.errors.FunctadError, AttributeError)):  # a Tensor has methods that a Python number lacks
            raise NothingToCompare
        if isinstance(error, ZeroDivisionError) and (not self.program.static or self._divides_numbers()):
            raise NothingToCompare  # compiled code divides Python numbers as NumPy does; static arguments stay Python numbers
        if error is None:
            found = self.program.called("jit", self.inputs)
            if not self._agree(found, expected):
                if self._is_documented(found, expected):
                    raise NothingToCompare
                self._compare(found, expected)  # raises
            return
        _, found = _outcome(self.program, "jit", self.inputs)
        if isinstance(error, TypeError) and "The `like` argument must be an array-like" in str(error):
            raise NothingToCompare  # a Tensor implements `__array_function__`, a number does not: see the page of limits
        if found is None:
            raise DisagreementError(f"compiled code returns, eager code raises {type(error).__name__}: {error}")
        if not isinstance(found, (functad.errors.FunctadError, type(error))):
            raise found

    def _divides_numbers(self) -> bool:
        """Return `True` if the program raises no `ZeroDivisionError` for NumPy scalars in place of its Python numbers."""
        scalars = [np.asarray(x)[()] if type(x) in (int, float, complex) else x for x in self.inputs]
        return not isinstance(_outcome(self.program, "eager", scalars)[1], ZeroDivisionError)

    def _is_documented(self, found: Any, expected: Any) -> bool:
        """Return `True` if the documentation explains why compiled and eager results differ."""
        return (
            self._jumps(expected)
            or self._sees_signs_of_zero(expected)
            or self._is_limit(found, expected)
            or (self.program.backend == "xla" and self._is_arithmetic_of_xla(found, expected))
        )

    def _sees_signs_of_zero(self, expected: Any) -> bool:
        """Return `True` if the results depend on the sign of a zero; compiled code without `exact=True` may change it."""
        names = ("copysign", "signbit", "arctan2", "angle", "reciprocal", "/")
        return any(name in self.program.source for name in names) and self._is_exact(expected)

    def _is_exact(self, expected: Any) -> bool:
        """Return `True` if code compiled with `exact=True` gives the eager results."""
        found, error = _outcome(self.program, "exact", self.inputs)
        return error is None and self._agree(found, expected)

    def _is_limit(self, found: Any, expected: Any) -> bool:
        """Return `True` if a paragraph of the page of limits explains the results; eager execution imitates each of them."""
        program, inputs = self.program, self.inputs
        if "np.power(" in program.source:  # compiled code computes `np.power` of complex numbers and 0.5 as `**`
            operators = [re.sub(r"np\.power\((\w+), ([-.\w]+)\)", r"(\1) ** (\2)", line) for line in program.lines]
            if self._gives(found, replace(program, lines=tuple(operators)), inputs):
                return True
        if re.search(
            r"F\.(scan|while_loop|fori_loop|cond|switch)", program.source
        ):  # compiled code has one dtype and type in all steps and branches
            wanted, error = _outcome(program, "eager", [np.float64(x) if type(x) in (int, float) else x for x in inputs])
            if error is not None or functad.tree_structure(wanted) != functad.tree_structure(expected):
                wanted = expected
            if self._agree_with_any(*[functad.tree_map(_as_scalar, tree) for tree in (found, expected, wanted)]):
                return True
        if any(is_array(x) and x.dtype.kind == "b" for x in inputs):  # a true boolean may be any byte but 0
            normal = [x.astype(np.uint8) != 0 if is_array(x) and x.dtype.kind == "b" else x for x in inputs]
            if self._gives(found, program, normal):
                return True
        if re.search(r"dot|matmul|einsum|inner|@", program.source):  # sums of products of complex infinities
            return self._agree(functad.tree_map(_with_unknown_complex, found, expected), expected)
        return False

    def _gives(self, found: Any, program: Case, inputs: Sequence[Any]) -> bool:
        """Return `True` if eager execution of `program` gives the results `found`."""
        wanted, error = _outcome(program, "eager", inputs)
        return error is None and self._agree(found, wanted)

    def _agree_with_any(self, found: Any, expected: Any, other: Any) -> bool:
        """Return `True` if each leaf agrees with the expected leaf, with its floating-point version, or with another leaf."""
        leaves = zip(*[functad.tree_leaves(tree) for tree in (found, expected, other)], strict=True)
        return all(any(self._agree(x, wanted) for wanted in (a, _with_dtype(a, x), b)) for x, a, b in leaves)

    def _jumps(self, expected: Any) -> bool:
        """Return `True` if the eager results depend on the last digits of the inputs, as at a discontinuity.

        If all inputs are integers, they become floating-point numbers. Then code compiled with `exact=True` must also agree,
        because it differs from eager code in last digits only.
        """
        inputs: Sequence[Any] = self.inputs
        if not any(isinstance(x, float) or (is_array(x) and x.dtype.kind in "fc") for x in inputs):
            inputs = [x if np.asarray(x).dtype.kind not in "iu" else np.multiply(x, 1.0) for x in inputs]
            is_exact = self._is_exact(expected)
            expected, error = _outcome(self.program, "eager", inputs)
            if error is not None or not (is_exact or "np.linalg." in self.program.source):
                return False
        uniform = np.random.default_rng(0).uniform
        for scale in (1.0, -1.0, 0.5, -0.5, 0.25, -0.25):
            moved = [_moved(x, scale * uniform(0.5, 1.0)) for x in inputs]
            found, error = _outcome(self.program, "eager", moved)
            if error is not None or not self._agree(found, expected):
                return True
        return False

    def _is_arithmetic_of_xla(self, found: Any, expected: Any) -> bool:
        """Return `True` if XLA's arithmetic explains the results; the page on compilation lists the differences.

        Eager execution imitates each difference: subnormal inputs become zeros, and constants are added to each other first.
        """
        reordered = replace(self.program, lines=tuple(map(_constants_first, self.program.lines)))
        flushed = [_flushed(x) for x in self.inputs]
        return self._gives(found, self.program, flushed) or self._gives(found, reordered, self.inputs)

    def _agree(self, found: Any, expected: Any) -> bool:
        """Return `True` if `_compare` raises nothing."""
        try:
            self._compare(found, expected)
        except DisagreementError:
            return False
        return True

    def _compare(self, found: Any, expected: Any) -> None:
        """Compare the results of two executions, and check that compiled results share no memory.

        Products of complex numbers along axes differ between XLA and NumPy in the NaN part of an infinite result.
        """
        is_xla = self.program.backend == "xla"
        left, structure = functad.tree_flatten(found)
        right, wanted = functad.tree_flatten(expected)
        if structure != wanted:
            raise DisagreementError(f"the structure is {structure}, eager {wanted}")
        for i, (a, b) in enumerate(zip(left, right, strict=True)):
            if is_xla:
                a, b = np.array(a), np.array(b)  # XLA returns arrays for Python numbers
                if a.dtype == b.dtype and a.shape == b.shape and _PRODUCTS.search(self.program.source):
                    a = _with_unknown_complex(a, b)
            same_leaf(a, b, f"result {i}", self._precision, self._computed)
        if not is_xla:
            own = [a for a in left if isinstance(a, np.ndarray)]
            for a, b in itertools.combinations([*own, *[x for x in self.inputs if isinstance(x, np.ndarray)]], 2):
                if any(a is mine for mine in own) and np.shares_memory(a, b):
                    raise DisagreementError("a result shares memory with another result or with an argument")


def _with_unknown(found: Any, expected: Any) -> Any:
    """Return `found` with the elements of `expected` where both are infinite or NaN."""
    if not is_array(found) or not is_array(expected) or found.shape != expected.shape or found.dtype != expected.dtype:
        return found
    if found.dtype.kind not in "fc":
        return found
    known = np.where(np.isfinite(found) | np.isfinite(expected), found, expected)
    return known if isinstance(found, np.ndarray) else known[()]


def _with_unknown_complex(found: Any, expected: Any) -> Any:
    return _with_unknown(found, expected) if is_array(expected) and expected.dtype.kind == "c" else found


def _as_scalar(value: Any) -> Any:
    """Return a Python number or an array of shape `()` as a NumPy scalar, and any other value unchanged."""
    return np.asarray(value)[()] if type(value) in (int, float, complex) or np.shape(value) == () else value


def _with_dtype(value: Any, model: Any) -> Any:
    """Return integers in the floating-point dtype of `model`, and any other value unchanged."""
    floats = is_array(value) and value.dtype.kind in "iu" and is_array(model) and model.dtype.kind == "f"
    return value.astype(model.dtype) if floats else value


def _constants_first(line: str) -> str:
    """Return a line with `(a + c) - d` as `a + (c - d)` in the dtype of `a`, and with `a + 0` as `a`."""
    line = re.sub(r"\b(\w+) \+ 0(?![.\w])", r"\1", line)
    constant = r"(\([-+* 0-9]+\))"
    return re.sub(rf"\((\w+) \+ {constant}\) - {constant}$", r"\1 + np.subtract(\2, \3, dtype=np.result_type(\1))", line)


def _flushed(x: Any) -> Any:
    """Return an argument with zeros in place of subnormal numbers."""
    if not (is_array(x) or isinstance(x, (float, complex))) or np.asarray(x).dtype.kind not in "fc":
        return x
    flushed = np.array(x)
    parts = [flushed] if flushed.dtype.kind == "f" else [flushed.real, flushed.imag]
    small = [(part != 0) & (np.abs(part) < np.finfo(part.dtype).smallest_normal) for part in parts]
    if not any(np.any(each) for each in small):
        return x
    for part, each in zip(parts, small, strict=True):
        part[each] = 0
    return flushed if isinstance(x, np.ndarray) else type(x)(flushed[()])


_PRODUCTS = re.compile(r"prod|dot|matmul|einsum|inner|outer|kron|@|fft|linalg|conv|correlate|cross|vander|poly|var|std|norm")
"""Functions that multiply complex numbers along axes."""


def _moved(x: Any, scale: float) -> Any:
    """Return an argument with changed last digits; zeros, infinities and NaN stay the same."""
    if isinstance(x, float):
        return x * (1 + scale * 1e-13)
    if not is_array(x) or x.dtype.kind not in "fc":
        return x
    moved = np.array(x)
    parts = [moved] if x.dtype.kind == "f" else [moved.real, moved.imag]  # infinite complex numbers times a complex give NaN
    with np.errstate(all="ignore"):
        factor = parts[0].dtype.type(1 + scale * {2: 1e-2, 4: 1e-6}.get(np.finfo(x.dtype).dtype.itemsize, 1e-13))
        for part in parts:
            part *= factor
    return moved if isinstance(x, np.ndarray) else moved[()]


def _outcome(case: Case, way: str, inputs: Sequence[Any]) -> tuple[Any, Exception | None]:
    """Return the results of a case and `None`, or `None` and the exception that it raises."""
    try:
        return case.called(way, inputs), None
    except Exception as error:  # noqa: BLE001 - the exception is compared
        return None, error


TOLERANCES = {2: 4e-3, 4: 3e-5, 8: 1e-9, 16: 1e-9}
"""Rounding tolerances by the size of a real number in bytes."""


def same_leaf(found: Any, expected: Any, name: str, precision: int = 8, computed: int = 8) -> None:
    """Compare one compiled result with the eager one: type, dtype, shape, flags and values.

    Compiled results have the byte order of the processor. `precision` and `computed` are the bytes of the least precise input
    and of the least precise floating-point dtype that the program names; int8 counts as float16.
    """
    if type(found) is not type(expected):
        raise DisagreementError(f"{name} is a {type(found).__name__} {found!r}, eager a {type(expected).__name__} {expected!r}")
    if not is_array(expected):
        if type(found) is float:
            found, expected = np.float64(found), np.float64(expected)
        elif found != expected:
            raise DisagreementError(f"{name} is {found!r}, eager {expected!r}")
        else:
            return
    if found.dtype.newbyteorder("=") != expected.dtype.newbyteorder("=") or found.shape != expected.shape:
        raise DisagreementError(f"{name} is {found.dtype}{found.shape}, eager {expected.dtype}{expected.shape}")
    if isinstance(found, np.ndarray) and not (found.flags.writeable and _is_dense(found)):
        raise DisagreementError(f"{name} is read-only, or its elements overlap")
    with np.errstate(all="ignore"):
        if not agree(found, expected, precision, computed):
            raise DisagreementError(f"{name} is {found!r}, eager {expected!r}")


def _is_dense(array: Any) -> bool:
    """Return `True` if no two elements of an array share memory."""
    return not array.size or all(stride or n < 2 for n, stride in zip(array.shape, array.strides, strict=True))


def agree(found: Any, expected: Any, precision: int = 8, computed: int = 8) -> bool:
    """Return `True` if arrays of one dtype agree up to rounding, with infinities and NaN in the same places.

    A float64 result may be computed in a less precise dtype, such as the cotangent of a Python number beside a float32 array.
    The tolerance of the narrower dtype applies if an input has it and it holds both results exactly. It also applies if the
    program names the dtype, as `np.sum(x, dtype=np.float32)` does.
    """
    if expected.dtype.kind == "b":  # a true boolean may be any byte but 0, and NumPy compares some of them by their bytes
        return bool(np.array_equal(found.astype(np.uint8) != 0, expected.astype(np.uint8) != 0))
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(found, expected))
    if expected.dtype.kind == "c":
        parts = (found.real, expected.real), (found.imag, expected.imag)
        return all(agree(one, other, precision, computed) for one, other in parts)
    known, wrong = np.isfinite(expected), np.isnan(expected)
    if not np.array_equal(np.isnan(found), wrong) or not np.array_equal(found[~known & ~wrong], expected[~known & ~wrong]):
        return False
    size = 1.0 + float(np.max(np.abs(expected), initial=0.0, where=known))
    difference = np.abs(np.subtract(found, expected, dtype=np.float64))[known]
    narrow = [n for n in (2, 4) if precision <= n < expected.dtype.itemsize and _holds(n, found) and _holds(n, expected)]
    return bool(np.all(difference <= TOLERANCES[min([*narrow, computed, expected.dtype.itemsize])] * size))


def _holds(itemsize: int, array: Any) -> bool:
    """Return `True` if the floating-point dtype of `itemsize` bytes holds all elements of an array exactly."""
    return bool(np.array_equal(array.astype(f"f{itemsize}"), array, equal_nan=True))
