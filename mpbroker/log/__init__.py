"""The log: segments, indexes, recovery, and the data directory that holds them."""
