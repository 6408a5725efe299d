"""Request and response headers and whole frames (length, header, body); the C side is in `native/python/py_codec.c`.

Pure functions, used by processors (request headers), handlers (response frames) and the internal client. Header
version 2 (flexible requests) adds tagged fields, which are skipped; version 0 lacks the client id (ControlledShutdown
0 only). A flexible API's response header has tagged fields too, except ApiVersions, whose answer any client must be
able to read (KIP-511). Positional arguments only:

- `decode_request_header(payload, offset=0)` → `RequestHeader`; `payload` begins after the frame's length.
  `ProtocolError` for an unknown API key, a negative version, or a header that is cut off.
- `decode_response_header(api_key, version, payload, offset=0)` → (correlation_id, body_offset).
- `encode_response_frame(api_key, version, correlation_id, message)` → bytes of the whole frame.
- `encode_response_frame_into(api_key, version, correlation_id, message, buffer, offset=0)` → (end offset,
  [(position, length), …]): into a buffer, with records fields reserved as by `codec.encode_reserving`.
"""

from mpbroker import _native
from mpbroker.protocol import codec as _codec  # noqa: F401  (connects the plans)
from mpbroker.protocol.api_keys import FIRST_FLEXIBLE, ApiKey
from mpbroker.protocol.schema import schema_of
from mpbroker.protocol.types import Struct


class RequestHeader(Struct):
    """A request's header. `body_offset` counts from the start of the buffer the header was read from."""

    api_key: int = 0
    api_version: int = 0
    correlation_id: int = 0
    client_id: str = ""
    body_offset: int = 0


decode_request_header = _native.codec_decode_request_header
decode_response_header = _native.codec_decode_response_header
encode_response_frame = _native.codec_encode_response_frame
encode_response_frame_into = _native.codec_encode_response_frame_into


def encode_request_frame(message: Struct, version: int, correlation_id: int, client_id: str = "") -> bytes:
    """The whole frame of a request: length, header, body."""
    key = schema_of(type(message)).key
    return _native.codec_encode_request_frame(key, version, correlation_id, client_id, message)


def request_header_version(api_key: int, version: int) -> int:
    """Version of the request header (0, 1 or 2) for a request; KeyError for an unknown API key."""
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version >= FIRST_FLEXIBLE[api_key] else 1


def response_header_version(api_key: int, version: int) -> int:
    """Version of the response header (0 or 1); KeyError for an unknown API key."""
    return 1 if version >= FIRST_FLEXIBLE[api_key] and api_key != ApiKey.API_VERSIONS else 0


_native.codec_connect_headers(RequestHeader, RequestHeader.__struct_fields__, FIRST_FLEXIBLE)
