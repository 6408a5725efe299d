"""What every export has in common: the requests of a slice, at most so many and said when it is not all, and a file
that may be compressed. Runs in the process of a command."""

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from mpbroker.analysis.engine.engines.engine import Where

if TYPE_CHECKING:
    from mpbroker.analysis.engine.engines.engine import Engine

MAX_REQUESTS = 1_000_000
_BATCH_ROWS = 4096


class Written(NamedTuple):
    """What an export wrote. `what`: how many of what, for a person; `sentences` say what was left out."""

    path: str
    what: str
    sentences: list[str]


def requests(engine: "Engine", columns: Sequence[str], most: int) -> tuple[Iterator[dict[str, Any]], int, list[str]]:
    """The first `most` requests in the order they came, how many that is, and what to say where there are more."""
    table = engine.requests(columns, Where(order="epoch_ns", limit=most + 1))
    found = min(table.num_rows, most)
    said = []
    if table.num_rows > most:
        said.append(
            f"Cut after the first {most:,} requests: choose a shorter time with --from and --to, one API with "
            "--api, or a larger --limit."
        )
    if engine.input.is_sampled:
        said.append("The trace is sampled: requests that were left out are not in the export.")
    batches = table.slice(0, found).to_batches(max_chunksize=_BATCH_ROWS)
    return (row for batch in batches for row in batch.to_pylist()), found, said


def opened(out: Path) -> IO[str]:
    """A text file; compressed if its name ends with .gz."""
    if out.name.endswith(".gz"):
        return gzip.open(out, "wt", encoding="utf-8", compresslevel=1)
    return open(out, "w", encoding="utf-8")
