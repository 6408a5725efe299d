"""The look for what a session left behind finds what is left behind."""

import os
import subprocess
import sys
import tempfile

from mpbroker.shm.segment import page_name
from tests.harness.broker import SHM
from tests.harness.leftovers import left_names, left_processes, of_gone_tests, still_left


def test_a_process_that_holds_a_file_or_descends_from_us_is_found(tmp_path):
    (tmp_path / "held").touch()
    before = left_processes(tmp_path)  # a broker of other tests' may still run
    script = "import sys, time; f = open(sys.argv[1]); print(flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "held")], stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline()
        (found,) = [line for line in left_processes(tmp_path) if line not in before]
        assert found.startswith(f"{child.pid} ")
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert not [line for line in left_processes(tmp_path) if line.startswith(f"{child.pid} ")]


def test_a_name_of_a_data_directory_below_is_found(tmp_path):
    data_dir = tmp_path / "broker" / "data"
    data_dir.mkdir(parents=True)
    names = [page_name(str(data_dir), 1).lstrip("/"), f"mpbroker-test-{os.getpid()}-leftover"]
    assert left_names(tmp_path) == []
    for name in names:
        (SHM / name).touch()
    try:
        assert left_names(tmp_path) == sorted(names)
    finally:
        for name in names:
            (SHM / name).unlink()


GONE: list = []


def test_a_name_is_left(tmp_path):
    GONE.extend([tmp_path, SHM / page_name(str(tmp_path), 1).lstrip("/")])
    GONE[1].touch()


def test_it_is_known_although_its_tests_directory_is_gone():
    directory, name = GONE
    known = name.name in of_gone_tests and name.name in still_left()
    name.unlink()
    assert known and name.name not in still_left()
    assert not directory.exists()


def test_temporary_files_go_where_the_session_looks(tmp_path_factory):
    assert tempfile.gettempdir().startswith(str(tmp_path_factory.getbasetemp()))
