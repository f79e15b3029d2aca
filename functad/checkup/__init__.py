"""`doctor`: checks of a function and its gradient at a point."""
