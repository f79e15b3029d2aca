"""The rows of the table: which program, on what, and how closely the results must agree.

Only NumPy is imported here, since the workers of other libraries read this file too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import inputs


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        name: what the command line and the results call it.
        title: what the table calls it.
        program: the module in `with_functad` and its kin, and the key in its `PROGRAMS`, joined by a dot.
        arguments: makes the arguments.
        sizes: what it is given.
        small: the same for a test that takes no time.
        rtol: how closely results must agree, relative to the largest element of each array.
        blas: whether BLAS or LAPACK decide how long it takes.
        counted: whether it has a part in the geometric means.
    """

    name: str
    title: str
    program: str
    arguments: Callable[..., inputs.Arguments]
    sizes: Mapping[str, Any]
    small: Mapping[str, Any] = field(default_factory=dict)
    rtol: float = 1e-9
    blas: bool = False
    counted: bool = True

    def made(self, *, small: bool = False) -> tuple[Any, ...]:
        """Return the arguments."""
        return self.arguments(**{**self.sizes, **(self.small if small else {})})


SINGLE = 2e-4  # for float32

_LENGTHS = {"8": 8, "1e3": 1000, "1e6": 1_000_000, "1e7": 10_000_000}
_ROWS = [
    Row("tiny", "a call: `x * y + 1`, n = 3", "elementwise.tiny", inputs.pair, {"n": 3}, counted=False),
    *[
        Row(
            f"tanh_exp_{length}_{dtype}",
            f"sum(tanh(a x + b) exp(-x x)), n = {length}, {dtype}",
            "elementwise.tanh_exp",
            inputs.tanh_exp,
            {"n": n, "dtype": dtype},
            {"n": min(n, 1000)},
            rtol=1e-3 if dtype == "float32" else 1e-9,
        )
        for length, n in _LENGTHS.items()
        for dtype in ("float32", "float64")
    ],
    *[
        Row(
            f"chain_{size}_{form}",
            f"chain of 1,000 operations on {title}, {form}",
            f"chain.{form}",
            inputs.chain,
            {"shape": shape, "iterations": 250},
            {"iterations": 5},
        )
        for size, title, shape in (("1", "a number", ()), ("8", "8 numbers", (8,)))
        for form in ("looped", "scanned")
    ],
    Row(
        "network",
        "network 784-512-256-10, batch 128, float32",
        "network.batch",
        inputs.network,
        {"sizes": (784, 512, 256, 10), "batch": 128},
        {"sizes": (12, 8, 6, 10), "batch": 4},
        rtol=SINGLE,
        blas=True,
    ),
    Row(
        "per_example",
        "128 gradients of a network 64-32-10, float32",
        "network.per_example",
        inputs.network,
        {"sizes": (64, 32, 10), "batch": 128},
        {"sizes": (6, 5, 4), "batch": 3},
        rtol=SINGLE,
    ),
    *[
        Row(
            f"mixture_{d}_{k}",
            f"Gaussian mixture, d = {d}, K = {k}, n = 1000",
            "mixture.likelihood",
            inputs.mixture,
            {"d": d, "k": k, "n": 1000},
            {"d": 3, "k": 2, "n": 5},
        )
        for d, k in ((10, 25), (20, 50))
    ],
    Row(
        "bundle",
        "bundle adjustment, blocks of the Jacobian, 30,000 observations",
        "bundle.blocks",
        inputs.bundle,
        {"cameras": 50, "points": 5000, "observations": 30_000},
        {"cameras": 3, "points": 4, "observations": 7},
    ),
    *[
        Row(
            f"lstm_{form}",
            f"LSTM, 2 layers, 14 wide, 1,024 steps, {form}",
            f"lstm.{form}",
            inputs.lstm,
            {"layers": 2, "width": 14, "steps": 1024},
            {"width": 3, "steps": 4},
        )
        for form in ("scanned", "looped")
    ],
    *[
        Row(
            f"gaussian_process_{n}",
            f"Gaussian process, log marginal likelihood, n = {n}",
            "gaussian_process.likelihood",
            inputs.gaussian_process,
            {"n": n},
            {"n": 6},
            blas=True,
        )
        for n in (200, 500)
    ],
    Row("logistic", "logistic regression, gradient, 100 x 10", "logistic.gradient", inputs.logistic, {"n": 100, "d": 10}),
    Row(
        "logistic_gradient",
        "logistic regression, gradient, 10,000 x 100",
        "logistic.gradient",
        inputs.logistic,
        {"n": 10_000, "d": 100},
        {"n": 20, "d": 4},
        blas=True,
    ),
    Row(
        "logistic_hessian",
        "logistic regression, Hessian, 10,000 x 100",
        "logistic.hessian",
        inputs.logistic,
        {"n": 10_000, "d": 100},
        {"n": 20, "d": 4},
        blas=True,
    ),
    Row(
        "logistic_product",
        "logistic regression, Hessian times a vector, 10,000 x 100",
        "logistic.product",
        inputs.logistic_product,
        {"n": 10_000, "d": 100},
        {"n": 20, "d": 4},
        blas=True,
    ),
    *[
        Row(
            f"lorenz_{form}",
            f"RK4 on the Lorenz system, 1,000 steps, {form}",
            f"lorenz.{form}",
            inputs.lorenz,
            {"steps": 1000},
            {"steps": 3},
            rtol=1e-6,  # the system is chaotic: along 10 units of time, rounding grows by a factor of some thousands
        )
        for form in ("scanned", "looped")
    ],
    *[
        Row(
            f"recurrent_{form}",
            f"recurrent network 32-64, batch 32, 128 steps, float32, {form}",
            f"recurrent.{form}",
            inputs.recurrent,
            {"steps": 128, "batch": 32, "inputs": 32, "hidden": 64},
            {"steps": 3, "batch": 2, "inputs": 3, "hidden": 4},
            rtol=SINGLE,
            blas=True,
        )
        for form in ("scanned", "looped")
    ],
    Row(
        "convolution",
        "convolution, 16 kernels 5x5, images 28x28, batch 64, float32",
        "convolution.gradient",
        inputs.convolution,
        {"batch": 64, "side": 28, "kernels": 16},
        {"batch": 3, "side": 8, "kernels": 2},
        rtol=SINGLE,
        blas=True,
    ),
    Row(
        "black_scholes",
        "Black-Scholes, all first and second Greeks, 1e6 options",
        "black_scholes.greeks",
        inputs.options,
        {"n": 1_000_000},
        {"n": 5},
    ),
]

ROWS: dict[str, Row] = {row.name: row for row in _ROWS}
