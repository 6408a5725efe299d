"""Sharing memory between the broker's processes: what the supervisor and others do for a page to stay shared.

Workers are forks, and a page is shared until one of them writes to it.
"""

from mpbroker import _native


def release_library_pages() -> None:
    """Take the read-only pages of all libraries out of this process's page table; what it uses comes back by itself.

    The supervisor loads the libraries for its workers to share. The loader reads their relocation tables and symbols
    once, two megabytes, which would count as the supervisor's memory for good: its workers' page tables begin without.
    SQLite, of which the controller alone uses a megabyte at its start, is next to idle afterwards.
    """
    _native.release_library_pages()


def fill_free_memory() -> None:
    """Before a fork: take the free places between the supervisor's objects, some hundred kB.

    A worker would put its first objects into them, here and there, and each would cost a copied page: 1.8 MiB over ten
    processes. As it is, they lie side by side.
    """
    _native.fill_free_memory()
