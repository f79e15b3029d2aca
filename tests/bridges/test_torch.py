"""`from_torch` and `to_torch`, against PyTorch itself, functad's own derivatives of the same function, and differences.

PyTorch is not among the requirements of the tests, as what the package index installs by default brings gigabytes of CUDA.
Where it is installed, this runs them: `python -m pytest tests/bridges/test_torch.py`.
"""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import functad
from functad.errors import InputError, MissingPackageError
from functad.testing import check_grads

torch = pytest.importorskip("torch", reason="PyTorch by default brings gigabytes of CUDA; run this file where it is installed")
# Its own, when forward mode is used first.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated:DeprecationWarning")

X = np.array([0.5, -1.0, 2.0])
W = {"w": np.array([1.0, 2.0, -0.5]), "b": np.array(0.3)}


def program(np):
    """Return one function as it is written with NumPy, or with PyTorch."""

    def f(x, params, shift=0):
        z = np.sin(x) * params["w"] + params["b"] + shift
        return {"value": np.sum(z**2), "largest": np.argmax(z), "z": (z, np.exp(-z))}

    return f


OURS, THEIRS = program(np), program(torch)


def scalar(f):
    return lambda x, params: f(x, params)["value"] + f(x, params, shift=1)["z"][1].sum()


def tensors(tree, **options):
    return functad.tree_map(lambda a: torch.tensor(a, **options), tree)


def close(found, expected, rtol=1e-12):
    leaves, structure = functad.tree_flatten(found)
    others, own = functad.tree_flatten(expected)
    assert structure == own
    for a, b in zip(leaves, others, strict=True):
        a, b = (part.detach() if isinstance(part, torch.Tensor) else part for part in (a, b))
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=rtol)


# Functions of PyTorch in programs of NumPy

TRANSFORMS = {
    "value": lambda f: f,
    "grad": lambda f: functad.grad(f, argnums=(0, 1)),
    "jvp": lambda f: lambda x, w: functad.jvp(f, (x, w), (x, w)),
    "jacfwd": lambda f: functad.jacfwd(functad.grad(f)),
    "third": lambda f: functad.jacrev(functad.hessian(f)),
    "hvp": lambda f: lambda x, w: functad.hvp(f, (x, w), (x, w)),
    "vmap": lambda f: lambda x, w: functad.vmap(functad.grad(f), in_axes=(0, None))(np.stack([x, 2 * x]), w),
    "grad_of_vmap": lambda f: functad.grad(lambda x, w: np.sum(functad.vmap(f, (0, None))(np.stack([x, x**2]), w)), argnums=1),
    "jit": lambda f: functad.jit(functad.value_and_grad(f)),
    "list": lambda f: lambda x, w: functad.make_expressions(functad.grad(f))(x, w)(x + 1, w),
    "linearize": lambda f: lambda x, w: functad.linearize(f, x, w)[1](x, w),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_of_a_function_of_torch(transform):
    made = TRANSFORMS[transform]
    close(made(scalar(functad.from_torch(THEIRS)))(X, W), made(scalar(OURS))(X, W))


def test_differences():
    f = functad.from_torch(lambda x, params: torch.exp(torch.sin(x) * params["w"] + params["b"]))
    check_grads(f, (X, W), order=2)


def test_results_dtypes_and_integers():
    f = functad.from_torch(THEIRS)
    close(f(X, W, shift=2), OURS(X, W, shift=2))
    f(X, W)["z"][0][0] = 1.0  # which is the caller's own
    gather = functad.from_torch(lambda x, i: x[i] * i)
    close(functad.grad(lambda x, i: np.sum(gather(x, i)))(X, np.array([2, 2, 0])), np.array([0.0, 0.0, 4.0]))
    double = functad.from_torch(lambda x: 2 * x)
    assert [double(X.astype(dtype)).dtype for dtype in ("f4", "f8", "i8", "c8")] == ["f4", "f8", "i8", "c8"]
    assert functad.grad(lambda x: double(x).sum())(X.astype("f4")).dtype == np.float32
    close(double(X[::-1]), 2 * X[::-1])
    assert functad.grad(double)(1.0) == 2.0


def test_complex_gradients_follow_functads_convention():
    z, factor = np.array([1 + 2j, 3 - 1j]), np.array([1j, 2])
    theirs = functad.from_torch(lambda z: torch.sum(torch.abs(z**2 * torch.tensor(factor) + z.conj())))
    close(functad.grad(theirs)(z), functad.grad(lambda z: np.sum(np.abs(z**2 * factor + z.conj())))(z))


def test_module_by_its_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    f = functad.from_torch(lambda params, x: torch.func.functional_call(model, params, (x,)).square().sum())
    params = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    found = functad.grad(f)(params, X)
    model(torch.tensor(X)).square().sum().backward()
    close(found, {name: p.grad for name, p in model.named_parameters()})
    close(functad.from_torch(model)(X), model(torch.tensor(X)))  # its parameters are constants


def test_branches_on_values_tensors_and_what_is_no_array():
    f = functad.from_torch(lambda x, power, name: x**power if name == "power" and x[0] > 0 else -x)
    slope = functad.grad(lambda x: np.sum(f(x, 3, "power")))
    close(slope(X), 3 * X**2)
    close(slope(-X), np.array([-1.0, -1.0, -1.0]))
    close(functad.jit(slope)(X), 3 * X**2)
    assert isinstance(f(torch.tensor(X), 2, "power"), torch.Tensor)


def test_what_is_refused():
    with pytest.raises(InputError, match="returned a float, but its results must be arrays of its library"):
        functad.from_torch(lambda x: x.sum().item())(X)


@pytest.mark.parametrize("bridge", [functad.from_torch, functad.to_torch])
def test_without_torch(bridge, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingPackageError, match=f"{bridge.__name__}, at .*, needs PyTorch"):
        bridge(np.sin)


# Functions of NumPy in programs of PyTorch


def both(f, x, w):
    """Return what `backward` leaves in the leaves."""
    given = x.clone().requires_grad_(), functad.tree_map(lambda a: a.clone().requires_grad_(), w)
    f(*given).backward()
    return functad.tree_map(lambda a: a.grad, given)


OF_TORCH = {
    "value": lambda f: f,
    "backward": lambda f: lambda x, w: both(f, x, w),
    "grad": lambda f: torch.func.grad(f, argnums=(0, 1)),
    "jvp": lambda f: lambda x, w: torch.func.jvp(f, (x, w), (x, w)),
    "hessian": lambda f: torch.func.hessian(f),
    "third": lambda f: torch.func.jacrev(torch.func.jacrev(torch.func.grad(f))),
    "vmap": lambda f: lambda x, w: torch.func.vmap(torch.func.grad(f), (0, None))(torch.stack([x, 2 * x]), w),
    "vmap_twice": lambda f: (
        lambda x, w: torch.func.vmap(torch.func.vmap(f, (0, None)), (None, {"b": None, "w": 0}))(
            torch.stack([x, 2 * x]), {**w, "w": torch.ones(4, 3)}
        )
    ),
    "grad_of_vmap": lambda f: torch.func.grad(
        lambda x, w: torch.func.vmap(f, (0, None))(torch.stack([x, x**2]), w).sum(), argnums=1
    ),
}


@pytest.mark.parametrize("transform", OF_TORCH)
def test_transforms_of_torch(transform):
    x, w = tensors(X), tensors(W)
    found, expected = [OF_TORCH[transform](scalar(f))(x, w) for f in (functad.to_torch(OURS), THEIRS)]
    close(found, expected)


def test_torch_checks_the_gradients():
    f = scalar(functad.to_torch(OURS))
    given = tensors(X, requires_grad=True), torch.ones(3, dtype=torch.float64, requires_grad=True)

    def of_two(x, w):
        return f(x, {"w": w, "b": 0.3})

    assert torch.autograd.gradcheck(of_two, given, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(of_two, given)


def test_complex_gradients_follow_torchs_convention():
    z, factor = np.array([1 + 2j, 3 - 1j]), np.array([1j, 2])
    f = functad.to_torch(lambda z: np.sum(np.abs(z**2 * factor + z.conj())))
    assert torch.autograd.gradcheck(f, tensors(z, requires_grad=True), check_forward_ad=True)


def test_integers_and_what_is_no_tensor():
    f = functad.to_torch(lambda x, i, kind: (x[i] * 2, i) if kind == "gather" else None)
    x = tensors(X.astype("f4"), requires_grad=True)
    out, index = f(x, torch.tensor([2, 2]), "gather")
    out.sum().backward()
    assert (out.dtype, index.dtype, index.requires_grad, x.grad.dtype) == (torch.float32, torch.int64, False, torch.float32)
    close(x.grad, np.array([0.0, 0.0, 4.0]))


def test_there_and_back():
    f = functad.to_torch(functad.from_torch(lambda x: torch.sin(x).sum()))
    close(torch.func.grad(f)(tensors(X)), np.cos(X))
    close(functad.grad(functad.from_torch(functad.to_torch(lambda x: np.sum(np.sin(x)))))(X), np.cos(X))


ROOT = Path(__file__).parents[2]
PLACES = {"from_torch": functad.from_torch.__doc__, "to_torch": functad.to_torch.__doc__}
PAGE = (ROOT / "notebooks" / "bridges.md").read_text()
PLACES["page"] = "\n".join(re.findall(r"^```pycon\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("place", PLACES)
def test_examples(place):
    """Where PyTorch is missing they are not run."""
    text = PLACES[place].replace("  # doctest: +SKIP", "")
    test = doctest.DocTestParser().get_doctest(text, {}, place, None, 0)
    said = []
    assert len(test.examples) > 3
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)
