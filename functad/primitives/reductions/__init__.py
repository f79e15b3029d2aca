"""Reductions and scans: sums, products, extremes, statistics, norms and histograms."""
