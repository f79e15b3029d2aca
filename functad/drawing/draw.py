"""`draw`: the expression list of a function as a picture."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from functad.display import counted, drawing, heading, palette, view
from functad.drawing.graph import EQUATION, FOLD, LOOP, Graph, dot, graph_of, mermaid
from functad.drawing.svg import fits, fixed, picture_of
from functad.errors import InputError
from functad.expressions.expressions import Expressions
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here, name_of
from functad.transforms.grad import vjp
from functad.transforms.leaves import replaced
from functad.transforms.lists import make_expressions
from functad.trees import flatten

LIMIT = 40


class Drawing:
    """A picture of an expression list, returned by `functad.draw`; notebooks display it.

    Attributes:
        name: the name of the function.
        expressions: the expression list.
    """

    __slots__ = ("_graph", "expressions", "name")

    def __init__(self, name: str, expressions: Expressions, graph: Graph) -> None:
        self.name = name
        self.expressions = expressions
        self._graph = graph

    @property
    def svg(self) -> str:
        """The picture as SVG; its colours follow the page, or the system if it is a file."""
        return drawing(picture_of(self._graph, str(self)))

    @property
    def dot(self) -> str:
        """The same graph in DOT, the language of Graphviz."""
        return dot(self._graph)

    @property
    def mermaid(self) -> str:
        """The same graph as a Mermaid flowchart, which many Markdown pages draw."""
        return mermaid(self._graph)

    def save(self, path: str | Path, *, theme: str | None = None) -> None:
        """Write the drawing to a file.

        Args:
            path: the file; its suffix selects the format: `.svg`, `.dot` or `.gv`, `.mmd`.
            theme: `light` or `dark` fixes the colours of an SVG, for programs without style sheets, such as LaTeX tools.
                Default: the colours follow the page.

        Raises:
            InputError: the suffix or the theme is unknown.
        """
        ends: dict[str, Callable[[], str]] = {
            ".svg": lambda: self.svg if theme is None else fixed(self.svg, palette(theme)),
            ".dot": lambda: self.dot,
            ".gv": lambda: self.dot,
            ".mmd": lambda: self.mermaid,
        }
        file = Path(path)
        if file.suffix not in ends or theme not in (None, "light", "dark"):
            raise InputError(
                f"save({str(path)!r}, theme={theme!r}) of a drawing, at {here()}: the path must end in {', '.join(ends)}, "
                f"and the theme is 'light', 'dark' or None. Other formats are made of the SVG, by programs that convert it."
            )
        file.write_text(f"{ends[file.suffix]()}\n", encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        shown, _, folded = str(self).partition("; ")
        return view(heading(*shown.split(": "), folded), picture_of(self._graph, str(self)))

    def __repr__(self) -> str:
        boxes = [node for node in self._graph.nodes if node.kind in (EQUATION, FOLD, LOOP)]
        text = f"drawing of {self.name}: {counted(len(self.expressions.equations), 'equation')}"
        if not self._graph.folded:
            return text
        return f"{text}; {self._graph.folded:,} of them folded, {counted(len(boxes), 'box', 'boxes')}"


def draw(
    f: Callable[..., Any] | Expressions, *args: Any, backward: bool = False, limit: int | None = LIMIT, **kwargs: Any
) -> Drawing:
    """Draw the expression list of a function: equations as boxes in layers, values as edges with their types.

    The function is traced without values. Equations of a derivative, as in `draw(functad.grad(f), x)`, have another colour and
    shape than equations of the function. Dashed edges are residuals. Large lists are folded: each call of a user function
    becomes one box, then each line, then runs of equations. The legend shows the number of folded equations.

    Args:
        f: a function of NumPy code, or an expression list.
        args: its arguments: arrays, numbers, `ArraySpec`s or pytrees of them; optional for an expression list.
        backward: also draw the backward pass, with cotangents of ones, to the floating-point arguments.
        limit: the largest number of equation boxes. `None` draws as many as a picture can hold: thousands, if long edges
            are few.
        kwargs: keyword arguments of `f`.

    Returns:
        A `Drawing`, displayed by notebooks; it has the texts `svg`, `dot` and `mermaid`, and `save(path)`.

    Raises:
        InputError: an argument is no pytree of arrays, `limit` is not positive, or `backward` is set and no argument is
            floating-point.
        OutputError: the result of `f` is no pytree of arrays.
        AbstractValueError: `f` needs a concrete value.

    Example:
        >>> import numpy as np, functad
        >>> drawing = functad.draw(lambda x: np.sum(np.sin(x) * x), np.zeros(3), backward=True)
        >>> drawing
        drawing of <lambda>: 8 equations
        >>> drawing.save("loss.svg")  # doctest: +SKIP
    """
    name = name_of(f) if not isinstance(f, Expressions) else "an expression list"
    if limit is not None and limit < 1:
        raise InputError(
            f"draw of {name}, at {here()}: limit={limit} leaves no box. Give a positive number, or None for all boxes."
        )
    if isinstance(f, Expressions) and not (args or kwargs):
        args, kwargs = f.input_structure.unflatten(list(f.specs[: len(f.inputs)]))
    if not backward:
        listed = f if isinstance(f, Expressions) else make_expressions(f)(*args, **kwargs)
        return _drawn(name, listed, listed.output_structure.paths("result"), limit)
    chosen = [i for i, leaf in enumerate(flatten((args, kwargs))[0]) if dtype_of(leaf).kind in "fc"]
    if not chosen:
        raise InputError(
            f"draw of {name}, at {here()}: backward=True needs an argument of floating point to pull cotangents back to, "
            f"and there is none. Pass 3.0 in place of 3, or arrays with dtype=float."
        )
    listed = make_expressions(_with_pullback(f, chosen))(*args, **kwargs)
    if isinstance(f, Expressions):
        listed = listed.replace(inputs=f.inputs)
    own = listed.output_structure.children[0].paths("result")
    return _drawn(name, listed, [*own, *[f"gradient of {listed.inputs[i]}" for i in chosen]], limit)


def _drawn(name: str, listed: Expressions, results: Sequence[str], limit: int | None) -> Drawing:
    """Return the drawing of a list, with fewer boxes than `limit` if the picture would be too large."""
    graph = graph_of(listed, results, limit)
    most = len(listed.equations) if limit is None else limit
    while most > LIMIT and not fits(graph):
        most //= 2
        graph = graph_of(listed, results, most)
    return Drawing(name, listed, graph)


def _with_pullback(f: Callable[..., Any], chosen: list[int]) -> Callable[..., Any]:
    """Return a function that computes `f` and the pullback of ones to some leaves of its arguments."""

    def both(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))

        def inexact(*given: Any) -> Any:
            positional, keywords = structure.unflatten(replaced(leaves, chosen, given))
            out = f(*positional, **keywords)
            return [leaf for leaf in flatten(out)[0] if dtype_of(leaf).kind in "fc"], out

        values, pull, out = vjp(inexact, *[leaves[i] for i in chosen], has_aux=True)
        return out, pull([np.ones(shape_of(value), dtype_of(value)) for value in values])

    return both if isinstance(f, Expressions) else functools.wraps(f)(both)
