"""A client log is read as it was written, and says what did not fit."""

import pytest

from mpbroker.analysis.lab.client_log import NEVER, ClientLog, read


def test_what_is_written_is_read(tmp_path):
    log = ClientLog(10)
    log.add(0, 1, 0, 100, 105, 110, 125, 130)
    log.add(1, 1 << 20, -1, 200, NEVER, NEVER, NEVER, NEVER)
    log.write(tmp_path / "log", {"group": "g", "ports": [1, 2]})
    found = read(tmp_path / "log")
    assert found.about["group"] == "g" and found.about["rows"] == 2 and found.about["lost"] == 0
    assert list(found.columns["corr_id"]) == [1, 1 << 20] and list(found.columns["error"]) == [0, -1]
    assert list(found.columns["done_ns"]) == [130, -1]


def test_rows_are_bounded_and_the_lost_are_counted(tmp_path):
    log = ClientLog(2)
    for number in range(5):
        log.add(0, number, 0, 1, 1, 2, 3, 3)
    log.write(tmp_path / "log", {})
    about = read(tmp_path / "log").about
    assert (about["rows"], about["lost"]) == (2, 3)


def test_a_cut_file_is_no_log(tmp_path):
    log = ClientLog(2)
    log.add(0, 1, 0, 1, 1, 2, 3, 3)
    log.write(tmp_path / "log", {})
    data = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(data[:-1])
    with pytest.raises(EOFError):
        read(tmp_path / "log")
