"""Offsets in transactions."""

from tests.conformance.transaction_scripts.stage import Stage, script


@script("offsets: committed", (0, 1, 2, 3, 4))
def committed(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.add_offsets(producer)
    stage.commit_offsets(producer, 5, 6, version=version, text="note")
    stage.offsets()
    stage.offsets(require_stable=True)
    stage.end(producer, True)
    stage.settled()
    stage.offsets(wait=True)


@script("offsets: aborted")
def aborted(stage: Stage, version: int) -> None:
    stage.commit_plain(1)
    producer = stage.init()
    stage.add_offsets(producer)
    stage.commit_offsets(producer, 5, 6, version=version)
    stage.offsets(require_stable=True)
    stage.end(producer, False)
    stage.settled()
    stage.offsets(wait=True)


@script("offsets: a later plain commit stays")
def later_plain(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.add_offsets(producer)
    stage.commit_offsets(producer, 5, 6, version=version)
    stage.commit_plain(3)
    stage.offsets()
    stage.end(producer, True)
    stage.settled()
    stage.offsets(wait=True)


@script("offsets: refused", (0, 2, 3, 4))
def refused(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.commit_offsets(producer, 5, version=version)
    stage.add_offsets(producer)
    stage.commit_offsets((producer[0], 7), 5, version=version)
    stage.commit_offsets((producer[0] + 100_000, 0), 5, version=version)
    stage.commit_offsets(producer, 5, version=version, topic="nothing")
    stage.commit_offsets(producer, 5, version=version, text="x" * 4097)
    stage.commit_offsets(producer, 5, version=version, group="")
    stage.end(producer, True)
    stage.settled()
    stage.commit_offsets(producer, 5, version=version)
    stage.offsets(wait=True)


@script("offsets: who commits", (3, 4))
def members(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.add_offsets(producer)
    stage.commit_offsets(producer, 5, version=version, member=(1, "nobody", None))
    stage.commit_offsets(producer, 5, version=version, member=(-1, "nobody", None))
    stage.commit_offsets(producer, 5, version=version, member=(0, "", None))
    stage.commit_offsets(producer, 5, version=version, member=(-1, "", "instance"))
    stage.end(producer, False)
    stage.settled()


@script("offsets: added to a wrong producer", (0, 1, 2, 3))
def wrong_producers(stage: Stage, version: int) -> None:
    producer = stage.init()
    stage.add_offsets((producer[0], 7), version)
    stage.add_offsets((producer[0] + 100_000, 0), version)
    stage.add_offsets(producer, version, name="nobody")
    stage.add_offsets(producer, version, group="other")
    stage.end(producer, True)
    stage.settled()
