"""Where traces lie: on this machine, or on a file system that only Spark reads. Pure."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from mpbroker.errors import MpbrokerError


class ElsewhereError(MpbrokerError):
    """A place is on a file system that this command does not read."""

    exit_code = 2


def is_remote(place: str | Path) -> bool:
    """Whether it is a URL of another scheme than `file`."""
    return isinstance(place, str) and "://" in place and not place.startswith("file:")


def local_path(place: str | Path) -> Path:
    """Of this machine; `file:` URLs too. ElsewhereError for another URL."""
    if is_remote(place):
        raise ElsewhereError(
            f"{place}: here files of this machine are read, mounted ones too; compacted traces and rollup tables may "
            "lie elsewhere, for `trace study --engine spark`, and a table for `trace rollup --engine spark`"
        )
    text = str(place)
    return Path(unquote(urlsplit(text).path)) if text.startswith("file:") else Path(place)
