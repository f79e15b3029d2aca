"""Sparse Jacobians and Hessians: patterns, colourings, and the products that fill them."""
