"""`explain`: the reasons for a gradient that is zero or missing, with the line that cuts each path.

`explain` runs the function once under a recorder that also records operations without derivative (`following`). These records
give the operations between an input and the result, and the operation at which the derivative ends. A backward pass
determines whether a connected gradient is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.diagnostics.following import Followed, Follower
from functad.diagnostics.ways import Way, way_of
from functad.expressions.observers import Observer, observing
from functad.expressions.records import inputs_of, mark_needed, mark_reached, marks_at
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import name_of
from functad.primitives.operands import innermost
from functad.transforms.calling.boundary import checked_leaves, split_aux, traced, undifferentiable
from functad.transforms.calling.transform import ArgNames, ArgNums, Selection
from functad.transforms.walks.reverse import pull_alone, pull_back
from functad.trees.structure import flatten

_NO_WAY = Way((), None, False)


class Finding:
    """The result of `explain` for one input.

    Attributes:
        path: the expression of the input, such as `args[0]['w']`.
        status: `connected`, `zero` (the derivative is zero), `missing` (the result does not depend on the input) or `refused`
            (the input cannot be differentiated; an integer, for example).
        connected: `True` if a differentiable path leads to the result, even if the gradient is zero at these values.
        reasons: the reasons for the status, each with file and line.
        way: the operations from the input towards the result, and the index of the operation at which the derivative ends.

    Example:
        >>> finding = explain(lambda x: 2.0 * x["a"], {"a": 1.0, "b": 3.0}).findings[1]
        >>> finding.path, finding.status, finding.connected, finding.reasons
        ("args[0]['b']", 'missing', False, ('it is not used',))
    """

    __slots__ = ("connected", "path", "reasons", "status", "way")

    def __init__(self, path: str, status: str, connected: bool, reasons: tuple[str, ...], way: Way = _NO_WAY) -> None:
        self.path = path
        self.status = status
        self.connected = connected
        self.reasons = reasons
        self.way = way

    def __repr__(self) -> str:
        return ", ".join((f"{self.path}: {self.status}", *self.reasons))


class Explanation:
    """The result of `explain`: a finding for each input. It prints one line for each finding.

    Attributes:
        function: the name of the function.
        findings: one `Finding` for each leaf of the selected arguments.

    Example:
        >>> found = explain(lambda x, y: 2.0 * x, 1.0, 3.0, argnums=(0, 1))
        >>> [finding.status for finding in found.findings]
        ['connected', 'missing']
    """

    __slots__ = ("findings", "function")

    def __init__(self, function: str, findings: tuple[Finding, ...]) -> None:
        self.function = function
        self.findings = findings

    def __repr__(self) -> str:
        from functad.diagnostics.shown import explanation_text  # noqa: PLC0415 - only displays need it

        return explanation_text(self.function, self.findings)

    def _repr_html_(self) -> str:
        from functad.diagnostics.shown import explanation_markup  # noqa: PLC0415 - as above

        return explanation_markup(self.function, self.findings)


def explain(
    f: Callable[..., Any],
    *args: Any,
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    **kwargs: Any,
) -> Explanation:
    """Return for each input whether its gradient is connected, zero or missing, with the reasons.

    `explain` runs the function once, on the given values. It allows and lists conversions to plain values, such as `float(t)`,
    which `grad` refuses. It raises the same other errors as `grad`.

    Args:
        f: a function of NumPy code.
        args: the arguments of `f`: arrays, numbers or pytrees of them.
        argnums: the position or positions of the arguments to examine.
        argnames: the name or names of the arguments to examine. They replace the default `argnums=0`.
        has_aux: `f` returns a pair `(value, aux)`; `aux` is ignored.
        kwargs: the keyword arguments of `f`.

    Returns:
        An `Explanation`. Print it, or read its `findings`.

    Raises:
        InputError: a selected argument is missing.
        OutputError: the result of `f` is not a pytree of arrays.

    Example:
        >>> import numpy as np, functad
        >>> def loss(w, x):
        ...     return np.sum(w["scale"] * x)
        >>> functad.explain(loss, {"scale": 2.0, "shift": 1.0}, np.ones(3))
        gradient of loss:
          args[0]['scale']: connected
          args[0]['shift']: missing, it is not used
    """
    return explain_call(Selection("explain", f, argnums, argnames), args, kwargs, has_aux)


def explain_call(selection: Selection, args: tuple[Any, ...], kwargs: dict[str, Any], has_aux: bool) -> Explanation:
    """Run the function of a selection under a `Follower`, and return the explanation."""
    f = selection.function
    follower = Follower(f)
    given, keywords = list(args), dict(kwargs)
    inputs: list[tuple[str, int | str]] = []  # for each leaf its path, and its slot or the reason for the refusal
    for key in selection.keys(args, kwargs):
        place: Any = given if isinstance(key, int) else keywords
        leaves, structure = flatten(place[key])
        root = f"args[{key}]" if isinstance(key, int) else f"kwargs[{key!r}]"
        made = []
        for leaf, path in zip(leaves, structure.paths(root), strict=True):
            reason = undifferentiable(leaf)
            inputs.append((path, follower.inputs if reason is None else reason))
            made.append(follower.enter(leaf) if reason is None else leaf)
        place[key] = structure.unflatten(made)
    out, _ = split_aux(traced(follower, f, given, keywords), has_aux, selection)
    leaves, _ = checked_leaves(out, "explain", f)
    analysis = _Analysis(follower, [leaf for leaf in leaves if isinstance(leaf, Followed) and leaf.recorder is follower])
    findings = [
        analysis.finding(path, slot) if isinstance(slot, int) else Finding(path, "refused", False, (slot.rstrip("."),))
        for path, slot in inputs
    ]
    return Explanation(name_of(f), tuple(findings))


# Analysis


class _Analysis:
    """The dependences of the results of a finished trace on its inputs."""

    def __init__(self, follower: Follower, results: list[Any]) -> None:
        self.follower = follower
        steps = follower.steps
        alive = [leaf for leaf in results if leaf.alive]
        self.results = [leaf.slot for leaf in results]
        self.links = [_Link(step.parents, (slot,)) for slot, step in enumerate(steps)]
        self.derivatives = [_Link(step.active, (slot,)) for slot, step in enumerate(steps)]
        self.used = _marked(mark_needed(marks_at([leaf.slot for leaf in results], len(steps)), self.links))
        self.connected = _marked(mark_needed(marks_at([leaf.slot for leaf in alive], len(steps)), self.derivatives))
        seeds = _seeds(alive, len(follower.equations))
        zeros = _Zeros()
        with observing(zeros):
            self.gradients = pull_back(follower.equations, seeds, follower.inputs, consume=False)
        self.vanished = zeros.places

    def finding(self, path: str, slot: int) -> Finding:
        """Return the finding for an input."""
        steps = self.follower.steps
        reached = _marked(mark_reached(marks_at([slot], len(steps)), self.derivatives))
        cuts = [
            f"cut by {step.text}"
            for s, step in enumerate(steps)
            if s in self.used and not reached.isdisjoint(set(step.parents) - set(step.active))
        ]
        depending = _marked(mark_reached(marks_at([slot], len(steps)), self.links))
        compared = [
            f"it equals what {text} compares it with: a value kept from an earlier call has no derivative"
            for text, slots in self.follower.equal
            if not depending.isdisjoint(slots)
        ]
        refusals = [f"grad raises where it {text}" for s, text, refused in self.follower.uses if refused and s in reached]
        if slot in self.connected:
            if not _is_zero(self.gradients[slot]):
                way = way_of(slot, steps, self.results)
                partly = [f"but another path is {cut}" for cut in cuts]
                rough = [f"approximate by {steps[s].text}" for s in sorted(reached) if "[approximate=" in steps[s].text]
                kept = [f"but {reason}" for reason in compared]
                return Finding(path, "connected", True, _distinct([*rough, *partly, *kept, *refusals]), way)
            places = [f"at these values by {steps[s].text}" for s, parent in self.vanished if parent in reached]
            way = way_of(slot, steps, self.results, self.vanished)
            return Finding(path, "zero", True, _distinct([*(places or ["its contributions cancel"]), *cuts, *refusals]), way)
        way = way_of(slot, steps, self.results)
        if slot in self.used:
            return Finding(path, "zero", False, _distinct([*cuts, *refusals]), way)
        uses = [
            f"{'its value' if s == slot else f'the result of {steps[s].text}'} {text}"
            for s, text, refused in self.follower.uses
            if s in depending and not refused
        ]
        if uses or compared or refusals:
            return Finding(path, "missing", False, _distinct([*uses, *compared, *refusals]), way)
        last = [steps[s].text for s in sorted(depending - {slot})]
        if not last:
            return Finding(path, "missing", False, ("it is not used",))
        return Finding(path, "missing", False, (f"the result does not depend on {last[-1]}",), way)


class _Link(NamedTuple):
    """An operation as a record: the slots of its inputs and of its result."""

    inputs: tuple[int, ...]
    outputs: tuple[int]


def _marked(marks: bytearray) -> set[int]:
    return {slot for slot, mark in enumerate(marks) if mark}


def _seeds(results: list[Any], count: int) -> list[Any]:
    """Return the cotangents of the results, by slot: 1 for a number, random elements for an array, so that no sum cancels."""
    generator = np.random.default_rng(0)
    seeds: list[Any] = [None] * count
    for leaf in results:
        shape, dtype = shape_of(leaf.below), dtype_of(leaf.below)
        seeds[leaf.slot] = generator.uniform(0.5, 1.5, shape).astype(dtype) if shape else dtype.type(1)
    return seeds


class _Zeros(Observer):
    """An observer of a backward pass that notes the operations where a nonzero cotangent becomes exactly zero.

    Attributes:
        places: pairs of the slot of the operation and the slot of its argument.
    """

    def __init__(self) -> None:
        self.places: list[tuple[int, int]] = []

    def before(self, index: int, record: Any, given: Callable[[], Sequence[Any]]) -> None:
        """Note the arguments with a zero cotangent, if the result has a nonzero one."""
        gs = given()
        if not all(map(_is_zero, gs)):
            found = zip(inputs_of(record), pull_alone(record, gs), strict=True)
            self.places += [(index, slot) for slot, ct in found if _is_zero(ct)]


def _is_zero(ct: Any) -> bool:
    value = innermost(ct)
    return value is None or (not isinstance(value, ArraySpec) and not np.any(value))


def _distinct(reasons: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reasons))
