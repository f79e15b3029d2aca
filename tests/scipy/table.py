"""The table of what functad makes of each public function of SciPy, made by running samples: `python -m tests.scipy.table`."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from textwrap import fill
from types import FrameType
from typing import Any

import numpy as np
import scipy

import functad
import functad.scipy
from functad import Tensor, tree_flatten
from functad.errors import FunctadError, UnsupportedError
from functad.scipy._coverage import PARTS, listed, public_names, refusals, shown_entry
from functad.testing import check_grads
from tests.scipy.samples.sample import Sample

FOLDER = Path(__file__).parent / "samples"
RULES = str(Path(functad.scipy.__file__).parent)
PAGE = Path(RULES) / "_table.py"
CURE = re.compile(r"\b(use|pass|take|write|call|solve|fit|multiply|query|build|compute|leave|functad\.\w+)\b", re.IGNORECASE)


class UnlistedRefusalError(AssertionError):
    """A function raises, and no reason for that is given."""


def samples_of(part: str) -> dict[str, list[Sample]] | None:
    """Return the samples of a part by name, of the names that the SciPy that is installed has; `None` if there are none yet."""
    name = part.removeprefix("scipy.").replace(".", "_")
    if not (FOLDER / f"{name}.py").exists():
        return None
    found = import_module(f"tests.scipy.samples.{name}").SAMPLES
    there = {key: value for key, value in found.items() if hasattr(import_module(part), public_name(key))}
    return {key: value if isinstance(value, list) else [value] for key, value in there.items()}


def public_name(key: str) -> str:
    """Return the public name in a key, which may say more: `PPoly.solve` is of `PPoly`."""
    return re.match(r"\w*", key)[0]


def is_entered(part: str, name: str) -> bool:
    """Say whether a name is a function of NumPy's kind with an entry, which the checks of all entries check."""
    return shown_entry(getattr(import_module(part), name)) is not None


def expected_values(part: str) -> dict[str, list[Any]]:
    """Return what SciPy's own functions give for the samples of a part; SciPy must not be adopted."""
    own = import_module(part)
    with quiet():
        return {
            key: [_value(lambda *a, s=s, key=key: s.function(getattr(own, public_name(key)), *a), s) for s in samples]
            for key, samples in (samples_of(part) or {}).items()
        }


def _value(f: Callable[..., Any], sample: Sample) -> Any:
    try:
        return _leaves(f(*sample.arguments))
    except Exception as error:  # noqa: BLE001 - it is told beside the others
        return error


def found_status(part: str, key: str, expected: list[Any]) -> str:
    """Return what functad makes of a function, whose samples are checked for that: SciPy must be adopted.

    Returns:
        `rule` if code of `functad.scipy` runs with Tensors, `adoption` if only SciPy's does, `refused` if functad raises, and
        `constant` if there is no derivative, or none but zero.
    """
    stand_in = functad.scipy
    for step in part.split(".")[1:]:
        stand_in = getattr(stand_in, step)
    function = getattr(stand_in, public_name(key))
    found = set()
    for sample, leaves in zip((samples_of(part) or {})[key], expected, strict=True):
        with quiet():
            found.add(_status(f"{part}.{key}", lambda *a, s=sample: s.function(function, *a), sample, leaves))
    return next(status for status in ("refused", "rule", "adoption", "constant") if status in found)


def _status(name: str, f: Callable[..., Any], sample: Sample, expected: list[Any]) -> str:
    arguments = sample.arguments
    if isinstance(expected, Exception):
        raise expected  # a sample that SciPy does not take
    _same(_leaves(f(*arguments)), expected)
    inside, slopes = _forward(lambda _: f(*arguments), (1.0,))  # with plain values in a trace
    assert not any(map(np.any, slopes))
    _close(inside, expected)
    if not any(_is_inexact(leaf) for leaf in tree_flatten(arguments)[0]):
        return "constant"
    ran: list[str] = []
    try:
        with watched(ran):
            leaves, tangents = _forward(f, arguments)
    except FunctadError as error:
        _check_refusal(name, error)
        return "refused"
    _close(leaves, expected)
    if not tangents:
        return "constant"
    if sample.searched:
        _check_widely(f, arguments)
    else:
        check_grads(f, arguments, order=1)
    if not any(np.any(t) for t in tangents):
        return "constant"
    return "rule" if ran else "adoption"


def _forward(f: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """Return the leaves of what a function gives for Tensors, as plain values, and tangents of those that are Tensors."""
    flat, structure = tree_flatten(arguments)
    places = [i for i, leaf in enumerate(flat) if _is_inexact(leaf)]
    values: list[Any] = []

    def of_tensors(*tensors: Any) -> list[Any]:
        full = list(flat)
        for i, tensor in zip(places, tensors, strict=True):
            full[i] = tensor
        leaves = _leaves(f(*structure.unflatten(full)))
        values[:] = [functad.stop_gradient(leaf) if type(leaf) is Tensor else leaf for leaf in leaves]
        return [leaf for leaf in leaves if type(leaf) is Tensor and _is_inexact(leaf)]

    generator = np.random.default_rng(1)
    primals = tuple([flat[i] for i in places])
    directions = tuple([_random_like(primal, generator) for primal in primals])
    return values, functad.jvp(of_tensors, primals, directions)[1]


def _check_widely(f: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Raise if derivatives of real results are not differences of wide steps, or not the same in both modes."""
    generator = np.random.default_rng(2)
    way = tuple([_random_like(a, generator) for a in arguments])

    def at(step: float) -> Any:
        leaves = _leaves(f(*[a + step * t for a, t in zip(arguments, way, strict=True)]))
        return np.concatenate([np.ravel(leaf) for leaf in leaves])

    def flat(*arguments: Any) -> Any:
        return np.concatenate([np.reshape(leaf, -1) for leaf in _leaves(f(*arguments))])

    slope = (8 * (at(2e-3) - at(-2e-3)) - (at(4e-3) - at(-4e-3))) / 24e-3
    values, pull = functad.vjp(flat, *arguments)
    along = functad.jvp(flat, arguments, way)[1]
    np.testing.assert_allclose(along, slope, rtol=1e-3, atol=1e-4 * np.max(np.abs(slope)))
    weights = generator.normal(size=len(values))
    pulled = pull(weights)
    pulled = pulled if isinstance(pulled, tuple) else (pulled,)
    total = sum(np.sum(g * t) for g, t in zip(pulled, way, strict=True))
    np.testing.assert_allclose(total, weights @ along, rtol=1e-8)


def _random_like(value: Any, generator: np.random.Generator) -> Any:
    drawn = generator.normal(size=np.shape(value))
    return np.asarray(
        drawn + 1j * drawn[::-1] if np.iscomplexobj(value) and np.ndim(value) else drawn, np.asarray(value).dtype
    )[()]


def _is_inexact(leaf: Any) -> bool:
    return isinstance(leaf, float | complex) or getattr(getattr(leaf, "dtype", None), "kind", "") in ("f", "c")


def _leaves(out: Any) -> list[Any]:
    return tree_flatten(out)[0]


def _same(found: list[Any], expected: list[Any]) -> None:
    """Raise if plain values are not exactly those of SciPy."""
    for a, b in zip(found, expected, strict=True):
        assert type(a) is type(b), f"a {type(a).__name__} where SciPy gives a {type(b).__name__}"
        if isinstance(b, np.ndarray | np.generic | int | float | complex):
            np.testing.assert_array_equal(a, b, strict=True)


def _close(found: list[Any], expected: list[Any]) -> None:
    """Raise if values that were computed with Tensors are not those of SciPy, but for rounding."""
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, np.ndarray | np.generic | int | float | complex):
            assert np.shape(a) == np.shape(b), f"the shape {np.shape(a)} where SciPy gives {np.shape(b)}"
            assert np.asarray(a).dtype == np.asarray(b).dtype, f"{np.asarray(a).dtype} where SciPy gives {np.asarray(b).dtype}"
            scale = np.max(np.abs(b), initial=1e-3, where=np.isfinite(b)) if np.asarray(b).dtype.kind in "fc" else 0.0
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10 * scale)


def _check_refusal(name: str, error: FunctadError) -> None:
    reason = refusals().get(name)
    if reason is None:
        raise UnlistedRefusalError(f"{name} raises and stands in no REFUSED: {error}")
    assert CURE.search(str(error)), f"no cure in the message: {error}"
    assert not isinstance(error, UnsupportedError) or reason.casefold() in str(error).casefold(), (
        f"another reason than {reason!r}: {error}"
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Let nothing warn: samples are about derivatives."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def watched(ran: list[str]) -> Iterator[None]:
    """Note the functions of `functad.scipy` that are called."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(RULES):
            ran.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def missing(part: str) -> list[str]:
    """Return the public names of a part without a sample, which are no functions with an entry."""
    given = {public_name(key) for key in samples_of(part) or {}}
    return [name for name in public_names(part) if name not in given and not is_entered(part, name)]


def statuses(part: str, expected: dict[str, list[Any]]) -> dict[str, str]:
    """Return what functad makes of the functions of a part, by the keys of their samples.

    Raises:
        AssertionError: a sample shows a wrong value or derivative.
    """
    found = {}
    for key in samples_of(part) or {}:
        try:
            found[key] = found_status(part, key, expected[key])
            assert found[key] == "refused" or key == public_name(key), "a name with more than the public name is for refusals"
            assert found[key] == "refused" or f"{part}.{key}" not in refusals(), "what works needs no reason"
        except Exception as error:  # noqa: BLE001 - all are told together
            print(f"{part}.{key}: {type(error).__name__}: {str(error).strip()[:600]}\n", file=sys.stderr)
    return found


def text_of(table: dict[str, dict[str, str]]) -> str:
    """Return the module that holds the table."""
    lines = [
        f'"""The table behind `functad.coverage(module="scipy")`, of SciPy {_version()}."""',
        "",
        "# Written by `python -m tests.scipy.table`.",
        "",
        "VERSION = " + f'"{_version()}"',
        '"""Of SciPy, with which the table was made."""',
        "",
        "TABLE: dict[str, dict[str, str]] = {",
    ]
    for part, rows in table.items():
        lines.append(f'    "{part}": {{')
        for status in sorted(set(rows.values())):
            names = " ".join(sorted(name for name, value in rows.items() if value == status))
            lines += [f'        "{status}": """', fill(names, 128, break_long_words=False), '""",']
        lines.append("    },")
    lines += [
        "}",
        '"""By part and by what functad makes of them, public names of SciPy that have no entry among those of NumPy."""',
    ]
    return "\n".join(lines) + "\n"


def _version() -> str:
    return ".".join(scipy.__version__.split(".")[:2])


def main(parts: list[str]) -> int:
    """Check the samples of parts, or of all, and write the table anew; say how many are wrong."""
    chosen = [part for part in PARTS if (not parts or part.removeprefix("scipy.") in parts) and samples_of(part) is not None]
    expected = {part: expected_values(part) for part in chosen}
    table = {part: {name: status for status, names in listed().get(part, {}).items() for name in names} for part in PARTS}
    wrong = 0
    with functad.adopt("scipy"):
        for part in chosen:
            found = statuses(part, expected[part])
            table[part] = {key: status for key, status in found.items() if key == public_name(key)}
            lacking = missing(part)
            wrong += len(lacking) + len(expected[part]) - len(found)
            print(f"{part}: {len(found)} checked; without a sample: {' '.join(lacking) or 'none'}")
    PAGE.write_text(text_of({part: rows for part, rows in table.items() if rows}))
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
