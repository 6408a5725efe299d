"""Files of a rollup table, or the head of a compacted trace, on any file system that Spark's Hadoop client knows.

Runs in a command's process as Spark's driver, through its JVM (so not with Spark Connect, whose JVM is elsewhere).
Small files only: rows are read and written by Spark itself.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mpbroker.analysis.engine.rollups.layout import STAGING, RollupError
from mpbroker.analysis.engine.rollups.table_files import TableFiles
from mpbroker.analysis.spark.session import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFiles(TableFiles):
    """Below a URL. What several commands write at once is told apart by `create`: the last step is a rename that does
    not overwrite, where the file system has such a thing (HDFS; of an object store, whose renames are copies, only one
    job at a time may write)."""

    def __init__(self, spark: "SparkSession", url: str) -> None:
        self.root = url.rstrip("/")
        context: Any = getattr(spark, "_sc", None)
        if context is None:
            raise SparkError(f"{url}: Spark Connect gives no access to its file systems; use --master or spark-submit")
        self._jvm = context._jvm
        configuration = context._jsc.hadoopConfiguration()
        try:
            place = self._path("")
            self._fs = place.getFileSystem(configuration)
            self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(place.toUri(), configuration)
        except Exception as error:
            raise SparkError(f"{url} cannot be reached: {_reason(error)}") from error

    def below(self, folder: str) -> list[str]:
        base = self._path(folder)
        if not self._fs.exists(base):
            return []
        found, files = [], self._fs.listFiles(base, True)
        whole = self._fs.makeQualified(base).toUri().getPath().rstrip("/") + "/"
        while files.hasNext():
            inner = files.next().getPath().toUri().getPath().removeprefix(whole)
            if not any(part.startswith((".", "_")) for part in inner.split("/")):
                found.append(f"{folder}/{inner}" if folder else inner)
        return sorted(found)

    def names(self) -> list[str]:
        """Of the files in the folder itself."""
        return [one.getPath().getName() for one in self._fs.listStatus(self._path("")) if one.isFile()]

    def read(self, path: str) -> bytes:
        try:
            stream = self._fs.open(self._path(path))
        except Exception as error:
            if "FileNotFoundException" in str(error):
                raise FileNotFoundError(f"{self.root}/{path}") from error
            raise
        try:
            return bytes(self._jvm.org.apache.hadoop.shaded.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, data: bytes) -> None:
        stream = self._fs.create(self._path(path), True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def create(self, path: str, data: bytes) -> bool:
        temporary = f"{STAGING}/{path.replace('/', '-')}.new"
        self.write(temporary, data)
        self._fs.mkdirs(self._path(path).getParent())
        never = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._jvm.java.lang.reflect.Array.newInstance(never.NONE.getClass(), 0)
        try:
            self._context.rename(self._path(temporary), self._path(path), options)
        except Exception as error:
            if "FileAlreadyExistsException" in str(error):
                return False
            raise
        return True

    def move(self, path: str, to: str) -> None:
        place = self._path(to)
        self._fs.mkdirs(place.getParent())
        if not self._fs.rename(self._path(path), place):
            raise RollupError(f"{self.root}/{path} cannot be moved to {to}")

    def remove(self, folder: str) -> None:
        self._fs.delete(self._path(folder), True)

    def sync(self, paths: Iterable[str]) -> None:
        """What is closed is durable there."""

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}" if path else self.root)


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
