"""`import functad.scipy.spatial.transform`: a module of SciPy without a file in `functad.scipy` is what stands for it."""

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
    """Finds the modules of SciPy by their names under `functad.scipy`, unless those are of its own files."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a module of SciPy; `None` for what is none, or is not SciPy's alone."""
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
    """Gives what stands for a module of SciPy."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module that a name of the package, or of a part of it, stands for."""
        found: Any = sys.modules[_PACKAGE]
        for name in spec.name.removeprefix(f"{_PACKAGE}.").split("."):
            found = getattr(found, name)
        return found  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """Leave it as it is: it has been executed."""


sys.meta_path.insert(0, _Finder())
