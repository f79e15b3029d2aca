"""`to_source`: a function, or its derivative, as a module of plain NumPy code to read, commit and ship."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from functad.backends.numpy_source import Form, module_text
from functad.backends.source import NoTextError
from functad.compilation.simplify import simplified, without_dead
from functad.compilation.trace import without_idle
from functad.errors import UnsupportedError
from functad.expressions.expressions import Equation, Expressions
from functad.places import here, name_of
from functad.primitives.elementwise.arithmetic import POSITIVE
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.safe import PASS, SINGULAR
from functad.settings import setting
from functad.transforms.abstract import trace
from functad.transforms.random_states import frozen_in
from functad.trees.structure import Structure


def to_source(f: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Return the source of a module that computes `f` for arguments like these, and needs NumPy alone.

    The function in it takes what `f` takes, in containers of the same form, and returns what `f` returns, for arrays of the
    shapes and dtypes of the arguments given here. Variables that `f` reads are constants in it.

    Args:
        f: a function of NumPy code, such as `functad.grad(loss)`.
        args: arrays, numbers, `ArraySpec`s, or tuples, lists and dictionaries of them.
        kwargs: the same, by name.

    Returns:
        The text of the module. The function in it has the name of `f`, `function` if that is none.

    Raises:
        UnsupportedError: something that `f` computes has no text of its own, or a container is none of those above.
        AbstractValueError: `f` asked for a value.

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
        traced = without_idle(trace("to_source", f, args, kwargs))
    expressions = _with_copies(simplified(without_dead(traced)), traced.outputs)
    paths = list(traced.inputs)
    parameters = list(dict.fromkeys(_root(path) for path in paths))
    names = iter(["{}"] * len(expressions.outputs))
    name = name_of(f).rpartition(".")[2]
    try:
        form = Form(_identifiers(parameters), paths, _text_of(traced.output_structure, names))
        return module_text(expressions, name if name.isidentifier() and not keyword.iskeyword(name) else "function", form)
    except NoTextError as error:
        raise UnsupportedError(
            f"to_source of {name_of(f)}, at {here()}: {error} has no text that runs without functad. Leave that part out of "
            f"the function, or compile it with functad.jit, which keeps functad's own."
        ) from None


def _with_copies(expressions: Expressions, before: Sequence[Any]) -> Expressions:
    """Return a list that returns copies of its inputs where it computed something, of which no more than they were left."""
    equations, outputs, specs = list(expressions.equations), list(expressions.outputs), list(expressions.specs)
    for i, (source, old) in enumerate(zip(outputs, before, strict=True)):
        if type(source) is int and source < len(expressions.inputs) and source != old and specs[source].shape:
            equations.append(Equation(COPY if specs[source].dtype.kind == "b" else POSITIVE, (source,), {}, (len(specs),)))
            outputs[i] = len(specs)
            specs.append(specs[source])
    return expressions.replace(equations=tuple(equations), outputs=tuple(outputs), specs=tuple(specs))


def _identifiers(parameters: list[str]) -> list[str]:
    """Return names of parameters, of which each must be one.

    Raises:
        NoTextError: one is none.
    """
    if not all(p.isidentifier() for p in parameters):
        raise NoTextError("a function whose parameters have no names")
    return parameters


def _root(path: str) -> str:
    return path.partition("[")[0].partition(".")[0]


def _braced(key: Any) -> str:
    """Return the text of a key, as a part of a format."""
    return repr(key).replace("{", "{{").replace("}", "}}")


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
