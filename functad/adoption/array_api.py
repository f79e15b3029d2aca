"""The array API: the namespace of Tensors is `functad.numpy`, whose functions also accept plain arrays.

SciPy and scikit-learn carry copies of array-api-compat. It has its own namespace for NumPy arrays, which it recognises by type,
and it rejects arrays of two namespaces. A copy that asks a Tensor for its namespace therefore gets the same namespace for the
arrays beside the Tensor. In an adopted copy, the namespace for arrays accepts Tensors and serves both.
"""

from __future__ import annotations

import functools
import sys
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from functad.adoption.modules import MARK
from functad.adoption.scipy_functions import entered_in
from functad.primitives.operands import is_traced


def namespace_for(asking: FrameType, api_version: str | None) -> ModuleType:
    """Return the namespace for a Tensor.

    Args:
        asking: the frame of the caller; a caller in array-api-compat may have other arrays beside the Tensor.
        api_version: the requested version of the standard.

    Raises:
        ValueError: NumPy has no such version.
    """
    version: Any = api_version
    np.empty(0).__array_namespace__(api_version=version)  # raises for an unknown version
    helpers = asking.f_globals
    package, found, _ = helpers.get("__name__", "").rpartition(".common._helpers")
    if not found or "xs" not in asking.f_locals:
        return _namespace()
    bare = asking.f_locals.get("use_compat") is False  # arrays shall have NumPy's own namespace
    others = [x for x in asking.f_locals["xs"] if issubclass(type(x), (np.ndarray, np.generic))]
    if not bare and (MARK in helpers or (others and "_cls_to_namespace" not in helpers)):
        return import_module(f"{package}.numpy")
    if others:
        _let_arrays_join(helpers)
        namespaces = asking.f_locals["namespaces"]  # the set itself: arrays before the Tensor have added their namespaces
        for namespace in [namespace for namespace in namespaces if namespace.__name__ in (f"{package}.numpy", "numpy")]:
            namespaces.remove(namespace)
    return _namespace()


def _namespace() -> ModuleType:
    """Return `functad.numpy`, imported late because it imports this package."""
    return import_module("functad.numpy")


def _let_arrays_join(helpers: dict[str, Any]) -> None:
    """Make a copy of array-api-compat return `functad.numpy` for arrays beside Tensors."""
    original = helpers["_cls_to_namespace"]
    if getattr(original, "takes_tensors", False):
        return

    @functools.wraps(original)
    def called(cls: type, api_version: str | None, use_compat: bool | None) -> Any:
        joins = use_compat is False or (use_compat is None and MARK not in helpers)
        if joins and issubclass(cls, (np.ndarray, np.generic)):
            asking = sys._getframe(1)
            if any(map(is_traced, asking.f_locals.get("xs", ()))):
                return _namespace(), None
        return original(cls, api_version, use_compat)

    called.takes_tensors = True  # type: ignore[attr-defined]
    helpers["_cls_to_namespace"] = called


class _Special(ModuleType):
    """The functions of `scipy.special` for Tensors; SciPy asks the namespace of its arguments for them."""

    def __getattr__(self, name: str) -> Any:
        found = entered_in("scipy.special").get(name) or getattr(import_module("scipy.special._ufuncs"), name, None)
        return getattr(np, name) if found is None else found  # SciPy has NumPy's own `sinc`


def special() -> ModuleType:
    """Return the functions of `scipy.special` for Tensors.

    Raises:
        AttributeError: SciPy has not been imported.
    """
    if "scipy" not in sys.modules:
        raise AttributeError("module 'functad.numpy' has no attribute 'special'")
    return _Special("functad.numpy.special")
