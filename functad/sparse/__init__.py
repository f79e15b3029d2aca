"""Sparse Jacobians and Hessians: sparsity patterns, colourings, and the products that compute the entries."""
