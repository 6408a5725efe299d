"""`format`: a fresh directory, one that was formatted, one in use, one that cannot be used."""

import pytest

from mpbroker.cli import main as cli
from mpbroker.log import data_dir
from tests.harness.no_settings import without_settings

CLUSTER = "ZF7CwAAXRvaWnKtFCRe1Gg"


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """run("word", …) → (exit code, stdout, stderr) of `mpbroker format --data-dir tmp/d word …`."""
    without_settings(monkeypatch)

    def call(*words):
        code = cli.main(["format", "--data-dir", str(tmp_path / "d"), *words])
        return code, *capsys.readouterr()

    return call


def test_a_fresh_directory(run, tmp_path):
    path = str(tmp_path / "d")
    assert run("--cluster-id", CLUSTER, "--override", "node.id=2") == (
        0,
        f"{path} formatted: node 2, cluster {CLUSTER}\n",
        "",
    )
    assert data_dir.read_meta(path)[:2] == (CLUSTER, 2)
    assert data_dir.holder(path) is None


def test_a_formatted_directory(run, tmp_path):
    run("--cluster-id", CLUSTER)
    code, out, error = run()
    assert (code, out) == (2, "")
    assert f"is formatted already, for node 0 of cluster {CLUSTER}; --ignore-formatted accepts that" in error
    code, out, error = run("--ignore-formatted")
    assert (code, error) == (0, "")
    assert out.endswith(f"d was formatted already: node 0, cluster {CLUSTER}\n")


def test_ignoring_is_no_changing(run):
    run("--cluster-id", CLUSTER)
    code, _, error = run("--ignore-formatted", "--override", "node.id=1")
    assert code == 2
    assert error.startswith("mpbroker: data directory ")


def test_a_directory_in_use(run, tmp_path):
    run()
    lock = data_dir.lock(str(tmp_path / "d"))
    code, _, error = run("--ignore-formatted")
    lock.close()
    assert code == 3
    assert "is in use by pid" in error


def test_a_cluster_id_that_is_none(run, tmp_path):
    code, _, error = run("--cluster-id", "mine")
    assert code == 2
    assert error.startswith("mpbroker: --cluster-id=mine: must be 22 characters of URL-safe base64")
    assert not (tmp_path / "d").exists()


def test_a_directory_that_cannot_be_made(run, tmp_path):
    (tmp_path / "d").write_text("a file")
    code, _, error = run()
    assert code == 2
    assert "cannot be written" in error
