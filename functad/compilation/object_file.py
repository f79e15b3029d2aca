"""Object files and C headers: a compiled function for programs without Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from functad.backends.backend import find
from functad.compilation.passes import of_program
from functad.compilation.programs import Entry
from functad.compilation.trace import Cell, Trace
from functad.errors import InputError, UnsupportedError
from functad.expressions.expressions import Equation, Expressions, inner_lists, source_spec
from functad.expressions.spec import ArraySpec
from functad.places import call_of, name_of
from functad.primitives.safe import CAREFUL
from functad.process import write_whole
from functad.transforms.lists import noted_lines

TYPES = {"double": "double", "float": "float", "i64": "int64_t", "i32": "int32_t", "i1": "uint8_t"}
"""The C types of the elements that native code supports."""

WORDS = re.findall(
    r"\w+",
    """alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new not nullptr operator or private
    protected public register restrict return short signed sizeof static struct switch template this throw true try typedef
    typeid typename union unsigned using virtual void volatile while xor malloc free realloc""",
)
"""Words that C and C++ reserve, and C functions that the code calls."""

MEANINGS = {
    1: "a check failed: an index out of bounds, a matrix that is singular or nearly so, or an integer of 2^31 or more",
    2: "the system is out of memory",
    3: "a derivative has a NaN. functad would compute it again, with exact zeros in place of products of zero and infinity",
}
"""The meanings of the results of the C function. The contents of the result arrays are then undefined, except for 3."""


class Pointer(NamedTuple):
    """A parameter of the C function.

    Attributes:
        name: the name in C.
        path: the path of the leaf in the arguments or in the result.
        spec: the spec of the leaf.
    """

    name: str
    path: str
    spec: ArraySpec


def write_object_file(
    f: Any, entry: Entry, again: Callable[[], Expressions], path: Path, name: str | None, cpu: str
) -> tuple[Path, Path]:
    """Write an object file and its header, and return their paths. The arguments are those of `Lowered.object_file`.

    Args:
        f: the user's function.
        entry: the compiled function for one kind of arguments.
        again: traces the function again.
        path: the path of the files.
        name: the name of the C function.
        cpu: the processor.

    Raises:
        UnsupportedError: the function needs an operation that native code leaves to NumPy.
        InputError: the name, `cpu` or the backend is none that object files support, or the list captures Tensors.
    """
    find("llvm")  # raises if llvmlite is not installed
    from functad.backends.native.c_function import NeedsPythonError, machine_for, object_code  # noqa: PLC0415 - needs llvmlite

    path = path.with_suffix("") if path.suffix in (".o", ".h") else path
    name = path.name if name is None else name
    trace, program, machine = entry.trace, entry.program, machine_for(cpu)
    _refuse_options(f, entry, name, cpu if machine is None else "")
    assert machine is not None
    own, careful = program.expressions, program.in_pass(CAREFUL)
    specs = own.specs[: len(own.inputs)]
    paths = [*trace.structure.paths("out"), *[f"new_{_name_of_cell(own, trace, cell)}" for cell in trace.changed]]
    taken: set[str] = set()
    given = [Pointer(_name_in_c(p, taken), p, spec) for p, spec in zip(own.inputs, specs, strict=True)]
    results = [Pointer(_name_in_c(p, taken), p, spec) for p, spec in zip(paths, own.results, strict=False)]
    _refuse_dtypes(f, given, results)
    try:
        made = object_code(
            of_program(own, program.exact, fused=True),
            None if careful is program else of_program(careful.expressions, program.exact, fused=True),
            program.checked,
            name,
            [each.name for each in given],
            [*[each.name for each in results], *[None] * trace.checks],
            machine,
        )
    except NeedsPythonError as error:
        _refuse(f, error.equation, error.expressions, again)
    paths_written = path.with_name(f"{path.name}.o"), path.with_name(f"{path.name}.h")
    header = header_text(name_of(f), name, given, results, made.fails, made.target)
    for each, data in zip(paths_written, (made.code, header.encode()), strict=True):
        write_whole(each, lambda file, data=data: file.write(data))  # type: ignore[misc]
    return paths_written


def _name_of_cell(own: Expressions, trace: Trace, cell: Cell) -> str:
    """Return the name of the input of a Variable."""
    return own.inputs[len(own.inputs) - len(trace.cells) + trace.cells.index(cell)]


def _name_in_c(path: str, taken: set[str]) -> str:
    """Return a name for a path, such as `q_length` for `q['length']`, that is not taken yet."""
    stem = "_".join(re.findall(r"[A-Za-z0-9_]+", path)) or "x"
    stem = f"x{stem}" if stem[0].isdigit() else stem
    found = stem if stem not in WORDS else f"{stem}_"
    found = next(name for name in (found, *[f"{stem}_{i}" for i in range(2, len(taken) + 3)]) if name not in taken)
    taken.add(found)
    return found


def header_text(
    function: str, name: str, given: Sequence[Pointer], results: Sequence[Pointer], fails: Sequence[int], target: str
) -> str:
    """Return the text of the header.

    Args:
        function: the name of the user's function.
        name: the name of the C function.
        given: its pointers to arguments.
        results: its pointers to results.
        fails: its results besides 0.
        target: the architecture and the processor.
    """
    width = max([len(each.name) for each in (*given, *results)], default=0)
    guard = f"FUNCTAD_{name.upper()}_H"
    parameters = [f"const {_type(each)} *{each.name}" for each in given] + [f"{_type(each)} *{each.name}" for each in results]
    short = ", ".join(parameters) or "void"
    long = ",\n".join([f"    {each}" for each in parameters])
    text = [
        f"/* {name}: the function {_plain(function)}, compiled by functad for {target}.",
        "",
        "   Arrays are contiguous, in C order and native byte order. A number is an array of one element, a boolean one byte.",
        "   Results must not overlap arguments. Several threads may call the function at the same time. Link with -lm.",
        "",
        "   Arguments:",
        *[f"     {each.name:<{width}}  {_shown(each.spec)}  {_plain(each.path)}" for each in given],
        "   Results:",
        *[f"     {each.name:<{width}}  {_shown(each.spec)}  {_plain(each.path)}" for each in results],
        "   The function returns 0" + (", or:" if fails else "."),
        *[f"     {reason}  {MEANINGS[reason]}" for reason in fails],
        "*/",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"int {name}({short});" if len(short) < 100 else f"int {name}(\n{long}\n);",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
        "",
    ]
    return "\n".join(text)


def _type(pointer: Pointer) -> str:
    from functad.loops.build import KINDS  # noqa: PLC0415 - few programs write headers

    return TYPES[KINDS[pointer.spec.dtype]]


def _shown(spec: ArraySpec) -> str:
    return f"{spec.dtype.name}[{','.join(map(str, spec.shape))}]"


def _plain(text: str) -> str:
    """Return a text that cannot end a comment."""
    return text.replace("*/", "* /").replace("\n", " ")


# Errors


def _refuse_options(f: Any, entry: Entry, name: str, unknown: str) -> None:
    """Refuse names that are none in C, an `unknown` processor, and lists that other programs cannot run.

    Raises:
        InputError: there is one of these reasons.
    """
    reason = ""
    if unknown:
        reason = f"cpu={unknown!r} is unknown on this architecture. Take 'generic' or 'native'."
    elif not (name.isidentifier() and name.isascii()) or name in WORDS:
        reason = f"{name!r} is no name of a C function. Pass another name=."
    elif entry.trace.captured:
        reason = "the function reads Tensors of a transform that is running. Lower it outside."
    elif (backend := entry.program.backend.name) not in ("llvm", "numpy"):
        reason = f'it was compiled for {backend!r}. Take jit(f, backend="llvm") and NumPy arrays.'
    if reason:
        raise InputError(f"{call_of('object_file', f)}: {reason}")


def _refuse_dtypes(f: Any, given: Sequence[Pointer], results: Sequence[Pointer]) -> None:
    """Refuse dtypes that native code does not support.

    Raises:
        UnsupportedError: an argument or a result has such a dtype.
    """
    from functad.loops.build import KINDS  # noqa: PLC0415 - few programs write headers

    for role, pointers in (("argument", given), ("result", results)):
        for each in pointers:
            if each.spec.dtype not in KINDS:
                raise UnsupportedError(
                    f"{call_of('object_file', f)}: the {role} {each.path} is {_shown(each.spec)}. Object files have "
                    f"{', '.join([dtype.name for dtype in KINDS])}. Convert it, or split complex numbers into two real arrays."
                )


def _refuse(f: Any, equation: Equation, expressions: Expressions, again: Callable[[], Expressions]) -> NoReturn:
    """Raise the error about an equation that needs NumPy.

    Raises:
        UnsupportedError: always.
    """
    specs = [source_spec(s, expressions.specs) for s in equation.inputs]
    results = [expressions.specs[s] for s in equation.outputs]
    name = _name_of(equation.primitive)
    with noted_lines():
        place = next((e.place for e in _equations(again()) if e.primitive is equation.primitive and e.place), None)
    where = f", at {place.where}" if place is not None and place.where else ""
    if equation.primitive.effect:
        raise UnsupportedError(
            f"{call_of('object_file', f)}: Python runs functad.debug.print{where}, and a C program has no Python. Leave it out."
        )
    raise UnsupportedError(
        f"{call_of('object_file', f)}: NumPy computes {name} of {', '.join(map(_shown, specs))}{where}, and a C program has no "
        f"NumPy. {_fix(name, [*specs, *results])}"
    )


def _fix(name: str, specs: Sequence[ArraySpec]) -> str:
    """Return the fix for an operation that needs NumPy."""
    from functad.loops.build import KINDS  # noqa: PLC0415 - few programs write headers

    if any(spec.weak and spec.dtype.kind == "i" for spec in specs[-1:]):
        return "Python integers are unbounded: pass np.int64(n) in place of n."
    other = next((spec for spec in specs if spec.dtype not in KINDS), None)
    if other is not None:
        return f"Native code has {', '.join([dtype.name for dtype in KINDS])}, not {other.dtype.name}: convert its arguments."
    small = " Matrices of up to 8 rows need no LAPACK." if name.startswith("np.linalg.") else ""
    return f"Compute it in the C program, and make its result an argument of the function.{small}"


def _equations(expressions: Expressions) -> Iterator[Equation]:
    """Yield all equations, those of inner lists first."""
    for equation in expressions.equations:
        for _, inner in inner_lists(equation.params):
            yield from _equations(inner)
        if equation.primitive.inner is not None:
            yield from _equations(equation.primitive.inner)
        yield equation


def _name_of(primitive: Any) -> str:
    """Return the name of an operation, such as `np.linalg.inv`."""
    module = getattr(primitive.function, "__module__", None) or ("numpy" if hasattr(primitive.function, "nin") else "")
    if module.partition(".")[0] != "numpy":
        return str(primitive.name)
    return ".".join(["np", *module.split(".")[1:], primitive.name])
