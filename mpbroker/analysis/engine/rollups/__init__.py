"""Rollup tables: folders of histograms and sums that an hourly job adds to, each segment once; studies read them."""
