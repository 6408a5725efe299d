"""Kafka's defaults stand twice: where tests make settings, and in the table that a broker reads."""

import pytest

from mpbroker.config.limits import DEFAULT_ENTRIES
from mpbroker.config.load_config import load_broker_config
from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.coordinator.transactions.transaction_settings import TransactionSettings


def test_the_defaults_are_those_of_the_configuration():
    read, made = GroupSettings.of(load_broker_config(environ={}, cores=2), DEFAULT_ENTRIES), GroupSettings()
    assert made == read
    assert made.max_parked > 5000, "a thousand groups of five join at once"


@pytest.mark.parametrize(("entries", "most"), [(8192, 6144), (5461, 3413), (4096, 2048), (600, 300)])
def test_requests_that_wait_leave_the_processor_room_to_serve(entries, most):
    assert GroupSettings.of(load_broker_config(environ={}, cores=2), entries).max_parked == most


def test_those_of_transactions_are_too():
    config = load_broker_config(environ={}, cores=2)
    assert TransactionSettings() == TransactionSettings.of(config, DEFAULT_ENTRIES)
