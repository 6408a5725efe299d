"""Options of studies (`trace study --set name=value`) as values; whatever is wrong becomes one sentence. Pure."""

from collections.abc import Collection, Mapping

from mpbroker.errors import MpbrokerError


class BadStudyOption(MpbrokerError):
    """An option of a study that cannot be."""

    exit_code = 2


def words(options: Mapping[str, str], name: str, allowed: Collection[str] = ()) -> list[str]:
    """`a,b` as [a, b]; nothing without the option."""
    found = [word.strip() for word in options.get(name, "").split(",") if word.strip()]
    for word in found:
        if allowed and word not in allowed:
            raise BadStudyOption(f"{name}={word}: one of {', '.join(allowed)}")
    return found


def whole_numbers(options: Mapping[str, str], name: str, least: int, most: int) -> list[int]:
    """`2,4` as [2, 4]."""
    found = []
    for word in words(options, name):
        if not word.isascii() or not word.isdigit() or not least <= int(word) <= most:
            raise BadStudyOption(f"{name}={word}: a whole number from {least} to {most:,}")
        found.append(int(word))
    return found


def factors(options: Mapping[str, str], name: str, most: float = 1000.0) -> dict[str, float]:
    """`Produce:0.5,Fetch:2` as a table."""
    found = {}
    for word in words(options, name):
        key, _, text = word.partition(":")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not key or not 0 < value <= most:
            raise BadStudyOption(f"{name}={word}: NAME:FACTOR, the factor more than 0 and at most {most:g}")
        found[key] = value
    return found
