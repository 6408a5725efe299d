"""Settings of single groups of consumers (ConfigResource GROUP, KIP-848), and the broker's settings that stand in for
them and bound them. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.kinds import BadValue, Kind, parse


class GroupSetting(NamedTuple):
    """One of them: a whole number of milliseconds. `broker` names what counts where the group has none of its own."""

    name: str
    sentence: str
    least: int = 1

    @property
    def broker(self) -> str:
        """The setting for all groups."""
        return f"group.{self.name}"

    @property
    def bounds(self) -> tuple[str, str]:
        """The broker's settings between which it must be."""
        protocol, _, rest = self.name.partition(".")
        return f"group.{protocol}.min.{rest}", f"group.{protocol}.max.{rest}"

    def parse(self, text: str) -> int:
        """BadValue for what is no such number."""
        value: int = parse(Kind.INT, text)
        if value < self.least:
            raise BadValue(f"Value must be at least {self.least}", value)
        return value

    def within(self, value: int, config: BrokerConfig) -> int:
        """A value that was allowed once, as it is now."""
        least, most = (int(config.value(name)) for name in self.bounds)
        return max(least, min(value, most))


HEARTBEAT = GroupSetting("consumer.heartbeat.interval.ms", "How often members shall give a sign of life.")
SESSION = GroupSetting("consumer.session.timeout.ms", "A member that is silent for this long goes.")
ASSIGNMENT = GroupSetting("consumer.assignment.interval.ms", "Shortest time between two assignments.", 0)
#: In the order in which Kafka checks them.
GROUP_SETTINGS = {row.name: row for row in (HEARTBEAT, SESSION, ASSIGNMENT)}


def in_force(row: GroupSetting, own: Mapping[str, str], config: BrokerConfig) -> int:
    """What holds for a group with these settings of its own."""
    text = own.get(row.name)
    value: int = config.value(row.broker) if text is None else row.within(row.parse(text), config)
    return value
