"""`mpbroker.admin.listener`: HOST:PORT, or nothing."""

import pytest

from mpbroker.config.admin_listener import parse_admin_listener
from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0),
        (":9644", "", 9644),
        ("[::1]:1", "::1", 1),
        (" a-b.example:65535 ", "a-b.example", 65535),
    ],
)
def test_addresses(text, host, port):
    assert parse_admin_listener(text) == (host, port)


@pytest.mark.parametrize("text", ["", "  "])
def test_nothing_turns_it_off(text):
    assert parse_admin_listener(text) is None


@pytest.mark.parametrize("text", ["here", "h:65536", "h:-1", "http://h:1", "::1:5", "h:", "a b:1"])
def test_anything_else_is_refused_by_name(text):
    with pytest.raises(ConfigError, match=r"mpbroker\.admin\.listener=.*HOST:PORT"):
        load_broker_config(overrides=[f"mpbroker.admin.listener={text}"], environ={}, cores=2)


def test_it_is_on_by_default_and_only_for_this_machine():
    assert load_broker_config(environ={}, cores=2).admin_address == ("127.0.0.1", 0)
