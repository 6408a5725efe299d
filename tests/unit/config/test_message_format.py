"""Which versions message.format.version may name: asked of a real Kafka 3.9 where marked."""

import pytest

from mpbroker.config.message_format import is_message_format_version


@pytest.mark.parametrize(
    "text", ["0.8.0", "0.10.2", "0.10.0-IV0", "0.11.0", "1.0", "2.8", "2.8.1", "2.8-IV1", "3.0-IV1", "3.9"]
)
def test_known(text):
    assert is_message_format_version(text)


@pytest.mark.parametrize("text", ["9.9", "4.0", "3.10", "0.11", "0.12.0", "", "x", "2", "2.8-IV", "2.8 ", "2.9"])
def test_unknown(text):
    assert not is_message_format_version(text)
