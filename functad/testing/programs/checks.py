"""Checks of a random program: values against plain NumPy, and derivatives against finite differences.

A check has one of five outcomes: compared, nothing to compare, refused with a `FunctadError`, wrong, or bare (any other
exception, which does not help the user).
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import functad
from functad.errors import AbstractValueError, FunctadError
from functad.expressions.spec import dtype_of
from functad.primitives.elementwise.conversion import copy_alike
from functad.testing.numerical import Measured, measure, paired, pairing
from functad.testing.programs.program import Program, written_out

INSIDE = Path(functad.__file__).parent

DIFFERENT = (ValueError, TypeError, IndexError, ArithmeticError, AttributeError)
"""Exceptions that a program may raise for other inputs, when it takes another branch."""


@dataclass(frozen=True)
class Finding:
    """The result of one check of a program.

    Attributes:
        check: the name of the check.
        outcome: `compared`, `nothing`, `refused`, `wrong` or `bare`.
        what: the code of the `FunctadError`, or the name of the bare exception.
        detail: the expected and the found result, or the message of the exception.
    """

    check: str
    outcome: str
    what: str = ""
    detail: str = ""

    @property
    def fails(self) -> bool:
        """Whether the finding is a failure."""
        return self.outcome in ("wrong", "bare")


class DisagreementError(AssertionError):
    """A result differs from the expected one."""


class NothingToCompare(Exception):  # noqa: N818 - not an error: some programs have no derivative at their inputs
    """There is no reference value to compare with."""


def checked(check: str, run: Callable[[], None], *, abstract: bool = True) -> Finding:
    """Run a check and return its outcome. `AbstractValueError` is a refusal if `abstract` is true, else wrong."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
    except NothingToCompare:
        return Finding(check, "nothing")
    except DisagreementError as wrong:
        return Finding(check, "wrong", detail=str(wrong))
    except FunctadError as refusal:
        expected = abstract or not isinstance(refusal, AbstractValueError)
        return Finding(check, "refused" if expected else "wrong", refusal.code, str(refusal))
    except Exception as bare:  # noqa: BLE001 - the fuzzer searches for such exceptions
        place = [frame for frame in traceback.extract_tb(bare.__traceback__) if INSIDE in Path(frame.filename).parents]
        where = f", in {Path(place[-1].filename).name}:{place[-1].lineno}" if place else ""
        return Finding(check, "bare", type(bare).__name__, f"{type(bare).__name__}: {bare}{where}")
    return Finding(check, "compared")


class Examination:
    """The checks of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.inputs = program.inputs
        self.before = [np.array(x) for x in self.inputs]
        single = any(dtype_of(value) == np.float32 for value in (*self.inputs, *self.expected))
        self.single = single or "float32" in program.source
        self.loose = 1e-5 if self.single else 0.0
        self.random = np.random.default_rng(len(program.source))
        self.direction = [self._drawn(x) for x in self.inputs]

    def _drawn(self, x: Any, where: Any = True) -> Any:
        """Return random numbers of the type of `x`, zero where `where` is false."""
        drawn = np.where(where, self.random.standard_normal(np.shape(x)), 0.0)
        return float(drawn) if type(x) is float else drawn.astype(dtype_of(x))[()]

    @cached_property
    def expected(self) -> list[Any]:
        """The results of plain NumPy."""
        return as_list(self.program(*self.inputs))

    @cached_property
    def pulled(self) -> tuple[Any, Callable[[Any], Any]]:
        """The results of a reverse trace, and its pullback."""
        found: tuple[Any, Callable[[Any], Any]] = functad.vjp(self.program, *self.inputs)
        return found

    @cached_property
    def repeats(self) -> bool:
        """Whether an input is a broadcast array with several elements at one address."""
        return any(n > 1 and not s for x in map(np.asarray, self.inputs) for n, s in zip(x.shape, x.strides, strict=True))

    @cached_property
    def measured(self) -> list[Measured]:
        """The directional derivative of the program, from differences."""
        return self.differences(lambda *xs: as_list(self.program(*xs)), self.direction, real_bytes=4 if self.single else 8)

    def differences(self, function: Callable[..., Any], direction: Sequence[Any], real_bytes: int = 8) -> list[Measured]:
        """Return the derivative of a function of the inputs in a direction, if it can be measured."""
        if self.repeats:
            raise NothingToCompare  # perturbed inputs cannot have the memory layout of a broadcast array
        try:
            found = measure(
                lambda *xs: function(*map(like, self.inputs, xs)), self.inputs, direction, real_bytes=real_bytes, twice=True
            )
        except DIFFERENT as different:
            raise NothingToCompare from different  # the program takes another branch nearby
        if not any(np.any(m.smooth) for m in found):
            raise NothingToCompare
        return found

    def findings(self, checks: Sequence[str] = ()) -> Iterator[Finding]:
        """Run the checks with these names, all by default; stop if the values are wrong."""
        for name in checks or CHECKS:
            strict = name in ("vmap", "list") and not self.program.value_dependent
            found = checked(name, getattr(self, f"check_{name}"), abstract=not strict)
            yield found
            if name == "value" and found.outcome != "compared":
                return
        yield checked("arguments", self.check_arguments)

    def check_value(self) -> None:
        """Compare the results of a reverse trace with plain NumPy: value, shape and dtype."""
        compare(as_list(self.pulled[0]), self.expected, 1e-11 + self.loose)

    def check_types(self) -> None:
        """Compare the types of a reverse trace's results with plain NumPy: arrays, NumPy scalars or Python numbers."""
        for i, (a, b) in enumerate(zip(as_list(self.pulled[0]), self.expected, strict=True)):
            if type(a) is not type(b):
                raise DisagreementError(f"result {i} is of type {type(a).__name__}, not {type(b).__name__}")

    def check_reverse(self) -> None:
        """Compare the pullback of a random cotangent with differences."""
        compare(self.cotangents, self.inputs, np.inf)
        found = pairing(self.cotangents, self.direction)
        expected, size, doubt = paired(self.seeds, self.measured)
        allowed = 1e-8 + 1e-6 * size + doubt + (1e-3 * (1 + size) if self.single else 0)
        if not abs(found - expected) <= allowed:
            raise DisagreementError(f"pulled back {found:.9g}, differences {expected:.9g}, allowed {allowed:.1e}")

    @cached_property
    def seeds(self) -> list[Any]:
        """A random cotangent, zero where differences give no derivative."""
        return [self._drawn(y, m.smooth) for y, m in zip(self.expected, self.measured, strict=True)]

    @cached_property
    def cotangents(self) -> list[Any]:
        """The cotangents of the inputs."""
        return self._cotangents(*self.pulled)

    def _cotangents(self, values: Any, pullback: Callable[[Any], Any]) -> list[Any]:
        return list(pullback(tuple(self.seeds) if type(values) is tuple else self.seeds[0]))

    def check_forward(self) -> None:
        """Compare values and tangents of forward mode with plain NumPy, differences and the pullback."""
        values, tangents = functad.jvp(self.program, self.inputs, tuple(self.direction))
        compare(as_list(values), self.expected, 1e-11 + self.loose)
        tangents = as_list(tangents)
        compare(tangents, self.expected, np.inf)
        loose = 1e-3 if self.single else 0.0
        confirm(tangents, self.measured, 1e-8 + loose, 1e-6 + loose, "pushed forward")
        pushed, pulled = pairing(self.seeds, tangents), pairing(self.cotangents, self.direction)
        size = 1 + pairing([*map(np.abs, self.seeds)], [*map(np.abs, tangents)])
        if not abs(pushed - pulled) <= (1e-3 if self.single else 1e-8) * size:
            raise DisagreementError(f"forward mode {pushed:.12g}, reverse mode {pulled:.12g}")

    def check_tape(self) -> None:
        """Compare the results of a tape with plain NumPy and the pullback; Python numbers become NumPy scalars."""
        scalars = [np.asarray(x)[()] for x in self.inputs]
        if self.repeats:  # a constant is a copy with another memory layout
            raise NothingToCompare
        program = replace(self.program, lines=written_out(self.program.lines))
        expected = self.elsewhere(*scalars, program=program)
        constants = [functad.constant(x) for x in scalars]
        with functad.GradientTape() as tape:
            tape.watch(constants)
            found = program(*constants)
        converted = any(type(x) is not type(y) for x, y in zip(scalars, self.inputs, strict=True))
        compare([plain(y) for y in as_list(found)], [np.asarray(y) for y in expected], 1e-11 + self.loose)
        if converted:
            return
        pairs = [(y, g) for y, g in zip(as_list(found), self.seeds, strict=True) if isinstance(y, functad.Tensor)]
        gradients = tape.gradient([y for y, _ in pairs], constants, output_gradients=[g for _, g in pairs])
        self._same_cotangents([0.0 if g is None else plain(g) for g in gradients])

    def _same_cotangents(self, found: Sequence[Any]) -> None:
        for ct, expected in zip(found, self.cotangents, strict=True):
            size = 1.0 + float(np.max(np.abs(expected), initial=0.0))
            if not np.all(np.abs(ct - expected) <= (1e-3 if self.single else 1e-9) * size):
                raise DisagreementError(f"found {ct!r}, plain reverse mode {expected!r}")

    def check_checkpoint(self) -> None:
        """Compare a checkpointed program with plain NumPy and the pullback."""
        values, pullback = functad.vjp(functad.checkpoint(self.program), *self.inputs)
        compare(as_list(values), self.expected, 1e-11 + self.loose)
        self._same_cotangents(self._cotangents(values, pullback))

    def check_vmap(self) -> None:
        """Compare `vmap` of two examples with a loop."""
        batches = [np.stack([np.asarray(x), np.asarray(x) * 0.97 + 0.01]).astype(dtype_of(x)) for x in self.inputs]
        # An example of shape () is an array if the input is one: scalars and arrays act differently with a Python complex.
        # Each example is a copy: an operation that copies a broadcast input may return a view of an example instead.
        pairs = [(np.copy(b), x) for b, x in zip(batches, self.inputs, strict=True)]
        rows = [self.elsewhere(*[b[i, ...] if isinstance(x, np.ndarray) else b[i] for b, x in pairs]) for i in range(2)]
        found = as_list(functad.vmap(self.program)(*batches))
        compare(found, [np.stack(pair) for pair in zip(*rows, strict=True)], 1e-10 + self.loose)

    def check_list(self) -> None:
        """Compare the expression list with plain NumPy, at the inputs and at other values."""
        listed = functad.make_expressions(self.program)(*self.inputs)
        compare(as_list(listed(*self.inputs)), self.expected, 1e-11 + self.loose)
        others = [like(x, x * 0.97 + 0.01) for x in self.inputs]
        expected = self.elsewhere(*others)
        compare(as_list(listed(*others)), expected, 1e-11 + self.loose)

    def elsewhere(self, *inputs: Any, program: Program | None = None) -> list[Any]:
        """Return the results of a program on other inputs; raise `NothingToCompare` if they have other shapes."""
        try:
            found = as_list((program or self.program)(*inputs))
        except DIFFERENT as different:
            raise NothingToCompare from different
        if list(map(np.shape, found)) != list(map(np.shape, self.expected)):
            raise NothingToCompare
        return found

    def check_arguments(self) -> None:
        """Check that the arguments are unchanged, to the last byte."""
        texts = self.program.texts or [""] * len(self.inputs)
        for i, (x, before, text) in enumerate(zip(self.inputs, self.before, texts, strict=True)):
            if np.array(x).tobytes() != before.tobytes():
                raise DisagreementError(f"x{i} was {before!r} and is {x!r}")
            if isinstance(x, np.ndarray) and x.flags.writeable == text.startswith("np.broadcast_to"):
                raise DisagreementError(f"x{i} is writeable: {x.flags.writeable}")


CHECKS = ("value", "types", "reverse", "forward", "tape", "checkpoint", "vmap", "list")


def as_list(result: Any) -> list[Any]:
    """Return the results of a program as a list."""
    return list(result) if isinstance(result, tuple) else [result]


def plain(value: Any) -> Any:
    """Return the value of a Tensor of a tape, or any other value as an array."""
    return value.numpy() if isinstance(value, functad.Tensor) else np.asarray(value)


def like(x: Any, values: Any) -> Any:
    """Return values in the type and memory order of an input."""
    if type(x) is float:
        return float(values)
    if not isinstance(x, np.ndarray):
        return x.dtype.type(values)
    if x.flags.c_contiguous:
        return np.asarray(values, x.dtype)
    if 0 in x.strides:  # elements at one address need one value
        one = tuple([slice(None) if stride else slice(1) for stride in x.strides])
        return np.broadcast_to(like(x[one].copy("K"), np.asarray(values)[one]), x.shape)
    made = copy_alike(x)
    made[...] = values
    return made


def compare(found: Sequence[Any], expected: Sequence[Any], tolerance: float) -> None:
    """Compare lists of arrays by shape, dtype and value."""
    if len(found) != len(expected):
        raise DisagreementError(f"{len(found)} results, not {len(expected)}")
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if np.shape(a) != np.shape(b) or dtype_of(a) != dtype_of(b):
            raise DisagreementError(f"result {i} is {dtype_of(a)}{np.shape(a)}, not {dtype_of(b)}{np.shape(b)}")
        if tolerance < np.inf and not close(a, b, tolerance):
            raise DisagreementError(f"result {i} is {a!r}, not {b!r}")


def confirm(found: Sequence[Any], measured: Sequence[Measured], atol: float, rtol: float, what: str) -> None:
    """Compare derivatives with measured ones, where these are reliable."""
    for y, m in zip(found, measured, strict=True):
        if not np.all((np.abs(y - m.derivative) <= m.allowed(atol, rtol)) | ~m.smooth):
            raise DisagreementError(f"{what} {y!r}, differences {m.derivative!r}")


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Return `True` if all elements agree within the tolerance; equal infinities agree, and so do two NaN."""
    same = np.abs(np.subtract(a, b)) <= tolerance * (1 + np.abs(b))
    return bool(np.all(same)) or bool(np.all(same | (np.isnan(a) & np.isnan(b)) | np.equal(a, b)))
