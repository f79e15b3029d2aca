"""Sparsity patterns: never an entry too few, over all primitives and random programs; none too many where they are counted."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest

import functad
from functad import ArraySpec, SparsityPattern, hessian_sparsity, jacobian_sparsity, tree_flatten
from functad.errors import AbstractValueError, FunctadError, InputError, NonScalarError, OutputError
from functad.sparse.trace import Dependence
from functad.testing import calls, draw_program, every_entry
from tests.entries import label

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(4, 5))
COVERED = {"calls": 0, "stored": 0}
pytestmark = pytest.mark.filterwarnings("ignore::functad.errors.LoopWarning")  # of the dense derivatives to compare with


def dense_pattern(f, *xs):
    """Return where the Jacobian is not zero at a point, column by column, and NaN counts."""
    columns = []
    for k, x in enumerate(xs):
        for index in np.ndindex(np.shape(x)):
            tangents = [np.zeros(np.shape(a), np.asarray(a).dtype) for a in xs]
            tangents[k][index] = 1
            out = functad.jvp(f, xs, [t if t.shape else t[()] for t in tangents])[1]
            columns.append(np.concatenate([np.zeros(0), *[np.ravel(leaf) != 0 for leaf in tree_flatten(out)[0]]]) != 0)
    return np.stack(columns, 1) if columns else np.zeros((0, 0), bool)


def exact(f, *shapes, low=0.2, high=0.9):
    """Check that a pattern is what is not zero at one of a few random points, no less and no more."""
    points = [[RNG.uniform(low, high, shape)[()] for shape in shapes] for _ in range(4)]
    pattern = jacobian_sparsity(f, *points[0], argnums=tuple(range(len(shapes))))
    np.testing.assert_array_equal(pattern.toarray(), np.logical_or.reduce([dense_pattern(f, *xs) for xs in points]))
    for xs in points[1:]:
        assert jacobian_sparsity(f, *xs, argnums=tuple(range(len(shapes)))) == pattern


def broyden(x):
    y = (3 - 2 * x) * x + 1
    y[1:] -= x[:-1]
    y[:-1] -= 2 * x[1:]
    return y


def written(x):
    y = np.zeros_like(x)
    y[0] = x[1] * x[2]
    for i in range(1, len(x)):
        y[i] = y[i - 1] * x[i]
    view = y[2:]
    view[0] = x[0]
    np.add.at(y, [3, 3], x[:2])
    return y


EXACT = {
    "elementwise": (lambda x: np.sin(x) * 2, (5,)),
    "broadcast": (lambda x, y: x[:, None] * y + np.exp(x)[:, None], (3,), (2,)),
    "scalar": (lambda x, y: x * y, (), (3,)),
    "where": (lambda x, y: np.where([True, False, True], x, y[::-1]) + x + y[::-1], (3,), (3,)),
    "slices": (lambda x: x[1:] ** 2 - x[:-1], (6,)),
    "stride and negative index": (lambda x: x[::-2] * x[-1], (7,)),
    "integer arrays": (lambda x: x[[3, 0, 3]] * x[[1, 1, 2]], (5,)),
    "boolean mask": (lambda x: x[np.arange(5) % 2 == 0], (5,)),
    "roll, flip": (lambda x: np.roll(x, 2) + np.flip(x), (6,)),
    "pad": (lambda x: np.pad(x, 1)[2:] - 2 * x + np.pad(x, 1)[:-2] + np.exp(x), (6,)),
    "pad reflecting": (lambda x: np.pad(x, 2, "reflect"), (4,)),
    "transpose, reshape": (lambda x: (x.T.reshape(2, 6) * 2).ravel()[3:], (3, 4)),
    "concatenate, stack": (lambda x, y: np.stack([np.concatenate([x, y]), np.concatenate([y, x])]), (2,), (3,)),
    "repeat, tile": (lambda x: np.repeat(x, 2) * np.tile(x, 2), (3,)),
    "triangles": (lambda x: np.tril(x) + np.triu(x, 1).T, (3, 3)),
    "diagonal": (lambda x: np.diagonal(x) + np.trace(x) * np.diag(x[0]).sum(0), (3, 3)),
    "sum over an axis": (lambda x: np.sum(x**2, 1), (3, 4)),
    "mean of two axes": (lambda x: np.mean(x, (0, 2)), (2, 3, 2)),
    "var, norm": (lambda x: np.var(x, 0) + np.linalg.norm(x, axis=0), (3, 2)),
    "cumsum": (lambda x: np.cumsum(x), (5,)),
    "cumprod over an axis": (lambda x: np.cumprod(x, 0), (3, 2)),
    "prod": (lambda x: np.prod(x, -1), (3, 2)),
    "diff": (lambda x: np.diff(x, 2), (6,)),
    "gradient": (lambda x: np.gradient(x), (5,)),
    "matmul by a constant": (lambda x: MATRIX @ x, (5,)),
    "matmul": (lambda a, b: a @ b, (2, 3), (3, 2)),
    "matmul of batches": (lambda a, b: a @ b, (2, 2, 3), (3,)),
    "matmul of a vector": (lambda a, b: a @ b, (3,), (2, 3, 2)),
    "dot of many axes": (lambda a, b: np.dot(a, b), (2, 3), (2, 3, 2)),
    "inner, outer, kron": (lambda a, b: (np.outer(a, b), np.inner(b, b), np.kron(a, b)), (3,), (2,)),
    "vecdot": (lambda a, b: np.vecdot(a, b), (2, 3), (3,)),
    "einsum": (lambda a, b: np.einsum("ij,kj->ik", a, b), (2, 3), (2, 3)),
    "einsum of three": (lambda a, b, c: np.einsum("ij,jk,i->ik", a, b, c), (2, 3), (3, 2), (2,)),
    "einsum of a diagonal": (lambda a: np.einsum("iij->ij", a), (2, 2, 3)),
    "cross": (lambda a, b: np.cross(a, b), (2, 3), (3,)),
    "convolve full": (lambda a: np.convolve(a, [1.0, 2.0, 3.0]), (5,)),
    "convolve same": (lambda a, b: np.convolve(a, b, "same"), (5,), (2,)),
    "convolve valid": (lambda a, b: np.convolve(a, b, "valid"), (5,), (3,)),
    "inverse within batches": (lambda a: np.linalg.inv(a + 3 * np.eye(2)), (2, 2, 2)),
    "solve by columns": (lambda a, b: np.linalg.solve(a + 3 * np.eye(2), b), (2, 2), (2, 3)),
    "fft along an axis": (lambda a: np.abs(np.fft.fft(a, axis=1)) ** 2, (2, 3)),
    "writes": (broyden, (6,)),
    "writes in a loop, through a view, repeated": (written, (5,)),
    "two results": (lambda x: {"a": x[:2], "b": (x[2] * x[0], 1.0)}, (3,)),
    "constant": (lambda x: np.floor(x) + np.ones(3), (3,)),
    "stop_gradient": (lambda x: functad.stop_gradient(x) + x[::-1], (3,)),
}  # fmt: skip


@pytest.mark.parametrize("case", EXACT.values(), ids=EXACT)
def test_pattern_is_exact(case):
    exact(*case)


def test_values_play_no_part():
    def f(x, y):
        return np.where(x > 0, x, y) + 0.0 * y[::-1] + np.maximum(x, y)

    pattern = jacobian_sparsity(f, *np.zeros((2, 3)), argnums=(0, 1))
    np.testing.assert_array_equal(pattern.toarray(), np.hstack([np.eye(3), np.eye(3) + np.eye(3)[::-1]]) > 0)
    x = np.array([3.0, 1.0, 2.0])
    assert jacobian_sparsity(np.max, x).nnz == jacobian_sparsity(np.median, x).nnz == 3
    assert jacobian_sparsity(np.sort, x).nnz == 9  # elsewhere the order is another
    assert jacobian_sparsity(lambda x: x[np.argmax(x)], x).columns.tolist() == [0]  # a branch that was taken


@pytest.mark.parametrize("entry", every_entry(), ids=label)
def test_no_primitive_loses_an_entry(entry):
    if entry.status == "refused":
        with pytest.raises(FunctadError):
            jacobian_sparsity(entry.front if entry.in_place else entry, 1.0)
        return
    for call in calls(entry, np.float64):
        real = all(np.asarray(x).dtype.kind == "f" for x in call.primals)
        if not real or not call.positions or not call.smooth(*call.primals):
            continue
        selected = tuple(range(len(call.positions)))
        pattern = jacobian_sparsity(call.smooth, *call.primals, argnums=selected)
        try:
            found = dense_pattern(call.smooth, *call.primals)
        except FunctadError:
            continue  # a derivative that is refused, as of an argument whose derivative is not known
        assert not (found.reshape(pattern.shape) & ~pattern.toarray()).any(), str(call)
        COVERED["calls"] += 1
        COVERED["stored"] += pattern.nnz


def test_most_primitives_were_compared():
    """The test above compared calls and not refusals; where it ran in several processes, it is run again."""
    if COVERED["calls"] <= 900:
        for entry in every_entry():
            if entry.status != "refused":
                test_no_primitive_loses_an_entry(entry)
    assert COVERED["calls"] > 900
    assert COVERED["stored"] > 5000


def drawn(seed, *, mutation=False):
    """Return a random program as a function that does not warn, its inputs, and another point near by."""
    rng = np.random.default_rng(seed)
    program = draw_program(lambda n: int(rng.integers(n)), mutation=mutation)
    points = [program.inputs]
    if not program.value_dependent:
        points.append(tuple([x * (1 + 1e-3 * rng.normal(size=np.shape(x))) for x in program.inputs]))

    def f(*xs):
        return [leaf for leaf in tree_flatten(program(*xs))[0] if leaf.dtype.kind in "fc"]

    return f, points


@pytest.mark.parametrize("mutation", [False, True], ids=["pure", "writing"])
def test_random_programs_lose_no_entry(mutation):
    compared = entries = 0
    for seed in range(150):
        f, points = drawn(seed, mutation=mutation)
        selected = tuple(range(len(points[0])))
        pattern = jacobian_sparsity(f, *points[0], argnums=selected)
        for xs in points:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = dense_pattern(f, *xs).reshape(pattern.shape)
            assert not (found & ~pattern.toarray()).any(), seed
            compared += 1
            entries += found.sum()
    assert compared > 200
    assert entries > 3000


def weighted(f):
    """Return a number that depends on all real results of a function."""

    def total(*xs):
        parts = [leaf if leaf.dtype.kind == "f" else leaf.real + 0.3 * leaf.imag for leaf in f(*xs)]
        return sum([np.sum(part * np.cos(np.arange(part.size) + i).reshape(part.shape)) for i, part in enumerate(parts)], 0.0)

    return total


def dense_hessian_pattern(f, *xs):
    selected = tuple(range(len(xs)))
    with np.errstate(all="ignore"):
        blocks = functad.jacobian(functad.grad(f, selected), selected)(*xs)
    sizes = [np.size(x) for x in xs]
    whole = [
        [np.reshape(block, (m, n)) for block, n in zip(row, sizes, strict=True)] for row, m in zip(blocks, sizes, strict=True)
    ]
    return np.abs(np.nan_to_num(np.block(whole))) > 1e-9


@pytest.mark.parametrize("mutation", [False, True], ids=["pure", "writing"])
def test_hessians_of_random_programs_lose_no_entry(mutation):
    entries = 0
    for seed in range(1000, 1080):
        f, points = drawn(seed, mutation=mutation)
        total = weighted(f)
        pattern = hessian_sparsity(total, *points[0], argnums=tuple(range(len(points[0]))))
        assert pattern == pattern.T
        for xs in points:
            try:
                found = dense_hessian_pattern(total, *xs)
            except functad.errors.DegenerateError:  # singular values of a matrix of one value in all places
                continue
            assert not (found & ~pattern.toarray()).any(), seed
            entries += found.sum()
    assert entries > 500


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def unused(x):
    y = x**3
    _ = np.exp(x[0] * x[1])
    return np.sum(y[1:])


EXACT_HESSIANS = {
    "separable": (lambda x: np.sum(np.sin(x) + x**2), (4,)),
    "linear": (lambda x: np.sum(3 * x) + x[0] - np.max(x) + np.abs(x[1]), (4,)),
    "product": (lambda x: x[0] * x[1] + x[2] ** 2, (4,)),
    "product of different arguments": (lambda x, y: np.sum(x * y), (3,), (3,)),
    "quotient": (lambda x: x[0] / x[1] + x[2] / 2, (3,)),
    "dot with itself": (lambda x: x @ x, (4,)),
    "dot with the reverse": (lambda x: x @ x[::-1], (4,)),
    "quadratic form": (lambda x: x @ (np.ones((4, 4)) @ x), (4,)),
    "matrices": (lambda a, b: np.sum(a @ b), (2, 3), (3, 2)),
    "einsum": (lambda a, b, c: np.einsum("ij,j,i->", a, b, c), (2, 3), (3,), (2,)),
    "function of a sum": (lambda x: np.exp(np.sum(x[:3])) + x[3], (4,)),
    "rosenbrock": (rosenbrock, (6,)),
    "what is not used counts not": (unused, (4,)),
    "cross": (lambda a, b: np.cross(a, b)[0], (3,), (3,)),
    "convolution": (lambda a, b: np.convolve(a, b)[1], (3,), (3,)),
    "product of a column": (lambda x: np.sum(np.prod(x, 0)), (3, 2)),
    "writes": (lambda x: np.sum(broyden(x) ** 2), (6,)),
    "no Tensor": (lambda x: 1.0, (3,)),
    "norm": (lambda x: np.linalg.norm(x[:2]) + x[2], (3,)),
}  # fmt: skip


@pytest.mark.parametrize("case", EXACT_HESSIANS.values(), ids=EXACT_HESSIANS)
def test_hessian_pattern_is_exact(case):
    f, *shapes = case
    points = [[RNG.uniform(0.2, 0.9, shape) for shape in shapes] for _ in range(3)]
    pattern = hessian_sparsity(f, *points[0], argnums=tuple(range(len(shapes))))
    found = np.logical_or.reduce([dense_hessian_pattern(f, *xs) for xs in points])
    np.testing.assert_array_equal(pattern.toarray(), found)


def test_large_products_are_taken_whole():
    """Above a size, `a @ b` pairs whole rows with whole columns; no pair is lost."""
    pattern = hessian_sparsity(lambda x: np.sum((np.outer(x, np.ones(300)) @ np.ones((300, 300))) * 1.0), np.ones(3))
    assert pattern.nnz == 0  # one of the factors is constant
    n = 260
    whole = hessian_sparsity(lambda a, b: np.sum(a @ b), np.ones((n, 1)) * np.ones((1, n)), np.ones((n, 2)), argnums=(0, 1))
    assert whole.nnz == 2 * n * n * 2
    large = hessian_sparsity(lambda x: np.sum(np.outer(x, np.ones(n)) @ np.outer(x, np.ones(n))), np.ones(n))
    assert large.nnz == n * n


def test_arguments_and_results_of_trees_lie_one_behind_the_other():
    def f(scale, tree, *, shift):
        return {"z": scale * tree["a"], "y": tree["b"][1:] + shift}

    tree = {"b": np.zeros(3), "a": np.zeros((1, 2))}
    pattern = jacobian_sparsity(f, 2.0, tree, argnums=(1, 0), shift=np.ones(2))
    columns = ["a0", "a1", "b0", "b1", "b2", "scale"]
    rows = [["b1"], ["b2"], ["a0", "scale"], ["a1", "scale"]]
    assert pattern.toarray().tolist() == [[name in row for name in columns] for row in rows]
    assert jacobian_sparsity(f, 2.0, tree, argnums=-1, shift=np.ones(2)).shape == (4, 5)


def test_expression_lists_and_specs():
    def f(x, n):
        return x[1:] * np.sin(x[:-1]) * n

    x = np.zeros(5)
    expected = jacobian_sparsity(f, x, 2.0)
    assert jacobian_sparsity(functad.make_expressions(f)(x, 2.0), x, 2.0) == expected
    spec = ArraySpec((5,), np.dtype(float))
    assert jacobian_sparsity(f, spec, 2.0) == jacobian_sparsity(f, x, ArraySpec((), np.dtype(float))) == expected
    assert hessian_sparsity(rosenbrock, spec) == hessian_sparsity(rosenbrock, x)
    with pytest.raises(AbstractValueError):
        jacobian_sparsity(lambda x: x if x[0] > 0 else 2 * x, spec)
    solved = jacobian_sparsity(lambda a: np.linalg.inv(a), ArraySpec((2, 3, 3), np.dtype(float)))  # ones would be singular
    assert solved.nnz == 2 * 9 * 9


def test_branches_of_the_function_are_taken():
    def f(x):
        total = x[0]
        while total < 3:
            total = total + x[1]
        return np.stack([total, x[2] if x[2] > 0 else x[0]])

    assert jacobian_sparsity(f, np.array([5.0, 1.0, 1.0])).toarray().tolist() == [[True, False, False], [False, False, True]]
    assert jacobian_sparsity(f, np.array([1.0, 1.0, -1.0])).toarray().tolist() == [[True, True, False], [True, False, False]]


def test_inside_other_transforms():
    """A pattern depends on no value, so the Tensors of other traces are constants to it, and so is what `f` closes over."""
    patterns = []

    def outer(y):
        patterns.append(jacobian_sparsity(lambda x: x[1:] * y[:2] * np.sum(x[0] * y), y))
        return np.sum(y**2)

    np.testing.assert_allclose(functad.grad(outer)(np.ones(3)), 2 * np.ones(3))
    functad.make_expressions(outer)(np.ones(3))
    assert patterns[0] == patterns[1]
    assert patterns[0].toarray().tolist() == [[True, True, False], [True, False, True]]


def test_derivatives_have_patterns_too():
    gradient = functad.grad(rosenbrock)
    assert jacobian_sparsity(gradient, np.ones(6)) == hessian_sparsity(rosenbrock, np.ones(6))
    pushed = jacobian_sparsity(lambda x: functad.jvp(broyden, (x,), (x,))[1], np.ones(6))
    assert pushed == jacobian_sparsity(broyden, np.ones(6))


def test_work_is_linear():
    """What is stored while a pattern is found grows as the size does, and so does a chain of scalar operations."""

    def stored(f, n):
        recorder = Dependence("test", f, second=True)
        f(recorder.enter_elements(np.ones(n), active=True))
        return recorder.sets._used + recorder.happened.sets._used + len(recorder.sets)

    for f in (broyden, rosenbrock, lambda x: np.sum(np.tanh(np.convolve(x, [1.0, 2.0, 1.0])) ** 2)):
        assert stored(f, 4000) < 4.2 * stored(f, 1000)
    pattern = jacobian_sparsity(broyden, np.ones(30_000))
    assert pattern.nnz == 3 * 30_000 - 2


def test_dense_rows_cost_one_set():
    def f(x):
        return np.tanh(x / np.sum(x)) * np.linalg.norm(x)

    recorder = Dependence("test", f, second=False)
    out = f(recorder.enter_elements(np.ones(500), active=True))
    assert len(np.unique(out.slot.sets)) == 1
    assert recorder.sets._used < 3 * 500


def test_errors():
    x = np.ones(3)
    with pytest.raises(InputError, match=r"jacobian_sparsity of .*test_errors.* args\[0\] is no array of real floats.*choose"):
        jacobian_sparsity(lambda x: x, np.arange(3))
    with pytest.raises(InputError, match=r"real and the imaginary parts as two arrays"):
        jacobian_sparsity(lambda x: x, x + 1j)
    with pytest.raises(InputError, match="should differentiate argument 1"):
        jacobian_sparsity(lambda x: x, x, argnums=1)
    with pytest.raises(OutputError, match="result is a str"):
        jacobian_sparsity(lambda x: "no", x)
    with pytest.raises(NonScalarError, match=r"hessian_sparsity needs .* returned float64\[3\]"):
        hessian_sparsity(lambda x: x, x)
    with pytest.raises(NonScalarError, match=r"returned 2 arrays"):
        hessian_sparsity(lambda x: (x[0], x[1]), x)


def test_pattern_objects():
    pattern = SparsityPattern([1, 0, 1, 1], [2, 1, 0, 2], (2, 3))
    assert (pattern.nnz, pattern.shape, pattern.density) == (3, (2, 3), 0.5)
    assert pattern.rows.tolist() == [0, 1, 1]
    assert pattern.columns.tolist() == [1, 0, 2]
    assert repr(pattern) == "SparsityPattern(shape=(2, 3), nnz=3)\n.X.\nX.X"
    assert repr(SparsityPattern([], [], (0, 3))) == "SparsityPattern(shape=(0, 3), nnz=0)"
    np.testing.assert_array_equal(pattern.T.toarray(), pattern.toarray().T)
    assert pattern == pattern.T.T
    assert hash(pattern.T.T) == hash(pattern)
    assert pattern != pattern.T
    assert pattern != "pattern"
    assert SparsityPattern.of(pattern) is pattern
    assert SparsityPattern.of(pattern.toarray()) == pattern
    assert SparsityPattern.of(pattern.with_values(np.ones(3))) == pattern
    assert SparsityPattern.of([[0, 2.0], [0, 0]]).columns.tolist() == [1]
    with pytest.raises(ValueError, match="read-only"):
        pattern.rows[0] = 1
    for rows, columns in (([2], [0]), ([0], [3]), ([-1], [0]), ([0, 1], [0])):
        with pytest.raises(InputError, match=r"rows in \[0, 2\) and columns in \[0, 3\)"):
            SparsityPattern(rows, columns, (2, 3))
    with pytest.raises(InputError, match=r"not a ndarray of shape \(3,\)"):
        SparsityPattern.of(np.ones(3))


def test_unions_of_sets_are_those_of_python():
    """Unions of pairs and of groups, numbers of equal sets, and unions of more members than one chunk takes."""
    from functad.sparse import sets as sparse_sets

    rng = np.random.default_rng(3)
    for chunk in (1 << 24, 10):
        sets = sparse_sets.Sets()
        sparse_sets._CHUNK, old = chunk, sparse_sets._CHUNK
        try:
            known = [set(), *[{i} for i in range(9)]]
            numbers = [0, *sets.singletons(9)]
            for _ in range(60):
                count = int(rng.integers(1, 6))
                picks = rng.integers(0, len(numbers), (count, 2))
                a, b = (np.array(numbers)[picks[:, k]] for k in (0, 1))
                made = sets.union(a, b)
                groups = rng.integers(0, 3, 2 * count)
                grouped = sets.union_groups(groups, np.concatenate([a, b]), 3)
                flat = [known[i] for i in itertools.chain(picks[:, 0], picks[:, 1])]
                expected = [known[i] | known[j] for i, j in picks]
                expected += [set().union(*[s for s, g in zip(flat, groups, strict=True) if g == k]) for k in range(3)]
                for number, wanted in zip([*made, *grouped], expected, strict=True):
                    assert sets.members(np.array([number])).tolist() == sorted(wanted)
                    numbers.append(number)
                    known.append(wanted)
            assert len({frozenset(s) for s in known}) == len(set(numbers))  # equal sets have one number
        finally:
            sparse_sets._CHUNK = old
    assert math.prod(sets.members(sets.union_all(np.array(numbers)))[1:].tolist()) == math.prod(range(1, 9))


def test_sets_of_equal_digests_are_told_apart(monkeypatch):
    from functad.sparse import sets as sparse_sets

    monkeypatch.setattr(sparse_sets, "_mixed", lambda members: np.zeros(len(members), np.uint64))
    assert jacobian_sparsity(broyden, np.ones(7)).nnz == 19
