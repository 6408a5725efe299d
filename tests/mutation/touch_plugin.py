"""A plugin of pytest for `python -m tests.mutation.record`: after each test a line about which functions it touched.

`TOUCHED_DIR` names the directory for the lines; each process of pytest-xdist has its own map and file there.
"""

from __future__ import annotations

import json
import mmap
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mpbroker_touched
import numpy
import pytest

from tests.mutation.touched import MAP_BYTES

DIRECTORY = Path(os.environ["TOUCHED_DIR"])
NATIVE: dict[int, int] = {int(key): value for key, value in json.loads((DIRECTORY / "native.json").read_text()).items()}
LINES = DIRECTORY / f"{os.getpid()}.jsonl"


def _map() -> mmap.mmap:
    path = DIRECTORY / f"map.{os.getpid()}"
    with open(path, "wb+") as file:
        file.truncate(MAP_BYTES)
        mapped = mmap.mmap(file.fileno(), MAP_BYTES)
    os.environ["TOUCHED_MAP"] = str(path)  # for this process's C code and for all that it starts
    return mapped


MAP = _map()
threading.setprofile(mpbroker_touched.watch)
mpbroker_touched.open()  # until here a process of xdist writes into its parent's map


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Iterator[Any]:
    """From before the set-up to after what is taken down."""
    MAP[:] = bytes(MAP_BYTES)
    item.touched_s = {}
    result = yield
    seen = [int(one) for one in numpy.flatnonzero(numpy.frombuffer(MAP[:], numpy.uint8))]
    line = {
        "test": item.nodeid,
        "slow": item.get_closest_marker("slow") is not None,
        "setup_s": item.touched_s.get("setup", 0.0),
        "call_s": item.touched_s.get("call", 0.0),
        "touched": sorted({NATIVE.get(one, one) for one in seen}),
    }
    with open(LINES, "a") as file:
        file.write(json.dumps(line) + "\n")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[Any]:
    """What set-up and call took."""
    item.touched_s[call.when] = round(call.duration, 3)
    return (yield)
