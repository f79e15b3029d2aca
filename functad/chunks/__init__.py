"""Arrays in chunks, as those of Dask: what is particular to them. Rules and transforms know nothing of them."""
