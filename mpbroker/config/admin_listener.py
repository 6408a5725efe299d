"""The address of the admin process (`mpbroker.admin.listener`): HOST:PORT, or empty for no such process. Pure."""

import re
from typing import NamedTuple

from mpbroker.errors import ConfigError

KEY = "mpbroker.admin.listener"
DEFAULT_ADMIN_LISTENER = "127.0.0.1:0"

_ADDRESS = re.compile(r"(?:\[([0-9A-Za-z:.%]+)\]|([0-9A-Za-z._-]*)):(\d{1,5})\Z")


class AdminAddress(NamedTuple):
    """Where to listen. An empty host: every interface; port 0: any free port."""

    host: str
    port: int


def parse_admin_listener(text: str) -> AdminAddress | None:
    """The address a text stands for; None when it is empty, which turns the admin process off. ConfigError."""
    if not text.strip():
        return None
    found = _ADDRESS.match(text.strip())
    if found is None or int(found[3]) > 65535:
        raise ConfigError(KEY, text, "HOST:PORT, as 127.0.0.1:9644 (port 0: any free port), or empty for none")
    return AdminAddress(found[1] or found[2], int(found[3]))
