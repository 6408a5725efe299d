"""`mpbroker` as Spark's driver over a table of a catalog, that something happens to: its process group is killed at a
step of its commit, another job overtakes it, its batches are small; and what such a table holds, as files.

    python -m tests.harness.catalog_driver counted|written|committed|overtaken|halved WORD …     what mpbroker takes
    python -m tests.harness.catalog_driver read TABLE FOLDER NAME=VALUE …                 Spark's settings
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq

from mpbroker.analysis.engine.engines.cluster import Cluster
from mpbroker.analysis.engine.rollups import layout
from mpbroker.analysis.spark import catalog, catalog_table
from mpbroker.analysis.spark.catalog_table import CatalogBatch
from mpbroker.analysis.spark.segment_counter import SparkCounter
from mpbroker.cli.main import main

LAKE = Path(os.environ.get("LAKE", "."))


def die():
    os.killpg(os.getpgid(0), signal.SIGKILL)


def counted():
    """When Spark has counted, and nothing is written yet."""
    CatalogBatch.commit = lambda *_: die()


def written():
    """When the first file of the batch is there, and more are still to come before it can be committed."""
    before = set(LAKE.rglob("*.parquet"))

    def watch():
        while set(LAKE.rglob("*.parquet")) <= before:
            time.sleep(0.001)
        die()

    threading.Thread(target=watch, daemon=True).start()


def committed():
    """When the table has the batch, and the job does not know it yet."""
    write = CatalogBatch._write

    def write_and_die(batch, options):
        write(batch, options)
        die()

    CatalogBatch._write = write_and_die


def halved():
    """Nothing; but two segments of 80 requests are a batch."""
    SparkCounter.batch_records = 2 * 80


def overtaken():
    """By the same command, after the plan."""
    count = SparkCounter.count

    def count_late(*arguments):
        SparkCounter.count = count
        assert main(sys.argv[2 : sys.argv.index("--master")]) == 0  # in the session there is, with its settings
        return count(*arguments)

    SparkCounter.count = count_late


def read(place, folder, *settings):
    """Every dataset as a file of its name."""
    given = dict(one.split("=", 1) for one in settings)
    with catalog.open_catalog(place, Cluster(master="local[2]", settings=given)) as session:
        found = catalog_table.open_table(session.spark, place)
        for name in (*found.datasets, layout.SEGMENTS):
            pq.write_table(found.read(name), Path(folder) / f"{name}.parquet")


if __name__ == "__main__":
    if sys.argv[1] == "read":
        read(*sys.argv[2:])
    else:
        globals()[sys.argv[1]]()
        sys.exit(main(sys.argv[2:]))
