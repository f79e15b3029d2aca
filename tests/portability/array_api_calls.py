"""Run calls of SciPy or of scikit-learn with their array API switched on, and print what became of each as JSON.

In a process of its own, whose environment has the switch: `SCIPY_ARRAY_API=1 python array_api_calls.py scipy`. The calls are
run twice: as they are, and where the library is adopted.
"""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import functad

PARTS = (
    "cluster.hierarchy cluster.vq constants differentiate fft integrate interpolate linalg ndimage optimize.elementwise signal "
    "spatial.distance spatial.transform special stats"
)


def of_scipy() -> dict[str, Any]:
    """Return the names that calls of SciPy use."""
    for part in PARTS.split():
        with suppress(ModuleNotFoundError):  # before SciPy 1.15
            import_module(f"scipy.{part}")
    names = {part: getattr(import_module("scipy"), part, None) for part in {part.partition(".")[0] for part in PARTS.split()}}
    return names | {
        "np": np,
        "A": np.array([[2.0, 0.3, 0.1], [0.2, 1.5, 0.4], [0.3, 0.1, 1.8]]),
        "P": np.array([0.9, 0.4, 1.3, 0.8, 2.2, 1.1]),
        "x": np.array([0.31, 1.2, 0.75, 2.1, 0.52, 1.7]),
    }


def of_sklearn() -> dict[str, Any]:
    """Return the names that calls of scikit-learn use, estimators among them that were fitted to arrays."""
    import sklearn

    sklearn.set_config(array_api_dispatch=True)
    parts = """
        covariance decomposition discriminant_analysis kernel_approximation linear_model metrics mixture naive_bayes
        preprocessing
    """
    names = {part: import_module(f"sklearn.{part}") for part in parts.split()}
    rng = np.random.default_rng(0)
    x, P = rng.uniform(0.3, 2.0, (2, 6, 3))
    Y, R = np.array([0, 1, 0, 1, 1, 0]), rng.normal(size=6)
    return names | {
        "np": np,
        "pairwise": import_module("sklearn.metrics.pairwise"),
        "x": x,
        "P": P,
        "R": R,
        "Y": Y,
        "y": np.array([0.3, 1.2, 0.8, 2.0, 1.1, 0.4]),
        "pca": names["decomposition"].PCA(2, svd_solver="full").fit(P),
        "ridge": names["linear_model"].Ridge(solver="svd").fit(P, R),
        "lda": names["discriminant_analysis"].LinearDiscriminantAnalysis().fit(P, Y),
        "logistic": names["linear_model"].LogisticRegression().fit(P, Y),
    }


def outcome(call: str, names: dict[str, Any]) -> str:
    """Return "works" if a call has the derivative that central differences show, what is raised instead, or "wrong"."""
    code, x = compile(call, "<call>", "eval"), names["x"]
    weights = np.random.default_rng(1).uniform(0.5, 1.5, 400)

    def total(x: Any) -> Any:
        out = eval(code, names | {"x": x})
        outs = out if isinstance(out, tuple) else (out,)
        return sum([np.sum(o * (weights[: o.size].reshape(o.shape) if np.ndim(o) else weights[0])) for o in outs])

    direction = np.random.default_rng(2).uniform(0.5, 1.5, x.shape)
    try:
        wanted = (total(x + 1e-5 * direction) - total(x - 1e-5 * direction)) / 2e-5
        value, gradient = functad.value_and_grad(total)(x)
        tangent = functad.jvp(total, (x,), (direction,))[1]
    except Exception as error:  # noqa: BLE001 - whichever: it is what is looked at
        return f"{type(error).__name__}: {error}"
    found = [np.sum(gradient * direction), tangent]
    near = np.allclose(found, wanted, rtol=1e-6, atol=1e-7 * (1 + abs(total(x)))) and np.allclose(value, total(x), rtol=1e-12)
    return "works" if near else f"wrong: {found}, not {wanted}"


def main(library: str) -> None:
    """Run the calls in the file of a library."""
    warnings.simplefilter("ignore")
    names = of_scipy() if library == "scipy" else of_sklearn()
    lines = (Path(__file__).parent / f"{library}_calls.txt").read_text().splitlines()[1:]
    calls = [line for line in lines if line and not line.startswith("[")]
    as_they_are = {call: outcome(call, names) for call in calls}
    functad.adopt(library)
    print(json.dumps([as_they_are, {call: outcome(call, names) for call in calls}]))


if __name__ == "__main__":
    main(*sys.argv[1:])
