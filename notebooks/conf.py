"""The documentation site: `python -m sphinx -W --keep-going -b html notebooks build/site` builds it from pages and docstrings.

Notebooks and examples are shown as they are stored; that they give what they show is tested by `tests/test_notebooks.py` and
`tests/test_pages.py`. A new page takes a line in the `toctree` of `guides.md`, `concepts.md`, `comparison.md` or `inside.md`.
"""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

import functad

project = "functad"
author = "functad developers"
version = release = functad.__version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["conf.py"]

# Pages
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# Docstrings
default_role = "py:obj"  # `grad` in a docstring is a link, where it is a name, and code in any case
autodoc_typehints = "none"  # Args say shapes and dtypes, which annotations do not
autodoc_member_order = "groupwise"
autosummary_generate = False
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"
add_module_names = True

# Looks
html_theme = "furo"
html_title = "functad"
html_static_path = ["_static"]
html_css_files = ["functad.css"]
html_math_renderer = "mathml"
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_dark_style = "github-dark"


class NamesAreLinks(SphinxTransform):
    """Makes code such as `functad.grad` or `functad.grad(f)` on pages a link into the reference."""

    default_priority = 400
    name = re.compile(r"(functad(?:\.\w+)+)(?:\([^()]*\))?")

    def apply(self, **kwargs: Any) -> None:
        """Put a reference around each such piece of code that is no link yet."""
        for literal in list(self.document.findall(nodes.literal)):
            found = self.name.fullmatch(literal.astext())
            if found and not isinstance(literal.parent, (nodes.reference, addnodes.pending_xref)):
                link = addnodes.pending_xref(
                    "", refdomain="py", reftype="obj", reftarget=found[1], refdoc=self.env.docname, refwarn=False
                )
                literal.replace_self(link)
                link += literal


OUTSIDE_CODE = re.compile(r"(`+[^`]*`+)(?=\w)|(?<!`)(`[^`]+`)|(?<=\S)\*|\*(?=\S)")

RETURNED = re.compile(r"^(?:Returns|Yields):\n +(?=\S)", re.MULTILINE)
ATTRIBUTES = re.compile(r"^Attributes:\n(?: +.*\n?)+", re.MULTILINE)
JOINT = re.compile(r"^(?P<indent> +)(?P<names>\w+(?:, \w+)+)(?P<rest>: .*(?:\n(?P=indent) .*)*)\n?", re.MULTILINE)


def plain_text(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Keep docstrings, which are plain text with code in backticks, from being read as more of reStructuredText than that."""

    def mended(match: re.Match[str]) -> str:
        if match[1]:  # "`Variable`s" is code with a letter after it
            return match[1] + "\\ "
        return match[2] or "\\*"

    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "*")):
            lines[number] = OUTSIDE_CODE.sub(mended, line)
    # What comes before a colon here is a type to napoleon, unless it is empty.
    text = RETURNED.sub(r"\g<0>: ", "\n".join(lines))
    if what in ("attribute", "data", "property"):
        text = f": {text}"
    lines[:] = ATTRIBUTES.sub(lambda section: JOINT.sub(one_by_one, section[0]), text).split("\n")


def one_by_one(entry: re.Match[str]) -> str:
    """Say of each of several names before one description what is said of all of them."""
    return "".join(f"{entry['indent']}{name}{entry['rest']}\n" for name in entry["names"].split(", "))


def formula(writer: Any, node: nodes.math) -> None:
    """Write a formula in a line as MathML, which browsers show without any script."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def formula_block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula that stands by itself."""
    writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Add what this file defines to Sphinx."""
    app.add_transform(NamesAreLinks)
    app.add_html_math_renderer("mathml", inline_renderers=(formula, None), block_renderers=(formula_block, None))
    app.connect("autodoc-process-docstring", plain_text, priority=100)  # before napoleon, which makes marks of its own
