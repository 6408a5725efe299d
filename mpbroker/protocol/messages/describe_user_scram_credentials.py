"""DescribeUserScramCredentials (key 50): which users can prove who they are by SCRAM (KIP-554).

Shapes only; any process. Flexible from the first version.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct


class UserName(Struct):
    """One user."""

    name: str = ""


@request(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest(Struct):
    """Some users; null or none: all."""

    users: list[UserName] | None = []


class CredentialInfo(Struct):
    """What is known of one credential."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(Struct):
    """One user's."""

    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = None
    credential_infos: list[CredentialInfo] = []


@response(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsResponse(Struct):
    """By user."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    results: list[DescribeUserScramCredentialsResult] = []
