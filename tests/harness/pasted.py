"""Command blocks of a Markdown page, run as a reader pastes them: every line of a block in one shell.

The shell gets a network of its own where the machine allows that, so that a broker may listen on 9092 whatever else
runs here. Elsewhere two environment variables move broker and clients to a free port; the lines stay as they are.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

LOOPBACK_UP = """\
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
os.execvp(sys.argv[1], sys.argv[1:])
"""
TIMEOUT_S = 60


def blocks(page: Path) -> list[str]:
    """The indented blocks of a page that have an mpbroker command."""
    found = re.findall(r"(?:^    .*\n)+", page.read_text(), re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found if "mpbroker " in block]


@cache
def own_network() -> tuple[str, ...]:
    """Words before a command that give it a loopback of its own; none where that is not allowed."""
    words = ("unshare", "--map-root-user", "--net", sys.executable, "-c", LOOPBACK_UP)
    try:
        allowed = subprocess.run([*words, "true"], capture_output=True, timeout=TIMEOUT_S).returncode == 0
    except OSError:
        allowed = False
    return words if allowed else ()


def environment() -> dict[str, str]:
    """That of a reader who has installed mpbroker into this environment and set nothing."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MPBROKER_", "KAFKA_"))}
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return kept if own_network() else kept | _moved()


def _moved() -> dict[str, str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {"MPBROKER_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}", "MPBROKER_BOOTSTRAP": f"127.0.0.1:{port}"}


def paste(block: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the lines in one shell that ends at the first failure, and with it what it left in the background."""
    script = f"set -e\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n{block}\nwait\n"
    words = [*own_network(), "bash", "-c", script]
    return subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S)
