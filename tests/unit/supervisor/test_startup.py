"""What comes before the first fork: whose the log directories are."""

from mpbroker.config.load_config import load_broker_config
from mpbroker.log.data_dir import META_FILE, read_meta
from mpbroker.supervisor.startup import claim_data_dir


def claimed(*paths):
    """The directories of a start on these that came so far that clients were let in."""
    overrides = [f"log.dirs={','.join(map(str, paths))}", "mpbroker.trace.enabled=false"]
    with claim_data_dir(load_broker_config(overrides=overrides, environ={}, cores=2)) as claim:
        claim.served = True
        return [(each.path, each.id, each.problem) for each in claim.directories]


def test_a_first_directory_without_an_id_gets_one_once_there_are_others_and_keeps_what_its_file_said(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    claimed(first)
    name = first / META_FILE
    name.write_text("".join(line for line in name.open() if not line.startswith("directory.id")))
    said = name.read_text()
    claimed(first)
    assert name.read_text() == said, "alone it needs none"
    ids = [one for _, one, _ in claimed(first, second)]
    assert ids == [read_meta(str(path)).directory_id for path in (first, second)] and len(set(ids) - {""}) == 2
    assert (first / f"{META_FILE}.0.cut").read_text() == said
    assert [one for _, one, _ in claimed(first, second)] == ids


def test_the_locks_are_given_back(tmp_path):
    for _ in range(2):
        claimed(tmp_path / "first", tmp_path / "second")
