"""Ready means that every listener answers: the supervisor asks each for its API versions, as any client would.

The sockets of these probes are non-blocking and wait in the supervisor's own epoll loop.
"""

import json
import os
import socket
import struct
import sys
from typing import Any

from mpbroker.errors import ConfigError
from mpbroker.shm.process_context import BoundListener

_CORRELATION_ID = 0x6D706272
_BODY = struct.pack(">hhih", 18, 0, _CORRELATION_ID, -1)
REQUEST = struct.pack(">i", len(_BODY)) + _BODY
"""ApiVersions version 0 without a client id."""


class ReadyProbe:
    """One question to one listener. `socket` is None before `start` and after an answer or a failure."""

    def __init__(self, listener: BoundListener) -> None:
        self.listener = listener
        self.answered = False
        self.socket: socket.socket | None = None
        self._received = b""

    def start(self) -> socket.socket:
        """Connect and send; the socket becomes readable with the answer."""
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.listener.host, self.listener.host)
        # Of a text getaddrinfo makes bytes by a codec with large tables. The kernel's backlog answers at once.
        name: Any = host.encode() if host.isascii() else host
        probe = socket.create_connection((name, self.listener.port), timeout=1)
        probe.setblocking(False)
        probe.send(REQUEST)
        self.socket, self._received = probe, b""
        return probe

    def readable(self) -> bool:
        """Take what came. True when this probe is over: look at `answered`, else start it again."""
        assert self.socket is not None
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._received += data
        self.answered = _is_answer(self._received)
        if not self.answered and data:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Give up or be done."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def _is_answer(received: bytes) -> bool:
    if len(received) < 10:
        return False
    length, correlation_id, error = struct.unpack_from(">iih", received)
    return bool(len(received) >= 4 + length and correlation_id == _CORRELATION_ID and error == 0)


def ready_line(node_id: int, pid: int, data_dir: str, listeners: tuple[BoundListener, ...]) -> str:
    """The one line on stdout."""
    return f"mpbroker ready node={node_id} pid={pid} data={data_dir} " + " ".join(each.url for each in listeners)


def ready_document(
    node_id: int, pid: int, data_dir: str, listeners: tuple[BoundListener, ...], admin: str | None = None
) -> dict[str, Any]:
    """The same for the ready file; `admin`: the URL of the admin process, None without one."""
    return {
        "node_id": node_id,
        "pid": pid,
        "data_dir": data_dir,
        "listeners": [listener_document(e) for e in listeners],
        "admin": admin,
    }


def listener_document(listener: BoundListener) -> dict[str, Any]:
    """A listener in ready file and status: name, protocol, host, port."""
    return {
        "name": listener.name,
        "protocol": listener.protocol,
        "host": listener.host or "0.0.0.0",
        "port": listener.port,
    }


def clear_ready_file(path: str) -> None:
    """Remove what an earlier broker left there, which nobody may take for news. ConfigError if ours could not be
    written."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8"):
            os.unlink(temporary)
        if os.path.lexists(path):
            os.unlink(path)
    except OSError as error:
        raise ConfigError(
            "--ready-file", path, problem=f"--ready-file {path} cannot be written: {error.strerror}"
        ) from None


def write_ready_line(line: str) -> None:
    """The one line on stdout. OSError when nobody takes it; stdout is then of no use to anybody any more.

    In one write: a client that waited for this moment may write to the same pipe or terminal at once.
    """
    try:
        print(f"{line}\n", end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def write_atomically(path: str, document: dict[str, Any]) -> None:
    """Write a JSON file so that a reader sees all of it or none."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(document, file)
        file.write("\n")
    os.replace(temporary, path)
