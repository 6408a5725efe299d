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
