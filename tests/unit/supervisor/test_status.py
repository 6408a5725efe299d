"""What `status` judges: who seems to hang is looked at twice."""

from types import SimpleNamespace

import pytest

from mpbroker.supervisor import health, status


@pytest.mark.parametrize(
    ("levels", "looks"),
    [([[]], 1), ([["DEGRADED"]], 1), ([["HUNG"], []], 2), ([["SILENT"], ["SILENT"]], 2)],
)
def test_who_seems_to_hang_is_looked_at_again_after_a_while(monkeypatch, levels, looks):
    done = []
    found = [[SimpleNamespace(level=getattr(health, name)) for name in names] for names in levels]
    answers = iter(found)

    def judge(said, page):
        done.append("look")
        return next(answers)

    monkeypatch.setattr(status, "_judge", judge)
    monkeypatch.setattr(status.time, "sleep", lambda seconds: done.append(seconds))
    assert status._judge_twice(None, None) == found[-1]
    assert done == ["look", status.SECOND_LOOK_S, "look"][: 2 * looks - 1]
