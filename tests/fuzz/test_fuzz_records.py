"""The short form of tests/fuzz/fuzz_records.py."""

from tests.fuzz.fuzz_records import run


def test_mutated_batches():
    seen = run(frames=6000, seed=20240607)
    assert sum(seen.values()) == 6000
    assert {-1, 0, 2, 10, 32, 53, 76, 87} <= set(seen)
