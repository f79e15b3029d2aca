"""JAX as an oracle: transforms of random NumPy programs, by functad and, the same source on `jax.numpy`, by JAX.

Run with an interpreter that has JAX, from a checkout: `python -m tests.benchmarks.jax_oracle --programs 300`. Programs are
drawn by `functad.testing.draw_program`; one that JAX cannot run, or for which it gives another value, is counted and left out.
For the others value, Jacobian in both modes, a product with the Hessian, and `vmap` of the gradient are compared.
"""

from __future__ import annotations

import argparse
import collections
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import functad
from functad import tree_flatten
from functad.testing import Program, draw_program

jax.config.update("jax_enable_x64", True)
TOLERANCE = 1e-7


def translated(program: Program) -> Callable[..., Any]:
    """Return a program as a function of JAX arrays."""
    space: dict[str, Any] = {"np": jnp}
    exec(compile(program.source, "<random program>", "exec"), space)  # the text was drawn from a fixed grammar
    function: Callable[..., Any] = space["program"]
    return function


def total(program: Callable[..., Any], weights: list[Any]) -> Callable[[Any], Any]:
    """Return a weighted sum of the inexact results, as a function of the tuple of inputs: the same for both libraries."""

    def summed(inputs: Any) -> Any:
        value = 0.0
        out = program(*inputs)
        for leaf, weight in zip(out if isinstance(out, tuple) else (out,), weights, strict=True):
            if weight is not None:
                value = value + (weight * leaf).sum()
        return value

    return summed


def results(library: Any, f: Callable[[Any], Any], inputs: Any, directions: Any, rows: Any) -> dict[str, Any]:
    """Return what the transforms of one library give."""
    grad = library.grad(f)
    return {
        "value": f(inputs),
        "grad": grad(inputs),
        "jvp": library.jvp(f, (inputs,), (directions,))[1],
        "hvp": library.jvp(grad, (inputs,), (directions,))[1],
        "jacfwd of grad": library.jacfwd(grad)(inputs),
        "jacrev of grad": library.jacrev(grad)(inputs),
        "vmap of grad": library.vmap(grad)(rows),
    }


def wrong(found: Any, expected: Any) -> float:
    """Return the largest difference, relative to the size of the numbers."""
    worst = 0.0
    for a, b in zip(tree_flatten(found)[0], tree_flatten(expected)[0], strict=True):
        a, b = np.asarray(a), np.asarray(b)
        scale = max(1.0, float(np.max(np.abs(b), initial=0.0)))
        worst = max(worst, float(np.max(np.abs(a - b), initial=0.0)) / scale)
    return worst


def compare(program: Program, generator: np.random.Generator) -> tuple[str, list[str]]:
    """Return what became of a program, and the transforms in which the libraries differ."""
    out = program(*program.inputs)
    leaves = out if isinstance(out, tuple) else (out,)
    if any(np.asarray(x).dtype.kind != "f" for x in program.inputs) or any(np.asarray(y).dtype.kind == "c" for y in leaves):
        return "complex or integer", []
    weights = [generator.normal(size=np.shape(y)) if np.asarray(y).dtype.kind == "f" else None for y in leaves]
    directions = tuple([generator.normal(size=np.shape(x)) for x in program.inputs])
    inputs = tuple([np.asarray(x, float) for x in program.inputs])
    rows = tuple([np.stack([x, 0.9 * x]) for x in inputs])
    summed = total(translated(program), weights)
    try:  # compiled as a whole: operation by operation, JAX takes minutes for each program
        compiled = jax.jit(lambda *given: results(jax, summed, *given))
        expected = jax.block_until_ready(compiled(inputs, directions, rows))
    except Exception as error:  # noqa: BLE001 - whatever JAX cannot do
        return f"JAX: {type(error).__name__}", []
    if not all(np.all(np.isfinite(leaf)) for leaf in tree_flatten(expected)[0]):
        return "JAX: not finite", []
    with np.errstate(all="ignore"):
        found = results(functad, total(program, weights), inputs, directions, rows)
    if wrong(found["value"], expected["value"]) > TOLERANCE:
        if "np.partition(" in program.source:  # within its parts the order is open, and both are right
            return "JAX: another order within the parts of np.partition", []
        return "JAX: another value", []
    return "compared", [name for name in found if wrong(found[name], expected[name]) > TOLERANCE]


def main() -> None:
    """Compare many programs, and print those on which the libraries differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    for number in range(options.programs):
        generator = np.random.default_rng([options.seed, number])
        program = draw_program(lambda n, g=generator: int(g.integers(n)), max_operations=6)
        if program.value_dependent:
            counts["shapes depend on values"] += 1
            continue
        try:
            outcome, differ = compare(program, generator)
        except Exception as error:  # noqa: BLE001 - said, with the program
            outcome, differ = f"functad: {type(error).__name__}", [str(error)]
        counts[outcome] += 1
        if differ:
            print(f"--- program {number}: {', '.join(differ)}\n{program}\n", flush=True)
            counts["differ"] += 1
    for outcome, count in counts.most_common():
        print(f"{count:5d} {outcome}")


if __name__ == "__main__":
    main()
