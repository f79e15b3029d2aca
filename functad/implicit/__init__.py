"""Derivatives of the solutions of solvers: roots, fixed points, linear systems, differential equations."""
