"""Text from outside stays text: in elements, in JSON within scripts, in figures."""

import json
import math

import pytest

from mpbroker.analysis.report import markup


def test_json_cannot_end_its_script():
    written = markup.script_json({"a</script>": "<!-- \u2028 & \u2029"})
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == {"a</script>": "<!-- \u2028 & \u2029"}


def test_json_refuses_what_no_browser_reads():
    with pytest.raises(ValueError):
        markup.script_json(math.nan)


def test_plain_makes_json_of_anything():
    import numpy as np

    found = markup.plain({"x": np.array([1.5, math.inf]), 3: (np.int64(4), None, True), "p": "a<a href='x'>b"})
    assert found == {"x": [1.5, None], "3": [4, None, True], "p": "a&lt;a href='x'&gt;b"}


def test_labels_keep_simple_formatting_alone():
    assert markup.label("<b>p99</b><br>%{y}<extra></extra>") == "<b>p99</b><br>%{y}<extra></extra>"
    assert markup.label("<b onclick='x'>") == "&lt;b onclick='x'&gt;"
    assert len(markup.label("x" * 5000)) == 300
    assert markup.label("> 1 ms") == "> 1 ms"


def test_figures_in_sentences_are_emphasised():
    assert (
        markup.sentence("p99 is 1.9 ms, 61 % of it <waiting>.")
        == "p99 is <b>1.9 ms</b>, <b>61 %</b> of it &lt;waiting&gt;."
    )
    assert markup.sentence("&#39; b1-x7 p99.9") == "&amp;#39; b1-x7 p99.9"
    assert markup.sentence("processor 0 with 9 %") == "processor 0 with <b>9 %</b>"
    assert markup.sentence("“listener-1, 2 of 3” in run-7: -5 %") == "“listener-1, 2 of 3” in run-7: <b>-5 %</b>"
    assert markup.sentence("it's 12,400 requests/s") == "it&#x27;s <b>12,400 requests/s</b>"


def test_slug():
    assert markup.slug("Tail: p99.9 <x>") == "tail-p99-9-x" and markup.slug("÷") == "x"


def test_control_characters_are_shown_and_not_sent():
    assert markup.text("ctl\x00\x1b[31m\x9b\n<b>\t\r") == "ctl\\x00\\x1b[31m\\x9b\n&lt;b&gt;\t\\x0d"
