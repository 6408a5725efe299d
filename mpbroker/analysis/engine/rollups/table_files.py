"""The few operations on files that a rollup table needs, so that it may lie on any file system.

Paths are relative to the table, with slashes. `create` and `move` happen in one step. Runs in a command's process.
"""

import fcntl
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mpbroker.analysis.engine.rollups.layout import LOCK, STAGING, RollupError


class TableFiles(ABC):
    """Of one table. `root`: as Spark and pyarrow take it."""

    root: str

    @abstractmethod
    def below(self, folder: str) -> list[str]:
        """All files below a folder, sorted, without hidden ones (a name that begins with a point or underline)."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """A whole file; FileNotFoundError."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """A new file, in new folders if need be. `sync` makes it durable."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """A new file in one step, durable; False when there is one of that name."""

    @abstractmethod
    def move(self, path: str, to: str) -> None:
        """Give a file another place, in one step."""

    @abstractmethod
    def remove(self, folder: str) -> None:
        """Delete a folder with all that is in it; nothing when there is none."""

    @abstractmethod
    def sync(self, paths: Iterable[str]) -> None:
        """Make files durable, and their names."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other jobs out, where the file system can. Where it cannot, `create` of the commit does: the second of
        two that commit the same batch is refused."""
        yield

    def url(self, path: str) -> str:
        """For readers."""
        return f"{self.root}/{path}"


class LocalFiles(TableFiles):
    """In a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.root = str(root.absolute())

    def url(self, path: str) -> str:
        return f"file://{self._root.absolute() / path}"  # not quoted: Hadoop takes what it is given

    def below(self, folder: str) -> list[str]:
        base = self._root / folder
        found = [path.relative_to(self._root) for path in base.rglob("*") if path.is_file()]
        return sorted(path.as_posix() for path in found if not _is_hidden(path, base.relative_to(self._root)))

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        place = self._root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def create(self, path: str, data: bytes) -> bool:
        place, temporary = self._root / path, self._root / STAGING / f"{Path(path).name}.{os.getpid()}"
        self.write(temporary.relative_to(self._root).as_posix(), data)
        _sync(temporary)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(temporary, place)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        _sync(place.parent)
        _sync(self._root)
        return True

    def move(self, path: str, to: str) -> None:
        place = self._root / to
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self._root / path, place)

    def remove(self, folder: str) -> None:
        shutil.rmtree(self._root / folder, ignore_errors=True)

    def sync(self, paths: Iterable[str]) -> None:
        folders = set()
        for path in paths:
            _sync(self._root / path)
            folders |= {self._root / folder for folder in Path(path).parents}
        for folder in sorted(folders, reverse=True):
            _sync(folder)

    @contextmanager
    def lock(self) -> Iterator[None]:
        self._root.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._root / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RollupError(f"another trace rollup is at work on {self.root}") from error
        else:
            yield
        finally:
            os.close(lock)


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_hidden(path: Path, base: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(base).parts)
