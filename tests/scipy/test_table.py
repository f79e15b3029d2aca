"""The table of SciPy's functions: none is missing, and what it says of each is what its samples show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import scipy

import functad
from functad.errors import ConversionError, UnsupportedError, WrongDerivativeError
from functad.scipy._coverage import PARTS, listed, public_names, refusals
from functad.scipy._table import VERSION
from tests.scipy import table

SAMPLED = [part for part in PARTS if table.samples_of(part) is not None]
KEYS = [(part, key) for part in SAMPLED for key in table.samples_of(part) or {}]
OF_OLDER_VERSIONS = {"lfiltic": "it did not divide by a[0]", "curve_fit": "its solution was less exact"}
"""Functions whose derivatives are those of later versions, and why."""
EXPECTED: dict[str, dict[str, list[Any]]] = {}


@pytest.fixture(autouse=True, scope="module")
def adopted_scipy() -> Iterator[None]:
    """Adopt SciPy when its own values are known."""
    EXPECTED.update({part: table.expected_values(part) for part in SAMPLED})
    with functad.adopt("scipy"):
        yield


@pytest.mark.parametrize(("part", "key"), KEYS, ids=[f"{part}.{key}" for part, key in KEYS])
def test_a_function_is_what_the_table_says(part: str, key: str) -> None:
    same = scipy.__version__.startswith(f"{VERSION}.")
    if not same and any(isinstance(values, Exception) for values in EXPECTED[part][key]):
        pytest.skip("this SciPy takes no such call")
    try:
        status = table.found_status(part, key, EXPECTED[part][key])
    except (UnsupportedError, ConversionError, AttributeError, WrongDerivativeError, table.UnlistedRefusalError) as error:
        if same or (isinstance(error, WrongDerivativeError) and not (_is_older() and key in OF_OLDER_VERSIONS)):
            raise
        pytest.skip(f"SciPy {VERSION} writes it otherwise: {error}")
    if _is_older():
        return  # it may be by adoption what was compiled then, or the other way round
    assert (status == "refused") == (f"{part}.{key}" in refusals()), "what works needs no reason"
    if key != table.public_name(key):
        assert status == "refused", "a key with more than a public name is for what is refused of it"
    elif same:
        assert key in listed()[part].get(status, []), "write the table anew: python -m tests.scipy.table"


def _is_older() -> bool:
    """Say whether SciPy is older than that with which the table was made."""
    return tuple(map(int, scipy.__version__.split(".")[:2])) < tuple(map(int, VERSION.split(".")))


def test_every_part_has_samples() -> None:
    assert list(PARTS) == SAMPLED


@pytest.mark.parametrize("part", SAMPLED)
def test_every_public_function_has_a_sample(part: str) -> None:
    if scipy.__version__.startswith(f"{VERSION}."):  # what older ones have had, or newer ones add, is unlisted
        assert table.missing(part) == []
    else:
        assert {row.function.rpartition(".")[2] for row in functad.coverage("unlisted", part)} >= set(table.missing(part))


@pytest.mark.parametrize("part", SAMPLED)
def test_every_reason_has_a_sample(part: str) -> None:
    names = [name.removeprefix(f"{part}.") for name in refusals() if name.startswith(f"{part}.")]
    there = {name for name in names if table.public_name(name) in public_names(part)}
    assert there <= set(table.samples_of(part) or {})


def test_the_table_is_shown() -> None:
    shown = functad.coverage(module="scipy.fft")
    assert [row.function for row in shown] == [f"scipy.fft.{name}" for name in public_names("scipy.fft")]
    assert {row.status for row in shown} == {"rule", "adoption", "constant"}
    assert {row.module for row in shown} == {"scipy.fft"}
    every = functad.coverage(module="scipy")
    assert len(every) > 1000
    assert {"primitive", "rule", "adoption", "constant", "refused"} <= set(every.counts())
    kept = [row for row in every if row.function == "scipy.special.gamma"]
    assert (kept[0].status, kept[0].reverse, kept[0].order) == ("primitive", "rule", "2")
    assert "scipy.fft.fftshift" in shown._repr_html_()
    assert {row.status for row in functad.coverage("adoption", "scipy.fft")} == {"adoption"}
