"""Where traces lie: on this machine, on a file system that only Spark reads, or in a catalog of Spark. Pure."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from mpbroker.errors import MpbrokerError

TABLE = "table:"  # CATALOG.NAMESPACE.TABLE


class ElsewhereError(MpbrokerError):
    """A place is on a file system that this command does not read."""

    exit_code = 2


def is_remote(place: str | Path) -> bool:
    """Whether Spark alone reads it: a table of a catalog, or a URL of another scheme than `file`."""
    return is_table(place) or (isinstance(place, str) and "://" in place and not place.startswith("file:"))


def is_table(place: str | Path) -> bool:
    """Whether it names a table of a catalog of Spark."""
    return isinstance(place, str) and place.startswith(TABLE)


def local_path(place: str | Path) -> Path:
    """Of this machine; `file:` URLs too. ElsewhereError for another URL."""
    if is_remote(place):
        raise ElsewhereError(
            f"{place}: here files of this machine are read, mounted ones too; compacted traces and rollup tables may "
            "lie elsewhere, for `trace study --engine spark`, and a table for `trace rollup --engine spark`"
        )
    text = str(place)
    return Path(unquote(urlsplit(text).path)) if text.startswith("file:") else Path(place)
