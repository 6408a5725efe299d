"""The table of API keys."""

from mpbroker.protocol.api_keys import API_NAMES, FIRST_FLEXIBLE, ApiKey, api_name
from mpbroker.protocol.schema import NEVER


def test_constants_are_plain_ints_and_agree_with_the_names():
    constants = {name: value for name, value in vars(ApiKey).items() if not name.startswith("_")}
    assert sorted(constants.values()) == sorted(API_NAMES) == list(range(93))
    for name, key in constants.items():
        assert type(key) is int and name.replace("_", "").lower() == API_NAMES[key].lower()


def test_apis_that_never_became_flexible():
    assert [API_NAMES[key] for key, first in FIRST_FLEXIBLE.items() if first == NEVER] == [
        "SaslHandshake",
        "OffsetDelete",
    ]


def test_a_key_kafka_does_not_have_still_has_a_name():
    assert (api_name(0), api_name(500), api_name(-1)) == ("Produce", "Api500", "Api-1")
