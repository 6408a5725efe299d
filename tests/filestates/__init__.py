"""A fuzzer of file states: data directories that something was done to, and what a start makes of them."""
