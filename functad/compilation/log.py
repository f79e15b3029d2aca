"""The log of compilations, through the standard module `logging`.

The messages have the level INFO and go to the logger `functad.compile`. With the environment variable `FUNCTAD_LOG=compile`,
they are printed on the standard error stream, unless the program has configured handlers itself.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter
from typing import Any

VARIABLE = "FUNCTAD_LOG"

now = perf_counter
"""Return the time in seconds."""


def listening() -> Any:
    """Return the logger of compilations, or `None` if nothing handles its messages."""
    wanted = "compile" in os.environ.get(VARIABLE, "").split(",")
    if not wanted and "logging" not in sys.modules:  # the import takes 10 ms
        return None
    import logging  # noqa: PLC0415 - see above

    logger = logging.getLogger("functad.compile")
    if wanted:
        if not logger.isEnabledFor(logging.INFO):
            logger.setLevel(logging.INFO)
        if not logger.hasHandlers():
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
            logger.addHandler(handler)
    return logger if logger.isEnabledFor(logging.INFO) else None
