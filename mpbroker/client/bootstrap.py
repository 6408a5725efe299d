"""The brokers a user names, and a connection to the first that answers; waits for one that is just starting.

Any process; no state. A refused or dropped connection may be a broker on its way up, and is tried again until the time
given is over. A name that nobody knows, or a port that speaks another protocol, is told at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mpbroker.client.network_client import REQUEST_TIMEOUT_MS, ConnectionLost, NetworkClient
from mpbroker.errors import ConfigError, ErrorCode, KafkaError
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse

DEFAULT_PORT = 9092
MAX_ADDRESSES = 100
FIRST_PAUSE_S, MAX_PAUSE_S = 0.02, 0.25
SAY_AFTER_S = 1.0


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """The hosts and ports of `HOST[:PORT][,HOST[:PORT]…]`; an IPv6 address stands in brackets. ConfigError."""
    found = [_address(text.strip()) for text in bootstrap.split(",", MAX_ADDRESSES)[:MAX_ADDRESSES] if text.strip()]
    if not found:
        raise ConfigError("--bootstrap-server", bootstrap, "HOST:PORT[,HOST:PORT…], as 127.0.0.1:9092")
    return found


def _address(text: str) -> tuple[str, int]:
    host, port = text, str(DEFAULT_PORT)
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":") or port
    elif ":" in text:
        host, _, port = text.partition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port[:6]) < 65536:
        raise ConfigError("--bootstrap-server", text, "HOST:PORT[,HOST:PORT…], as 127.0.0.1:9092")
    return host, int(port)


def connect(
    bootstrap: str,
    client_id: str = "mpbroker-cli",
    timeout_ms: int = REQUEST_TIMEOUT_MS,
    wait_s: float = 0.0,
    say: Callable[[str], None] | None = None,
) -> NetworkClient:
    """A connection to the first broker that answers; for `wait_s` seconds the addresses are tried again and again.

    `say` gets one sentence if that takes longer than a second. ConnectionLost names every address and its problem.
    """
    places, began, pause_s = addresses(bootstrap), time.monotonic(), FIRST_PAUSE_S
    while True:
        problems: list[ConnectionLost] = []
        for host, port in places:
            try:
                return NetworkClient(host, port, client_id, timeout_ms)
            except ConnectionLost as problem:
                problems.append(problem)
        waited_s = time.monotonic() - began
        if waited_s >= wait_s or not any(problem.may_pass for problem in problems):
            raise ConnectionLost(_sentence(problems, waited_s if wait_s else 0.0))
        if say is not None and waited_s >= SAY_AFTER_S:
            say(f"waiting for a broker at {bootstrap}")
            say = None
        time.sleep(min(pause_s, max(0.0, wait_s - waited_s)))
        pause_s = min(2 * pause_s, MAX_PAUSE_S)


def connect_to_controller(client: NetworkClient) -> NetworkClient:
    """A connection to the cluster's controller, as the broker of this one knows it. KafkaError: it knows of none."""
    answer = client.call(MetadataRequest(topics=[]), MetadataResponse, 12)
    for broker in answer.brokers:
        if broker.node_id == answer.controller_id:
            return NetworkClient(broker.host, broker.port, client.client_id, client.timeout_ms)
    raise KafkaError(ErrorCode.NOT_CONTROLLER, f"{client.address} knows of no controller at this moment")


def _sentence(problems: list[ConnectionLost], waited_s: float) -> str:
    waited = f" (waited {waited_s:.0f} s)" if waited_s >= SAY_AFTER_S else ""
    hint = "`mpbroker start` starts a broker, --bootstrap-server HOST:PORT names another"
    return f"{'; '.join(str(problem) for problem in problems)}{waited}; {hint}"
