"""InitProducerId: epochs, fencing, what a producer may say of itself."""

from tests.conformance.transaction_scripts.stage import Stage, script


@script("init: again and again", (1, 3, 4))
def init_again(stage: Stage, version: int) -> None:
    first = stage.init(version=version)
    stage.init(version=version)
    stage.add(first, 0)
    stage.settled()


@script("init: with what the producer has", (3, 4))
def init_expected(stage: Stage, version: int) -> None:
    producer_id, epoch = stage.init(version=version)
    stage.init((producer_id, epoch), version)
    stage.init((producer_id, epoch), version)
    stage.init((producer_id, epoch + 7), version)
    stage.init((producer_id + 100_000, epoch), version)
    stage.init((producer_id, epoch + 1), version)
    stage.init((producer_id, -1), version)
    stage.init((4711, 3), version, name="new")


@script("init: timeouts", (4,))
def init_timeouts(stage: Stage, version: int) -> None:
    for timeout_ms in (0, -1, 60_001, 60_000, 1):
        stage.init(version=version, timeout_ms=timeout_ms)


@script("init: a transaction is on", (3, 4))
def init_fences(stage: Stage, version: int) -> None:
    old = stage.init(version=version)
    stage.add(old, 0)
    stage.produce(old, 0, b"old")
    stage.init(version=version, wait=False)
    stage.init(version=version)
    stage.add(old, 1)
    stage.add(old, 1, version=1)
    stage.produce(old, 1, b"late")
    stage.end(old, True)
    stage.end(old, True, version=1)
    stage.commit_offsets(old, 1)
    stage.add_offsets(old)
    stage.read()
    stage.settled()


@script("init: a transaction is on, the producer says who it is", (4,))
def init_recovers(stage: Stage, version: int) -> None:
    old = stage.init(version=version)
    stage.add(old, 0)
    stage.produce(old, 0, b"old")
    stage.init(old, version=version)
    stage.settled()
    stage.read()


@script("describe", (0,))
def describe(stage: Stage, version: int) -> None:
    stage.describe("nobody", "", "tx")
    producer = stage.init()
    stage.describe("tx")
    stage.add(producer, 1, 0)
    stage.describe("tx")
    stage.end(producer, False)
    stage.settled()
    stage.describe("tx")


@script("who may write", (7, 10, 11))
def who_may_write(stage: Stage, version: int) -> None:
    stage.produce((10**9, 0), 0, b"nobody", version=version)
    producer = stage.init()
    stage.produce(producer, 0, b"not added", version=version)
    stage.produce((producer[0] + 10**6, 0), 0, b"another", version=version)
    stage.produce((producer[0], producer[1] + 1), 0, b"later", version=version)
    stage.add(producer, 0)
    stage.produce(producer, 0, b"a", version=version)
    stage.produce(producer, 0, b"b", partition=1, version=version)
    stage.produce((producer[0] + 10**6, 0), 0, b"another", version=version)
    stage.produce((producer[0], producer[1] + 1), 0, b"later", version=version)
    stage.end(producer, True)
    stage.settled()
    stage.produce(producer, 1, b"late", version=version)
    again = stage.init()
    stage.produce(producer, 1, b"fenced", version=version)
    stage.add(again, 0, 1)
    stage.produce(producer, 1, b"fenced", version=version)
    stage.produce(again, 0, b"c", partition=1, version=version)
    stage.end(again, False)
    stage.settled()
    stage.read()
    stage.read(1)
