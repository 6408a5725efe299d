"""Whose an output folder is: a command writes only into folders that are new, empty, or its own from an earlier run.

Runs in a command's process. The mark is `made_by` in the folder's meta.json. A folder of an earlier run is cleared of
what that run left, by name, so that no table of it is taken for one of the new run; other files in it stay.
"""

import json
from pathlib import Path
from typing import Any

from mpbroker.errors import MpbrokerError

REPORT, META, RESULTS, TABLES = "report.html", "meta.json", "results.json", "tables"
MADE_BY = "made_by"
#: What `made_by` says.
STUDY, LAB = "mpbroker trace study", "mpbroker lab run"


class OutInUse(MpbrokerError):
    """The output folder holds something that this command did not make."""

    exit_code = 2


def require_own(out: Path, maker: str) -> None:
    """OutInUse unless `out` does not exist, is empty, or was made by `maker`. Touches nothing."""
    if not out.exists() and not out.is_symlink():
        return
    if not out.is_dir():
        raise OutInUse(f"{out} is not a folder; name another place with --out")
    owner = made_by(out)
    if owner == maker or (owner is None and not any(out.iterdir())):
        return
    if owner is None:
        raise OutInUse(
            f"{out} is not empty and `{maker}` did not make it; name a new folder with --out, or empty this one"
        )
    raise OutInUse(f"{out} holds the output of `{owner}`; name another folder with --out, or delete that one first")


def made_by(out: Path) -> str | None:
    """The command that made the folder; None when it does not say."""
    meta = _meta(out)
    owner = meta.get(MADE_BY)
    return owner if isinstance(owner, str) else None


def claim(out: Path, maker: str) -> None:
    """Make the folder and put the mark in, so that a run that does not come to its end can be repeated. OutInUse as
    `require_own`."""
    require_own(out, maker)
    out.mkdir(parents=True, exist_ok=True)
    if not (out / META).exists():
        (out / META).write_text(json.dumps({MADE_BY: maker, "unfinished": True}) + "\n")


def clear_tables(out: Path) -> None:
    """Delete the tables that the folder's meta.json lists, and make room for new ones."""
    studies = _meta(out).get("studies")
    for study, about in (studies if isinstance(studies, dict) else {}).items():
        for table in about.get("tables", ()):
            for suffix in ("parquet", "csv"):
                (out / TABLES / f"{study}.{table}.{suffix}").unlink(missing_ok=True)
    (out / TABLES).mkdir(parents=True, exist_ok=True)


def _meta(out: Path) -> dict[str, Any]:
    try:
        found = json.loads((out / META).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
