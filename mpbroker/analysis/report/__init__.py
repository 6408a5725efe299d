"""What studies found, to look at: one self-contained HTML page, the look of its figures, and export to Perfetto.

Runs in the process of a command. Beside the layers: imports errors, trace.record, the engine package and itself.
"""
