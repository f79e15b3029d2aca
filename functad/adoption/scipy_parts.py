"""Imports such as `functad.scipy.spatial.transform`: a SciPy module without a file in `functad.scipy` gives its replacement."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKAGE = "functad.scipy"
_OWN = {path.stem for path in Path(__file__).parent.with_name("scipy").iterdir()}


class _Finder(MetaPathFinder):
    """Finds SciPy modules by their names under `functad.scipy`, unless `functad.scipy` has its own file for them."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a SciPy module; `None` if there is no such module, or `functad.scipy` has its own file."""
        name = fullname.removeprefix(f"{_PACKAGE}.")
        first, _, rest = name.partition(".")
        if name == fullname or first.startswith("_") or (first in _OWN and not rest):
            return None
        try:
            import_module(f"scipy.{name}")
        except ModuleNotFoundError:
            return None
        return ModuleSpec(fullname, _Loader())


class _Loader(Loader):
    """Loads the replacement of a SciPy module."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the replacement that the attribute path below `functad.scipy` gives."""
        found: Any = sys.modules[_PACKAGE]
        for name in spec.name.removeprefix(f"{_PACKAGE}.").split("."):
            found = getattr(found, name)
        return found  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has been executed."""


sys.meta_path.insert(0, _Finder())
