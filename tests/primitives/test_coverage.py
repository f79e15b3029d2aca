"""The table of coverage: no function of NumPy is missing, and its cells say what the generated checks do."""

import html
import inspect
import re

import numpy as np
import pytest

import functad
from functad.errors import AbstractValueError, UnsupportedError
from functad.primitives.coverage import _SEARCH, ORDER_CHECKED, Coverage, batching, dispatching_functions
from functad.primitives.entry import ENTRIES, Primitive
from functad.testing import calls, every_entry, primitive_checks
from tests.primitives.coverage_page import PAGE, page


def test_every_dispatching_function_is_listed():
    unlisted = {row.function for row in functad.coverage(status="unlisted")}
    assert unlisted == set(), f"no entry for {', '.join(sorted(unlisted))}"


def test_the_list_comes_from_numpy():
    names = {name for names in dispatching_functions().values() for name in names}
    assert len(names) > 300
    assert {"np.sin", "np.abs", "np.linalg.norm", "np.fft.rfftn", "np.zeros", "np.asarray", "np.eye", "np.save"} <= names


def test_an_unlisted_function_is_named(monkeypatch):
    monkeypatch.delitem(ENTRIES, np.sin)
    assert [row.function for row in functad.coverage(status="unlisted") if row.function == "np.sin"] == ["np.sin"]


def test_the_page_is_up_to_date():
    text, generated = PAGE.read_text(), page()
    version = f"NumPy {'.'.join(np.__version__.split('.')[:2])} "
    if version in text:
        assert text == generated, "write the page anew with the command that stands in it"
    else:  # another NumPy made it: what both have must agree
        status = dict(re.findall(r"^\| (np\.\S+) \| (\w+) \|", text, re.MULTILINE))
        found = {row.function: row.status for row in functad.coverage() if row.function in status}
        assert len(found) > 300
        assert found == {name: status[name] for name in found}


def _reaches_second_order(entry, monkeypatch):
    reached = []
    with monkeypatch.context() as patch:
        for name in ("check_value", "check_abstract", "check_constant", "check_forward", "check_reverse", "check_linear",
                     "check_abstract_reverse", "check_mixtures", "check_precision"):  # fmt: skip
            patch.setattr(primitive_checks, name, lambda *args: None)
        patch.setattr(primitive_checks, "check_second_order", lambda call, generator: reached.append(call))
        for call in calls(entry, np.float64):
            primitive_checks.check_call(call, np.random.default_rng(0), call)
    return bool(reached)


@pytest.mark.parametrize(
    "row", [row for row in functad.coverage() if row.function.startswith("np.")], ids=lambda row: row.function
)
def test_order_is_what_the_checks_reach(row, monkeypatch):
    entry = ENTRIES.get(_function_of(row))
    if row.status == "unlisted":
        assert entry is None
    elif row.status in ("primitive", "composite"):
        assert row.order == str(ORDER_CHECKED)
        assert _reaches_second_order(entry, monkeypatch)
    else:
        assert row.order == "-"


@pytest.mark.parametrize("row", functad.coverage(), ids=lambda row: row.function)
def test_batch_is_what_vmap_does(row):
    """A `-` stands where a sample call is refused; that no other is, and that the rules are right, see the generated checks."""
    assert row.batch in ("broadcasts", "rule", "body", "shape", "-")  # and never `loop`
    if row.status in ("refused", "unlisted") or not row.function.startswith("np."):
        return
    entry = ENTRIES[_function_of(row)]
    dtypes = [np.float64, np.complex128] if entry.complex else [np.float64]
    assert (row.batch == "-") == any(_refused(call) for dtype in dtypes for call in calls(entry, dtype) if call.primals)


def _refused(call):
    try:
        functad.vmap(call.arrays, axis_size=2)(*[np.stack([primal] * 2) for primal in call.primals])
    except AbstractValueError:
        return True
    return False


def test_a_primitive_without_a_rule_is_a_loop():
    entry = Primitive(
        np.sin, kind="general", names=["x"], compute=np.sin, vjps=(None,), samples=None, doc="", registered=False, name="twin"
    )
    assert batching(entry) == "broadcasts"  # any ufunc does
    entry = Primitive(
        np.sum, kind="general", names=["x"], compute=np.sum, vjps=(None,), samples=None, doc="", registered=False, name="twin"
    )
    assert batching(entry) == "loop"


def _function_of(row):
    found = np
    for part in row.function.split(".")[1:]:
        found = getattr(found, part)
    return found


def test_text_says_what_there_is():
    table = functad.coverage(module="numpy.fft")
    text = str(table)
    assert text == repr(table)
    assert text.splitlines()[0].split() == ["function", "status", "reverse", "forward", "batch", "jit"]
    assert text.splitlines()[-1] == f"{len(table)} functions: " + ", ".join(f"{n} {s}" for s, n in table.counts().items())
    assert all(len(line) <= 80 for line in text.splitlines())


def test_notebooks_show_a_table():
    html = functad.coverage(status="refused")._repr_html_()
    assert html.count("<tr>") == len(functad.coverage(status="refused")) + 1
    assert "np.save" in html
    assert "&quot;file&quot;" in html


def test_filters():
    table = functad.coverage()
    assert {row.status for row in table.filter(status="constant")} == {"constant"}
    assert {row.module for row in table.filter(module="numpy.linalg")} == {"numpy.linalg"}
    assert list(table.filter(status="refused", module="numpy")) == list(functad.coverage("refused", "numpy"))
    assert list(table.filter(search="LINALG constant")) == list(functad.coverage(search="constant linalg"))
    assert "np.linalg.matrix_rank" in [row.function for row in table.filter(search="LINALG constant")]
    assert isinstance(table[:3], Coverage)
    assert table[0].function == "np.absolute"
    assert sum(table.counts().values()) == len(table)


@pytest.mark.parametrize("entry", [e for e in every_entry() if e.status == "refused"], ids=lambda entry: entry.name)
def test_refusal_names_the_line_of_the_user(entry):
    args, kwargs = entry.samples(lambda *shape: np.ones(shape))[0]

    def f(t):
        replaced = [t if isinstance(a, np.ndarray) else a for a in args]
        return entry.function(*replaced, **kwargs)

    with pytest.raises(UnsupportedError) as refusal:
        functad.vjp(f, np.ones(2))
    line = inspect.getsourcelines(f)[1] + 2
    assert f"{__file__}:{line}" in str(refusal.value)
    assert entry.instead in str(refusal.value)


def test_field_of_the_table_runs_the_script_in_one_line():
    assert f'oninput="{html.escape(" ".join(_SEARCH.split()))}"' in functad.coverage()._repr_html_()
