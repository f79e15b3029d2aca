"""Functions of SciPy in adopted code: modules that are being imported."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from functad.adoption import scipy_functions


def test_what_is_being_imported_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for each name of SciPy while a part of that is imported: all modules are not looked at each time."""
    whole, part = [ModuleType(name) for name in ("scipy.anything", "scipy.anything.part")]
    for module in (whole, part):
        monkeypatch.setattr(module, "__spec__", SimpleNamespace(_initializing=False))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert not scipy_functions._begun(whole)
    monkeypatch.setattr(part.__spec__, "_initializing", True)
    assert scipy_functions._begun(whole)
    monkeypatch.setattr(whole.__spec__, "_initializing", True)
    monkeypatch.setattr(scipy_functions, "sys", None)
    assert scipy_functions._begun(whole)
