"""README, "Try it": its block works when it is pasted, in one shell, in an empty folder."""

from mpbroker.log import data_dir
from tests.harness.pasted import blocks, environment, own_network, paste
from tests.tidy.source_tree import ROOT

README = ROOT / "README.md"


def _block() -> str:
    (block,) = [block for block in blocks(README) if "mpbroker start" in block]
    return block


def test_the_block_is_one_that_needs_no_setup():
    """`pip install .` stands above it, because it needs the checkout; the test environment has done it."""
    lines = _block().splitlines()
    assert len(lines) == 5 and not any("--data-dir" in line or "--bootstrap" in line for line in lines)


def test_it_works_as_pasted(tmp_path):
    done = paste(_block(), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert [line for line in said if not line.startswith("mpbroker ready")] == [
        "created orders with 2 partitions",
        "one",
        "two",
    ]
    assert "2 records written to orders" in done.stderr.splitlines()
    assert [path.name for path in tmp_path.iterdir()] == ["mpbroker-data"]
    assert not data_dir.holder(str(tmp_path / "mpbroker-data"))
    if own_network():
        assert "PLAINTEXT://127.0.0.1:9092" in done.stdout and "MPBROKER_BOOTSTRAP" not in environment()
