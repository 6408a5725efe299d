"""The short form of `make soak`: twenty random kills, and some where everything is hard."""

import pytest

from tests.chaos import surroundings
from tests.chaos.soak import Soak
from tests.harness.checker import summary
from tests.harness.history import OK


@pytest.mark.timeout(180)
def test_twenty_kills_lose_and_double_nothing(tmp_path):
    soak = Soak(tmp_path, kills=20, seed=20)
    anomalies = soak.run()
    assert anomalies == [], f"{summary(anomalies)}\n{soak.report}"
    assert sum(soak.report["kills"].values()) >= 15 and soak.report["writes"][OK] > 200


@pytest.mark.timeout(240)
def test_kills_with_little_memory_a_slow_disk_no_room_for_traces_and_500_partitions(tmp_path):
    soak = Soak(tmp_path, kills=8, seed=21, hardships=surroundings.ALL)
    anomalies = soak.run()
    assert anomalies == [], f"{summary(anomalies)}\n{soak.report}"
    assert sum(soak.report["kills"].values()) >= 6 and soak.report["writes"][OK] > 50
