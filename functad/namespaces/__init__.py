"""Arrays of libraries that follow the array API standard and have none of NumPy's protocols: the functions of NumPy on them."""
