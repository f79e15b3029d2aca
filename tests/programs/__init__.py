"""Programs of others, unchanged: a function of an installed package, called with a point at which its derivative is taken."""
