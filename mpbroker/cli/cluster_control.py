"""The line between `mpbroker cluster start`, which runs the brokers, and the other commands of the same directory.

A socket in the directory, one JSON request and one answer each; who may open the directory may ask. `ask` runs in the
commands, `Control` in the foreground process. Both reach the socket through a descriptor of the directory: its path may
be longer than a socket's name can be.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from mpbroker.cli.cluster_plan import NoClusterHere
from mpbroker.errors import MpbrokerError

SOCKET: Final = ".control"
MAX_BYTES: Final = 4096
TIMEOUT_S: Final = 5.0


class Refused(MpbrokerError):
    """The foreground process does not do what was asked; its sentence."""


class Control:
    """The foreground's end. `answer(request)` returns the fields of the answer; a MpbrokerError's text is its own."""

    def __init__(self, directory: str, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._path = os.path.join(directory, SOCKET)
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # of a foreground that was killed: the directory's lock is ours
        with _reachable(directory) as name:
            self._socket.bind(name)
        os.chmod(self._path, 0o600)
        self._socket.listen(8)

    def fileno(self) -> int:
        """Readable when somebody asks."""
        return self._socket.fileno()

    def serve(self) -> None:
        """Answer the one who asks; who is too slow, or talks nonsense, is left alone."""
        with suppress(OSError, ValueError):
            peer, _ = self._socket.accept()
            with peer:
                peer.settimeout(TIMEOUT_S)
                request = json.loads(peer.recv(MAX_BYTES))
                peer.sendall(json.dumps(self._answered(request)).encode())

    def _answered(self, request: Any) -> dict[str, Any]:
        try:
            return {"refused": None, **self._answer(request)}
        except MpbrokerError as error:
            return {"refused": str(error)}

    def close(self) -> None:
        """Nobody can ask any more."""
        self._socket.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)


def ask(directory: str, **request: Any) -> dict[str, Any]:
    """The foreground's answer. Refused; NoClusterHere if no cluster runs on the directory."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line, _reachable(directory) as name:
            line.settimeout(2 * TIMEOUT_S)
            line.connect(name)
            line.sendall(json.dumps(request).encode())
            answer: dict[str, Any] = json.loads(line.recv(MAX_BYTES) or b"{}")
    except (FileNotFoundError, ConnectionRefusedError):
        raise NoClusterHere(f"no cluster runs on {directory}: `mpbroker cluster start --dir {directory}`") from None
    except (OSError, ValueError) as error:
        raise Refused(f"the cluster on {directory} does not answer: {error}") from None
    if answer.get("refused", "it is ending"):
        raise Refused(f"the cluster on {directory}: {answer.get('refused', 'it is ending')}")
    return answer


@contextmanager
def _reachable(directory: str) -> Iterator[str]:
    """A short name of the socket."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)
