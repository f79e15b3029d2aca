"""`import numpy` inside a function of adopted code, which bypasses the globals of the module.

The bytecode of the function is changed to import a module under a private name; that module is the replacement of NumPy. No
source is needed, and `__import__` stays unchanged.
"""

from __future__ import annotations

import dis
import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import resolve_name
from types import CodeType, ModuleType
from typing import Any

from functad.adoption.code import has_instruction, steps_of
from functad.adoption.replacements import Kept, replacement

_PREFIX = "functad imports "
_TOPS = ("numpy", "math", "scipy")
_IMPORT, _CONST = dis.opmap["IMPORT_NAME"], dis.opmap["LOAD_CONST"]
_LEVELS = (_CONST, dis.opmap.get("LOAD_SMALL_INT", _CONST))
"""The instructions that load the level of a relative import, two instructions before the import instruction."""
_kept: list[Kept] = []
"""Sets of kept originals, each shared by some modules; the index of a set is part of the private import names."""


class Imports:
    """Redirects imports of NumPy, `math` and SciPy in the code of a function, including nested functions.

    Attributes:
        package: the package for relative imports.
        kept: identities of originals that are not replaced.
        scipy: `True` if the code imports SciPy.
        complete: `False` if an import was not redirected, which happens in functions with very many names.
    """

    def __init__(self, package: str, kept: Kept) -> None:
        self.package, self.kept = package, kept
        self.scipy, self.complete = False, True

    def redirected(self, code: CodeType) -> CodeType:
        """Return code that imports the replacements; the same code if it imports none of the modules."""
        consts = tuple([self.redirected(part) if isinstance(part, CodeType) else part for part in code.co_consts])
        if any(a is not b for a, b in zip(consts, code.co_consts, strict=True)):
            code = code.replace(co_consts=consts)
        if not has_instruction(code, _IMPORT):
            return code
        steps = list(steps_of(code))
        for level, step in zip(steps, steps[2:], strict=False):
            if step[0] == _IMPORT and level[0] in _LEVELS:
                code = self._with_import(code, level, step)
        return code

    def _with_import(self, code: CodeType, level: tuple[int, Any, int], step: tuple[int, Any, int]) -> CodeType:
        small = level[0] != _CONST
        dots, name = level[1] if small else code.co_consts[level[1]], code.co_names[step[1]]
        name = resolve_name("." * dots + name, self.package) if dots else name
        top = name.partition(".")[0]
        if top not in _TOPS or top == self.package.partition(".")[0] != "scipy":
            return code
        self.scipy = self.scipy or top == "scipy"
        if self.kept not in _kept:
            _kept.append(self.kept)
        ours = f"{_PREFIX}{_kept.index(self.kept)} {name}"
        names = code.co_names if ours in code.co_names else (*code.co_names, ours)
        consts = (*code.co_consts, 0) if dots else code.co_consts
        if names.index(ours) > _LARGEST or len(consts) - 1 > _LARGEST:
            self.complete = False
            return code
        body = bytearray(code.co_code)
        body[step[2] + 1] = names.index(ours)
        if dots:
            body[level[2] + 1] = 0 if small else len(consts) - 1
        return code.replace(co_names=names, co_consts=consts, co_code=bytes(body))


_LARGEST = 255
"""An operand of an instruction has one byte; an import that needs a larger operand stays unchanged."""


def imported(fullname: str) -> ModuleSpec | None:
    """Return the spec of a module with a private import name; `None` for other names."""
    return ModuleSpec(fullname, _Redirecting(), is_package=True) if fullname.startswith(_PREFIX) else None


class _Redirecting(Loader):
    """Loads the replacement of the module after the private prefix."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return `None`: `exec_module` replaces the default module at once."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Import the original, and put its replacement into `sys.modules`."""
        number, _, name = module.__name__.removeprefix(_PREFIX).partition(" ")
        sys.modules[module.__name__] = replacement(import_module(name), kept=_kept[int(number)])
