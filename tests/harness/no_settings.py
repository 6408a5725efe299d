"""An environment without this broker's and Kafka's settings, for tests that read the configuration as a command does.

Only those variables go: pytest and its plugins keep what they write into `os.environ` while a test runs.
"""

import os

import pytest

PREFIXES = ("KAFKA_", "MPBROKER_")


def without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the end of the test."""
    for name in [name for name in os.environ if name.startswith(PREFIXES)]:
        monkeypatch.delenv(name)
