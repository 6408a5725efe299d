"""Settings of a broker that were changed while it ran (KIP-226): two layers above what was given
at the start; and those of single groups. Pure.

The controller keeps them in the metadata store. A broker's own layer wins over the cluster's, which wins over what was
given at the start. Names that no table knows are kept and shown without their values, as in Kafka, and mean nothing.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from mpbroker.config.table import locate

_NOTHING: Mapping[str, str] = MappingProxyType({})


class DynamicSettings(NamedTuple):
    """Texts by setting name: `cluster` holds for every broker, `broker` for this one, `groups` by group id."""

    cluster: Mapping[str, str] = _NOTHING
    broker: Mapping[str, str] = _NOTHING
    groups: Mapping[str, Mapping[str, str]] = MappingProxyType({})

    def over(self, static: Mapping[str, str]) -> dict[str, str]:
        """The texts in force on a broker that was started with these; names that are none of ours are left out."""
        known = {name: text for layer in (self.cluster, self.broker) for name, text in layer.items() if locate(name)}
        return {**static, **known}

    def without(self, names: set[str]) -> "DynamicSettings":
        """The same without some names of a broker's settings."""
        cluster, broker = ({n: t for n, t in layer.items() if n not in names} for layer in (self.cluster, self.broker))
        return DynamicSettings(cluster, broker, self.groups)

    def __bool__(self) -> bool:
        return bool(self.cluster or self.broker or self.groups)


NOTHING_DYNAMIC = DynamicSettings()
