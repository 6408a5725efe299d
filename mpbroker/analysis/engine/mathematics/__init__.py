"""Histograms, percentiles, resampling, queues and windows: numbers in, numbers out. Pure (numpy, pyarrow)."""
