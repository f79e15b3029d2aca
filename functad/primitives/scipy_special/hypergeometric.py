"""Hypergeometric functions, with derivatives with respect to the variable."""

from __future__ import annotations

from scipy import special

from functad.primitives.safe import product
from functad.primitives.scipy_special.declaration import special_function

_Z = (-0.8, 0.8)

special_function(
    "hyp0f1",
    lambda g, v, z: product(g, special.hyp0f1(v + 1, z) / v),
    arguments=[[1.5, 0.5, 2.0], (-2.0, 2.0)],
    names=("v", "z"),
    complex=True,
    doc="d 0F1(v; z) = 0F1(v+1; z) / v dz",
)
special_function(
    "hyp1f1",
    lambda g, a, b, x: product(g, special.hyp1f1(a + 1, b + 1, x) * (a / b)),
    arguments=[[1.5, 0.5, 2.0], [2.5, 1.5, 0.5], (-2.0, 2.0)],
    names=("a", "b", "x"),
    complex=True,
    doc="d 1F1(a; b; x) = a/b 1F1(a+1; b+1; x) dx",
)
special_function(
    "hyp2f1",
    lambda g, a, b, c, z: product(g, product(special.hyp2f1(a + 1, b + 1, c + 1, z), a * b / c)),
    arguments=[[0.5, 1.5, 0.25], [0.75, 0.5, 1.25], [2.5, 1.4, 3.1], _Z],
    names=("a", "b", "c", "z"),
    complex=True,
    doc="d 2F1(a, b; c; z) = ab/c 2F1(a+1, b+1; c+1; z) dz",
)
special_function(
    "hyperu",
    lambda g, a, b, x: -product(g, special.hyperu(a + 1, b + 1, x) * a),
    arguments=[[1.5, 0.5, 2.0], [1.25, 0.5, 0.75], (0.5, 3.0)],
    names=("a", "b", "x"),
    doc="d U(a, b, x) = -a U(a+1, b+1, x) dx",
)
