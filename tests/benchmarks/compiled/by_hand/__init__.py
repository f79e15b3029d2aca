"""The programs in NumPy with derivatives by hand, as a good programmer would write them, one file for each family."""
