"""The error table: complete, unambiguous, and the same codes an independent client knows."""

import inspect

import kafka.errors as independent

from mpbroker.errors import ERRORS, BufferTooSmall, ConfigError, ErrorCode, KafkaError, MpbrokerError, error_name

# Where the client's table keeps a shorter or an older name: code → Kafka's name of today.
RENAMED = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}


OF_SHARE_GROUPS = range(121, 128)  # no API here answers with them


def test_every_code_from_minus_one_on_is_declared_once():
    assert sorted(ERRORS) == [code for code in range(-1, max(ERRORS) + 1) if code not in OF_SHARE_GROUPS]
    assert max(ERRORS) == 128
    assert len({info.name for info in ERRORS.values()}) == len(ERRORS)
    assert type(ErrorCode.CORRUPT_MESSAGE) is int


def test_codes_have_the_numbers_and_names_another_client_uses():
    compared = 0
    for _, error in inspect.getmembers(independent, inspect.isclass):
        code = getattr(error, "errno", None)
        if code not in ERRORS:
            continue
        compared += 1
        assert RENAMED.get(code, error.message) == ERRORS[code].name
    assert compared > 80


def test_exceptions_carry_what_they_were_made_of():
    error = KafkaError(ErrorCode.NOT_CONTROLLER)
    assert (error.code, error.retriable) == (41, True)
    assert str(error).startswith("NOT_CONTROLLER (41): ")
    assert not KafkaError(9999).retriable and error_name(9999) == "ERROR_9999"
    config = ConfigError("num.io.threads", "0", "1 to 64")
    assert (config.key, config.value, config.allowed) == ("num.io.threads", "0", "1 to 64")
    assert BufferTooSmall(needed=10, available=4).needed == 10
    assert isinstance(config, MpbrokerError)
