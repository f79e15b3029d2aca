"""How functions of `scipy.special` are found, what is refused and with which words, and conventions at singular points."""

import functools
import subprocess
import sys

import numpy as np
import pytest
from scipy import special

import functad
from functad.errors import ConversionError, UnsupportedError
from functad.primitives import scipy_special, vocabulary
from functad.primitives.entry import ENTRIES, Primitive
from functad.primitives.scipy_special.declaration import find_ufunc
from functad.primitives.scipy_special.python_functions import FORMULAS
from functad.primitives.vocabulary import is_scipys
from functad.testing import check_grads

ALL_NAMES = [(family, name) for family, names in scipy_special.FAMILIES.items() for name in names.split()]


def run(code):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


# Look-up


def test_table_of_families_lists_what_they_enter():
    assert vocabulary.import_scipy_families()
    entered = {entry.function for entry in ENTRIES.values() if entry.name.startswith("special.")}
    listed = {find_ufunc(name) for _, name in ALL_NAMES} - {None}
    assert entered == listed
    assert len({name for _, name in ALL_NAMES}) == len(ALL_NAMES)


@pytest.mark.parametrize(("family", "name"), ALL_NAMES)
def test_function_carries_the_name_of_its_ufunc(family, name):
    function = find_ufunc(name)
    if function is not None:  # older versions of SciPy lack some
        assert function.__name__ == name
        assert ENTRIES[function].name == f"special.{name.strip('_')}"
        assert is_scipys(function)


def test_functad_alone_does_not_import_scipy():
    code = """
import sys, numpy as np, functad
from functad.primitives import vocabulary
functad.grad(lambda x: np.sin(x) * np.linalg.norm(x))(1.0)
vocabulary.import_families()
print(any(name.split('.')[0] == 'scipy' for name in sys.modules))
"""
    assert run(code) == "False"


def test_one_family_is_imported():
    code = """
import sys, functad
from scipy import special
functad.grad(special.erf)(1.0)
print(*sorted(name.split('.')[-1] for name in sys.modules if name.startswith('functad.primitives.scipy_special.')))
"""
    assert run(code) == "declaration error_functions python_functions" or run(code) == "declaration error_functions"


def test_ufuncs_of_others_are_not_taken_for_scipys():
    gamma = np.frompyfunc(lambda x: x, 1, 1)
    assert not is_scipys(gamma)
    assert not is_scipys(np.exp2)
    assert not is_scipys(special.logsumexp)


# What is refused


def parameters():
    vocabulary.import_scipy_families()
    for entry in ENTRIES.values():
        if isinstance(entry, Primitive) and entry.name.startswith("special.") and entry.partial:
            for position in range(len(entry.names)):
                if type(entry.vjps[position]).__name__ == "UnknownRule":
                    yield entry, position


@pytest.mark.filterwarnings("ignore:.*(non-integer|truncated)")  # SciPy's own, where integers are meant
@pytest.mark.parametrize(("entry", "position"), list(parameters()), ids=lambda value: getattr(value, "name", str(value)))
def test_derivative_that_is_not_known_raises(entry, position):
    integers = {"special.eval_hermite", "special.eval_hermitenorm", "special.lambertw"}
    values = [np.float64(2.0)] * len(entry.names)

    def f(t):
        result = entry.function(*values[:position], t, *values[position + 1 :])
        return result[0] if isinstance(result, tuple) else result

    expected = TypeError if entry.name in integers else UnsupportedError  # no loop of the ufunc takes a float there
    with np.errstate(all="ignore"), pytest.raises(expected) as reverse:
        functad.grad(f)(0.5)
    if expected is UnsupportedError:
        assert "cannot be differentiated with respect to" in str(reverse.value)
        assert "stop_gradient" in str(reverse.value)
        assert __file__ in str(reverse.value)
        with np.errstate(all="ignore"), pytest.raises(UnsupportedError):
            functad.jvp(f, (0.5,), (1.0,))


def test_refused_argument_is_named_and_the_cure_works():
    with pytest.raises(
        UnsupportedError, match=r"scipy.special.jv cannot be differentiated with respect to v, at .*stop_gradient\(v\)"
    ):
        functad.grad(lambda x: special.jv(x, x))(1.5)
    slope = functad.grad(lambda x: special.jv(functad.stop_gradient(x), x))(1.5)
    assert slope == special.jvp(1.5, 1.5)


def test_parameter_of_an_outer_trace_raises_too():
    with pytest.raises(UnsupportedError, match="respect to v"):
        functad.grad(lambda v: functad.grad(lambda x: special.jv(v, x))(1.0))(2.0)


def test_parameter_may_be_an_input_of_an_abstract_trace():
    expressions = functad.make_expressions(lambda v, x: special.jv(v, x))(0.5, 1.5)
    assert expressions(0.5, 1.5) == special.jv(0.5, 1.5)


@pytest.mark.parametrize("f", [special.zeta, lambda x: special.zeta(x, 1.5)])
def test_zeta_of_complex_numbers_is_refused(f):
    with pytest.raises(UnsupportedError, match=r"zeta of a complex Tensor, at .*test_scipy_special.*has no derivative rule"):
        functad.vjp(f, np.complex128(2 + 1j))


@pytest.mark.parametrize("name", ["_cosine_cdf", "_ncf_sf", "ellip_normal"])
def test_other_functions_raise(name):
    function = getattr(special._ufuncs if name[0] == "_" else special, name)
    if isinstance(function, np.ufunc):  # every public one has an entry
        with pytest.raises(
            UnsupportedError, match=rf"scipy.special.{name[1:]} has no derivative rule, at .*{__name__.split('.')[-1]}"
        ):
            functad.grad(lambda t: function(*[1.0] * (function.nin - 1), t))(0.5)
    else:
        with pytest.raises(ConversionError, match="makes a plain array of its argument first"):
            functad.grad(lambda t: function(t, 1, 1, 1))(0.5)


ARGUMENTS = {
    "polygamma": ({"n": 2}, lambda f, t: f(2, t)),
    "multigammaln": ({"d": 2}, lambda f, t: f(t, 2)),
    "comb": ({"k": 2}, lambda f, t: f(t, 2)),
    "diric": ({"n": 3}, lambda f, t: f(t, 3)),
    "perm": ({"k": 2}, lambda f, t: f(t, 2)),
    **{name: ({"n": 2}, lambda f, t: f(2, t)) for name in FORMULAS if name.startswith("spherical") or name == "legendre_p"},
    "assoc_legendre_p": ({"n": 3, "m": 2}, lambda f, t: f(3, 2, t)),
    "sph_legendre_p": ({"n": 3, "m": 2}, lambda f, t: f(3, 2, t)),
    "sph_harm_y": ({"n": 3, "m": 2, "phi": 0.3}, lambda f, t: f(3, 2, t, 0.3)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_python_function_is_refused_with_a_formula_that_is_right(name):
    function = getattr(special, name, None)
    if function is None:
        return  # SciPy is too old, or has dropped it
    constants, call = ARGUMENTS.get(name, ({}, lambda f, t: f(t)))
    t = np.array([1.5, 2.5, 4.0]) if "soft" in name or name == "logsumexp" else np.float64(0.75 if "_p" in name else 2.75)
    with pytest.raises((ConversionError, UnsupportedError)) as refused:
        functad.grad(lambda t: np.sum(np.real(call(function, t))))(t)
    assert f"scipy.special.{name}" in str(refused.value)
    assert FORMULAS[name] in str(refused.value)
    assert __file__ in str(refused.value)
    formula = eval(f"lambda t: {FORMULAS[name]}", {"np": np, "special": special, **constants})
    weights = np.arange(1.0, 1 + np.size(t))
    gradient = functad.grad(lambda t: np.sum(np.real(formula(t)) * weights))(t)
    assert np.shape(formula(t)) == np.shape(call(function, t))
    assert formula(t) == pytest.approx(call(function, t), rel=1e-12)
    step = 1e-5
    direction = np.ones_like(t) * np.linspace(1, 2, np.size(t)).reshape(np.shape(t))
    ahead, behind = (np.sum(np.real(call(function, t + s * step * direction)) * weights) for s in (1, -1))
    assert np.sum(gradient * direction) == pytest.approx((ahead - behind) / (2 * step), rel=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: special.factorial(np.stack([t, t])), r"special.factorial makes a plain array.*special.gamma\(t \+ 1\)"),
        (lambda t: special.factorial2(t), r"SciPy's factorial2 looks its argument up in a set first. Use ufuncs"),
        (lambda t: special.legendre_p_all(2, t), r"scipy.special.legendre_p_all .*eval_legendre.* for each degree and order"),
        (lambda t: special.lqn(2, t), r"SciPy's lqn makes a plain array of its argument first. Use ufuncs of scipy.special"),
    ],
)
def test_python_function_names_itself(call, message):
    if "legendre_p_all" in message and not hasattr(special, "legendre_p_all"):
        return  # SciPy is older than 1.15
    with pytest.raises((ConversionError, UnsupportedError), match=message) as refused:
        functad.grad(call)(0.5)
    assert __file__ in str(refused.value)


def test_python_functions_that_hand_their_arguments_on():
    assert functad.grad(lambda q: special.zeta(2.0, q))(1.5) == pytest.approx(-2 * special.zeta(3.0, 1.5))
    assert functad.grad(lambda z: special.lambertw(z).real)(0.0) == pytest.approx(1.0)
    assert functad.grad(lambda x: special.legendre(2)(x))(0.5) == pytest.approx(1.5)
    assert functad.grad(lambda x: special.jvp(0, x))(0.5) == pytest.approx(special.jvp(0, 0.5, 2))


# Singular points


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (special.gammaln, 0.0),
        (special.psi, 0.0),
        (special.logit, 0.0),
        (special.logit, 1.0),
        (special.ndtri, 0.0),
        (special.erfinv, 1.0),
        (special.erfcinv, 0.0),
        (special.entr, 0.0),
        (special.entr, -1.0),
        (special.log1p, -1.0),
        (special.exp1, 0.0),
        (special.k0, 0.0),
        (special.y1, 0.0),
        (special.cbrt, 0.0),
        (special.ellipk, 1.0),
        (special.spence, 0.0),
        (lambda x: special.xlogy(1.0, x), 0.0),
        (lambda x: special.kl_div(x, 1.0), 0.0),
        (lambda x: special.boxcox(x, -0.5), 0.0),
        (lambda x: special.gammainc(0.5, x), 0.0),
        (lambda x: special.kv(0.5, x), 0.0),
    ],
)
def test_branch_not_taken_does_not_poison(f, x):
    def masked(t):
        return np.sum(np.where(t == x, 0.0, f(t)))

    points = np.array([x, 0.5])
    for g in (functad.grad(masked), functad.grad(lambda t: np.sum(functad.grad(masked)(t)))):
        found = g(points)
        assert found[0] == 0
        assert np.isfinite(found[1])


@pytest.mark.parametrize(
    ("f", "point", "expected"),
    [
        (special.xlogy, (0.0, 0.0), (-np.inf, 0.0)),
        (special.xlog1py, (0.0, -1.0), (-np.inf, 0.0)),
        (special.rel_entr, (0.0, 0.0), (1.0, 0.0)),
        (special.kl_div, (0.0, 0.0), (0.0, 1.0)),
        (special.pseudo_huber, (0.0, 0.0), (0.0, 0.0)),
        (special.huber, (1.0, 1.0), (0.0, 1.0)),
        (special.boxcox, (2.0, 0.0), (0.5, np.log(2.0) ** 2 / 2)),
        (special.inv_boxcox, (1.0, 0.0), (np.e, -np.e / 2)),
        (special.agm, (2.0, 2.0), (0.5, 0.5)),
    ],
)
def test_conventions(f, point, expected):
    assert functad.grad(f, argnums=(0, 1))(*point) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("f", "expected"),
    [(special.i0e, 0.0), (special.beip, 0.5), (special.berp, 0.0), (special.exprel, 0.5), (special.rgamma, 1.0)],
)
def test_convention_at_zero(f, expected):
    assert functad.grad(f)(0.0) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("x", [0.0, np.inf])
def test_ends_of_incomplete_gamma_by_its_parameter(x):
    for a in (0.5, 1.0, 4.5):
        with np.errstate(invalid="ignore"):
            assert functad.grad(special.gammainc)(a, x) == 0
            assert functad.grad(special.gammaincc)(a, x) == 0
    assert np.isnan(functad.grad(special.gammainc)(-1.5, 0.5))


@pytest.mark.parametrize("x", [0.0, 1.0])
def test_ends_of_incomplete_beta_by_its_parameters(x):
    for a, b in ((0.5, 0.25), (1.0, 1.0), (4.5, 2.0), (0.5, 8.0)):
        with np.errstate(all="ignore"):
            assert functad.grad(special.betainc, argnums=(0, 1))(a, b, x) == (0, 0)


def test_incomplete_integrals_of_more_elements_than_a_block():
    a, x = np.linspace(0.5, 9.5, 5000), np.linspace(0.25, 20.0, 5000)
    whole = functad.grad(lambda a: np.sum(special.gammainc(a, x)))(a)
    assert whole[::999] == pytest.approx(
        [functad.grad(special.gammainc)(*row) for row in zip(a[::999], x[::999], strict=True)], rel=1e-14
    )


def test_density_of_t_at_zero_by_its_freedom():
    found = functad.grad(functad.grad(special.stdtr, argnums=0), argnums=1)(2.5, 0.0)
    step, width = 1e-3, 1e-4
    mass = [special.stdtr(2.5 + s * step, width) - special.stdtr(2.5 + s * step, -width) for s in (1, -1)]
    assert found == pytest.approx((mass[0] - mass[1]) / (4 * step * width), rel=1e-6)


def test_single_precision_stays():
    x = np.float32([0.5, 1.5])
    for f in (
        special.gamma,
        special.expit,
        special.erfcx,
        special.ellipk,
        lambda t: special.jv(1, t),
        special.exprel,
        lambda t: special.gammainc(t, 2.0),
        lambda t: special.betainc(t, 0.5, 0.25),
    ):
        assert functad.grad(lambda t, f=f: np.sum(f(t)))(x * np.float32(0.5)).dtype == np.float32


@pytest.mark.parametrize(
    ("function", "counts", "x"),
    [
        ("pdtr", (2.7,), 1.3), ("pdtrc", (2.7,), 1.3), ("pdtri", (2.7,), 0.3),
        ("bdtr", (2.7, 5.6), 0.3), ("bdtrc", (2.7, 5.6), 0.3), ("bdtri", (2.7, 5.6), 0.3),
        ("nbdtr", (2.3, 5.6), 0.3), ("nbdtri", (2.3, 5.6), 0.3),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # newer versions of SciPy warn that they cut the count
def test_counts_that_are_not_whole(function, counts, x):
    """SciPy takes their whole part."""
    f = functools.partial(getattr(special, function), *counts)
    check_grads(f, (x,), order=2)
    assert functad.grad(f)(np.float32(x)).dtype == np.float32
