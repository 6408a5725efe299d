"""The short form of `make soak`: twenty random kills."""

import pytest

from tests.chaos.soak import Soak
from tests.harness.checker import summary
from tests.harness.history import OK


@pytest.mark.timeout(180)
def test_twenty_kills_lose_and_double_nothing(tmp_path):
    soak = Soak(tmp_path, kills=20, seed=20)
    anomalies = soak.run()
    assert anomalies == [], f"{summary(anomalies)}\n{soak.report}"
    assert sum(soak.report["kills"].values()) >= 15 and soak.report["writes"][OK] > 200
