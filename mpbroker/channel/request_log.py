"""How log lines name a request: API, client, connection. Request handlers and the coordinator; nothing is kept."""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ProtocolError
from mpbroker.protocol.api_keys import api_name
from mpbroker.protocol.headers import decode_request_header

_CONNECTION_BITS = 27  # of conn_id in trace records, beside the processor's number


def naming(request: Request) -> dict[str, object]:
    """The fields that say which request a line is about; `connection` is conn_id of its trace record."""
    generation = request.connection_generation & ((1 << _CONNECTION_BITS) - 1)
    return {
        "api": api_name(request.api_key),
        "version": request.api_version,
        "client_id": client_id(request),
        "connection": request.processor << _CONNECTION_BITS | generation,
    }


def client_id(request: Request) -> str:
    """Who the client says it is; empty where not even that can be read."""
    if request.client_id:  # its header is read already
        return request.client_id
    try:
        return decode_request_header(request.payload).client_id or ""
    except ProtocolError:
        return ""
