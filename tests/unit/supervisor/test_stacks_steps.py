"""Asking a process for its stack: when its answer is whole, why there is none, which frames are its own."""

import os
from types import SimpleNamespace

import pytest

from mpbroker.supervisor import stacks


@pytest.fixture
def answer(tmp_path):
    """A file that the process writes; `write` appends."""
    path = tmp_path / "answer"
    path.write_text("")
    descriptor = os.open(path, os.O_RDONLY)
    yield SimpleNamespace(descriptor=descriptor, write=lambda text: path.open("a").write(text))
    os.close(descriptor)


def test_an_answer_is_read_when_it_grows_no_more(monkeypatch, answer):
    parts, pauses = ["Current thread 0x1:\n", "  File a.py, line 1\n"], []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) in (2, 3):
            answer.write(parts.pop(0))

    monkeypatch.setattr(stacks, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: 1.0))
    found = stacks._collect(7, answer.descriptor, "", 9.0)
    assert found == (7, ("File a.py, line 1",), "") and len(pauses) == 4


def test_who_does_not_answer_in_time_is_told_why(monkeypatch, answer):
    now = iter((1.0, 2.0, 2.1))
    monkeypatch.setattr(stacks, "time", SimpleNamespace(sleep=lambda _: None, monotonic=lambda: next(now)))
    monkeypatch.setattr(stacks, "_why_silent", lambda pid: f"silent {pid}")
    assert stacks._collect(7, answer.descriptor, "", 2.0) == (7, (), "silent 7")
    assert stacks._collect(7, answer.descriptor, "never asked", 2.0) == (7, (), "never asked")


@pytest.mark.parametrize(
    ("state", "sentence"),
    [("T", stacks._STOPPED), ("t", stacks._STOPPED), ("S", "(state S)"), ("", "(state gone)"), ("D", "state D, where")],
)
def test_why_a_process_is_silent(monkeypatch, state, sentence):
    monkeypatch.setattr(stacks, "state_of", lambda pid: state)
    monkeypatch.setattr(stacks, "_kernel_wait", lambda pid: "where")
    assert sentence in stacks._why_silent(1)


OWN = 1 << (stacks.SIGNAL - 1)
ALL_OTHERS = (1 << 64) - 1 - OWN


@pytest.mark.parametrize(
    ("caught", "can"), [(OWN, True), (OWN << 1, False), (OWN >> 1, False), (ALL_OTHERS, False), (OWN | 1 << 62, True)]
)
def test_only_who_has_a_handler_is_asked(monkeypatch, tmp_path, caught, can):
    """The signal would end it otherwise. The mask counts signals from 1."""
    path = tmp_path / "status"
    path.write_text(f"Name:\tx\nSigIgn:\t{0xFFFF:016x}\nSigCgt:\t{caught:016x}\n")
    monkeypatch.setattr(stacks, "open", lambda _: path.open(), raising=False)
    assert stacks._catches(1) is can


def test_the_frames_of_the_process_itself():
    text = "Current thread 0x7 (most recent call first):\n\n  File b.py, line 2 in g\n  File a.py, line 1 in f\n"
    assert stacks.frames_of(text) == ("File b.py, line 2 in g", "File a.py, line 1 in f") and stacks.frames_of("") == ()
