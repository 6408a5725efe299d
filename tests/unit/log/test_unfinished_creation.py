"""Which topics a controller was making partitions of when it died."""

from mpbroker.log.unfinished_creation import FILE, forget, note, noted


def test_what_is_noted_is_known_until_it_is_over(tmp_path):
    where = str(tmp_path)
    forget(where)
    assert noted(where) == {}
    note(where, "a", b"1" * 16)
    note(where, "b.c", b"2" * 16)
    note(where, "a", b"3" * 16)
    assert noted(where) == {"a": {b"1" * 16, b"3" * 16}, "b.c": {b"2" * 16}}
    forget(where)
    assert noted(where) == {} and not (tmp_path / FILE).exists()


def test_what_cannot_be_read_or_written_is_nothing(tmp_path):
    (tmp_path / FILE).write_text("a " + "31" * 16 + "\nb 3")
    assert noted(str(tmp_path)) == {"a": {b"1" * 16}}
    (tmp_path / FILE).write_bytes(b"\xff")
    assert noted(str(tmp_path)) == {}
    forget(str(tmp_path))
    (tmp_path / FILE).mkdir()
    note(str(tmp_path), "a", b"1" * 16)
    forget(str(tmp_path))
    assert noted(str(tmp_path)) == {}
