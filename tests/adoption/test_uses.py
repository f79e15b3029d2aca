"""Names of functions and types that code uses as values, rather than only calling them."""

from typing import Any

import numpy as np

from functad.adoption.uses import names_used_as_values


def test_a_comparison_of_self_uses_no_name_as_a_value() -> None:
    def same(self: Any, other: Any) -> bool:
        return self is other

    def among(value: Any, other: Any) -> bool:
        return value is other

    assert not names_used_as_values(same.__code__)
    assert names_used_as_values(among.__code__)


def test_texts_and_dtypes_of_results_use_no_type_as_a_value() -> None:
    def told(x: Any) -> str:
        return f"{np.float64} of {x!r}, {np.float32:>3}"

    def elementwise(f: Any) -> Any:
        return np.vectorize(f, otypes=[np.float64])

    def given() -> Any:
        return np.float64

    assert not [name for name, _ in names_used_as_values(told.__code__) if "float" in name]
    assert not [name for name, _ in names_used_as_values(elementwise.__code__) if "float" in name]
    assert ("np.float64", "") in names_used_as_values(given.__code__)
