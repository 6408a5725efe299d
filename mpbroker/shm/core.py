"""The C core's view of all shared memory, for the packages that may not import the C extension themselves."""

from mpbroker._native import Core

__all__ = ["Core"]
