"""Files that are written whole or not at all, whatever interrupts."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO


def write_whole(path: Path, write: Callable[[IO[bytes]], object], *, private: bool = False) -> None:
    """Write a file beside its place, and put it there when it is finished; a file that was there stays until then.

    Args:
        path: of the file.
        write: is given the file.
        private: nobody else may read it.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        try:
            temporary.touch(0o600 if private else 0o666, exist_ok=False)
            with temporary.open("wb") as file:
                write(file)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except BaseException:  # an interrupt may have come before the last line
        temporary.unlink(missing_ok=True)
        raise
