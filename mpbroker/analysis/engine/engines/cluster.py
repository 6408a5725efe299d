"""Where Spark runs, for those who may come to need it. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Cluster(NamedTuple):
    """As open_session takes it. `master`: Spark's; `remote`: a Connect server; `settings`: Spark's own."""

    master: str | None = None
    remote: str | None = None
    settings: Mapping[str, str] = MappingProxyType({})

    @property
    def is_named(self) -> bool:
        """Whether somebody said any of it: then Spark is meant."""
        return any(self)


UNNAMED = Cluster()
