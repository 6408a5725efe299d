"""SaslAuthenticate: refused where nobody is asked who they are."""

import pytest

from mpbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.harness.in_process_broker import InProcessBroker


@pytest.mark.parametrize("version", [0, 1, 2])
def test_no_credentials_are_looked_at(tmp_path, version):
    answer = InProcessBroker(tmp_path).call(SaslAuthenticateRequest(b"\0user\0password"), version)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (34, b"", 0)
    assert answer.error_message and "password" not in answer.error_message
