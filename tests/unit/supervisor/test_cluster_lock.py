"""The lock by which a broker of a cluster on one machine shows that it lives."""

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ConfigError
from mpbroker.metadata.session_files import SessionFiles, machine_id
from mpbroker.supervisor.cluster_lock import cluster_lock
from tests.harness.store_owner import living_owner


def _config(store, node=1):
    return load_broker_config(overrides=[f"mpbroker.cluster.store={store}", f"node.id={node}"], environ={}, cores=2)


def test_a_broker_of_the_same_id_is_refused_and_one_of_another_is_not(tmp_path):
    path = tmp_path / "metadata.db"
    with living_owner(path, "broker-1") as pid:
        holder = SessionFiles(path, lambda: 0).holder("broker-1")
        assert (holder.machine, holder.pid) == (machine_id(), pid)
        with (
            pytest.raises(ConfigError, match=rf"node\.id 1 is taken: .*pid {pid}"),
            cluster_lock(_config(f"sqlite:{path}")),
        ):
            pass
        with cluster_lock(_config(f"sqlite:{path}", node=2)):
            pass


def test_the_lock_goes_with_its_broker(tmp_path):
    path = tmp_path / "metadata.db"
    with cluster_lock(_config(f"sqlite:{path}")):
        pass
    with living_owner(path, "broker-1"):
        pass


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with (
        pytest.raises(ConfigError, match=r"mpbroker\.cluster\.store=.*/no/metadata\.db-sessions: No such file"),
        cluster_lock(_config(f"sqlite:{tmp_path}/no/metadata.db")),
    ):
        pass


def test_a_broker_by_itself_leaves_nothing(tmp_path):
    with cluster_lock(_config("")):
        assert not list(tmp_path.iterdir())
