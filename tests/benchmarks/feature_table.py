"""The table of features: what functad and other libraries can do, each answer backed by a test or a probe.

`ROWS` says for functad which tests show a feature, or why it is missing. The answers for the other libraries come from
`features/*.json`, which the probes write (see `feature_probes.py`). To write the page `notebooks/features.md` anew, from a
checkout:

    python -m tests.benchmarks.feature_table
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .feature_probes import ANSWERS, NO, PARTLY, YES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "notebooks" / "features.md"
LIBRARIES = {"jax": "JAX", "torch": "torch.func", "tensorflow": "TensorFlow", "autograd": "autograd", "mygrad": "MyGrad"}
MARKS = {YES: "✓", PARTLY: "(✓)", NO: "-"}


@dataclass(frozen=True)
class Row:
    """A feature: `tests` (relative to `tests/`) show what functad does; `note` says what is missing."""

    key: str
    text: str
    tests: str = ""
    note: str = ""

    @property
    def answer(self) -> str:
        """Return *yes* for tests alone, *partly* for tests and a note, *no* for a note alone."""
        return (PARTLY if self.note else YES) if self.tests else NO


SECTIONS: dict[str, tuple[Row, ...]] = {
    "NumPy": (
        Row(
            "numpy_functions",
            "functions of `import numpy as np`, unchanged",
            "primitives/test_registry.py::test_entry primitives/test_coverage.py::test_every_dispatching_function_is_listed "
            "testing/test_random_programs.py::test_first_derivatives_of_mixed_programs",
        ),
        Row(
            "ufunc_methods",
            "methods of ufuncs: `reduce`, `accumulate`, `outer`, `at`, `out=`",
            "tracing/test_ufunc_methods.py::test_derivatives",
        ),
        Row(
            "assignment",
            "`x[i] = v`, `x += v`, and views that write through",
            "tracing/test_writing.py::test_values_and_derivatives tracing/test_views.py::test_results_of_functions",
        ),
        Row(
            "dtypes",
            "float64 by default, NumPy's promotion of dtypes",
            "tracing/test_operators.py::test_python_scalars_do_not_widen "
            "transforms/test_gradient.py::TestTypes::test_gradient_has_the_dtype_of_the_input",
        ),
        Row(
            "complex_numbers",
            "complex numbers: real functions and holomorphic ones",
            "transforms/test_complex.py::test_gradient_of_a_real_function_of_complex_arguments "
            "transforms/test_complex.py::test_holomorphic_derivative",
        ),
        Row(
            "linear_algebra",
            "all of `linalg`, with `eig`, `lstsq`, full `svd`, complete `qr`",
            "primitives/test_linalg.py::test_every_function_of_linalg_has_an_entry primitives/test_registry.py::test_entry",
        ),
        Row(
            "degenerate_eigenvalues",
            "functions of equal eigenvalues",
            "primitives/test_degenerate.py::test_symmetric_functions_of_eigenvalues "
            "primitives/test_degenerate.py::test_functions_of_matrices_lose_nothing",
        ),
        Row(
            "scipy_special",
            "`scipy.special`",
            "primitives/test_scipy_special_mpmath.py::test_derivatives "
            "primitives/test_scipy_special.py::test_derivative_that_is_not_known_raises",
            "211 ufuncs; an argument without a known derivative, such as the order of `jv`, raises an error",
        ),
        Row(
            "python_control_flow",
            "Python's own `if` and `while` on values, in gradients",
            "eager/test_gradient_values.py::test_python_control_flow_runs "
            "transforms/test_jacobian.py::test_boolean_masks_and_branches_work_inside "
            "compilation/test_guards.py::test_values_and_gradients_equal_eager",
        ),
    ),
    "Derivatives": (
        Row(
            "grad",
            "`grad`, `value_and_grad` of functions",
            "transforms/test_gradient.py::TestArguments::test_value_and_gradient_agree_with_differences "
            "transforms/test_gradient.py::TestArguments::test_argnums",
        ),
        Row(
            "higher_order",
            "derivatives of derivatives, to any order",
            "transforms/test_gradient.py::TestNesting::test_four_levels_mixed transforms/test_compositions.py::test_pair",
        ),
        Row("jvp", "`jvp`, forward mode", "transforms/test_forward.py::test_agrees_with_differences"),
        Row("vjp", "`vjp`, pull-backs", "transforms/test_gradient.py::TestVjp::test_pullback_many_times"),
        Row("linearize", "`linearize`", "transforms/test_linear.py::test_linearize_runs_the_function_once"),
        Row("linear_transpose", "`linear_transpose`", "transforms/test_linear.py::test_linear_transpose"),
        Row("jacobian", "Jacobians in both modes", "transforms/test_jacobian_modes.py::test_modes_agree_with_differences"),
        Row(
            "jacobian_chunks",
            "Jacobians by the cheaper mode, in chunks of bounded memory",
            "transforms/test_jacobian_modes.py::test_chunks_bound_the_memory "
            "transforms/test_jacobian_modes.py::test_modes_agree_with_differences",
        ),
        Row(
            "value_and_jacobian",
            "value and Jacobian, value and Hessian, from one run",
            "transforms/test_jacobian_modes.py::test_value_and_jacobian_run_the_function_once "
            "transforms/test_second_order.py::test_value_grad_and_hessian_run_the_function_once",
        ),
        Row("hessian", "`hessian`", "transforms/test_second_order.py::test_hessian"),
        Row("hvp", "product with the Hessian", "transforms/test_second_order.py::test_hvp"),
        Row(
            "gauss_newton", "product with the Gauss-Newton matrix", "transforms/test_second_order.py::test_gauss_newton_product"
        ),
        Row(
            "laplacian",
            "Laplacian, divergence, diagonal of the Hessian",
            "transforms/test_second_order.py::test_diagonal_laplacian_and_divergence",
        ),
        Row(
            "taylor",
            "Taylor series to high order",
            "transforms/test_taylor.py::test_scalar_functions "
            "transforms/test_taylor.py::test_against_nested_derivatives_along_a_curve",
        ),
        Row(
            "sparse_derivatives",
            "sparse Jacobians and Hessians: patterns found, colouring",
            "transforms/test_sparse.py::test_jacobians_of_all_modes transforms/test_sparse.py::test_hessians "
            "transforms/test_sparse_patterns.py::test_pattern_is_exact",
        ),
    ),
    "Batches": (
        Row(
            "vmap",
            "`vmap` with trees of axes",
            "transforms/test_batch.py::test_trees_of_axes transforms/test_batch.py::test_nested",
        ),
        Row("vmap_chunks", "`vmap` in chunks of bounded memory", "transforms/test_batch.py::test_chunks_bound_the_memory"),
        Row("vmap_numpy", "`vmap` of unchanged NumPy code", "transforms/test_batch_programs.py::test_random_programs"),
        Row("per_example_gradients", "gradients of each example", "transforms/test_batch.py::test_per_example_gradients"),
        Row(
            "batch_rule",
            "custom batching rules",
            "transforms/test_rules_batched.py::test_batch_rule_is_called_and_its_derivatives_are_those_of_the_rules",
        ),
    ),
    "Custom rules": (
        Row(
            "custom_rule",
            "custom derivative rules",
            "transforms/test_custom.py::test_one_rule_serves_both_modes eager/test_custom_gradient.py::test_methods",
        ),
        Row(
            "both_rules",
            "custom rules for both modes of one function",
            "transforms/test_custom.py::test_each_mode_uses_its_own_rule_where_there_are_two",
        ),
        Row(
            "new_primitive",
            "custom rules for functions of other libraries",
            "transforms/test_registering.py::test_general_primitive_in_both_modes_and_second_order "
            "transforms/test_registering.py::test_function_of_a_library_in_c",
        ),
        Row(
            "numerical_primitive",
            "numerical derivatives of single functions, marked as such",
            "transforms/test_registering.py::test_central_differences "
            "transforms/test_registering.py::test_complex_step_is_exact_to_rounding "
            "transforms/test_registering.py::test_it_is_marked_as_approximate",
        ),
        Row(
            "checkpoint_policies",
            "checkpoints with policies",
            "transforms/test_checkpoint.py::test_policies_say_what_is_computed_again",
        ),
        Row(
            "binomial_checkpointing",
            "binomial checkpointing of loops",
            "transforms/test_checkpoint_sequence.py::test_binomial_schedule_takes_as_many_steps_as_the_formula_says",
        ),
    ),
    "Control flow": (
        Row(
            "cond",
            "`cond`, `switch` as operations",
            "transforms/test_control.py::test_cond_takes_one_branch "
            "transforms/test_control.py::test_switch_takes_the_nearest_index_that_there_is "
            "transforms/test_control_compositions.py::test_numerical_derivatives",
        ),
        Row(
            "scan",
            "`scan`, `fori_loop`, `map`, `associative_scan`",
            "transforms/test_control.py::test_scan transforms/test_control.py::test_associative_scan_is_cumulative "
            "transforms/test_control_compositions.py::test_numerical_derivatives",
        ),
        Row(
            "while_loop_reverse",
            "`while_loop` in reverse mode",
            "transforms/test_control_compositions.py::test_numerical_derivatives transforms/test_control.py::test_while_loop",
        ),
    ),
    "Solvers": (
        Row(
            "implicit_differentiation",
            "implicit differentiation of the result of any solver",
            "transforms/test_implicit.py::test_scipys_root transforms/test_implicit.py::test_fixed_points "
            "transforms/test_implicit.py::test_minimisers transforms/test_linear_solve.py::test_derivatives_of_parameters",
        ),
        Row(
            "ode_adjoint",
            "`odeint` with its adjoint",
            "transforms/test_ode.py::test_gradient_is_that_of_fixed_steps "
            "transforms/test_ode.py::test_jvp_is_that_of_fixed_steps transforms/test_ode.py::test_every_method",
        ),
        Row(
            "scipy_optimisers",
            "SciPy's optimisers with exact derivatives",
            "optimize/test_minimize.py::test_all_methods_of_scipy_are_here optimize/test_least_squares.py::test_fit_of_a_tree "
            "optimize/test_root.py::test_every_method optimize/test_curve_fit.py::test_agrees_with_scipy",
        ),
    ),
    "Trees, tapes and models": (
        Row(
            "trees",
            "containers, registered classes, static fields",
            "test_tree_classes.py::test_gradient_by_a_class_with_static_fields test_trees.py::test_registered_class",
        ),
        Row("tape", "gradient tape", "eager/test_gradient_values.py::test_gradients_agree_with_differences"),
        Row(
            "variables",
            "variables that are recorded automatically",
            "eager/test_watching.py::test_trainable_variables_are_followed_when_read",
        ),
        Row(
            "implicit_gradients",
            "`implicit_gradients` with respect to all variables that a function reads",
            "eager/test_gradient_functions.py::test_which_variables",
        ),
        Row(
            "forward_accumulator",
            "forward mode of all code in a `with` block",
            "eager/test_forward_accumulator.py::test_tangent_of_a_program",
        ),
        Row(
            "functional_model",
            "call of a model with given values",
            "eager/test_functional_call.py::test_derivatives_of_a_model_agree_with_differences",
        ),
        Row(
            "layers",
            "layers: dense, convolutional, recurrent",
            "eager/test_nn.py::test_dense_computes_what_it_says",
            "dense layers, activations and losses only",
        ),
    ),
    "Debugging": (
        Row(
            "debug_nans",
            "origin of a NaN, also in gradients",
            "transforms/test_debug_nans.py::test_backward eager/test_debug_nans.py::test_backward",
        ),
        Row(
            "nan_safe",
            "no NaN from branches that are not selected",
            "transforms/test_nan_safety.py::test_unselected_values_of_every_ufunc "
            "primitives/test_kinks.py::TestUnselected::test_nan_behind_where",
        ),
        Row(
            "errors_name_the_line",
            "errors for code that would lose a derivative, with line and fix",
            "tracing/test_conversions.py::test_conversion_raises_where_it_stands_and_tells_the_cure "
            "tracing/test_conversions.py::test_line_of_the_conversion_is_named",
        ),
        Row(
            "explain_zero",
            "reason for a zero or missing gradient",
            "transforms/test_explain.py::test_every_cut_is_named_with_its_line "
            "eager/test_explain.py::test_line_where_the_value_left_the_tape",
        ),
        Row("check_grads", "gradient checks for tests", "testing/test_gradients.py::test_wrong_derivatives_fail"),
    ),
    "The program": (
        Row(
            "expression_list",
            "the traced program, printed",
            "transforms/test_abstract.py::test_printed_list eager/test_listing.py::test_list_prints_and_computes_anew",
        ),
        Row("abstract_shapes", "shapes of results without computing", "transforms/test_abstract.py::test_eval_shape"),
        Row(
            "jit",
            "compilation",
            "compilation/test_jit.py::test_compositions_give_what_plain_functions_give "
            "backends/test_native.py::test_elements_and_sums_share_one_loop",
        ),
        Row(
            "compiled_branches",
            "compiled: `if`, `while`, lengths and masks that depend on values",
            "compilation/test_guards.py::test_values_and_gradients_equal_eager "
            "eager/test_selection.py::test_values_and_gradients_equal_eager",
        ),
        Row(
            "gpu",
            "graphics processors",
            "backends/test_xla.py::TestArraysOfJax::test_arguments_of_either_kind_are_compiled_once_for_each_dtype",
            note='`jit(f, backend="xla")` runs on the devices of JAX; the tests run on CPUs only',
        ),
        Row(
            "several_devices",
            "several devices, distributed arrays",
            "portability/test_dask.py::test_value_and_gradient_are_lazy_and_read_every_chunk_once "
            "backends/test_xla.py::test_eight_devices_give_the_gradient_of_one",
            note='Dask arrays directly; JAX arrays with a sharding in functions compiled by `jit(f, backend="xla")`',
        ),
        Row(
            "export",
            "export of programs to files",
            "export/test_save_expressions.py::test_every_entry_is_written_and_read "
            "compilation/test_to_source.py::test_a_module_runs_where_functad_cannot_be_imported",
        ),
        Row(
            "pure_python",
            "pure Python on NumPy, no other compiled package",
            "test_package.py::test_import_brings_numpy_and_typing_extensions_and_nothing_else",
        ),
    ),
}
ROWS = tuple(row for rows in SECTIONS.values() for row in rows)


def answers() -> dict[str, dict[str, Any]]:
    """Return what the probes wrote, by library."""
    return {library: json.loads((ANSWERS / f"{library}.json").read_text()) for library in LIBRARIES}


def versions(found: dict[str, dict[str, Any]]) -> str:
    """Return the versions that were probed, as a sentence."""
    titles = {**LIBRARIES, "torch": "PyTorch"}
    return ", ".join(f"{titles[library]} {content['version']}" for library, content in found.items())


def table() -> str:
    """Return the table: a row for each feature, a column for each library."""
    found = answers()
    lines = [
        f"| feature | functad | {' | '.join(LIBRARIES.values())} |",
        f"|---|{':-:|' * (1 + len(LIBRARIES))}",
    ]
    for row in ROWS:
        marks = [MARKS[content["answers"][row.key]["answer"]] for content in found.values()]
        lines.append(f"| {row.text} | {MARKS[row.answer]} | {' | '.join(marks)} |")
    return "\n".join(lines)


def page() -> str:
    """Return the page `notebooks/features.md`."""
    found = answers()
    parts = [_INTRODUCTION.format(versions=versions(found), table=table())]
    for title, rows in SECTIONS.items():
        parts += [f"\n## {title}\n"]
        for row in rows:
            tests = ", ".join(f"`{test}`" for test in row.tests.split())
            parts += [f"\n**{row.text[0].upper()}{row.text[1:]}**\n\n", f"- functad {_cell(row.answer, row.note)}"]
            parts += [f"; shown by {tests}\n" if tests else "\n"]
            for library, title_of in LIBRARIES.items():
                answer = found[library]["answers"][row.key]
                parts.append(f"- {title_of} {_cell(answer['answer'], answer['note'])}\n")
    return "".join(parts)


def _cell(answer: str, note: str) -> str:
    return f"{answer}: {note}" if note else answer


_INTRODUCTION = """# Features

This page compares the features of functad with five other Python libraries:
{versions}.
The column `torch.func` covers all of PyTorch, and TensorFlow includes Keras. Packages built on these libraries do not count.

- Each answer for functad names the tests that show it, in `tests/`.
- Each answer for another library comes from a small program, `tests/benchmarks/feature_probes_*.py`. For *yes* and *partly*,
  the program runs the feature and compares numbers. For *no*, the attempt fails or there is no public function.

The page is generated from these tests and programs, and a test compares it. To write it again:

```console
python -m tests.benchmarks.feature_table
```

The marks are ✓ yes, (✓) partly, - no. The sections below the table name the missing parts and the tests.

{table}
"""


if __name__ == "__main__":
    PAGE.write_text(page())
