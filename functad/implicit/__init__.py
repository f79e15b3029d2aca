"""Derivatives of what solvers find: roots, fixed points, linear systems, differential equations."""
