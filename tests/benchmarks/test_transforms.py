"""The programs of `transforms`: against what they are measured by and finite differences, and timed (no time is asserted)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad

from . import banded, functad_transforms, reference_transforms, transforms
from .compare import difference
from .functad_programs import FUNCTIONS
from .programs import leaves
from .transform_programs import TRANSFORMS


def _found(module: Any, name: str, benchmark: Any = None) -> list[Any]:
    program = TRANSFORMS[name]
    step = module.prepare(name, program.arguments(), program.argnums)
    return list(module.arrays(step() if benchmark is None else benchmark.pedantic(step, rounds=3, warmup_rounds=1)))


def test_the_mean_of_the_gradients_of_the_examples_is_the_gradient_of_the_batch(benchmark: Any) -> None:
    means = [np.mean(a, axis=0) for a in _found(functad_transforms, "per_example", benchmark)]
    assert difference(_found(reference_transforms, "per_example"), means) < 1e-12


def test_the_gradients_of_the_examples_are_those_of_one_after_the_other() -> None:
    layers, images, labels = TRANSFORMS["per_example"].arguments()
    rows = [leaves(functad.grad(functad_transforms.example_loss)(layers, images[i], labels[i])) for i in range(len(labels))]
    assert (
        difference([np.stack(column) for column in zip(*rows, strict=True)], _found(functad_transforms, "per_example")) < 1e-12
    )


def test_the_hessian_is_the_product_of_matrices(benchmark: Any) -> None:
    assert difference(_found(reference_transforms, "hessian"), _found(functad_transforms, "hessian", benchmark)) < 1e-12


@pytest.mark.parametrize("name", ["jvp_scalar", "jvp_vector"])
def test_the_tangent_of_a_chain_is_that_of_the_complex_step(name: str, benchmark: Any) -> None:
    x, t, iterations = TRANSFORMS[name].arguments()
    step = FUNCTIONS["chain_scalar"](x + 1e-30j * t, iterations)
    value, tangent = _found(functad_transforms, name, benchmark)
    np.testing.assert_allclose(value, _found(reference_transforms, name)[0], rtol=1e-13)
    np.testing.assert_allclose(tangent, step.imag / 1e-30, rtol=1e-11)


def test_the_banded_jacobian_is_the_dense_one() -> None:
    x = np.linspace(0.0, 1.0, 30)
    matrix = functad.sparse_jacobian(banded.banded)
    np.testing.assert_allclose(matrix(x).toarray(), functad.jacobian(banded.banded)(x), rtol=1e-13, atol=1e-15)
    assert matrix.plan(x).coloring.colors == 5


def test_the_comparison_prints_its_tables_and_writes_the_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rounds.json"
    chosen = ["--frameworks", "functad", "reference", "--programs", "hessian", "jvp_scalar", "--sizes", "50", "100"]
    transforms.main([*chosen, "--rounds", "2", "--patience", "0", "--markdown", "--json", str(file)])
    printed = capsys.readouterr().out
    assert "| `hessian` of a logistic loss, 500 x 100 |" in printed
    assert "2.5 times the plain run and" in printed
    assert "| n = 100 |" in printed
    record = json.loads(file.read_text(encoding="utf-8"))
    assert len(record["seconds"]["jvp_scalar"]["reference"]) == 2
    assert [row["n"] for row in record["banded"]] == [50, 100]
