"""Methods and attributes of arrays on Tensors: each works, or says what to write instead."""

import copy
import pickle

import numpy as np
import pytest

import functad
from functad.errors import ConversionError, FunctadError, UnsupportedError
from functad.testing import central_difference

X = np.array([[0.7, -1.2, 1.9], [0.3, 2.4, -0.6]])

# A call for each method of an array, as code: `a` is the array or the Tensor.
WORKING = """
a.T a.mT a.real a.imag a.flat[2] a.dtype a.itemsize a.nbytes a.ndim a.shape a.size a.strides a.base a.device
a.flags.c_contiguous a.all() a.any(axis=0) a.argmax(1) a.argmin() a.argpartition(1) a.argsort(0) a.astype('f4')
a.clip(-1,1) a.compress([True,False,True],axis=1) a.conj() a.conjugate() a.copy() a.cumprod(0) a.cumsum(axis=1)
a.diagonal() a.dot([1.0,2.0,3.0]) a.flatten('F') a.max() a.mean(0) a.min(axis=1) a.nonzero() a.prod() a.ravel()
a.repeat(2,axis=0) a.reshape(3,2) a.round(1) a[0].searchsorted([0.5]) a[:,:1].squeeze(1) a.std(ddof=1)
a.sum(axis=0,keepdims=True) a.swapaxes(0,1) a.take([0,1],axis=1) a.trace() a.transpose(1,0) a.var(0) a.view()
a.view(a.dtype) a.getfield(a.dtype) a.to_device('cpu') (a>0).astype(int).choose([1.5,2.5]) abs(a) a+1 -a divmod(a,2)
a//2 a@a.T 1-a len(a) a.__array_namespace__().pi
""".split()  # noqa: SIM905 (lines of code read better without sixty quotes)

INSTEAD = {
    "byteswap": (UnsupportedError, (), "stop_gradient"),
    "dump": (ConversionError, ("file",), "stop_gradient"),
    "dumps": (ConversionError, (), "stop_gradient"),
    "item": (ConversionError, (0,), "stop_gradient"),
    "resize": (UnsupportedError, ((3, 2),), "np.pad"),  # with zeros, as the method does
    "setfield": (UnsupportedError, (1.0, float), "np.where"),
    "setflags": (UnsupportedError, (), "Leave the call out"),
    "tobytes": (ConversionError, (), "stop_gradient"),
    "tofile": (ConversionError, ("file",), "stop_gradient"),
    "tolist": (ConversionError, (), "list"),
    "__array__": (ConversionError, (), "np.stack"),
    "__dlpack__": (ConversionError, (), "stop_gradient"),
}
IN_PLACE = {"fill": (1.5,), "partition": (1,), "put": ([0, 4], [1.5, 2.5]), "sort": (0,)}
ATTRIBUTES = ("ctypes", "data")

# What an array has for its subclasses, for giving its memory away and for its own restoring.
NOT_FOR_TENSORS = set(
    """
    __array_finalize__ __array_interface__ __array_struct__ __array_wrap__ __buffer__ __class_getitem__ __delitem__ __setstate__
    """.split()  # noqa: SIM905 (names read better without quotes)
)

# What NumPy 2.0 has only to say that it was removed.
REMOVED = {"itemset", "newbyteorder", "ptp", "tostring"}


def test_every_name_of_an_array_is_there():
    missing = {name for name in dir(np.ndarray) if not hasattr(functad.Tensor, name)} - NOT_FOR_TENSORS - REMOVED
    in_place = {name for name in missing if name.startswith("__i") and hasattr(functad.Tensor, f"__{name[3:]}")}
    private = {name for name in missing if name.startswith("_") and not name.startswith("__")}
    assert missing - in_place - private == set()


def test_every_method_of_an_array_is_called_here():
    called = {part.partition("(")[0].partition("[")[0] for call in WORKING for part in call.split(".")[1:]}
    public = {name for name in dir(np.ndarray) if not name.startswith("_")} - REMOVED
    assert public - called - set(INSTEAD) - set(IN_PLACE) - set(ATTRIBUTES) == set()


@pytest.mark.parametrize("call", WORKING)
def test_works_as_on_an_array(call):
    code = compile(call, "call", "eval")
    expected = eval(code, {"a": X, "abs": abs, "divmod": divmod, "len": len})
    found = functad.vjp(lambda a: (a.sum(), functad.stop_gradient(eval(code, {"a": a}))), X, has_aux=True)[2]
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)], strict=True):
        if isinstance(b, (np.ndarray, np.generic)):
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)
        else:
            assert a == b


@pytest.mark.parametrize("name", INSTEAD)
def test_refuses_with_the_line_and_the_cure(name):
    error, args, cure = INSTEAD[name]
    with pytest.raises(error) as refusal:
        functad.grad(lambda a: getattr(a, name)(*args).sum())(X)
    assert __file__ in str(refusal.value)
    assert cure in str(refusal.value)


@pytest.mark.parametrize("name", IN_PLACE)
def test_writes_as_on_an_array(name):
    def f(a):
        b = a * 2
        assert getattr(b, name)(*IN_PLACE[name]) is None
        return b

    expected = f(X)
    value, tangent = functad.jvp(f, (X,), (np.cos(X),))
    assert np.array_equal(value, expected)
    assert np.allclose(tangent, central_difference(lambda x: [f(x)], [X], [np.cos(X)])[0], atol=1e-8)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_memory_is_not_given_away(name):
    def f(a):
        assert not hasattr(a, name)
        return getattr(a, name)

    with pytest.raises(ConversionError, match=rf"{name} .*{__file__}.*stop_gradient"):
        functad.grad(f)(X)


def test_bytes_are_not_read_as_other_numbers():
    with pytest.raises(UnsupportedError, match=r"z\.real"):
        functad.grad(lambda a: a.view(np.int64).sum())(X)
    with pytest.raises(UnsupportedError, match=r"t\.real"):
        functad.grad(lambda a: a.getfield(np.float32, 4).sum())(X)


def test_a_tensor_is_copied_but_not_pickled():
    assert np.array_equal(functad.grad(lambda a: (copy.copy(a) * copy.deepcopy(a)).sum())(X), 2 * X)
    with pytest.raises(FunctadError, match="Pickling"):
        functad.grad(pickle.dumps)(X)


def test_another_device():
    with pytest.raises(ValueError, match="'gpu'"):
        functad.grad(lambda a: a.to_device("gpu").sum())(X)


def test_memory_of_an_abstract_tensor():
    found = []
    functad.make_expressions(lambda a: found.append((a.strides, a.flags.c_contiguous, a.flags.f_contiguous)) or a * 2)(X)
    assert found == [(X.strides, True, False)]


# Creation with like=


@pytest.mark.parametrize(
    "f",
    [
        lambda t: np.full((3,), t[0, 0], like=t),
        lambda t: np.array([t[0, 0], 1.0, t[1, 2]], like=t),
        lambda t: np.array([[t[0, 0], 2], [t[1, 1], t[1, 2]]], like=t),
        lambda t: np.asarray(t, like=t) * np.asarray([t[0], t[1]], like=t),
        lambda t: np.asanyarray([t], like=t),
        lambda t: np.ascontiguousarray(t[0, 0], like=t),
        lambda t: np.asfortranarray(t.T, like=t),
        lambda t: np.require(t, np.float64, "C", like=t),
        lambda t: np.fromiter((v * v for v in t[0]), np.float64, like=t),
        lambda t: np.fromfunction(lambda i, j: i * t[0, 0] + j * t[1, 1], (2, 2), like=t),
        lambda t: np.arange(t[0, 0], 4.0, 1.0, like=t),
        lambda t: np.zeros(3, like=t) + t[0],
        lambda t: np.eye(2, like=t) @ t,
        lambda t: np.tri(2, like=t) @ t,
    ],
)  # fmt: skip
def test_creation_keeps_the_derivative(f):
    expected = f(X)
    value, tangent = functad.jvp(f, (X,), (np.cos(X),))
    assert np.array_equal(value, expected)
    assert value.dtype == expected.dtype
    difference = central_difference(lambda x: [f(x)], [X], [np.cos(X)])[0]
    assert np.allclose(tangent, difference, atol=1e-8)
    assert np.abs(functad.grad(lambda t: f(t).sum())(X)).sum() > 0


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "eye", "identity", "tri"])
def test_creation_makes_what_numpy_makes(name):
    made = []
    functad.grad(lambda t: made.append(getattr(np, name)(2, dtype=np.float32, like=t)) or t.sum())(X)
    expected = getattr(np, name)(2, dtype=np.float32)
    assert type(made[0]) is (np.ndarray if name == "tri" else functad.Tensor)
    assert (made[0].shape, made[0].dtype) == (expected.shape, expected.dtype)
