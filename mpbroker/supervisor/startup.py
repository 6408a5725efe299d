"""What comes before the first fork: the data directory is made, locked and given its identity; supervisor only."""

import os
import time

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.errors import DataDirectoryInUse
from mpbroker.log import data_dir
from mpbroker.supervisor import data_dir_check

PATIENCE_S = 3.0


def claim_data_dir(config: BrokerConfig) -> tuple[data_dir.DataDirLock, str]:
    """Lock the data directory and check whose it is: (lock, cluster id). DataDirectoryInUse, ConfigError.

    A broker killed a moment ago may have workers that still hold the lock: while the one that took it is dead, wait.
    """
    data_dir_check.check(config.data_dir)
    data_dir.create(config.data_dir)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            lock = data_dir.lock(config.data_dir)
            break
        except DataDirectoryInUse as error:
            if not error.pid or os.path.exists(f"/proc/{error.pid}") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    return lock, data_dir.prepare(config.data_dir, config.node_id).cluster_id
