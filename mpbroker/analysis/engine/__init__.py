"""Reading traces in bulk: input, columns, histograms, the engines that sum them up, compaction, and the studies'
runner.

Runs in a command's process (`mpbroker trace study …`), on any machine: no broker is needed, none is touched. Needs the
extra `mpbroker[studies]` (numpy, pyarrow, plotly); docs/adr/0014 says why this is a package beside `studies`.
"""
