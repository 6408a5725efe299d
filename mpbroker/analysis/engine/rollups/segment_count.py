"""Counts one closed segment into sums, or says why not. Runs where segments are read: in a command, or in Spark's
workers.

A segment counts whole or not at all, by its own clock samples and the names beside it: so it adds the same integers
whichever run counts it, and with whatever else.
"""

from pathlib import Path
from typing import Any

from mpbroker.analysis.engine.engines.accumulate import AskSums
from mpbroker.analysis.engine.input import soundness
from mpbroker.analysis.engine.input.decode import RawColumns, requests_of
from mpbroker.analysis.engine.input.losses import count_segment
from mpbroker.analysis.engine.input.trace_input import boot_of, own_context
from mpbroker.trace import dictionary, segment

CHUNK_RECORDS = 65536
GROWING = "it is still being written"
Names = dict[Path, dictionary.Dictionary]


def closed_reason(info: segment.SegmentInfo) -> str:
    """Why a segment cannot be counted, as far as its header tells; empty when it can."""
    return info.damage or (GROWING if info.closed is None else "")


def count(path: Path, sums: AskSums, names: Names) -> dict[str, Any] | str:
    """A row of layout.SEGMENT_ROW, or the reason for leaving the segment out. `names`: kept for the next one of the
    same folder. FileNotFoundError: it is gone."""
    info = segment.read_info(path)
    if reason := closed_reason(info):
        return reason
    checked = soundness.check(info)
    if checked.info.damage:
        return checked.info.damage
    known = names.get(path.parent)
    if known is None:
        names.clear()  # of one folder at a time
        known = names[path.parent] = dictionary.read(dictionary.find(path))
    context = own_context(info, known)
    for data in segment.read_chunks(info, CHUNK_RECORDS):
        sums.add(RawColumns(requests_of(data, context), context))
    return row_of(checked)


def row_of(checked: soundness.Checked) -> dict[str, Any]:
    """What the table keeps of a segment that it counts."""
    counted, opened = count_segment(checked), checked.info.opened
    return {
        "file": checked.info.path.name,
        "run": boot_of(checked.info).run,
        "broker": opened.broker_id,
        "ring": opened.ring,
        "first_seq": opened.first_seq,
        "next_seq": counted.next_seq,
        "records": counted.records,
        "finished": counted.finished,
        "dropped": counted.dropped,
        "sampled_out": counted.sampled_out,
        "missing": sum(hole.missing for hole in counted.holes),
        "begun_ns": opened.clock.realtime_ns,
    }
