"""Stub brokers that answer control requests at once, several in one process, which can be made to stand still. For
measurements of senders alone.

    python -m perf.load.control_receivers COUNT     prints their ports, then answers until its input ends
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys

from mpbroker.protocol.headers import decode_request_header, encode_response_frame
from mpbroker.protocol.messages_by_key import RESPONSES

RECEIVE_BYTES = 1 << 18


def serve(count: int) -> None:
    """In this process."""
    listening = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(count)]
    print(" ".join(str(one.getsockname()[1]) for one in listening), flush=True)
    poll, accepting = select.epoll(), {one.fileno(): one for one in listening}
    for descriptor in (*accepting, sys.stdin.fileno()):
        poll.register(descriptor, select.EPOLLIN)
    connections: dict[int, tuple[socket.socket, bytearray]] = {}
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == sys.stdin.fileno():
                return
            if descriptor in accepting:
                connection, _ = accepting[descriptor].accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[connection.fileno()] = (connection, bytearray())
                poll.register(connection.fileno(), select.EPOLLIN)
            else:
                _answer(poll, connections, descriptor)


def _answer(poll: select.epoll, connections: dict[int, tuple[socket.socket, bytearray]], descriptor: int) -> None:
    connection, buffer = connections[descriptor]
    received = connection.recv(RECEIVE_BYTES)
    if not received:
        poll.unregister(descriptor)
        connection.close()
        del connections[descriptor]
        return
    buffer += received
    while len(buffer) >= 4 and len(buffer) >= 4 + (length := int.from_bytes(buffer[:4], "big")):
        header = decode_request_header(bytes(buffer[4 : 4 + length]))
        answer = RESPONSES[header.api_key]()
        connection.sendall(encode_response_frame(header.api_key, header.api_version, header.correlation_id, answer))
        del buffer[: 4 + length]


class Receivers:
    """A process of stubs; leaving the block ends it."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> Receivers:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "perf.load.control_receivers", str(self._count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.ports = [int(word) for word in self.process.stdout.readline().split()]
        return self

    def __exit__(self, *_exc: object) -> None:
        self.process.kill()
        self.process.wait()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
