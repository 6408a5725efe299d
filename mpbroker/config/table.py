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


def unknown_setting(name: str) -> str:
    """The sentence for a name that is no setting, with the one that was probably meant."""
    from difflib import get_close_matches  # only on the way to an error

    close = get_close_matches(name, SETTINGS, n=1, cutoff=0.75)
    meant = f"did you mean {close[0]}?" if close else "docs/configuration.md lists them all"
    return f"unknown setting {name}; {meant}"
