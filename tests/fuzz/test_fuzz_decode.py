"""The short form of the fuzzer; `make fuzz` runs the long one."""

from random import Random

from tests.fuzz.fuzz_decode import corpus, fuzz, run_one


def test_valid_frames_are_accepted():
    cases = corpus(Random(7), per_version=2)
    assert len(cases) > 300
    assert all(run_one(case, case[2], deep=True) for case in cases)


def test_fifty_thousand_damaged_frames():
    accepted = fuzz(frames=50_000, seed=20240607)
    assert 1_000 < accepted < 40_000, "the damage should spare some frames and spoil most"
