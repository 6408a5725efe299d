"""Moments as a user writes them: milliseconds since 1970, or an ISO date and time. Runs in the command's process."""

from datetime import UTC, datetime, timedelta

from mpbroker.errors import ConfigError

MAX_MS = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALLOWED = "milliseconds since 1970, or a time as 2026-11-21T17:00:00 (UTC unless it says otherwise)"


def moment_text(epoch_ms: int) -> str:
    """Milliseconds since 1970 as an ISO time."""
    return (_EPOCH + timedelta(milliseconds=epoch_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def epoch_ms(flag: str, text: str) -> int:
    """Milliseconds since 1970; ConfigError says what can be read."""
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_MS:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(flag, text, ALLOWED) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment < _EPOCH:
        raise ConfigError(flag, text, ALLOWED)
    return (moment - _EPOCH) // timedelta(milliseconds=1)
