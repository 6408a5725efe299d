"""Rows of shared memory that outlive the coordinator: groups, member ids. Used by the coordinator alone."""

from mpbroker._native import KnownRows

__all__ = ["KnownRows"]
