"""SaslAuthenticate (key 36): one step of an exchange that proves who a client is (KIP-152).

Shapes only; any process. 1 length of the session (KIP-368) · 2 flexible.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int64, Struct, since


@request(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest(Struct):
    """The mechanism's own bytes."""

    auth_bytes: bytes = b""


@response(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateResponse(Struct):
    """The broker's bytes, or why it ends here."""

    error_code: Int16 = 0
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[Int64, since(1)] = 0
