"""Functions that make one number of many: sums, extremes, statistics, norms; and their running forms."""
