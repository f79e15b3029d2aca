"""`to_source`: write a function, or its derivative, as a module of plain NumPy code."""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
import keyword
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from functad.backends.numpy_source import Form, module_text
from functad.backends.source import Definitions, NoTextError, identifier
from functad.compilation.guards import GuardingRecorder, LeaveError, has_values
from functad.compilation.passes import simplified
from functad.compilation.trace import without_idle
from functad.control.equation import pure
from functad.errors import UnsupportedError
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.places import here, name_of
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.elementwise.elementary import POSITIVE
from functad.primitives.elementwise.guard import CHECK, GUARD, as_check
from functad.primitives.safe import PASS, SINGULAR
from functad.process import setting
from functad.transforms.lists import extract, make_list
from functad.transforms.outside import frozen_in
from functad.transforms.transform import parameters_of
from functad.trees import MAPPINGS, Structure, _steps, flatten


def to_source(f: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Return the source of a NumPy-only module that computes `f` for such arguments.

    The generated function takes and returns the same pytrees as `f`. It is valid for the shapes and dtypes of the arguments
    given here. Variables that `f` reads are constants in the source. The parameters are the parameters of `f` that are given
    here, in the order of `f`. Each element of `*args` and `**kwargs` is a separate parameter. Parameters after one that is left
    out are keyword-only.

    Args:
        f: a function of NumPy code, such as `functad.grad(loss)`.
        args: arrays, numbers, `ArraySpec`s, or tuples, lists and dictionaries of them.
        kwargs: the same, by name.

    Returns:
        The text of the module. The generated function has the name of `f`, or `function` if that is not an identifier. A name
        that the module needs itself, such as `np` or `sum`, gets an underscore. Calls of `functad.debug.print` are left out.

    Raises:
        UnsupportedError: an operation of `f` cannot be written as NumPy code, or a container is not of the types above.
        AbstractValueError: `f` needs the value of a Tensor that is a float, or of an argument given as an `ArraySpec`.

    Example:
        >>> import numpy as np, functad
        >>> def energy(x):
        ...     return np.sum(np.sin(x) * x)
        >>> print(to_source(functad.grad(energy), np.ones(3)))
        import numpy as np
        <BLANKLINE>
        <BLANKLINE>
        def energy(x):
            v1 = np.sin(x)
            v2 = np.cos(x)
            v3 = x * v2
            del v2
            v4 = v1 + v3
            del v1, v3
            return v4
        <BLANKLINE>
    """
    with frozen_in("to_source", f, [f]), setting(PASS, SINGULAR):
        traced = pure(_traced(f, args, kwargs))
    checks = [e.outputs[0] for e in traced.equations if e.primitive is GUARD]
    equations = [
        e._replace(primitive=CHECK, params=as_check(e.params)) if e.primitive is GUARD else e for e in traced.equations
    ]
    whole = traced.replace(equations=tuple(equations), outputs=(*traced.outputs, *checks))
    expressions = _with_copies(simplified(extract(whole, placed=without_idle)), whole.outputs)
    name = name_of(f).rpartition(".")[2]
    name = name if name.isidentifier() and not keyword.iskeyword(name) else "function"
    try:
        form = _form(f, traced)
        own = expressions.replace(inputs=tuple(form.leaves))
        return module_text(own, f"{name}_" if name in ("np", *dir(builtins)) else name, form)
    except NoTextError as error:
        raise UnsupportedError(
            f"to_source of {name_of(f)}, at {here()}: {error} has no text that runs without functad. Leave that part out of "
            f"the function, or compile it with functad.jit, which keeps functad's own."
        ) from None


def _traced(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Expressions:
    """Return the list of the function, with guards if it needs values and the arguments have them.

    Raises:
        AbstractValueError: the function needs a value that no guard can check, or a value of an argument given as a spec.
    """
    leaves = flatten((args, kwargs))[0]
    valued = not any(isinstance(leaf, ArraySpec) for leaf in leaves) and all(map(has_values, leaves))
    recorder = GuardingRecorder("to_source", f, leaves if valued else None)
    try:
        return make_list(recorder, f, args, kwargs)[0]
    except LeaveError:
        raise UnsupportedError(
            f"to_source of {name_of(f)}, at {here()}: the function branches on a value, after or before an operation that "
            f"raises an error, prints or stores something. Choose between values with np.where."
        ) from None
    finally:
        recorder.let_go()


def _with_copies(expressions: Expressions, before: Sequence[Any]) -> Expressions:
    """Return a list with copies of results that are inputs or equal results only since simplification."""
    equations, outputs, specs = list(expressions.equations), list(expressions.outputs), list(expressions.specs)
    known: dict[int, Any] = {i: i for i in range(len(expressions.inputs))}
    for i, (source, first) in enumerate(zip(outputs, before, strict=True)):
        old = first if type(first) is int else None  # a constant
        if type(source) is int and known.setdefault(source, old) != old and specs[source].shape:
            equations.append(Equation(COPY if specs[source].dtype.kind == "b" else POSITIVE, (source,), {}, (len(specs),)))
            outputs[i] = len(specs)
            specs.append(specs[source])
    return expressions.replace(equations=tuple(equations), outputs=tuple(outputs), specs=tuple(specs))


def _form(f: Callable[..., Any], traced: Expressions) -> Form:
    """Return the form of the function: its parameters, the expressions of the input leaves, and the text of the result.

    Raises:
        NoTextError: a container or a key has no text.
    """
    arguments, keywords = traced.input_structure.children
    header, parameters, roots = _parameters(f, len(arguments.children), keywords.data[0])
    pairs = zip(roots, (*arguments.children, *keywords.children), strict=True)
    leaves = [leaf for root, child in pairs for leaf in _leaves(child, root)]
    result = _text_of(traced.output_structure, iter(["{}"] * len(traced.outputs)))
    for leaf in leaves:
        names = [node.id for node in ast.walk(ast.parse(leaf)) if isinstance(node, ast.Name)]
        if len([name for name in names if name in parameters]) > 1:
            raise NoTextError(f"a key in {leaf}, beside a parameter of that name,")
    return Form(header, parameters, leaves, result)


def _parameters(f: Callable[..., Any], count: int, keys: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Return the text of the parameters, their names, and the expressions of the arguments.

    Args:
        f: the function.
        count: the number of positional arguments.
        keys: the names of the keyword arguments.
    """
    known, kinds = (parameters_of(f) or {}).values(), inspect.Parameter

    def names(*kind: Any) -> list[str]:
        return [p.name for p in known if p.kind in kind]

    positional = names(kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    by_name = [name for name in names(kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY) if name in keys]
    front = [*positional[:count], *itertools.takewhile(by_name.__contains__, positional[count:])]
    others = [key for key in keys if key not in by_name]
    free = [key for key in others if key not in front and identifier(key) == key and not keyword.iskeyword(key)]
    only = [*[name for name in by_name if name not in front], *free]
    taken = {*front, *keys}
    star, rest = ["args", *names(kinds.VAR_POSITIONAL)][-1], _unused(["kwargs", *names(kinds.VAR_KEYWORD)][-1], taken)
    more = [_unused(f"{star}_{i}", {*taken, rest}) for i in range(count - len(positional))]
    mark = len(front) if more else len([name for name in front if name in names(kinds.POSITIONAL_ONLY)])
    parts = [*front[:mark], *more, *(["/"] if mark or more else []), *front[mark:], *(["*", *only] if only else [])]
    parts += [f"**{rest}"] if len(free) < len(others) else []
    roots = [name if name in by_name or name in free else f"{rest}[{name!r}]" for name in keys]
    return ", ".join(parts), [*front, *more, *only, rest], [*positional[:count], *more, *roots]


def _unused(name: str, taken: Collection[str]) -> str:
    """Return a name that is not in `taken`, with a number appended if necessary."""
    return next(text for i in itertools.count() if (text := f"{name}_{i}" if i else name) not in taken)


def _leaves(structure: Structure, root: str) -> list[str]:
    """Return the expression of each leaf.

    Raises:
        NoTextError: a key has no text, or does not find its item, as NaN.
    """
    if structure.kind is None:
        return [root]
    keys = structure.data[0] if structure.kind in MAPPINGS else ()
    if any(key != key for key in keys):
        raise NoTextError("the key NaN")
    steps = [f"[{Definitions().literal(key)}]" for key in keys] if structure.kind in MAPPINGS else _steps(structure)
    if any(step.startswith(".children[") for step in steps):
        raise NoTextError(structure.kind.__name__)
    return [leaf for child, step in zip(structure.children, steps, strict=True) for leaf in _leaves(child, root + step)]


def _braced(key: Any) -> str:
    """Return the text of a key for use in a format string.

    Raises:
        NoTextError: the key has no text.
    """
    return Definitions().literal(key).replace("{", "{{").replace("}", "}}")


def _text_of(structure: Structure, leaves: Iterator[str]) -> str:
    """Return the text of a result, with `{}` for each leaf."""
    if structure.kind is None:
        return next(leaves)
    if structure.kind is type(None):
        return "None"
    parts = [_text_of(child, leaves) for child in structure.children]
    if structure.kind is tuple:
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if structure.kind is list:
        return f"[{', '.join(parts)}]"
    if structure.kind is dict:
        pairs = zip(structure.data[0], parts, strict=True)
        return "{{" + ", ".join(f"{_braced(key)}: {part}" for key, part in pairs) + "}}"
    raise NoTextError(structure.kind.__name__)
