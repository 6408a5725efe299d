"""What is said of a connection that is closed for what it sent: foreign protocols and APIs by name. Pure; run by
processors, for the log only.
"""

from typing import Final

from mpbroker.protocol.api_keys import api_name

#: How other protocols begin, where Kafka has the four bytes of a frame's length.
_BEGINNINGS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"GET ", "HTTP"),
    (b"POST", "HTTP"),
    (b"PUT ", "HTTP"),
    (b"HEAD", "HTTP"),
    (b"OPTI", "HTTP"),
    (b"DELE", "HTTP"),
    (b"PATC", "HTTP"),
    (b"CONN", "an HTTP proxy request"),
    (b"PRI ", "HTTP/2"),
    (b"\x16\x03", "TLS; this listener is PLAINTEXT"),
    (b"\x80", "SSL 2; this listener is PLAINTEXT"),
    (b"SSH-", "SSH"),
    (b"PROX", "the PROXY protocol"),
    (b"\r\n\r\n", "the PROXY protocol"),
    (b"EHLO", "SMTP"),
    (b"HELO", "SMTP"),
    (b"AMQP", "AMQP"),
    (b"JRMI", "Java RMI"),
    (b"*1\r\n", "Redis"),
    (b"PING", "Redis"),
    (b"\x03\x00", "RDP"),
    (b"\r\n", "a terminal"),
)


def invalid_frame(length: int, least: int, most: int) -> str:
    """Why a frame of this announced length is none, and which protocol it probably is. `length`: signed, as read."""
    first = (length & 0xFFFFFFFF).to_bytes(4, "big")
    foreign = next((name for beginning, name in _BEGINNINGS if first.startswith(beginning)), "")
    if foreign:
        return f"not Kafka's protocol: this looks like {foreign} (first bytes {_printable(first)})"
    return f"frame of {length} bytes; {least} to {most} are allowed"


def _printable(first: bytes) -> str:
    return first.decode("ascii") if first.isascii() and first.decode("ascii").isprintable() else first.hex(" ")


def unsupported(key: int, version: int, served: tuple[int, int] | None) -> str:
    """Why a request is not answered: an API that is not served here, or a version of it."""
    if served is None:
        return f"{api_name(key)} (API key {key}) is not served; docs/skipped.md lists what is missing"
    return f"{api_name(key)} version {version} is not served, only {served[0]} to {served[1]}"
