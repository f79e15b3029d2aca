"""Derivatives as sparse matrices, by `functad.sparse_jacobian` and `functad.sparse_hessian`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

Matrices = Callable[[Any], Any]


def sparse_hessian(f: Callable[[Any], Any], sparsity: Any) -> Matrices:
    """Return the Hessian of a function of a flat array, as a function that gives sparse matrices.

    Args:
        f: the function.
        sparsity: its pattern, or True to find it.
    """
    return _by("sparse_hessian", f, sparsity)


def sparse_jacobian(f: Callable[[Any], Any], sparsity: Any) -> Matrices:
    """Return the Jacobian of a function of a flat array, as a function that gives sparse matrices.

    Args:
        f: the function.
        sparsity: its pattern, or True to find it.
    """
    return _by("sparse_jacobian", f, sparsity)


def _by(transform: str, f: Callable[[Any], Any], sparsity: Any) -> Matrices:
    made: Matrices = getattr(import_module("functad"), transform)(f, **({} if sparsity is True else {"sparsity": sparsity}))
    return made
