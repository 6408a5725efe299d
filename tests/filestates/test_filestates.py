"""Some hundred file states, a few of them started by a real broker; `make filestates` runs ten thousand."""

import tempfile
from pathlib import Path

import pytest

from tests.filestates.__main__ import SHARED_MEMORY, report, run_states
from tests.filestates.bases import make_bases

pytestmark = pytest.mark.slow

SEED, STATES, REAL_OF = 1, 300, 60


@pytest.mark.timeout(400)  # some 30 s; on a machine with much else to do ten times as long
def test_nothing_that_is_sound_on_disk_is_lost_or_hidden():
    with tempfile.TemporaryDirectory(prefix="filestates-", dir=SHARED_MEMORY) as directory:
        bases = make_bases(Path(directory))
        results = run_states(Path(directory), bases, SEED, range(STATES), REAL_OF)
    failed = [report(SEED, number, result) for number, result in results.items() if result.problems]
    assert not failed, "\n".join(failed)
    outcomes = [result.outcome for result in results.values()]
    assert outcomes.count("served") > STATES // 2 and "refused" in outcomes
