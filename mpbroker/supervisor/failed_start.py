"""A start that fails leaves nothing behind that it made; supervisor only.

Only a directory that was empty, or was not there, is tidied, and only as long as everything in it is a file that a
start writes before it serves: a partition's directory, or a file that nobody knows, and all stays as it is, but for a
lock file and an empty trace directory that this start made.
"""

import contextlib
import os

from mpbroker.log import checkpoint_file, clean_shutdown, data_dir, reserve_file
from mpbroker.metadata.keys import STORE_FILE
from mpbroker.supervisor.status_file import STATUS_FILE

_BEGINNINGS = (
    STORE_FILE,
    data_dir.META_FILE,
    STATUS_FILE,
    clean_shutdown.MARKER,
    reserve_file.NAME,
    *checkpoint_file.ALL,
)


class MadeByStart:
    """What was there before; to be made before anything is. `undo` takes away the rest."""

    def __init__(self, path: str, trace_dir: str) -> None:
        self._path = path
        self._trace_dir = "" if os.path.lexists(trace_dir) else trace_dir
        self._had_lock = os.path.lexists(os.path.join(path, data_dir.LOCK_FILE))
        self._directories = _missing(path)  # innermost first
        self._was_empty = bool(self._directories) or _is_empty(path)

    def undo(self) -> None:
        """Take away what this start made. Only for the holder of the directory's lock."""
        with contextlib.suppress(OSError):  # what cannot be taken away stays: the start has failed for another reason
            if self._was_empty and self._all_known():
                self._remove()
            else:
                self._remove_lock_and_traces()
        self.remove_empty()

    def remove_empty(self) -> None:
        """Take away the directories that this start made and nothing is in."""
        with contextlib.suppress(OSError):
            for directory in self._directories:
                os.rmdir(directory)

    def _all_known(self) -> bool:
        traces = os.path.basename(self._trace_dir) if os.path.dirname(self._trace_dir) == self._path else None
        return all(
            name in (data_dir.LOCK_FILE, traces) or name.startswith(_BEGINNINGS) for name in os.listdir(self._path)
        )

    def _remove_lock_and_traces(self) -> None:
        """What says nothing of what is in the directory."""
        if not self._had_lock:
            os.unlink(os.path.join(self._path, data_dir.LOCK_FILE))
        if self._trace_dir:
            os.rmdir(self._trace_dir)

    def _remove(self) -> None:
        if self._trace_dir:
            import shutil  # with its compressors it would cost every start a MiB

            shutil.rmtree(self._trace_dir, ignore_errors=True)
        for name in os.listdir(self._path):
            os.unlink(os.path.join(self._path, name))


def _missing(path: str) -> list[str]:
    """The directories of a path that are not there, innermost first."""
    found = []
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        found.append(path)
        path = os.path.dirname(path)
    return found


def _is_empty(path: str) -> bool:
    try:
        return not set(os.listdir(path)) - {data_dir.LOCK_FILE}
    except OSError:
        return False
