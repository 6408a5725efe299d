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


def take_heap_image() -> None:
    """Before a fork: what this process and all its forks have on their heaps is one image from here on, behind them.

    A worker copies a page that it writes to, were it only to count a reference up and down. Whoever idles looks from
    time to time (`beat` and the native waits do it) and gives back the copies that say again what the image says.
    """
    _native.take_heap_image()
