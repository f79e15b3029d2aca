"""Atomic writes of files."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, write: Callable[[IO[bytes]], object], *, private: bool = False) -> None:
    """Write a file atomically: write a temporary file in the same folder, then rename it.

    Args:
        path: the path of the file.
        write: a function that writes to the file object that it receives.
        private: `True` to make the file readable by its owner only.
    """
    import uuid  # noqa: PLC0415 - few programs write files

    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        try:
            temporary.touch(0o600 if private else 0o666, exist_ok=False)
            with temporary.open("wb") as file:
                write(file)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except BaseException:  # an interrupt may arrive before the `finally` has finished
        temporary.unlink(missing_ok=True)
        raise
