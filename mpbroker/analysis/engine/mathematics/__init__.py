"""Histograms, percentiles, intervals, queues and windows: numbers in, numbers out. Pure (numpy, pyarrow)."""
