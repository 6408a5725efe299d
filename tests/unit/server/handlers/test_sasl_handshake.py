"""SaslHandshake: refused where nobody is asked who they are."""

import pytest

from mpbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.harness.in_process_broker import InProcessBroker


@pytest.mark.parametrize("version", [0, 1])
def test_no_mechanism_is_offered(tmp_path, version):
    answer = InProcessBroker(tmp_path).call(SaslHandshakeRequest("PLAIN"), version)
    assert answer == SaslHandshakeResponse(34, [])
