"""A library with the array API: its namespace, its dtypes, and arrays of it made of NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import InputError
from functad.places import here

_NARROWER = {"f": "float32", "c": "complex64", "i": "int32", "u": "uint32"}
"""What a library computes in that has no other numbers of a kind: JAX has no double precision unless it is told to."""


class Library:
    """The namespace of a library, and the device that arrays are made on.

    Attributes:
        xp: the namespace.
        device: the device; `None` for that which the library chooses.
    """

    __slots__ = ("_dtypes", "device", "xp")

    def __init__(self, xp: Any, device: Any) -> None:
        self.xp = xp
        self.device = device
        self._dtypes: dict[Any, np.dtype[Any]] | None = None

    @property
    def name(self) -> str:
        """Its name, for messages."""
        return str(getattr(self.xp, "__name__", self.xp))

    def _own(self) -> dict[str, Any]:
        """Return its dtypes by name; those of JAX depend on a setting, which may change."""
        return self.xp.__array_namespace_info__().dtypes()  # type: ignore[no-any-return]

    def known(self, dtype: Any) -> np.dtype[Any] | None:
        """Return a dtype of the library as NumPy calls it; `None` if NumPy has none that is called so."""
        if isinstance(dtype, np.dtype):
            return dtype if dtype.kind in "biufc" else None
        if self._dtypes is None:
            self._dtypes = {own: np.dtype(name) for name, own in self._own().items()}
        return self._dtypes.get(dtype)

    def dtype(self, dtype: np.dtype[Any]) -> Any:
        """Return the dtype of the library that NumPy's is, or the nearest of its kind that it has."""
        own = self._own()
        return own[dtype.name] if dtype.name in own else own[_NARROWER[dtype.kind]]

    def array(self, value: Any, dtype: np.dtype[Any] | None = None) -> Any:
        """Return an array of the library: one of its own, in another dtype if that is given, or what it makes of NumPy's.

        Raises:
            InputError: it is an array of another library.
        """
        value = getattr(value, "array", value)
        if hasattr(type(value), "__array_namespace__") and not issubclass(type(value), (np.ndarray, np.generic)):
            if value.__array_namespace__() is not self.xp:
                raise InputError(
                    f"arrays of {self.name} and of {library_of(value).name}, at {here()}, do not mix: convert one of them."
                )
            if dtype is None or self.known(value.dtype) == dtype:
                return value
            if dtype.kind != "c" and self.known(value.dtype).kind == "c":  # type: ignore[union-attr]
                value = self.xp.real(value) if dtype.kind != "b" else value != 0
            return self.xp.astype(value, self.dtype(dtype))
        plain = np.asarray(value)
        wanted = self.dtype(plain.dtype if dtype is None else dtype)
        if 0 in plain.strides:  # what was broadcast
            plain = np.ascontiguousarray(plain).reshape(plain.shape)
        return self.xp.asarray(plain, dtype=wanted, **self.place)

    @property
    def place(self) -> dict[str, Any]:
        """The keyword that makes arrays on the device."""
        return {} if self.device is None else {"device": self.device}

    def copy(self, value: Any) -> Any:
        """Return a copy of an array of the library."""
        return self.xp.asarray(value, copy=True)


_LIBRARIES: dict[Any, Library] = {}


def library_of(array: Any) -> Library:
    """Return the library of an array, with the device that it is on, unless that is where the library makes arrays anyway."""
    xp = array.__array_namespace__()
    if xp not in _LIBRARIES:
        _LIBRARIES[xp] = Library(xp, None)
    default = xp.__array_namespace_info__().default_device()
    if default is None or array.device == default:
        return _LIBRARIES[xp]
    return Library(xp, array.device)
