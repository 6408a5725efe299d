"""Partitions, records, commits, aborts, timeouts."""

from tests.conformance.transaction_scripts.stage import Stage, script


@script("a committed transaction")
def committed(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.add(producer, 0, 1, version=version)
    stage.add(producer, 0, version=version)
    stage.produce(producer, 0, b"a", b"b")
    stage.read()
    stage.read(isolation=0)
    stage.latest()
    stage.latest(isolation=0)
    stage.end(producer, True, version)
    stage.settled()
    stage.read()
    stage.read(1)
    stage.latest(1)
    stage.end(producer, True, version)
    stage.end(producer, False, version)


@script("an aborted transaction, then another one")
def aborted(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.add(producer, 0)
    stage.produce(producer, 0, b"a")
    stage.end(producer, False, version)
    stage.settled()
    stage.end(producer, False, version)
    stage.end(producer, True, version)
    stage.add(producer, 0)
    stage.produce(producer, 1, b"b")
    stage.end(producer, True, version)
    stage.settled()
    stage.read()
    stage.read(isolation=0)


@script("nothing to end", (0, 1, 2, 3))
def nothing(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.end(producer, True, version)
    stage.end(producer, False, version)
    stage.end((producer[0], 7), True, version)
    stage.end((producer[0] + 100_000, 0), True, version)
    stage.end(producer, True, version, name="nobody")


@script("partitions that are not there", (0, 1, 2, 3))
def unknown_partitions(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.add(producer, 0, 9, version=version)
    stage.add(producer, version=version)
    stage.add((producer[0], 7), 0, version=version)
    stage.add((producer[0] + 100_000, 0), 0, version=version)
    stage.add(producer, 0, version=version, name="nobody")
    stage.end(producer, True)
    stage.settled()


@script("records outside of a transaction", (9, 10, 11))
def outside(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.produce(producer, 0, b"a", version=version)
    stage.add(producer, 0)
    stage.produce(producer, 0, b"a", partition=1, version=version)
    stage.produce(producer, 0, b"a", version=version)
    stage.produce(producer, 1, b"plain", version=version, transactional=False)
    stage.produce(producer, 1, b"unnamed", version=version, named=False)
    stage.end(producer, True)
    stage.settled()
    stage.produce(producer, 1, b"late", version=version)
    stage.read()


@script("a timeout")
def timeout(stage: Stage, version: int) -> None:
    producer = stage.init(timeout_ms=300)
    stage.add(producer, 0)
    stage.produce(producer, 0, b"a")
    stage.settled()
    stage.end(producer, True, version)
    stage.end(producer, False, version)
    stage.end(producer, False, 1)
    stage.produce(producer, 1, b"b")
    stage.init()
    stage.read()


@script("two producers in a partition")
def two_producers(stage: Stage, version: int) -> None:
    one, other = stage.init(), stage.init(name="2")
    stage.add(one, 0)
    stage.produce(one, 0, b"a")
    stage.add(other, 0, name="2")
    tx, stage.tx = stage.tx, stage.tx + "2"
    stage.produce(other, 0, b"b")
    stage.tx = tx
    stage.produce(one, 1, b"c")
    stage.end(other, True, version, name="2")
    stage.settled("2")
    stage.read()
    stage.end(one, False, version)
    stage.settled()
    stage.read()


@script("a sequence of an ended transaction comes again in the next one")
def sequence_again(stage: Stage, version: int) -> None:
    producer = stage.init()
    for first, outcome in ((0, False), (2, True)):
        stage.add(producer, 0)
        stage.produce(producer, first, b"a", b"b")
        stage.produce(producer, first, b"a", b"b")
        stage.end(producer, outcome, version)
        stage.settled()
        stage.add(producer, 0)
        stage.produce(producer, first, b"c")
        stage.produce(producer, first, b"c", b"d")
        stage.end(producer, True, version)
        stage.settled()
    stage.read()
    stage.read(isolation=0)
