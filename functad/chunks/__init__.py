"""Chunked arrays (Dask): all code specific to them. Rules and transforms do not know about chunks."""
