"""Optimize the loops of an expression list: simplify bodies, hoist loop-invariant work, eliminate dead results."""
