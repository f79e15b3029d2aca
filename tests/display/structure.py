"""What a display is made of, as a browser would read it: the tests of displays ask this for text, rows and tags."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"br", "img", "input", "hr", "col"}


class Structure(HTMLParser):
    """The elements of a display; it fails where a tag is not closed, or an attribute stands twice.

    Attributes:
        tags: the names of all elements in order.
        rows: for each row of a table the text of its cells.
        text: all text but that of styles and scripts, with blanks between elements.
        summaries: the text of what folds.
        attributes: of all elements, in order.
    """

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.summaries: list[str] = []
        self._texts: list[str] = []
        self._open: list[str] = []
        self.feed(markup)
        self.close()
        assert self._open == [], f"not closed: {self._open}"
        self.text = " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice: {names}"
        self.tags.append(tag)
        self.attributes.append(dict(attrs))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "summary":
            self.summaries.append("")

    def handle_endtag(self, tag):
        assert self._open, f"{tag} is closed and was never opened"
        assert self._open.pop() == tag, f"{tag} is closed out of turn"

    def handle_data(self, data):
        if "style" in self._open or "script" in self._open:
            return
        self._texts.append(data)
        if "td" in self._open or "th" in self._open:
            self.rows[-1][-1] += data
        if "summary" in self._open:
            self.summaries[-1] += data


def structure(shown) -> Structure:
    """Return the structure of an object's display for notebooks."""
    return Structure(shown if isinstance(shown, str) else shown._repr_html_())


def fits(text: str, width: int = 80) -> bool:
    """Say whether a text for terminals has no line that is too long, and no blanks at the end of one."""
    return all(len(line) <= width and line == line.rstrip() for line in text.splitlines())
