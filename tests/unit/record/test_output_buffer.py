import pytest

from mpbroker.record.output_buffer import KEPT_BYTES, OutputBuffer, OutputTooLargeError


def test_nothing_is_handed_out_beyond_the_limit():
    out = OutputBuffer()
    out.begin(100)
    assert len(out.room(5000)) == 100
    out.write(b"x" * 60)
    assert out.left_bytes == 40 and len(out.room(50)) == 40
    with pytest.raises(OutputTooLargeError):
        out.write(b"x" * 41)
    out.write(b"y" * 40)
    assert bytes(out.view()) == b"x" * 60 + b"y" * 40


def test_growth_keeps_what_was_written():
    out = OutputBuffer()
    out.begin(10 * KEPT_BYTES)
    for number in range(40):
        out.write(bytes([number]) * 200_000)
    view = out.view()
    assert len(view) == 8_000_000 and view[0] == 0 and view[199_999] == 0 and view[-1] == 39
    out.release()
    assert len(out.view()) == 0
