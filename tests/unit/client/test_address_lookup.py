"""Names are looked up by a thread: nobody waits, what was found is used, what was not found is said."""

import socket
import threading

import pytest

from mpbroker.client import address_lookup as module
from mpbroker.client.address_lookup import Address, AddressLookup, NameUnknown
from tests.harness.broker import wait_until


def test_addresses_need_no_look_up():
    lookup = AddressLookup(lambda name: pytest.fail(name))
    assert lookup.find("127.0.0.1", 9) == Address(socket.AF_INET, ("127.0.0.1", 9))
    assert lookup.find("::1", 9) == Address(socket.AF_INET6, ("::1", 9))


def test_a_name_that_takes_its_time_makes_nobody_wait(monkeypatch):
    go, asked = threading.Event(), []

    def resolve(name):
        asked.append(name)
        assert go.wait(10)
        return "127.0.0.7"

    lookup = AddressLookup(resolve)
    assert lookup.find("broker-2", 1) is None
    assert lookup.find("broker-2", 1) is None
    go.set()
    wait_until(lambda: lookup.find("broker-2", 1) is not None, "the address")
    assert lookup.find("broker-2", 1).sockaddr == ("127.0.0.7", 1)
    assert asked == ["broker-2"], "asked once"
    monkeypatch.setattr(module, "GOOD_S", 0.0)
    lookup._found["broker-2"] = lookup._found["broker-2"]._replace(until_s=0.0)
    assert lookup.find("broker-2", 1) is not None, "used while it is looked up again"
    wait_until(lambda: len(asked) == 2, "the second look")


def test_a_name_that_nobody_knows():
    def resolve(name):
        raise socket.gaierror(-2, "Name or service not known")

    lookup = AddressLookup(resolve)
    assert lookup.find("nowhere", 1) is None
    wait_until(lambda: not lookup._under_way, "the answer")
    with pytest.raises(NameUnknown, match="nowhere: .*not known"):
        lookup.find("nowhere", 1)
