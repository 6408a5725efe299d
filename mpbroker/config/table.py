"""THE settings table: every setting of the broker, once. Docs and sample file are generated from it. Pure data.

The rows stand in four files by subject; this one joins them and looks names up.
"""

from typing import NamedTuple

from mpbroker.config import settings_cluster, settings_log, settings_mpbroker, settings_network
from mpbroker.config.setting import Setting

GROUPS: tuple[tuple[str, tuple[Setting, ...]], ...] = (
    *settings_network.GROUPS,
    *settings_log.GROUPS,
    *settings_cluster.GROUPS,
    *settings_mpbroker.GROUPS,
)

SETTINGS: dict[str, Setting] = {row.name: row for _, rows in GROUPS for row in rows}

# Names Kafka knows that would mean something else here than what their writer expects.
NOT_OURS: dict[str, str] = {
    "zookeeper.connect": "mpbroker needs no ZooKeeper; remove the line",
    "zookeeper.connection.timeout.ms": "mpbroker needs no ZooKeeper; remove the line",
    "zookeeper.session.timeout.ms": "mpbroker needs no ZooKeeper; remove the line",
    "process.roles": "every mpbroker is broker and controller; remove the line",
    "controller.quorum.voters": "mpbroker has no KRaft quorum; remove the line",
    "controller.quorum.bootstrap.servers": "mpbroker has no KRaft quorum; remove the line",
    "controller.listener.names": "the listener for control requests is `control.plane.listener.name`",
}


class Located(NamedTuple):
    """A name as found in the table; `listener` is the normalised listener name of `listener.name.<l>.<key>`, or ''."""

    setting: Setting
    listener: str

    @property
    def name(self) -> str:
        """The one spelling under which the value is kept."""
        return scoped_name(self.listener, self.setting.name) if self.listener else self.setting.name


def locate(name: str) -> Located | None:
    """The row a written name stands for, or None when the table has none."""
    row = SETTINGS.get(name)
    if row is not None:
        return Located(row, "")
    if name.startswith("listener.name."):
        return _locate_scoped(name)
    return None


def _locate_scoped(name: str) -> Located | None:
    """Listener names may hold dots, so the longest key that is scoped wins by trying each dot."""
    rest = name.removeprefix("listener.name.")
    listener, dot, key = rest.partition(".")
    while dot:
        row = SETTINGS.get(key)
        if row is not None and row.scoped and listener:
            return Located(row, listener.upper())
        more, dot, key = key.partition(".")
        listener = f"{listener}.{more}"
    return None


def scoped_name(listener_name: str, name: str) -> str:
    """`listener.name.<listener, lower case>.<name>`."""
    return f"listener.name.{listener_name.lower()}.{name}"


def unknown_hint(name: str) -> str:
    """What is allowed instead of an unknown name, as the end of the sentence 'allowed is …'."""
    if name in NOT_OURS:
        return f"nothing of this name ({NOT_OURS[name]})"
    from difflib import get_close_matches  # only on the way to an error

    close = get_close_matches(name, SETTINGS, n=1, cutoff=0.75)
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"a setting of docs/configuration.md, and this is none{meant}"
