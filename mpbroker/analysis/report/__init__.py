"""What studies found, to look at: one self-contained HTML page, and the look of its figures.

Runs in the process of a command. Beside the layers: imports errors, trace.record, the engine package and itself.
"""
