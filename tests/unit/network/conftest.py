"""The two ends of a hand-over, the acceptor's first."""

import pytest

from mpbroker.network.connection_quotas import ConnectionQuotas, Limits
from mpbroker.network.fd_passing import handover_pair


@pytest.fixture
def pair():
    ends = handover_pair()
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def setting(pair):
    """And the quotas of an acceptor without limits."""
    return pair, ConnectionQuotas(Limits())
