"""Spark sessions that begin and end with a command: right interpreter, loopback only, quiet, nothing left behind.

Runs in a command's process, which becomes Spark's driver; the JVM is its child and ends with it. Profiles:

    test     small heap, cheap compiler and collector: half the start-up CPU, for traces of up to a few million requests
    light    the same with the heap of `local`: Python workers read and count, the JVM adds up what they found
    local    all cores of this machine, for what the JVM itself reads
    cluster  a master is named, or spark-submit has started us: only what concerns answers is set, all else is its own

A session that somebody else has opened in this process (a notebook, a test) is used as it is and stays open.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Literal

from mpbroker.analysis.spark import java
from mpbroker.analysis.spark.scratch import Scratch
from mpbroker.errors import MpbrokerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Profile = Literal["test", "light", "local", "cluster"]
LOOPBACK = "127.0.0.1"
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit has started the JVM already
JVM_ENDS_S = 20
TEST_HEAP_MIB = 768
MAX_HEAP_MIB, MIN_HEAP_MIB = 8192, 1024

#: What answers depend on, in every profile.
MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}

_LOG4J = """rootLogger.level = error
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
logger.repl.name = org.apache.spark.repl.Main
logger.repl.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark: %p %c{1}: %m%n%ex{short}
"""


class SparkError(MpbrokerError):
    """There is no Spark, or it cannot be reached."""

    exit_code = 2


class OpenSession:
    """A session and what has to be cleaned up after it. `owned`: closing stops it."""

    def __init__(self, spark: "SparkSession", owned: bool, scratch: Scratch | None = None) -> None:
        self.spark = spark
        self.owned = owned
        self._scratch = scratch

    def __enter__(self) -> "OpenSession":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the session, wait for its JVM to end, delete its files. May be called twice."""
        if not self.owned:
            return
        self.owned = False
        with suppress(Exception):  # a JVM that has died cannot be asked to stop; it is waited for below
            self.spark.stop()
        if self._scratch is not None:
            _end_jvm()
            self._scratch.remove()


def open_session(
    profile: Profile | None = None,
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> OpenSession:
    """The session of this process, or a new one. SparkError and JavaError say in a sentence what is missing.

    Without a profile: `cluster` when a master other than local is named or spark-submit started us, otherwise `local`.
    `settings`: Spark's, beside those of the profile; a session that runs already takes those that may still change.
    """
    session_type = _import_spark()
    present = session_type.getActiveSession()
    if present is not None:
        _change(present, settings)
        return OpenSession(present, owned=False)
    remote = remote or os.environ.get("SPARK_REMOTE")
    if remote:
        return _connect(session_type, remote, settings)
    if SUBMITTED in os.environ:
        return _submitted(session_type, master, settings)
    return _launch(session_type, profile or profile_of(master), master, settings)


def starts_jvm(remote: str | None) -> bool:
    """Whether `open_session` would: what a JVM is started with cannot be added later."""
    elsewhere = remote or os.environ.get("SPARK_REMOTE") or SUBMITTED in os.environ
    return not elsewhere and _import_spark().getActiveSession() is None


def profile_of(master: str | None) -> Profile:
    """The profile that suits a master."""
    return "local" if master is None or master.startswith("local") else "cluster"


def options_of(profile: Profile, scratch: Path) -> dict[str, str]:
    """Spark's settings in a profile; all its files go into `scratch`, where they concern this machine."""
    java_options = [
        f"-Djava.io.tmpdir={scratch}",
        f"-Dderby.system.home={scratch}",
        "-XX:-UsePerfData",
        f"-Dlog4j2.configurationFile={scratch / 'log4j2.properties'}",
    ]
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **MEANING,
    }
    if profile != "cluster":
        options |= {
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.local.dir": str(scratch),
            "spark.driver.memory": f"{_heap_mib(profile)}m",
        }
    if profile in ("test", "light"):
        spread = "2" if profile == "test" else str(len(os.sched_getaffinity(0)))
        java_options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        options |= {
            "spark.sql.shuffle.partitions": spread,
            "spark.default.parallelism": spread,
            "spark.sql.adaptive.enabled": "false",
        }
    return {**options, "spark.driver.extraJavaOptions": " ".join(java_options)}


def _heap_mib(profile: Profile) -> int:
    if profile == "test":
        return TEST_HEAP_MIB
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return max(MIN_HEAP_MIB, min(MAX_HEAP_MIB, memory // 4))


def _import_spark() -> "type[SparkSession]":
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkError("the Spark engine needs pyspark: pip install 'mpbroker[spark]'") from error
    return SparkSession


def _launch(
    session_type: "type[SparkSession]", profile: Profile, master: str | None, given: Mapping[str, str]
) -> OpenSession:
    scratch = Scratch()
    try:
        (scratch.path / "log4j2.properties").write_text(_LOG4J)
        home = java.find().wrapper(scratch.path)
        environ = {"JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        if profile != "cluster":
            environ["SPARK_LOCAL_IP"] = LOOPBACK
        with _environment(environ):
            options = {**options_of(profile, scratch.path), **given}
            return OpenSession(_build(session_type, master or "local[*]", options), True, scratch)
    except BaseException:
        _end_jvm()
        scratch.remove()
        raise


def _submitted(session_type: "type[SparkSession]", master: str | None, given: Mapping[str, str]) -> OpenSession:
    """spark-submit gives the workers archives that are named .zip only; a wheel is sent to them under such a name."""
    session = _build(session_type, master, {**MEANING, **given})
    scratch = Scratch()
    opened = OpenSession(session, True, scratch)
    try:
        wheel = next((folder for folder in Path(__file__).parents if folder.is_file()), None)
        if wheel is not None:
            session.sparkContext.addPyFile(shutil.copyfile(wheel, scratch.path / "mpbroker.zip").as_posix())
    except BaseException:
        opened.close()
        raise
    return opened


def _build(session_type: "type[SparkSession]", master: str | None, options: Mapping[str, str]) -> "SparkSession":
    builder: Any = session_type.builder.appName("mpbroker").config("spark.api.mode", "classic")
    if master is not None:
        builder = builder.master(master)
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        session: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise SparkError(f"Spark does not start: {_first_line(error)}") from error
    return session


def _connect(session_type: "type[SparkSession]", remote: str, given: Mapping[str, str]) -> OpenSession:
    builder: Any = session_type.builder.remote(remote)
    try:
        session = builder.getOrCreate()
        for name, value in MEANING.items():
            if not name.startswith("spark.sql.execution."):
                session.conf.set(name, value)
    except ImportError as error:
        raise SparkError(
            f"Spark Connect needs more packages: pip install 'pyspark[connect]' ({_first_line(error)})"
        ) from error
    except Exception as error:
        raise SparkError(f"Spark Connect at {remote} cannot be reached: {_first_line(error)}") from error
    opened = OpenSession(session, owned=True)
    try:
        _change(session, given)
    except BaseException:
        opened.close()
        raise
    return opened


def _change(session: "SparkSession", given: Mapping[str, str]) -> None:
    for name, value in given.items():
        try:
            session.conf.set(name, value)
        except Exception as error:
            raise SparkError(f"--conf {name}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set for the JVM that is started meanwhile, and for the worker command taken from here; put back afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _end_jvm() -> None:
    """End the JVM that this process started, so that its files may go and another one may be started later."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None or gateway.proc is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when its standard input does
    try:
        gateway.proc.wait(JVM_ENDS_S)
    except Exception:
        gateway.proc.kill()
        gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None
