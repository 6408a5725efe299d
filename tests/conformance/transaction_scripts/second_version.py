"""Transactions of version 2 (KIP-890): what is written adds its partition or group, each end raises the epoch."""

from tests.conformance.transaction_scripts.stage import Stage, script

PRODUCE, END, COMMIT = 12, 5, 5


@script("version 2: committed", (END,))
def committed(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.produce(producer, 0, b"a", b"b", version=PRODUCE)
    stage.produce(producer, 0, b"c", partition=1, version=PRODUCE)
    stage.describe("tx")
    stage.read()
    after = stage.end(producer, True, version)
    stage.settled()
    stage.describe("tx")
    stage.read()
    stage.read(1)
    stage.end(producer, True, version)
    stage.end(producer, False, version)
    stage.produce(producer, 2, b"late", version=PRODUCE)
    stage.produce(after, 0, b"d", version=PRODUCE)
    last = stage.end(after, True, version)
    stage.settled()
    stage.end(producer, True, version)
    stage.end(last, True, version)
    stage.read()


@script("version 2: aborted", (END,))
def aborted(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.produce(producer, 0, b"a", version=PRODUCE)
    after = stage.end(producer, False, version)
    stage.settled()
    stage.end(producer, False, version)
    stage.end(producer, True, version)
    stage.read()
    stage.produce(after, 0, b"b", version=PRODUCE)
    stage.end(after, True, version)
    stage.settled()
    stage.read()


@script("version 2: nothing to end", (END,))
def nothing(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.end(producer, True, version)
    after = stage.end(producer, False, version)
    stage.settled()
    stage.end(producer, False, version)
    stage.end(after, True, version)
    again = stage.end(after, False, version)
    stage.settled()
    stage.end((producer[0], 7), False, version)
    stage.end((producer[0] + 100_000, 0), False, version)
    stage.end(again, False, version, name="nobody")
    stage.init(again)
    stage.describe("tx")


@script("version 2: abort of nothing after a commit", (END,))
def nothing_after(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.produce(producer, 0, b"a", version=PRODUCE)
    after = stage.end(producer, True, version)
    stage.settled()
    last = stage.end(after, False, version)
    stage.settled()
    stage.end(after, True, version)
    stage.produce(last, 0, b"b", version=PRODUCE)
    stage.end(last, True, version)
    stage.settled()
    stage.read()


@script("version 2: who may write", (PRODUCE,))
def writers(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.produce((producer[0], 7), 0, b"a", version=version)
    stage.produce((producer[0] + 100_000, 0), 0, b"a", version=version)
    tx, stage.tx = stage.tx, stage.tx + "nobody"
    stage.produce(producer, 0, b"a", version=version)
    stage.tx = tx
    stage.produce(producer, 0, b"unnamed", version=version, named=False)
    stage.produce(producer, 0, b"a", version=version)
    stage.produce(producer, 1, b"plain", version=version, transactional=False)
    stage.produce(producer, 0, b"b", partition=9, version=version)
    stage.describe("tx")
    after = stage.end(producer, True, END)
    stage.settled()
    stage.produce((after[0], after[1] + 1), 0, b"c", version=version)
    stage.produce(producer, 1, b"c", version=version)
    stage.read()


@script("version 2: several partitions at once", (PRODUCE,))
def several(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.produce_all(producer, 0, [b"a", b"b"], version)
    stage.produce_all(producer, 0, [b"a", b"b"], version)
    stage.produce_all(producer, 1, [b"c", b"d", b"e"], version)
    stage.end(producer, True, END)
    stage.settled()
    stage.read()
    stage.read(1)


@script("version 2: beside version 1", (END,))
def beside(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.add(producer, 0)
    stage.produce(producer, 0, b"a")
    after = stage.end(producer, True, version)
    stage.settled()
    stage.produce(after, 0, b"b", version=PRODUCE)
    stage.end(after, True, 4)
    stage.settled()
    stage.end(after, True, 4)
    stage.end(after, True, version)
    stage.add(after, 0)
    stage.produce(after, 1, b"c", version=PRODUCE)
    last = stage.end(after, False, version)
    stage.settled()
    stage.end(last, False, 4)
    stage.read()


@script("version 2: a producer starts again", (END,))
def again(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.produce(producer, 0, b"a", version=PRODUCE)
    after = stage.init(producer)
    stage.settled()
    stage.end(producer, True, version)
    stage.produce(after, 0, b"b", version=PRODUCE)
    later = stage.init()
    stage.settled()
    stage.end(after, True, version)
    stage.produce(after, 1, b"c", version=PRODUCE)
    stage.produce(later, 0, b"d", version=PRODUCE)
    last = stage.end(later, True, version)
    stage.settled()
    stage.init(later)
    stage.init(last)
    stage.read()


@script("version 2: a timeout", (END,))
def timeout(stage: Stage, version: int) -> None:
    producer = stage.init(timeout_ms=300)
    stage.produce(producer, 0, b"a", version=PRODUCE)
    stage.settled()
    stage.end(producer, True, version)
    stage.end(producer, False, version)
    stage.produce(producer, 1, b"b", version=PRODUCE)
    stage.init(producer)
    stage.read()


@script("version 2: offsets", (COMMIT,))
def offsets(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.commit_offsets(producer, 5, 6, version=version, text="note")
    stage.offsets()
    stage.offsets(require_stable=True)
    stage.describe("tx")
    after = stage.end(producer, True, END)
    stage.settled()
    stage.offsets(wait=True)
    stage.commit_offsets(producer, 7, version=version)
    stage.commit_offsets(after, 8, version=version)
    stage.end(after, False, END)
    stage.settled()
    stage.offsets(wait=True)


@script("version 2: offsets refused", (COMMIT,))
def offsets_refused(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.commit_offsets((producer[0], 7), 5, version=version)
    stage.commit_offsets((producer[0] + 100_000, 0), 5, version=version)
    stage.commit_offsets(producer, 5, version=version, topic="nothing")
    stage.commit_offsets(producer, 5, version=version, group="")
    stage.commit_offsets(producer, 5, version=version, text="x" * 4097)
    stage.commit_offsets(producer, 5, version=version, member=(1, "nobody", None))
    stage.commit_offsets(producer, 5, version=version, member=(-1, "", "instance"))
    stage.describe("tx")
    stage.end(producer, False, END)
    stage.settled()
    stage.offsets(wait=True)


@script("version 2: late ends", (END,))
def late_ends(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.produce(producer, 0, b"a", version=PRODUCE)
    after = stage.end(producer, True, version)
    stage.settled()
    stage.produce(after, 0, b"b", version=PRODUCE)
    stage.end(producer, True, version)
    stage.end(producer, False, version)
    stage.end(producer, True, 4)
    stage.end(after, True, version)
    stage.settled()
    last = stage.init()
    stage.end(after, False, version)
    stage.end(after, True, version)
    stage.end(last, False, 4)
    stage.read()


@script("version 2: the same end again while it is being done", (END,))
def repeated(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.produce(producer, 0, b"a", version=PRODUCE)
    stage.end(producer, True, version)
    stage.end(producer, True, version)
    stage.end(producer, True, 4)
    stage.settled()
    stage.end(producer, True, 4)
    stage.read()
