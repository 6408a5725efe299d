"""Giving the pages of shared libraries back; the supervisor does it once its workers run."""

from mpbroker import _native


def release_library_pages() -> None:
    """Take the read-only pages of all libraries out of this process's page table; what it uses comes back by itself.

    The supervisor loads the libraries for its workers to share. The loader reads their relocation tables and symbols
    once, two megabytes, which would count as the supervisor's memory for good: its workers' page tables begin without.
    """
    _native.release_library_pages()
