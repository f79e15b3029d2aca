"""Sparse Jacobians and Hessians: against dense ones, against differences, and in the forms that users give and get them."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pytest

import functad
from functad import SparsityPattern, jacobian_sparsity, sparse_hessian, sparse_jacobian, tree_flatten
from functad.errors import InputError, NonScalarError, SparsityError
from functad.testing import central_difference
from tests.work import work

sparse = pytest.importorskip("scipy.sparse", reason="these tests read SciPy's matrices; the one for its absence hides it")
RNG = np.random.default_rng(0)
pytestmark = pytest.mark.filterwarnings("ignore::functad.errors.LoopWarning")  # values are tested here, and no speed of vmap


def broyden(x):
    """The tridiagonal function of Broyden (More, Garbow, Hillstrom, ACM TOMS 7, 1981, number 30)."""
    y = (3 - 2 * x) * x + 1
    y[1:] -= x[:-1]
    y[:-1] -= 2 * x[1:]
    return y


def bratu(u):
    """`u'' + exp(u) = 0` on a grid, with `u = 0` at both ends."""
    padded = np.pad(u, 1)
    h = 1 / (len(u) + 1)
    return padded[2:] - 2 * u + padded[:-2] + h**2 * np.exp(u)


def pentadiagonal(x):
    padded = np.pad(x, 2)
    return x**3 + np.sin(padded[:-4]) * padded[4:] - padded[1:-3] / (2 + padded[3:-1] ** 2)


def arrow(x):
    first = np.sum(x**2)
    return np.concatenate([first[None], x[1:] ** 2 * x[0]])


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def broyden_squares(x):
    return np.sum(broyden(x) ** 2)


def arrow_energy(x):
    return np.sum(np.exp(x[0] * x[1:])) + np.sum(x**4)


# Bundle adjustment, after the formulas of F. Srajer, Z. Kukelova, A. Fitzgibbon, A benchmark of selected algorithmic
# differentiation tools on some problems in computer vision and machine learning, Optim. Methods Softw. 33 (2018).


def rotated(rotation, x):
    """Rodrigues: the rotation about a vector by its length."""
    angle = np.sqrt(np.sum(rotation**2, -1, keepdims=True))
    axis = rotation / angle
    along = np.sum(axis * x, -1, keepdims=True)
    return x * np.cos(angle) + np.cross(axis, x) * np.sin(angle) + axis * along * (1 - np.cos(angle))


def projected(camera, x):
    """Rotation (3), centre (3), focal length (1), principal point (2), radial distortion (2): eleven parameters."""
    focal, middle, radial = camera[:, 6:7], camera[:, 7:9], camera[:, 9:]
    seen = rotated(camera[:, :3], x - camera[:, 3:6])
    plane = seen[:, :2] / seen[:, 2:]
    square = np.sum(plane**2, -1, keepdims=True)
    return plane * (1 + radial[:, :1] * square + radial[:, 1:] * square**2) * focal + middle


def reprojection_errors(cameras, points, weights, observed, features):
    return weights[:, None] * (projected(cameras[observed[:, 0]], points[observed[:, 1]]) - features)


def bundle(cameras, points, observations):
    rng = np.random.default_rng(1)
    observed = np.stack([rng.integers(cameras, size=observations), rng.integers(points, size=observations)], 1)
    camera, point = rng.uniform(0.1, 1, (cameras, 11)), rng.normal(size=(points, 3)) + np.array([0, 0, 5])
    return camera, point, rng.uniform(0.5, 1, observations), observed, rng.normal(size=(observations, 2))


def dense(f, argnums, *args):
    """Return the Jacobian as a dense matrix, by functad's transform that knows of no patterns."""
    parts = tree_flatten(functad.jacobian(f, argnums)(*args))[0]
    chosen = [args[k] for k in argnums]
    rows = [np.concatenate([np.reshape(p, (-1, np.size(x))) for p, x in zip(parts[i:], chosen, strict=False)], 1)
            for i in range(0, len(parts), len(chosen))]  # fmt: skip
    return np.concatenate(rows)


BANDED = [broyden, bratu, pentadiagonal]


@pytest.mark.parametrize("mode", ["auto", "column", "row", "bidirectional"])
@pytest.mark.parametrize("f", [*BANDED, arrow, lambda x: np.cumsum(x) ** 2], ids=lambda f: f.__name__)
def test_jacobians_of_all_modes(f, mode):
    x = RNG.normal(size=12)
    found = sparse_jacobian(f, mode=mode, check=True)(x)
    assert isinstance(found, sparse.csr_array)
    assert found.has_canonical_format
    np.testing.assert_allclose(found.toarray(), functad.jacobian(f)(x), rtol=1e-12, atol=1e-12)
    v = RNG.normal(size=12)
    np.testing.assert_allclose(found @ v, central_difference(lambda x: [f(x)], [x], [v])[0], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("coloring", ["auto", "natural", "largest_first", "smallest_last"])
@pytest.mark.parametrize("f", [rosenbrock, broyden_squares, arrow_energy], ids=lambda f: f.__name__)
def test_hessians(f, coloring):
    x = RNG.normal(size=9) * 0.5
    found = sparse_hessian(f, coloring=coloring, check=True)(x)
    assert isinstance(found, sparse.csr_array)
    np.testing.assert_allclose(found.toarray(), functad.jacobian(functad.grad(f))(x), rtol=1e-11, atol=1e-11)
    v = RNG.normal(size=9)
    differences = central_difference(lambda x: [functad.grad(f)(x)], [x], [v])[0]
    np.testing.assert_allclose(found @ v, differences, rtol=1e-6, atol=1e-7)


def test_numbers_of_colors():
    x = np.ones(50)
    assert [sparse_jacobian(f).plan(x).coloring.colors for f in (broyden, bratu, pentadiagonal, arrow)] == [3, 3, 5, 3]
    assert sparse_jacobian(arrow).plan(x).coloring.mode == "bidirectional"
    assert sparse_jacobian(arrow, mode="column").plan(x).coloring.colors == 50
    assert [sparse_hessian(f).plan(x).coloring.colors for f in (rosenbrock, broyden_squares, arrow_energy)] == [3, 5, 2]


def test_bundle_adjustment():
    args = bundle(3, 5, 20)
    transform = sparse_jacobian(reprojection_errors, argnums=(0, 1, 2), check=True)
    found = transform(*args)
    assert found.shape == (40, 3 * 11 + 5 * 3 + 20)
    np.testing.assert_allclose(found.toarray(), dense(reprojection_errors, (0, 1, 2), *args), rtol=1e-10, atol=1e-10)
    v = [RNG.normal(size=x.shape) for x in args[:3]]
    along = central_difference(lambda *xs: [reprojection_errors(*xs, *args[3:])], args[:3], v)[0]
    np.testing.assert_allclose(found @ np.concatenate([part.ravel() for part in v]), along.ravel(), rtol=1e-6, atol=1e-6)
    # Of the 15 parameters of an observation, each of its two rows has all but the other coordinate of the principal point.
    np.testing.assert_array_equal(np.diff(found.indptr), 14)
    assert transform.plan(*args).coloring.colors == 14
    columns = found.indices[:14]
    camera, point = args[3][0]
    own = {*range(11 * camera, 11 * camera + 11), *range(33 + 3 * point, 36 + 3 * point), 48}
    assert set(columns) == own - {11 * camera + 8}


def test_trees_scalars_and_keywords():
    def f(tree, n, *, shift):
        return {"a": tree["x"] ** 2 * n, "b": [tree["y"] - shift, 3.0]}

    tree = {"x": np.array([[1.0, 2.0]]), "y": 4.0}
    found = sparse_jacobian(f, argnums=(1, 0), check=True)(tree, 3.0, shift=1.0)
    np.testing.assert_allclose(found.toarray(), [[1, 6, 0, 0], [4, 0, 12, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    assert sparse_jacobian(lambda x: x**2)(3.0).toarray().tolist() == [[6.0]]
    assert sparse_jacobian(lambda x: 2 * x, mode="row")(np.zeros((0, 3))).shape == (0, 0)
    assert sparse_jacobian(lambda x: np.ones(3))(np.ones(2)).nnz == 0
    second = sparse_hessian(lambda a, b: a * np.sum(b**2), argnums=(1, 0))(2.0, np.array([1.0, 3.0]))
    np.testing.assert_allclose(second.toarray(), [[4, 0, 2], [0, 4, 6], [2, 6, 0]])


def test_dtypes():
    x = RNG.normal(size=20).astype(np.float32)
    for mode in ("column", "row"):
        found = sparse_jacobian(broyden, mode=mode, check=True)(x)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.toarray(), functad.jacobian(broyden)(x), rtol=1e-5, atol=1e-5)
    assert sparse_hessian(rosenbrock, check=True)(x).dtype == np.float32


def test_decorator_keeps_the_signature():
    @sparse_jacobian(mode="row")
    def decorated(x):
        """Doc."""
        return x[1:] * x[:-1]

    assert decorated.__name__ == "decorated"
    assert decorated.__doc__ == "Doc."
    assert decorated.plan(np.ones(5)).coloring.mode == "row"
    assert sparse_hessian(coloring="natural")(rosenbrock)(np.ones(4)).shape == (4, 4)


def test_methods_have_a_bound_plan():
    class Spring:
        stiffness = 3.0

        @sparse_jacobian(argnums=1)
        def force(self, x):
            return self.stiffness * x**2

    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(Spring().force(x).toarray(), np.diag(6 * x))
    assert Spring().force.plan(x).coloring.colors == 1
    assert Spring.force.plan(Spring(), x).coloring.colors == 1


def test_patterns_of_users():
    x = RNG.normal(size=8)
    expected = functad.jacobian(broyden)(x)
    pattern = jacobian_sparsity(broyden, x)
    ones = sparse.coo_array(pattern.toarray())
    full = np.ones((8, 8), bool)
    for given in (pattern, pattern.toarray(), ones, ones.tocsc(), full, pattern.with_values(np.zeros(pattern.nnz))):
        found = sparse_jacobian(broyden, sparsity=given, check=True)(x)
        np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12, atol=1e-12)
    plan = sparse_jacobian(broyden, sparsity=pattern).plan(x)
    again = sparse_jacobian(broyden, sparsity=plan.sparsity, coloring=plan.coloring)
    assert again.plan(x).coloring is plan.coloring
    np.testing.assert_allclose(again(x).toarray(), expected, rtol=1e-12, atol=1e-12)
    second = sparse_hessian(rosenbrock, sparsity=np.ones((8, 8)), check=True)(x)
    np.testing.assert_allclose(second.toarray(), functad.jacobian(functad.grad(rosenbrock))(x), rtol=1e-10, atol=1e-10)


def test_function_is_run_no_more_than_needed():
    """Without a pattern once for it and once for each direction; with one, only for the directions."""
    runs = []

    def f(x):
        runs.append(type(x))
        return arrow(x)

    x = np.ones(20)
    for mode, expected in (("column", 1), ("row", 1), ("bidirectional", 2)):
        transform = sparse_jacobian(f, mode=mode)
        runs.clear()
        transform(x)
        assert len(runs) == expected + 1
        given = sparse_jacobian(f, mode=mode, sparsity=transform.plan(x).sparsity)
        runs.clear()
        given(x)
        assert len(runs) == expected


def test_branches_are_followed_and_colorings_kept():
    def f(x):
        return x[1:] * x[:-1] if x[0] > 0 else x[::-1] ** 2

    transform = sparse_jacobian(f)
    x = np.ones(6)
    first = transform.plan(x).coloring
    assert transform.plan(2 * x).coloring is first
    np.testing.assert_allclose(transform(-x).toarray(), functad.jacobian(f)(-x))
    assert transform.plan(-x).coloring.colors == 1


def test_check_names_the_entry():
    x = np.arange(1.0, 7.0)
    lacking = jacobian_sparsity(broyden, x).toarray()
    lacking[3, 4] = False
    for mode in ("column", "row"):
        with pytest.raises(SparsityError, match=r"entry \(3, 4\) is -2, which the pattern has no place for") as caught:
            sparse_jacobian(broyden, sparsity=lacking, mode=mode, check=True)(x)
        assert (caught.value.row, caught.value.column) == (3, 4)
        assert "test_sparse.py" in str(caught.value)
        sparse_jacobian(broyden, sparsity=lacking, mode=mode)(x)  # silent without the check
    symmetric = np.eye(6, dtype=bool)
    with pytest.raises(SparsityError, match=r"sparse_hessian of .*rosenbrock, .*which the pattern has no place for"):
        sparse_hessian(rosenbrock, sparsity=symmetric, check=True)(x)
    wrong = sparse_jacobian(broyden, mode="column").plan(x).coloring
    merged = type(wrong)("column", wrong.shape, wrong.columns * 0, wrong.rows, wrong.by_row, 1, 0)
    with pytest.raises(SparsityError, match=r"entry .* is .*, but the matrix has"):
        sparse_jacobian(broyden, coloring=merged, check=True)(x)


def test_check_bears_infinities():
    x = np.array([0.0, 1.0, 4.0])
    with np.errstate(divide="ignore"):
        found = sparse_jacobian(lambda x: np.sqrt(x), check=True)(x)
    assert np.isinf(found.toarray()[0, 0])


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    x = RNG.normal(size=7)
    found = sparse_jacobian(broyden)(x)
    assert type(found).__name__ == "Coordinates"
    assert found.shape == (7, 7)
    assert [part.dtype.kind for part in found[:3]] == ["i", "i", "f"]
    np.testing.assert_allclose(found.toarray(), functad.jacobian(broyden)(x), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        sparse_hessian(rosenbrock)(x).toarray(), functad.jacobian(functad.grad(rosenbrock))(x), atol=1e-9
    )
    assert SparsityPattern.of(found) == jacobian_sparsity(broyden, x)


def test_inside_other_transforms():
    """Under a transform the entries are Tensors, with derivatives of their own."""
    x = RNG.normal(size=6)

    def norm(x):
        return np.sum(sparse_jacobian(pentadiagonal, mode="column")(x).values ** 2)

    def expected(x):
        return np.sum(functad.jacobian(pentadiagonal)(x) ** 2)

    np.testing.assert_allclose(functad.grad(norm)(x), functad.grad(expected)(x), rtol=1e-10)
    rows = functad.grad(lambda x: np.sum(sparse_jacobian(arrow)(x).toarray() ** 3))(x)
    np.testing.assert_allclose(rows, functad.grad(lambda x: np.sum(functad.jacobian(arrow)(x) ** 3))(x), rtol=1e-10)
    third = functad.jvp(lambda x: sparse_hessian(rosenbrock)(x).values, (x,), (np.ones(6),))[1]
    difference = central_difference(lambda x: [sparse_hessian(rosenbrock)(x).data], [x], [np.ones(6)])[0]
    np.testing.assert_allclose(third, difference, rtol=1e-7, atol=1e-6)


def test_batches_lists_and_tapes():
    """Without values too: the pattern is that of the shapes."""
    xs = RNG.normal(size=(3, 6))

    def entries(x):
        return sparse_jacobian(pentadiagonal)(x).values

    expected = np.array([sparse_jacobian(pentadiagonal)(x).data for x in xs])
    np.testing.assert_allclose(functad.vmap(entries)(xs), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(functad.make_expressions(entries)(xs[0])(xs[1]), expected[1], rtol=1e-13, atol=1e-13)
    with functad.GradientTape() as tape:
        x = functad.Variable(xs[0])
        loss = np.sum(entries(x) ** 2)
    by_grad = functad.grad(lambda x: np.sum(functad.jacobian(pentadiagonal)(x) ** 2))(xs[0])
    np.testing.assert_allclose(tape.gradient(loss, x).numpy(), by_grad, rtol=1e-10)


def test_rules_of_users_are_taken_as_dense():
    @functad.custom_gradient
    def sine(x):
        return np.sin(x), lambda ct: ct * np.cos(x)

    transform = sparse_jacobian(lambda x: sine(x) * x, check=True)
    x = RNG.normal(size=5)
    np.testing.assert_allclose(transform(x).toarray(), np.diag(np.cos(x) * x + np.sin(x)), atol=1e-12)
    assert transform.plan(x).sparsity.nnz == 25


def test_closure_over_a_tensor():
    def outer(s, x):
        return np.sum(sparse_jacobian(lambda x: s * x**2)(x).values)

    np.testing.assert_allclose(functad.grad(outer)(3.0, np.array([1.0, 2.0])), 6.0)


def test_debug_nans_looks_into_it():
    with functad.debug_nans(), np.errstate(invalid="ignore"), pytest.raises(functad.errors.NotFiniteError):
        sparse_jacobian(np.log)(np.array([-1.0, 1.0]))


def test_errors():
    x = np.ones(4)
    with pytest.raises(InputError, match=r"the pattern that was given has shape \(3, 4\), but the matrix has shape \(4, 4\)"):
        sparse_jacobian(broyden, sparsity=np.ones((3, 4)))(x)
    with pytest.raises(InputError, match=r"has shape \(3, 3\), but the matrix has shape \(4, 4\)"):
        sparse_hessian(rosenbrock, sparsity=np.eye(3))(x)
    with pytest.raises(InputError, match="must be symmetric"):
        sparse_hessian(rosenbrock, sparsity=np.tri(4))(x)
    with pytest.raises(InputError, match="mode='forward'"):
        sparse_jacobian(broyden, mode="forward")
    with pytest.raises(InputError, match="coloring='best'"):
        sparse_jacobian(broyden, coloring="best")
    with pytest.raises(InputError, match=r"Coloring\('column', shape=\(4, 4\), colors=3\), used at .* was not made for"):
        sparse_jacobian(broyden, coloring=sparse_jacobian(broyden).plan(x).coloring)(np.ones(5))
    with pytest.raises(InputError, match="result is complex"):
        sparse_jacobian(lambda x: x * 1j)(x)
    with pytest.raises(InputError, match="no array of real floats"):
        sparse_jacobian(lambda x: x)(x + 1j)
    with pytest.raises(NonScalarError, match="sparse_hessian needs a function that returns one number"):
        sparse_hessian(broyden)(x)


@pytest.mark.parametrize("f", BANDED, ids=lambda f: f.__name__)
def test_large_band(f):
    """10,000 x 10,000: as many colours as bands, and right: the diagonals against differences."""
    x = RNG.normal(size=10_000)
    transform = sparse_jacobian(f, check=True)
    found = transform(x)
    assert found.shape == (10_000, 10_000)
    assert transform.plan(x).coloring.colors == (5 if f is pentadiagonal else 3)
    v = RNG.normal(size=10_000)
    np.testing.assert_allclose(found @ v, central_difference(lambda x: [f(x)], [x], [v])[0], rtol=1e-6, atol=1e-8)
    u = RNG.normal(size=10_000)
    np.testing.assert_allclose(u @ found, functad.vjp(f, x)[1](u)[0], rtol=1e-10, atol=1e-10)


def test_work_is_proportional_to_size():
    """Ten times the size takes about ten times the work, where quadratic work would take a hundred times as much."""
    few, many = (work(partial(sparse_jacobian(pentadiagonal), np.ones(n))) for n in (3_000, 30_000))
    assert many.calls < 15 * few.calls
    assert many.allocated < 15 * few.allocated
