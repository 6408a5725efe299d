"""Whose a file or a process is, in words for somebody who may not touch it; any process, stateless."""

import os

from mpbroker.errors import BelongsToAnother


def user_name(uid: int) -> str:
    """`user alice (uid 1000)`; only the number where the system knows no name."""
    import pwd  # only when there is something to say

    try:
        return f"user {pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def owner_of(path: str) -> int | None:
    """Who owns a path, or, where that may not be seen, the nearest directory above it; None if nobody can tell."""
    while True:
        try:
            return os.stat(path).st_uid
        except PermissionError:
            above = os.path.dirname(path)
            if above == path:
                return None
            path = above
        except OSError:
            return None


def refusal(what: str, path: str) -> BelongsToAnother:
    """The error for `what`, which `path` is a part of and which this user may not use."""
    uid = owner_of(path)
    return BelongsToAnother(what, "another user" if uid is None else user_name(uid))
