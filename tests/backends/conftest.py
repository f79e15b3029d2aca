"""The lists and the functions of the loop IR of all programs that these tests compile are checked."""

from tests.compilation.conftest import programs_are_checked

__all__ = ["programs_are_checked"]
