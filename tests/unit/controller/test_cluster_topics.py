"""What this broker knows of the partitions of a cluster beside their logs."""

from types import SimpleNamespace

import pytest

from mpbroker.controller.cluster_topics import ClusterTopics


@pytest.mark.parametrize(
    ("lines", "is_lost"),
    [("t 0 5", True), ("t 0 0", False), ("t 1 5", False), ("u 0 5", False), (None, False)],
)
def test_a_log_whose_records_a_checkpoint_knows_is_lost_when_it_is_not_there(tmp_path, lines, is_lost):
    """Wherever it lay: one of several log directories says so."""
    homes = [tmp_path / "a", tmp_path / "b"]
    for home in homes:
        home.mkdir()
    if lines is not None:
        (homes[1] / "replication-offset-checkpoint").write_text(f"0\n1\n{lines}\n")
    logs = SimpleNamespace(online_homes=[SimpleNamespace(path=str(home)) for home in homes])
    assert ClusterTopics.is_lost(SimpleNamespace(_logs=logs), SimpleNamespace(name="t"), 0) is is_lost
