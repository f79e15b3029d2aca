"""Graphs of expression lists as text: DOT for Graphviz, and Mermaid."""

from __future__ import annotations

from functad.drawing.graph import CONSTANT, EQUATION, FOLD, INPUT, LOOP, OUTPUT, Graph, Node
from functad.expressions.observers import BACKWARD, FORWARD, TANGENT

_DOT_SHAPES = {
    INPUT: 'shape=box, style="rounded,filled", fillcolor="#eeeeee"',
    CONSTANT: 'shape=note, color="#6b6b6b"',
    OUTPUT: 'shape=box, style="rounded,bold"',
    EQUATION: "shape=box",
    LOOP: "shape=box, peripheries=2",
    FOLD: "shape=box3d",
}
_DOT_PHASES = {
    FORWARD: ', color="#1f6fb2"',
    BACKWARD: ', shape=octagon, color="#a85400"',
    TANGENT: ', shape=hexagon, color="#2b7d3f"',
}
_MERMAID_SHAPES = {
    INPUT: ("([", "])"),
    CONSTANT: ("[/", "/]"),
    OUTPUT: ("([", "])"),
    EQUATION: ("[", "]"),
    LOOP: ("[[", "]]"),
    FOLD: ("[[", "]]"),
}
_OPERATIONS = (EQUATION, LOOP, FOLD)


def dot(graph: Graph) -> str:
    """Return the graph in DOT, the language of Graphviz; equations of a backward pass are octagons."""
    lines = [
        "digraph functad {",
        "  rankdir=TB;",
        '  node [fontname="monospace", fontsize=11];',
        '  edge [fontname="monospace", fontsize=9];',
    ]
    for number, node in enumerate(graph.nodes):
        shape = _DOT_SHAPES[node.kind] + (_DOT_PHASES[node.phase] if node.kind in _OPERATIONS else "")
        lines.append(f"  n{number} [label={_quoted(_label(node))}, tooltip={_quoted(node.tip)}, {shape}];")
    lines += [f"  n{link.source} -> n{link.target} [label={_quoted(link.label)}];" for link in graph.links]
    return "\n".join([*lines, "}"])


def mermaid(graph: Graph) -> str:
    """Return the graph as a Mermaid flowchart for Markdown pages; equations of derivatives are hexagons."""
    lines = ["flowchart TD"]
    for number, node in enumerate(graph.nodes):
        opening, closing = _MERMAID_SHAPES[node.kind]
        if node.kind in _OPERATIONS and node.phase != FORWARD:
            opening, closing = "{{", "}}"
        group = node.phase if node.kind in _OPERATIONS else node.kind
        lines.append(f'  n{number}{opening}"{_coded(_label(node))}"{closing}:::{group}')
    lines += [f'  n{link.source} -->|"{_coded(link.label)}"| n{link.target}' for link in graph.links]
    lines += [f"  classDef {group} stroke:{color},fill:none" for group, color in _MERMAID_COLORS.items()]
    return "\n".join(lines)


_MERMAID_COLORS = {
    FORWARD: "#1f6fb2",
    BACKWARD: "#a85400",
    TANGENT: "#2b7d3f",
    **dict.fromkeys((INPUT, CONSTANT, OUTPUT), "#6b6b6b"),
}


def _label(node: Node) -> str:
    return f"{node.title}\n{node.detail}" if node.detail else node.title


def _quoted(text: str) -> str:
    """Return a text as a DOT string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _coded(text: str) -> str:
    """Return a text with Mermaid's special characters as numeric codes."""
    signs = {sign: f"#{ord(sign)};" for sign in '#"<>&`[]{}|\\'}
    return "".join([signs.get(sign, sign) for sign in text]).replace("\n", "<br/>")
