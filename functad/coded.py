"""The base of all errors and warnings: a code that ends the message, a cause and a cure."""

from __future__ import annotations

from typing import Any


class Coded(Exception):  # noqa: N818 - what is raised has the suffix
    """What errors and warnings share: a code at the end of the message, and a cause and a cure in the documentation."""

    code = "functad"
    cause = ""
    cure = ""

    def __init__(self, message: str) -> None:
        end = f"[{self.code}]"
        # Unpickling makes the error again from its finished message.
        super().__init__(message if message.endswith(end) else f"{message} {end}")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__ and "cause" in vars(cls):
            cls.__doc__ += f"\n\n    Cause: {cls.cause}\n\n    Cure: {cls.cure}\n"
