"""`explain`: the reasons for a gradient that is zero or missing, with the line that cuts each path.

`explain` runs the function once under `Follower`, a trace with its own Tensor class, which also records operations without
derivative. These records give the operations between an input and the result, and the operation at which the derivative ends.
A backward pass determines whether a connected gradient is zero.

Under `grad` a comparison, a rounding or `stop_gradient` returns a plain value, and the trace ends there. `Follower` returns a
constant Tensor instead, so that it records the further dependence on the arguments. A constant Tensor behaves like its plain
value: it decides branches, indexes arrays, and converts to an array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.display import Markup, code, cut_middle, faint, fold, heading, joined, tag, view, wrapped
from functad.expressions.records import Observer, inputs_of, observing
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import here, name_of
from functad.primitives.entry import INTERNAL, Primitive
from functad.primitives.operands import innermost
from functad.primitives.vocabulary import shown_name
from functad.tracing.concrete import ReverseRecorder
from functad.tracing.tensor import Tensor
from functad.tracing.trace import Recorded, Recorder
from functad.tracing.views import note_if_view
from functad.transforms.boundary import checked_leaves, split_aux, traced, undifferentiable
from functad.transforms.reverse import pull_alone, pull_back
from functad.transforms.transform import ArgNames, ArgNums, Selection
from functad.trees import flatten

_NUMBERS = (bool, int, float, complex)
_USES = {
    "bool": "decides a branch",
    "index": "is used as an integer",
    "Use as an integer": "is used as an integer",
    "array": "becomes a plain array",
    "Conversion to an array": "becomes a plain array",
    **dict.fromkeys(("assign", "assign_add", "assign_sub", "Variable()"), "is assigned to a Variable"),
}
_EQUALITIES = frozenset({"np.array_equal", "np.array_equiv", "np.allclose", "np.isclose", "np.equal"})


class Step(NamedTuple):
    """One operation of a followed trace.

    Attributes:
        text: the operation and its line.
        parents, active: the slots of all its Tensor arguments, and of the arguments with a derivative.
    """

    text: str
    parents: tuple[int, ...]
    active: tuple[int, ...]


class Follower(ReverseRecorder):
    """A reverse trace that also records operations without derivative.

    Attributes:
        steps: by slot, the operation that made it.
        uses: the values that left the trace: slot, text with the line, and `True` if `grad` would raise there.
        equal: the comparisons for equality that were true, which may be a look-up in a cache: text with the line, and the slots
            of the compared values.
    """

    sees_inside = True

    def __init__(self, function: object) -> None:
        super().__init__("explain", function)
        self.fast, self.monitor = False, None  # the fast paths would bypass `process`
        self.steps: list[Step] = []
        self.uses: list[tuple[int, str, bool]] = []
        self.equal: list[tuple[str, tuple[int, ...]]] = []

    def enter(self, value: Any) -> Any:
        """Add an input and return its Tensor."""
        slot = self.inputs
        self.steps.append(Step("input", (), (slot,)))
        return super().enter(value)

    def lowered(self, primitive: Primitive, arrays: tuple[Any, ...]) -> tuple[Sequence[Any], tuple[int, ...], bool]:
        """Return the arguments one level lower; constant Tensors are not among the differentiated positions."""
        values, active, nested = super().lowered(primitive, arrays)
        return values, tuple([i for i in active if arrays[i].alive]), nested

    def record(self, *call: Any) -> Any:
        """Record a computed call and its step."""
        made = super().record(*call)
        primitive, arrays, _, active, params, _ = call
        step = self.step(primitive, arrays, params, tuple([arrays[i].slot for i in active]))
        self.steps.extend([step] * (len(self.records) - len(self.steps)))
        return made

    def underived(self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], out: Any) -> Any:
        """Return a result without derivative as constant Tensors."""
        if out is NotImplemented:
            return out
        step = self.step(primitive, arrays, params)
        self.compare(_described(primitive, params), step, out)
        counts = isinstance(primitive.function, np.ufunc) or primitive in INTERNAL
        result = self.constant(out, step, numbers=counts)
        if primitive.views and step.parents and isinstance(result, Followed):
            # a buffer is a constant until the first write, and may have views too
            note_if_view(arrays[0], result, arrays[0].below, out, primitive, params)
        return result

    write = Recorder.write  # an operation like others; nothing is written in place

    def step(self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], active: tuple[int, ...] = ()) -> Step:
        """Return the step of a call."""
        parents = tuple([a.slot for a in arrays if isinstance(a, Recorded) and a.recorder is self])
        return Step(f"{_described(primitive, params)} at {here()}", parents, active)

    def assigned(self, tensor: Any, what: str) -> None:
        """Note that the value of a Tensor is assigned to a Variable."""
        tensor._note(what)

    def compare(self, name: str, step: Step, out: Any) -> None:
        """Note a comparison for equality that is true everywhere; ignore other operations."""
        if name in _EQUALITIES and np.all(innermost(out)):
            self.equal.append((step.text, step.parents))

    def buffer(self, value: Any) -> Any:
        """Return a new array as a constant Tensor, so that Tensors can be written into it."""
        return self.constant(value, Step(f"a new array at {here()}", (), ()))

    def constant(self, out: Any, step: Step, *, numbers: bool = False) -> Any:
        """Return a result, or each element of a tuple or list, as a constant Tensor.

        A shape, a dtype or another object that is not an array is returned unchanged. Python numbers count as lengths and stay
        unchanged too, unless `numbers` is set.
        """
        if isinstance(out, (tuple, list)):
            parts = [self.constant(part, step) for part in out]
            return type(out)(*parts) if hasattr(out, "_fields") else type(out)(parts)
        is_array = issubclass(type(out), (np.ndarray, np.generic, Recorded)) and dtype_of(out).kind in "biufc"
        if not is_array and not (numbers and issubclass(type(out), _NUMBERS)):
            return out
        self.steps.append(step)
        return self.append(None, out)


class Followed(Tensor):
    """A Tensor of a `Follower`: alive, or constant, as its value would be under `grad`."""

    __slots__ = ()

    @property
    def alive(self) -> bool:
        """Whether the value would be a Tensor under `grad`."""
        self.current()
        return bool(self.recorder.steps[self.slot].active)  # type: ignore[attr-defined]

    def _note(self, wanted: str, *, refused: bool = False) -> None:
        text = f"{_USES.get(wanted, f'is converted by {wanted}')} at {here()}"
        self.recorder.uses.append((self.slot, text, refused))  # type: ignore[attr-defined]

    def _concrete(self, wanted: str) -> Any:
        value = super()._concrete(wanted)
        self._note(wanted)
        return value

    def _plain(self, wanted: str) -> Any:
        """Return the converted value, and note the conversion."""
        value = Tensor._concrete(self, wanted)
        convert: Any = {
            "float()": float,
            "complex()": complex,
            "int()": int,
            "Conversion to an array": np.asarray,
            "tolist()": np.asarray,
            "Use as an integer": operator.index,
            "Pickling": np.asarray,
            "numpy()": np.copy,
        }
        self._note(wanted, refused=self.alive)
        return convert[wanted](value)

    def item(self, *args: int) -> Any:
        """Return the element as a Python number, and note the conversion."""
        return np.asarray(self._plain("Conversion to an array")).item(*args)

    def __hash__(self) -> int:
        return super().__hash__() if self.alive else hash(self._concrete("hash()"))

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_plain_index(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.alive or any(isinstance(leaf, Followed) and leaf.alive for leaf in flatten(value)[0]):
            super().__setitem__(_plain_index(index), value)
        else:
            self.below[_plain_index(index)] = value

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that only arrays have, if the Tensor is constant."""
        if name.startswith("__") or self.alive:
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")
        return getattr(self._concrete(f".{name}"), name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        called = getattr(ufunc, method)
        if _all_constant((inputs, kwargs)):
            return self._call(called, f"np.{ufunc.__name__}", inputs, kwargs)
        if method == "__call__" and not kwargs:
            kwargs = {"order": "K"}  # the fast path without keywords supports the class Tensor only
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if _all_constant((args, kwargs)):
            return self._call(function, shown_name(function), args, kwargs)
        return super().__array_function__(function, types, args, kwargs)

    def _call(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Call a function with constant Tensors only, and return its result as constant Tensors."""
        leaves, structure = flatten((args, kwargs))
        parents = tuple([leaf.slot for leaf in leaves if isinstance(leaf, Followed)])
        args, kwargs = structure.unflatten([leaf.below if isinstance(leaf, Followed) else leaf for leaf in leaves])
        out, step = function(*args, **kwargs), Step(f"{name} at {here()}", parents, ())
        follower: Any = next(leaf for leaf in leaves if isinstance(leaf, Followed)).recorder  # `self` may be a stale view
        follower.compare(name, step, out)
        return follower.constant(out, step)


Follower.tensor_class = Followed


def _all_constant(tree: Any) -> bool:
    """Return `True` if a pytree holds Tensors, all constant and of one `Follower`.

    It holds none if NumPy dispatched the call for `like=`, or for an iterator that may yield Tensors.
    """
    tensors = [leaf for leaf in flatten(tree)[0] if isinstance(leaf, Recorded)]
    constant = [isinstance(t, Followed) and not t.alive for t in tensors]  # `alive` refreshes a stale view
    return all(constant) and len({id(t.recorder) for t in tensors}) == 1


def _plain_index(index: Any) -> Any:
    """Return an index with plain values in place of constant Tensors."""
    if isinstance(index, (tuple, list)):
        return type(index)([_plain_index(part) for part in index])
    if isinstance(index, slice):
        return slice(*[_plain_index(part) for part in (index.start, index.stop, index.step)])
    return index._concrete("index") if isinstance(index, Followed) and not index.alive else index


def _described(primitive: Primitive, params: dict[str, Any]) -> str:
    if primitive.name == "astype_integer":
        return f"astype({params['dtype']})"
    if "[approximate=" in primitive.name:  # numerical_primitive puts its method into the name
        return primitive.name
    if primitive in INTERNAL:
        return f"np.{primitive.name}" if hasattr(np, primitive.name) else primitive.name
    return shown_name(primitive.function)


class Way(NamedTuple):
    """The operations on the path from an input towards the result.

    Attributes:
        steps: the operations, each with its line, in order.
        cut: the index of the operation at which the derivative ends, or is zero at these values; `None` without such a cut.
        arrives: `True` if the last operation makes a result of the function.
    """

    steps: tuple[str, ...]
    cut: int | None
    arrives: bool


class Finding(NamedTuple):
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

    path: str
    status: str
    connected: bool
    reasons: tuple[str, ...]
    way: Way = Way((), None, False)

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
        lines = [f"gradient of {self.function}:"]
        for finding in self.findings:
            lines.append(wrapped(repr(finding), "  ", "      "))
            if finding.way.cut is not None:
                lines += [f"    {mark} {cut_middle(text, 72)}" for mark, text in _stations(finding)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        counts = {status: sum(finding.status == status for finding in self.findings) for status in _COLORS}
        facts = [tag("span", f"{count} {status}", class_=f"ftd-{_COLORS[status]}") for status, count in counts.items() if count]
        return view(heading(joined("Gradient of ", code(self.function)), *facts), *map(_shown, self.findings))


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
    """The dependences of the results of a finished trace on its inputs.

    Attributes:
        follower: the trace.
        parents, active: by slot, the slots that its step reads, and reads with a derivative.
        results: the slots of the results.
        used, connected: the slots that the results depend on, and those with a differentiable path to a result.
        gradients: the cotangents of the inputs.
        vanished: the operations where a cotangent becomes zero: pairs of the slot of an operation and of its argument.
    """

    def __init__(self, follower: Follower, results: list[Any]) -> None:
        self.follower = follower
        alive = [leaf for leaf in results if leaf.alive]  # this may record operations of stale views
        self.parents = [step.parents for step in follower.steps]
        self.active = [step.active for step in follower.steps]
        self.results = sorted([leaf.slot for leaf in results])
        self.used = _needed(self.results, self.parents)
        self.connected = _needed([leaf.slot for leaf in alive], self.active)
        zeros = _Zeros()
        with observing(zeros):
            seeds = _seeds(alive, len(follower.records))
            self.gradients = pull_back(follower.records, seeds, follower.inputs, consume=False)
        self.vanished = zeros.places

    def finding(self, path: str, slot: int) -> Finding:
        """Return the finding for an input."""
        alive, read = _reached(slot, self.active), _reached(slot, self.parents)
        cuts = [
            f"cut by {step.text}"
            for s, step in enumerate(self.follower.steps)
            if s in self.used and any(p in alive for p in step.parents if p not in step.active)
        ]
        compared = [
            f"it equals what {text} compares it with: a value kept from an earlier call has no derivative"
            for text, slots in self.follower.equal
            if any(s in read for s in slots)
        ]
        refusals = [f"grad raises where it {text}" for s, text, refused in self.follower.uses if refused and s in alive]
        if slot in self.connected and not _is_zero(self.gradients[slot]):
            status = "connected"
            rough = [f"approximate by {text}" for text in self._texts(alive) if "[approximate=" in text]
            kept = [f"but {reason}" for reason in compared]
            reasons = [*rough, *[f"but another path is {cut}" for cut in cuts], *kept, *refusals]
        elif slot in self.connected:
            status = "zero"
            places = [f"at these values by {self.follower.steps[s].text}" for s, parent in self.vanished if parent in alive]
            reasons = [*(places or ["its contributions cancel"]), *cuts, *refusals]
        elif slot in self.used:
            status, reasons = "zero", [*cuts, *refusals]
        else:
            uses = [
                f"{'its value' if s == slot else f'the result of {self.follower.steps[s].text}'} {text}"
                for s, text, refused in self.follower.uses
                if s in read and not refused
            ]
            last = f"the result does not depend on {self.follower.steps[max(read)].text}" if len(read) > 1 else "it is not used"
            status, reasons = "missing", [*uses, *compared, *refusals] or [last]
        way = self.way(alive, read, status == "zero" and slot in self.connected)
        return Finding(path, status, slot in self.connected, tuple(dict.fromkeys(reasons)), way)

    def way(self, alive: dict[int, int], read: dict[int, int], vanishes: bool) -> Way:
        """Return the way of an input to a result, through a zero, a full path or a cut; else to its last use.

        `alive` and `read` have the slots that depend on the input, differentiably and at all.
        """
        for end, parent in self.vanished if vanishes else ():
            if parent in alive and (beyond := self._onward(end)) is not None:
                return self._cut(_back(parent, alive), [end, *beyond])
        for end in self.results:
            if end in alive:
                return Way(self._texts(_back(end, alive)), None, True)
        for end in read:
            parents = [p for p in self.parents[end] if p in alive and p not in self.active[end]]
            if parents and (beyond := self._onward(end)) is not None:
                return self._cut(_back(parents[0], alive), [end, *beyond])
        return Way(self._texts(_back(max(read), read)), None, False)

    def _cut(self, before: list[int], after: list[int]) -> Way:
        return Way(self._texts([*before, *after]), len(before) - 1, True)

    def _onward(self, slot: int) -> list[int] | None:
        """Return the slots after `slot` on a path to a result, or `None` if no result depends on it."""
        before = _reached(slot, self.parents)
        end = next((result for result in self.results if result in before), None)
        return None if end is None else _back(end, before)[1:]

    def _texts(self, slots: Iterable[int]) -> tuple[str, ...]:
        """Return the texts of the operations of all slots but the first, which is the input."""
        return tuple([self.follower.steps[slot].text for slot in slots][1:])


def _needed(slots: Iterable[int], reads: Sequence[tuple[int, ...]]) -> set[int]:
    """Return the slots that `slots` depend on; `reads` holds, by slot, the slots that its operation reads."""
    found = set(slots)
    for slot in reversed(range(len(reads))):
        if slot in found:
            found.update(reads[slot])
    return found


def _reached(start: int, reads: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """Return the slots that depend on `start`, in order, with the previous slot on a shortest path; `start` maps to itself."""
    before, length = {start: start}, {start: 0}
    for slot in range(start + 1, len(reads)):
        known = [p for p in reads[slot] if p in before]
        if known:
            before[slot] = min(known, key=length.__getitem__)
            length[slot] = length[before[slot]] + 1
    return before


def _back(slot: int, before: dict[int, int]) -> list[int]:
    """Return the slots on a path from its start to `slot`, both included."""
    found = [slot]
    while before[slot] != slot:
        slot = before[slot]
        found.append(slot)
    return found[::-1]


def _seeds(results: list[Any], count: int) -> list[Any]:
    """Return the cotangents of the results, by slot: 1 for a number, random elements for an array, so that no sum cancels."""
    generator = np.random.default_rng(0)
    seeds: list[Any] = [None] * count
    for leaf in results:
        shape, dtype = shape_of(leaf.below), dtype_of(leaf.below)
        seeds[leaf.slot] = generator.uniform(0.5, 1.5, shape).astype(dtype) if shape else dtype.type(1)
    return seeds


class _Zeros(Observer):
    """An observer of a backward pass that notes where a nonzero cotangent becomes zero: the slots of operation and argument."""

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


# Displays

_MOST = 7
"""The largest number of operations of a way in a display."""

_COLORS = {"connected": "green", "zero": "orange", "missing": "red", "refused": "grey"}


def _shown(finding: Finding) -> Markup:
    told = "connected, at these values zero" if finding.status == "zero" and finding.connected else finding.status
    head = joined(code(finding.path), " ", tag("b", told, class_=f"ftd-{_COLORS[finding.status]}"))
    if not finding.way.steps:
        return tag("div", head, *[joined(" · ", reason) for reason in finding.reasons])
    reasons = [tag("div", reason) for reason in finding.reasons]
    marks = {"x": tag("span", "✕", class_="ftd-red"), ">": "↓", ".": "·"}
    ends = f": the derivative {'is zero' if finding.connected else 'ends'} here" if finding.way.cut is not None else None
    way = [
        tag("div", joined(marks[mark], " ", (faint if mark == "." else code)(text), ends if mark == "x" else None))
        for mark, text in _stations(finding)
    ]
    return fold(head, *reasons, tag("div", *way, class_="ftd-way"), opened=finding.status != "connected")


def _stations(finding: Finding) -> list[tuple[str, str]]:
    """Return the operations of a way with marks: `>` before the derivative ends, `x` where it ends, `.` after that."""
    way = finding.way
    cut = len(way.steps) if way.cut is None else way.cut
    passed = [(">" if i < cut else "x" if i == cut else ".", text) for i, text in enumerate(way.steps)]
    if len(passed) > _MOST:
        first = min(max(cut - _MOST // 2, 1), len(passed) - _MOST + 1)
        after = first + _MOST - 2
        passed = [
            passed[0],
            *_omitted(first - 1, passed[first - 1][0]),
            *passed[first:after],
            *_omitted(len(passed) - 1 - after, passed[-1][0]),
            passed[-1],
        ]
    end = ("x", "nothing reads this") if not way.arrives else (">" if way.cut is None else ".", "the result")
    return [(">", finding.path), *passed, end]


def _omitted(count: int, mark: str) -> list[tuple[str, str]]:
    return [(">" if mark == "x" else mark, f"... {count} more")] if count > 0 else []
