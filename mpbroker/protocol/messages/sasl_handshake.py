"""SaslHandshake (key 17): which mechanism a client wants to say who it is with.

Shapes only; any process. Never flexible; 1 the exchange that follows goes through SaslAuthenticate.
"""

from mpbroker.protocol.schema import NEVER, request, response
from mpbroker.protocol.types import Int16, Struct


@request(key=17, versions=(0, 1), flexible=NEVER)
class SaslHandshakeRequest(Struct):
    """Ask for a mechanism by its name."""

    mechanism: str = ""


@response(key=17, versions=(0, 1), flexible=NEVER)
class SaslHandshakeResponse(Struct):
    """Whether it may be used, and which there are."""

    error_code: Int16 = 0
    mechanisms: list[str] = []
