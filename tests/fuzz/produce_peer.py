"""The few requests that comparing with a real broker takes, over a raw socket and without our own codec."""

import socket
import struct


def _text(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else struct.pack(">h", len(value)) + value.encode()


class ProducePeer:
    """One connection to a broker; creates the topics it is given with their configs if they do not exist."""

    def __init__(self, address: str, topics: dict[str, list[tuple[str, str]]]) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0
        for name, configs in topics.items():
            self._create(name, configs)

    def _call(self, api_key: int, version: int, body: bytes) -> bytes:
        self._correlation += 1
        message = struct.pack(">hhi", api_key, version, self._correlation) + _text("fuzz") + body
        self._socket.sendall(struct.pack(">i", len(message)) + message)
        size, correlation = struct.unpack(">ii", self._receive(8))
        assert correlation == self._correlation
        return self._receive(size - 4)

    def _receive(self, count: int) -> bytes:
        out = b""
        while len(out) < count:
            part = self._socket.recv(count - len(out))
            if not part:
                raise ConnectionError("the broker closed the connection")
            out += part
        return out

    def _create(self, name: str, configs: list[tuple[str, str]]) -> None:
        entries = b"".join(_text(key) + _text(value) for key, value in configs)
        body = struct.pack(">i", 1) + _text(name) + struct.pack(">ihii", 1, 1, 0, len(configs)) + entries
        answer = self._call(19, 1, body + struct.pack(">ib", 10000, 0))
        (code,) = struct.unpack_from(">h", answer, 4 + 2 + len(name))
        assert code in (0, 36), f"creating {name}: error {code}"

    def produce(self, topic: str, version: int, records: bytes) -> int:
        """Send one batch to partition 0 with acks=1 and return the error code; retries while a topic is new."""
        body = _text(None) + struct.pack(">hii", 1, 5000, 1) + _text(topic)
        body += struct.pack(">iii", 1, 0, len(records)) + records
        for _ in range(1000):
            answer = self._call(0, version, body)
            partition, code = struct.unpack_from(">ih", answer, 4 + 2 + len(topic) + 4)
            assert partition == 0
            if code not in (3, 5, 6):
                break
        return code
