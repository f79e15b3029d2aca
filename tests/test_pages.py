"""The pages, and the README: their code runs, and prints what they say."""

import contextlib
import doctest
import re
from pathlib import Path

import numpy as np
import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

ROOT = Path(__file__).parents[1]
PAGES = sorted(page for page in (ROOT / "notebooks").glob("*.md") if "```python" in page.read_text())
ELSEWHERE = {"errors"}  # each of its entries is looked at by itself: test_errors.py
# With `...` in results:
SHORTENED = {
    "contributing",
    "control_flow",
    "custom_rules",
    "derivatives",
    "ensembles",
    "implicit",
    "other_arrays",
    "sensitivity",
    "sparse",
    "start",
    "vmap",
}
MARKS = {"sparse": pytest.mark.filterwarnings("ignore::functad.errors.LoopWarning")}  # the page is about other things
WITH_SCIPY = {"fitting", "optimize", "other_arrays", "simulation", "sparse", "start"}
WITH_DASK = {"other_arrays"}
WITH_JAX = {"bridges", "beyond_one_machine"}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=MARKS.get(page.stem, ())) for page in [*PAGES, ROOT / "README.md"] if page.stem not in ELSEWHERE],
    ids=lambda page: page.stem,
)
def test_code_prints_what_it_says(page):
    if page.stem in WITH_SCIPY:
        pytest.importorskip("scipy", reason="the page shows what SciPy adds")
    if page.stem in WITH_DASK:
        pytest.importorskip("dask", reason="the page shows arrays of Dask")
    if page.stem in WITH_JAX:
        pytest.importorskip("jax", reason="the page shows functions of JAX")
    options = doctest.REPORT_NDIFF | (doctest.ELLIPSIS if page.stem in SHORTENED else 0)
    examples = list(Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=options)]).parse(page).examples())
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    # A block is one example, or as many as it has prompts.
    assert len(examples) == sum(len(re.findall(r"^>>> ", block, re.MULTILINE)) or 1 for block in blocks) > 10
    with np.errstate(all="ignore") if page.stem == "kinks" else contextlib.nullcontext():
        for example in examples:  # they share their names, so the order counts
            example.evaluate()
