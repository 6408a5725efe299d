"""The versions that `message.format.version` may name. Nothing depends on them: only record batch v2 is written.
Pure."""

import re

_OLD = {"0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.0"}
_NEWER = {"1.0", "1.1", *(f"2.{minor}" for minor in range(9)), *(f"3.{minor}" for minor in range(10))}
_VERSION = re.compile(r"(\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)(?:\.\d{1,3})?(?:-IV\d)?\Z")


def is_message_format_version(text: str) -> bool:
    """Whether Kafka 3.9 knows the version: two numbers (three before 1.0), then a patch number or -IVn."""
    match = _VERSION.match(text)
    if match is None:
        return False
    numbers = match[1].split(".")
    return ".".join(numbers[:3]) in _OLD if numbers[0] == "0" else ".".join(numbers[:2]) in _NEWER
