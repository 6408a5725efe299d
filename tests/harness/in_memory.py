"""Files of tests that lie in memory: many small ones, made, synced and removed at once, on which a disk takes longer
than the test itself (a fifth of `make unit`, most of it a search for inodes that were not given back just before).

Only where there is room; and for `make unit`, unless TMPDIR says where files belong (tests/conftest.py).
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.harness.broker import SHM

#: 20 MB are taken by `make unit`, 75 by the largest C program.
LEAST_ROOM_BYTES = 256 << 20


def has_room() -> bool:
    """Whether /dev/shm takes what tests write."""
    try:
        return os.access(SHM, os.W_OK) and shutil.disk_usage(SHM).free >= LEAST_ROOM_BYTES
    except OSError:
        return False


def begin(config: Any) -> None:
    """pytest's directories of this session are made in memory; after a red run they stay there, to look into."""
    directory = tempfile.mkdtemp(prefix="mpb-unit-", dir=SHM)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = directory
    config.add_cleanup(lambda: _end(Path(directory)))


def _end(directory: Path) -> None:
    os.environ.pop("PYTEST_DEBUG_TEMPROOT")
    if list(directory.glob("pytest-of-*/pytest-[0-9]*")):  # pytest removes those of a green run
        print(f"What failed tests left is in {directory}")
    else:
        shutil.rmtree(directory)
