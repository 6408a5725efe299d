"""Legal topic names, Kafka's sentences for illegal ones, and which names are internal. Pure; used by every process."""

import re
from typing import Final

MAX_NAME_CHARS: Final = 249
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal_topic_name(name: str) -> bool:
    """Whether a topic may have this name."""
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")


def illegal_name_sentence(name: str) -> str | None:
    """Why a name is not legal, in Kafka's words; None for a legal one."""
    if is_legal_topic_name(name):
        return None
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_CHARS:
        why = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_CHARS}"
    else:
        why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return f"Topic name is invalid: {why}"


def is_internal_topic(name: str) -> bool:
    """Whether the topic is the coordinator's own."""
    return name in INTERNAL_TOPICS


def collision_key(name: str) -> str:
    """Two names with the same key would get the same metric name, so that only one of them may exist."""
    return name.replace(".", "_")
