"""The site of the documentation: every page has its place, and what people call things is found. `.ci/run` builds it."""

import re
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
SOURCES = sorted(
    path for path in NOTEBOOKS.rglob("*") if path.suffix in (".md", ".ipynb") and ".ipynb_checkpoints" not in path.parts
)
GLOSSARY = re.search(r"^```\{glossary\}\n(.*?)^```", (NOTEBOOKS / "words.md").read_text(), re.MULTILINE | re.DOTALL)[1]
SYNONYMS = (
    "autodiff",
    "backprop",
    "Jacobian-vector product",
    "vector-Jacobian product",
    "finite differences",
    "gradient checking",
    "gradient checkpointing",
    "computational graph",
    "dual numbers",
    "pytree",
    "just-in-time compilation",
    "per-example gradients",
    "error propagation",
    "implicit differentiation",
)


def names(text):
    """Return the pages in a list: `page`, or `Shorter title <page>`."""
    return [line.rpartition("<")[2].rstrip(">") for line in text.splitlines() if line and not line.startswith(":")]


def listed():
    """Return the pages in all lists of pages."""
    return [name for page in NOTEBOOKS.glob("*.md") for text in TOCTREE.findall(page.read_text()) for name in names(text)]


def test_every_page_is_in_one_list_of_pages():
    pages = {str(path.relative_to(NOTEBOOKS).with_suffix("")) for path in SOURCES} - {"index"}
    assert sorted(listed()) == sorted(pages)


@pytest.mark.parametrize("word", SYNONYMS)
def test_what_others_call_it_is_a_word_with_a_place_to_go(word):
    entries = [entry.splitlines() for entry in GLOSSARY.split("\n\n")]
    (text,) = ["\n".join(entry) for entry in entries if word in entry]
    assert "`functad." in text or "](" in text


@pytest.mark.parametrize("page", ["guides.md", "concepts.md", "comparison.md", "inside.md"])
def test_the_table_of_a_section_names_each_of_its_pages(page):
    text = (NOTEBOOKS / page).read_text()
    (inner,) = TOCTREE.findall(text)
    for name in names(inner):
        assert f"({name}." in text, name


@pytest.mark.parametrize("page", [path for path in SOURCES if path.suffix == ".md"], ids=lambda page: page.stem)
def test_blocks_of_code_end_with_their_last_line(page):
    lines = page.read_text().splitlines()
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith("```")]
    assert not [number + 1 for number in fences[1::2] if not lines[number - 1].strip()]
