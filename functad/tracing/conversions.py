"""Messages of `ConversionError`: the reason why a Tensor cannot become a plain array or number, and the fix.

A message shows the running expression of the user's code. The function that the expression calls selects the fix.
"""

from __future__ import annotations

import ast
import itertools
import math
import os.path
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import numpy as np

from functad.errors import AbstractValueError, ConversionError, FunctadError, UnsupportedError
from functad.places import WRITE_INTO, adoption_cure, assigning, here, instruction_of, line_of, running, user_frame
from functad.primitives.entry import ENTRIES
from functad.primitives.operands import MASKED, NO_ARRAY, OWN_RULES
from functad.primitives.vocabulary import is_scipys, shown_name

_STACK = "Use np.stack([t0, t1]), or np.concatenate, which make an array of Tensors."
_ITSELF = "Use t itself, which is an array already, and np.stack([t0, t1]) for a list of Tensors."
_FULL = "Use np.broadcast_to(t, shape), or t * np.ones(shape)."
_ASSIGN = f"{WRITE_INTO}, np.concatenate or np.where(mask, new, old), which make a new array."
VECTORIZE = "Write the function with NumPy functions of whole arrays, or use np.stack([f(v) for v in t])."
_INDEX = (
    "An index is an integer and has no derivative: use functad.stop_gradient(t).astype(int), "
    "or np.interp to read between places."
)
_COUNT = "A length is an integer and has no derivative: use int(functad.stop_gradient(t))."
_TEXT = "Use functad.stop_gradient(t), which is a plain array, to write it down."
_NUMBER = "Use the Tensor itself, np functions instead of math ones, or functad.stop_gradient(t)."
_RANDOM = "Draw standard numbers and transform them: mean + scale * rng.normal(size=n). "
_ANY = (
    "Use np.stack([t0, t1]) instead of np.array([t0, t1]), A @ t instead of A.dot(t), t itself instead of np.asarray(t), and "
    "functad.stop_gradient(t) where a constant is meant."
)

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int_", "intp", "uint")
_NOT_CURED_BY_ADOPTION = (*_INTEGERS, "fromfunction", "range", "dump", "dumps", "fmean", "[]", "operator")

CURES = {
    "array": _STACK + " For t itself no np.array is needed.",
    **dict.fromkeys(("asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "require"), _ITSELF),
    "float64": "Use t itself, or t.astype(np.float64).",
    "float32": "Use t.astype(np.float32).",
    **dict.fromkeys(
        _INTEGERS, "An integer has no derivative: use t.astype(int), or functad.stop_gradient(t), which is a plain array."
    ),
    "lists": "Use np.stack([t0, t1]) for each list of Tensors, or functions of functad.numpy, which take such lists.",
    "operator": "NumPy's operators convert a list themselves: use np.stack([t0, t1]) for it, as in A @ np.stack([t0, t1]).",
    "broadcast": "Use np.broadcast_shapes(t.shape, z.shape) for the shape, or np.broadcast_arrays(t, z) for the elements.",
    "fromiter": "Use np.stack(list(values)).",
    **{
        method: f"Use np.stack for the list: np.add.{method}(np.stack([t0, t1]){more})."
        for method, more in {"reduce": "", "accumulate": "", "reduceat": ", indices"}.items()
    },
    **dict.fromkeys(("full", "full_like"), _FULL),
    "fill": _FULL,
    "arange": "Use start + step * np.arange(n) with an integer n, or np.linspace(start, stop, n).",
    "range": _COUNT,
    "dot": "Use A @ t, or np.dot(A, t), instead of A.dot(t).",
    "vectorize": VECTORIZE,
    "frompyfunc": VECTORIZE,
    "apply_along_axis": "Return a Tensor for each slice: np.stack([f(row) for row in a]).",
    "fromfunction": "Return a Tensor of the shape of the indices.",
    "piecewise": "Use np.where or np.select.",
    "r_": "Use np.concatenate.",
    "c_": "Use np.stack(columns, axis=1).",
    "item": "Use the Tensor itself, t[i], or functad.stop_gradient(t).",
    "tolist": "Use list(t) for a list of Tensors, or functad.stop_gradient(t).tolist().",
    **dict.fromkeys(("dump", "dumps"), _TEXT),
    "fmean": "Use np.mean.",
    "fsum": "Use np.sum.",
    "dist": "Use np.linalg.norm(x - y).",
    **{
        name: f"Use np.{name}(t), whose derivative is zero, or int(functad.stop_gradient(t)) for a number."
        for name in ("ceil", "floor", "trunc")
    },
    "[]": _INDEX,
}
"""Fixes by the last part of the name of the called function."""

TABLES = (
    "Columns of pandas and polars do not hold Tensors. Compute with their values, s.to_numpy() * t, or with the Tensor on the "
    "left, t * s."
)
DRAWING = "Draw functad.stop_gradient(t), which is a plain array."

_BY_KIND = {
    "float()": _NUMBER,
    "complex()": _NUMBER,
    "int()": "Use functad.stop_gradient(t) if a constant is meant.",
    "Use as an integer": _COUNT,
    "item()": CURES["item"],
    "tolist()": CURES["tolist"],
    "Pickling": _TEXT,
    "JSON": "Use functad.stop_gradient(t).tolist(), which is Python's own numbers.",
    "hex()": _TEXT,
    "as_integer_ratio()": _NUMBER,
}

_RESULT = "Use the Tensor itself, which functions of NumPy take, or convert the result of the call."
_CHOICE = "Choose between values with np.where(condition, a, b), or between computations with functad.cond."
_COMPARED = (
    "A number of Python has no derivative, and a compiled path for each value would not pay. Compare the Tensor itself, "
    "`if t < tol`, and use functions of np in place of those of math."
)
_CHOICE_IN_BATCH = (
    "Choose between values with np.where, or between computations with functad.cond or functad.while_loop; lengths must be "
    "the same for all examples."
)
_REPETITION = "Repeat with functad.while_loop(condition, step, start)."
_LENGTHS = (
    "Take lengths from shapes, leave an index as it is, without int(), or pass the number as a Python constant "
    "(functools.partial, or static_argnames of jit)."
)
_STATIC = " Or pass the argument that decides as a constant: functad.jit(f, static_argnames=...)."
_CONCRETE = " Or trace with concrete values (grad, vjp, jvp)."
_BATCHED = {
    "np.linalg.eig": "Use a.astype(complex), whose eigenvalues are complex whatever the values are, or np.linalg.eigvalsh.",
    "np.polymul": "Use np.convolve(a, b), which keeps leading zeros.",
}

_BY_CALL = frozenset({
    "array", "asarray", "full", "full_like", "dot", "fsum", "fmean", "lists", "operator", "broadcast",
    "reduce", "accumulate", "reduceat",
})  # fmt: skip
"""Calls with one fix for all conversions."""

_ARRAY = "Conversion to an array"


def asked(wanted: str) -> str:
    """Return a conversion as a message shows it: `bool()` for `bool`; sentences unchanged."""
    return wanted if wanted[0].isupper() or wanted.endswith("()") else f"{wanted}()"


def snippet_shown() -> str:
    """Return the running expression of the user in backquotes, shortened, with a space behind; empty if unknown."""
    snippet = " ".join(running().split())
    return f"`{snippet if len(snippet) <= 72 else snippet[:69] + '...'}` " if snippet else ""


def abstract_cure(wanted: str, *, mask: bool, transform: str) -> str:
    """Return the fix for code that needs a value in a trace without values.

    Args:
        wanted: the conversion, such as `bool` or `int()`.
        mask: the Tensor holds truth values.
        transform: the name of the transform that traces.
    """
    if cure := _cure_of_the_line(wanted, mask=mask):
        return cure
    kind = wanted.removesuffix("()")
    if kind in ("index", "int", "Use as an integer"):
        return _LENGTHS
    if kind in ("float", "item") and transform == "jit":
        return _COMPARED
    choice = _REPETITION if _statement() == "while" else _CHOICE
    cure = choice if mask or kind == "bool" else _RESULT
    return cure + (_STATIC if transform == "jit" else _CONCRETE)


def _statement() -> str:
    """Return the first word of the user's line."""
    import linecache  # noqa: PLC0415 - only an error needs it

    frame = user_frame(sys._getframe(1))
    line = "" if frame is None else linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
    return (line.split(None, 1) or [""])[0]


def batch_cure(wanted: str, *, mask: bool) -> str:
    """Return the fix for code that needs one value where each example of a batch has its own; `mask` as in `abstract_cure`."""
    if wanted.startswith("np."):
        return _BATCHED.get(wanted) or (
            f"The shape or dtype of what {wanted} gives depends on values, and may differ between examples: take these one by "
            f"one, np.stack([f(v) for v in examples]), instead of vmap."
        )
    cure = _cure_of_the_line(wanted, mask=mask)
    return cure or (_RESULT if wanted == _ARRAY and not mask else _CHOICE_IN_BATCH)


def _cure_of_the_line(wanted: str, *, mask: bool) -> str:
    """Return the fix for the user's running expression in a trace without values; empty if there is none."""
    if assigning():
        return f"{WRITE_INTO}."
    snippet = " ".join(running().split())
    called = _called(snippet)[0]
    if called == "[]" and wanted.startswith(("index", "Use as")) and ":" in snippet:
        return "A length must be known: functad.numpy.array(a)[t + np.arange(n)] reads n places from t on."
    if called in ("[]", "take") and not mask:
        return "Read from an array that takes Tensors as places: functad.numpy.array(a)[t]."
    if called in _BY_CALL and (called != "operator" or wanted.endswith("array")):
        return CURES[called]
    from functad.primitives.linalg.routines import lapack_cure  # noqa: PLC0415 - only for errors

    if lapack := lapack_cure(called):
        return lapack
    if wanted == "float()" and called != "float" and hasattr(math, called):
        return "Use functions of np in place of those of math."
    return "Draw the result of the call, which is a plain array." if asks_for("matplotlib.") else ""


def refusal(wanted: str) -> ConversionError:
    """Return the error for a Tensor that would become a plain value.

    Args:
        wanted: the conversion: `float()`, `Conversion to an array`.
    """
    from functad.primitives.linalg.routines import lapack_cure  # noqa: PLC0415 - only for errors

    snippet = " ".join(running().split())
    called, is_random = _called(snippet)
    if called == "operator" and (wanted != _ARRAY or asker().startswith("numpy.ma.")):
        called = ""
    if assigning():
        of_table = asker().startswith(("pandas.", "polars."))
        wanted, cure = "Assignment into a plain array", TABLES if of_table else _ASSIGN + adoption_cure()
    else:
        cure = _cure_of(wanted, called, is_random=is_random)
    array = wanted == _ARRAY and called not in _NOT_CURED_BY_ADOPTION and not is_random
    array = array and cure not in (MASKED, TABLES, OWN_RULES, DRAWING, lapack_cure(called))
    number = wanted in ("float()", "complex()", "int()") and (
        called in ("float", "complex", "int", "fromiter") or (hasattr(math, called) and not snippet.startswith("cmath."))
    )
    if array or number or called == "fill" or wanted == "item()":
        more = adoption_cure()
        cure += "" if "functad.scipy" in cure and "functad.scipy" in more else more
    if wanted == "JSON":
        wanted, cure = "Object of type Tensor is not JSON serializable: text", _BY_KIND[wanted]
    return _lost(f"{wanted} of a Tensor that is being differentiated, {snippet_shown()}at {here()}", cure)


def _cure_of(wanted: str, called: str, *, is_random: bool) -> str:
    """Return the fix for a conversion in a call of the function `called`."""
    from functad.primitives.linalg.routines import lapack_cure  # noqa: PLC0415 - only for errors
    from functad.primitives.linalg.sparse_products import CURE as PRODUCTS  # noqa: PLC0415 - only an error needs it
    from functad.primitives.scipy_special.python_functions import cure as of_python_functions  # noqa: PLC0415 - likewise

    array = wanted == _ARRAY
    module = asker() if array else ""
    packages = {"scipy.sparse": PRODUCTS, "pandas.": TABLES, "polars.": TABLES, "astropy.units": OWN_RULES}
    return (
        next((cure for package, cure in packages.items() if module.startswith(package)), None)
        or (of_python_functions() if array else None)
        or (DRAWING if wanted in (_ARRAY, "float()", "int()") and asks_for("matplotlib.") else None)
        or CURES.get(called)
        or lapack_cure(called)
        or (MASKED if module.startswith("numpy.ma.") else None)
        or (f"{_RANDOM}Or use functad.stop_gradient(t)." if is_random else None)
        or _BY_KIND.get(wanted, _ANY)
    )


def _lost(lost: str, cure: str) -> ConversionError:
    """Return the error for a conversion that would lose a derivative."""
    return ConversionError(f"{lost}, would lose its derivative. {cure}")


_ON_THE_LEFT = "That library refuses what it does not know on the right: make the constant a Tensor, functad.constant(X) @ t."
_IN_UNITS = "Assign to q.magnitude, or make a new Quantity of a Tensor: t * ureg.meter."
_IN_COMPILED_CODE = {
    "Neither Quantity object nor its magnitude": ("An element of a Quantity, or its assignment, and", _IN_UNITS),
    "the Quantity implementation cannot handle": ("A function of an array with a unit and", OWN_RULES),
    "Iterator operand is flagged as writeable, but is an object": (
        "np.nditer",
        "Use t.flat, or np.ndindex(t.shape) and t[i].",
    ),
    "a bytes-like object is required, not 'Tensor'": (
        "The memory",
        "Use functad.stop_gradient(t), which is a plain array.",
    ),
    "can't unbox array from PyObject": ("An operand of an array of sparse", _ON_THE_LEFT),
    "Unsupported type <class 'functad.tracing.tensor.Tensor'>": ("An operand of an array of CuPy", _ON_THE_LEFT),
    "Expected Array or Python scalar; got <class 'functad": ("An operand of array_api_strict", "Use np.asarray(X) @ t."),
    "conversion from Tensor to Decimal": ("Decimal()", CURES["item"]),
    "unsupported type for timedelta": ("timedelta()", CURES["item"]),
    "functad.tracing.tensor.Tensor'> is not a valid JAX type": (
        "A function or an operator of JAX",
        "Use functad.from_jax(f) of a function of JAX, or functions of np.",
    ),
}
"""Known error messages of compiled code that received a `Tensor`, with the name of the operation and the fix."""


def refusal_behind(error: BaseException) -> BaseException | None:
    """Return the error about a Tensor, or the interrupt, that an error of NumPy or compiled code hides; otherwise `None`.

    NumPy's dispatcher calls `isinstance` on a Tensor, which runs Python code, and ignores exceptions. If an interrupt arrives
    there, the next call of a C function raises `SystemError` with the interrupt as its cause.
    """
    cause = error.__cause__
    if isinstance(error, SystemError) and cause is not None and not isinstance(cause, Exception):
        return cause
    if isinstance(error, ValueError) and isinstance(cause, (AbstractValueError, ConversionError)):
        return cause
    if isinstance(error, ValueError) and NO_ARRAY in str(error):
        return ConversionError(
            f"The method __array__ of an object returned a Tensor that is being differentiated, or another object that is no "
            f"array, at {_place_of(error)}: NumPy takes only plain arrays from it. Use that Tensor itself, or let NumPy's "
            f"functions there take Tensors: @functad.adopt above the function, or functad.adopt(its module)."
        )
    if _is_of_text(error):
        cure = "Use list(t) for a list of Tensors, or t.copy() for a copy."
        return _lost(f"Python code that was made of the text of a Tensor, at {_place_of(error)}", cure)
    return _refusal_in_compiled_code(error) if isinstance(error, TypeError) else None


def _refusal_in_compiled_code(error: TypeError) -> FunctadError | None:
    """Return functad's error for a `TypeError` of compiled code that received a `Tensor`; `None` if its text is not known."""
    text, place = str(error), _place_of(error)
    for said, (wanted, cure) in _IN_COMPILED_CODE.items():
        if said in text:
            return _lost(f"{wanted} of a Tensor that is being differentiated, at {place}", cure)
    text, _, shown = text.partition(", got 'Tensor(")
    if not shown or not text.startswith("expected a sequence of integers"):
        return None
    shown = shown.removesuffix("'").removesuffix(")")
    if shown.endswith("]"):  # a spec, in an abstract trace
        return AbstractValueError(f"The length of an array is a Tensor without a value, {shown}, at {place}. {_LENGTHS}")
    return ConversionError(f"The length of an array is a Tensor, {shown}, at {place}. {_COUNT}")


def _is_of_text(error: BaseException) -> bool:
    """Return `True` if `eval` or `exec` raised an error for the text of a Tensor, as in `eval(str(t.tolist()))`."""
    if isinstance(error, SyntaxError):
        return error.filename == "<string>" and "Tensor(" in (error.text or "")
    step = error.__traceback__ if isinstance(error, NameError) and error.name == "Tensor" else None
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_code.co_filename == "<string>"


def _place_of(error: BaseException) -> str:
    """Return the innermost line of the user that an error came through."""
    place, step = here(), error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        module = step.tb_frame.f_globals.get("__name__", "")
        others = code.co_filename.endswith(".pyx") or module.startswith(("jax", "array_api_strict"))
        others = others or (code.co_filename, code.co_name) == ("<string>", "<module>")  # code of `eval`
        if user_frame(step.tb_frame) is step.tb_frame and not others:  # neither NumPy's random numbers nor a library
            place = line_of(code, step.tb_lasti)
        step = step.tb_next
    return place


def unhashable() -> UnsupportedError:
    """Return the error for the hash of a Tensor, such as in a set or a dictionary."""
    from functad.primitives.scipy_special.python_functions import cure  # noqa: PLC0415 - only here

    instead = cure("looks its argument up in a set first") or (
        "Arrays compare element by element. Use the name or the index of t as the key, or functad.stop_gradient(t).item() "
        "where its value is meant."
    )
    return UnsupportedError(f"unhashable type: 'Tensor', at {here()}. {instead}")


def _called(snippet: str) -> tuple[str, bool]:
    """Return the last part of the called name, `[]` for an index, and whether the expression draws random numbers."""
    try:
        node: ast.AST = ast.parse(snippet, mode="eval").body
    except (SyntaxError, SystemError):  # Python 3.11 and 3.12: two threads that parse at the same time
        return "", False
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Mod):
        return "operator", False
    if isinstance(node, ast.Subscript):
        name = getattr(node.value, "attr", "")  # np.r_[t, 0.0]
        return (name if name in CURES else "[]"), False
    if not isinstance(node, ast.Call):
        return "", False
    function = node.func
    while isinstance(function, ast.Call):  # np.vectorize(f)(t)
        function = function.func
    text = ast.unparse(function)
    name = text.rpartition(".")[2]
    lists = any(isinstance(arg, (ast.List, ast.Tuple)) for arg in node.args)
    if lists and text in (f"np.{name}", f"numpy.{name}") and (name == "dot" or name not in CURES):
        name = "lists"
    return name, "rng" in text.lower() or "random" in text.lower()


def formatting() -> bool:
    """Return `True` if the `%` operator of a format string, as in `"%.3f" % t`, converts the Tensor to a number."""
    name, argument = instruction_of(next(_callers(), None))
    return name == "BINARY_OP" and argument in (6, 19)  # `%` and `%=`


def asker() -> str:
    """Return the name of the module of the innermost frame outside functad."""
    return next(map(_module_of, _callers()), "")


def asks_for(package: str) -> bool:
    """Return `True` if a frame between functad and the user's code belongs to a package."""
    frame = next(_callers(), None)
    user = user_frame(frame)
    between = itertools.takewhile(lambda each: each is not user, _callers())
    return any(_module_of(each).startswith(package) for each in between)


def multiplying_sparse() -> bool:
    """Return `True` if a sparse matrix of SciPy tries to convert a Tensor operand for `A @ t`."""
    names = [frame.f_code.co_name for frame in itertools.takewhile(_is_of_sparse, _callers())]
    others = [name for name in names if name != "_matmul_dispatch"]
    return names[:1] == ["_matmul_dispatch"] and others[:1] == ["__matmul__"]


def _is_of_sparse(frame: FrameType) -> bool:
    return _module_of(frame).startswith("scipy.sparse")


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _callers() -> Iterator[FrameType]:
    """Yield the frames around functad's innermost frames, from the inside out."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _module_of(frame).startswith("functad."):
        frame = frame.f_back
    while frame is not None:
        yield frame
        frame = frame.f_back


def instead_of(function: Any) -> str:
    """Return the fix for a function without an entry."""
    import difflib  # noqa: PLC0415 - only an error needs it, and it is slow to import

    from functad.primitives.scipy_special.python_functions import FORMULAS  # noqa: PLC0415 - likewise

    name = getattr(function, "__name__", repr(function))
    if name.strip("_") in FORMULAS and is_scipys(function):
        return f"Use {FORMULAS[name.strip('_')]}."
    known = {
        getattr(entry.function, "__name__", entry.name): shown_name(entry.function)
        for entry in ENTRIES.values()
        if entry.status != "refused"
    }
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = VECTORIZE + " " if name.endswith("(vectorized)") else ""
    hint += f"The nearest supported function is {known[close[0]]}. " if close else ""
    return hint + "functad.stop_gradient(t) passes a value as a constant."


# Some functions of `functad.numpy` call NumPy first with unchecked arguments, since searching a list for Tensors takes longer
# than many calls of NumPy. If NumPy then converts a Tensor, the Tensor raises `AskedError`, which only these functions catch.

_NUMPY = os.path.dirname(np.__file__) + os.sep  # noqa: PTH120 - as in `functad.places`

# Keyed by the identity of code objects, since their hash is not cached.
_asking: dict[int, CodeType] = {}
_passing: dict[int, CodeType] = {}


class AskedError(BaseException):
    """The signal that NumPy converts a Tensor for a function that calls NumPy first; it passes `except Exception` in NumPy."""


def asks_first(code: CodeType) -> None:
    """Register the code of a function that calls NumPy first and catches `AskedError`."""
    _asking[id(code)] = code


def passes_on(code: CodeType) -> None:
    """Register the code of a method that only forwards a conversion to a Tensor, such as `Variable.__array__`."""
    _passing[id(code)] = code


def is_asked_first(frame: FrameType | None) -> bool:
    """Return `True` if the conversion in a frame comes, directly or through NumPy, from a function that calls NumPy first."""
    while frame is not None and (frame.f_code.co_filename.startswith(_NUMPY) or id(frame.f_code) in _passing):
        frame = frame.f_back
    return frame is not None and id(frame.f_code) in _asking
