"""Ports that brokers of `mpbroker cluster start --port 0` keep."""

import socket

import pytest

from mpbroker.cli import cluster_ports
from mpbroker.cli.cluster_ports import free_ports, kernel_range


def test_they_are_none_that_the_kernel_gives_away():
    first, last = kernel_range()
    ports = free_ports(12)
    assert len(set(ports)) == 12
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert first <= given.getsockname()[1] <= last
    assert all(10_000 <= port <= 65_535 and not first <= port <= last for port in ports)


def test_none_that_somebody_listens_on():
    with socket.create_server(("127.0.0.1", 65_534)):
        assert set(free_ports(2, (1024, 65_532))) == {65_533, 65_535}


@pytest.mark.parametrize(
    ("given_away", "kept"),
    [((10_001, 65_535), [10_000]), ((1024, 65_534), [65_535]), ((10_001, 65_534), [10_000, 65_535])],
)
def test_both_ends_of_what_is_kept(given_away, kept):
    assert set(free_ports(len(kept), given_away)) == set(kept)


def test_where_the_kernel_keeps_nothing_back_they_still_differ():
    assert len(set(free_ports(5, (1024, 65_535)))) == 5


@pytest.mark.parametrize("text", [None, "", "1 2 3", "low high"])
def test_a_kernel_that_does_not_say(tmp_path, monkeypatch, text):
    place = tmp_path / "range"
    if text is not None:
        place.write_text(text)
    monkeypatch.setattr(cluster_ports, "RANGE_FILE", place)
    assert kernel_range() == (1024, 65_535)
    assert len(free_ports(3)) == 3
