"""Kafka's defaults stand twice: where tests make settings, and in the table that a broker reads."""

from mpbroker.config.load_config import load_broker_config
from mpbroker.coordinator.group_settings import GroupSettings

#: What depends on the machine or on other settings of the broker.
FROM_THE_BROKER = {"max_parked"}


def test_the_defaults_are_those_of_the_configuration():
    read, made = GroupSettings.of(load_broker_config(environ={}, cores=2)), GroupSettings()
    names = set(GroupSettings.__struct_fields__) - FROM_THE_BROKER
    assert {name: getattr(made, name) for name in names} == {name: getattr(read, name) for name in names}
