"""Questions asked of a trace, one module each: `STUDY` says what it answers, tests/unit/analysis/studies has its proof.

`mpbroker trace study NAME` finds them by listing this package. They run in a command's process, on the tables that an
engine (mpbroker/analysis/engine/engines/engine.py) gives, and know nothing of how it got them.
"""
