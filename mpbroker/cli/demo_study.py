"""The demo's last act: its own traces, kept, and studied by Spark if that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec

from mpbroker.errors import MpbrokerError

STUDIES = ("latency", "throughput")
TRACES, REPORT = "traces", "report"
DEFAULT_OUT = "mpbroker-demo"
TIMEOUT_S = 300.0


class OutInUse(MpbrokerError):
    """The output directory holds something that no demo made."""

    exit_code = 2


def output_directory(named: str | None) -> str:
    """Where traces and report will stay; an earlier demo's output there is replaced, anything else refused."""
    place = named or (DEFAULT_OUT if os.access(".", os.W_OK) else tempfile.mkdtemp(prefix="mpbroker-demo-"))
    if os.path.exists(place) and (not os.path.isdir(place) or set(os.listdir(place)) - {TRACES, REPORT}):
        raise OutInUse(f"{place} is not an earlier demo's output; --out names another directory")
    return place


def traces_directory(out: str) -> str:
    """Where the demo's broker writes its traces, emptied of what an earlier demo left."""
    for name in (TRACES, REPORT):
        shutil.rmtree(os.path.join(out, name), ignore_errors=True)
    os.makedirs(out, exist_ok=True)
    return os.path.join(out, TRACES)


def study(traces: str, out: str) -> int:
    """`trace study` with Spark; its exit code, 0 where Spark is not installed (a sentence says how)."""
    words = ["trace", "study", *STUDIES, "--in", traces, "--out", os.path.join(out, REPORT), "--engine", "spark"]
    if find_spec("pyspark") is None:
        print(
            f"traces: {traces}; to study them: pip install 'mpbroker[spark]', then mpbroker {' '.join(words)}",
            flush=True,
        )
        return 0
    print(f"\nwhere the time went: mpbroker {' '.join(words)}", flush=True)
    return subprocess.run([sys.executable, "-m", "mpbroker", *words], timeout=TIMEOUT_S).returncode
