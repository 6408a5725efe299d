"""`mpbroker trace` on segments made by hand; nothing but the standard library is imported."""

import json
import subprocess
import sys

import pytest

from mpbroker.cli.main import main
from mpbroker.trace.dictionary_writer import DictionaryWriter
from tests.unit.trace.traces import full_request, write_segment


@pytest.fixture
def directory(tmp_path):
    write_segment(tmp_path, [full_request(number) for number in range(3)])
    write_segment(tmp_path, [full_request(3, api_key=3, error=6)], close=False)
    return tmp_path


def test_ls(directory, capsys):
    assert main(["trace", "ls", "--in", str(directory)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["file", "state", "opened", "all", "records", "dropped", "sampled", "out"]
    assert [line.split()[1] for line in lines[1:]] == ["closed", "open"]
    assert main(["trace", "ls", "--in", str(directory), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["records"], row["dropped"], row["closed"], row["processor"]) for row in rows] == [
        (3, 2, True, 2),
        (1, 2, False, 2),
    ]


def test_ls_tells_a_damaged_segment_from_one_that_is_being_written(directory, capsys):
    with open(min(directory.glob("*.mpt")), "r+b") as file:
        file.seek(520)
        file.write(b"\xff")
    assert main(["trace", "ls", "--in", str(directory)]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["damaged", "open"]
    assert len(err.splitlines()) == 1 and "its close fields are damaged" in err


def test_stats_json(directory, capsys):
    assert main(["trace", "stats", "--in", str(directory), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {key: found[key] for key in ("finished", "records", "dropped", "sampled_out")} == {
        "finished": 10,
        "records": 4,
        "dropped": 4,
        "sampled_out": 2,
    }
    assert [(api["api"], api["count"], api["errors"]) for api in found["apis"]] == [("Produce", 3, 0), ("3", 1, 1)]
    assert found["apis"][0]["stages"]["local"]["p50_us"] == 1.28


def test_stats_table(directory, capsys):
    assert main(["trace", "stats", "--in", str(directory)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("10 requests finished: 4 records, 4 dropped (40.00 %), 2 sampled out; 2 segments\n")
    assert "Produce           queue               3" in out and "api 3 (1 errors)  queue               1" in out


def test_tail_shows_the_last_in_order(directory, capsys):
    assert main(["trace", "tail", "--in", str(directory), "--count", "2", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["correlation_id"] for row in rows] == [2, 3]
    assert (rows[0]["rx_wait_us"], rows[0]["weight"]) == (None, 1)
    assert rows[0]["stages_us"]["send_done"] == 6.4 and rows[0]["time_us"] == 1_700_000_000_000_005
    assert main(["trace", "tail", "--in", str(directory), "--count", "1"]) == 0
    assert (
        "api 3 v7 c0#3 0→0 B  queue 0.6, local 1.3, response queue 0.3, send 1.0, total 6.4 µs  "
        "[error 6 NOT_LEADER_OR_FOLLOWER]" in capsys.readouterr().out
    )


@pytest.fixture
def busy(tmp_path):
    """Two clients, two APIs, a request every second from 2023-11-14 22:13:20 on."""
    made = [
        full_request(number, api_key=number % 2, t0_ns=number * 10**9 + 2000)._replace(client_hash=11 + number // 50)
        for number in range(100)
    ]
    info = write_segment(tmp_path, made, apis={"0": "Produce", "1": "Fetch"})
    names = DictionaryWriter(tmp_path, info.opened.broker_id, info.opened.boot_id)
    names.client(11, "shop")
    names.client(12, "export")
    names.flush()
    names.close()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], range(100)),
        (["--api", "fetch"], range(1, 100, 2)),
        (["--client", "export"], range(50, 100)),
        (["--client", "export", "--client", "shop", "--api", "Produce"], range(0, 100, 2)),
        (["--client", "nobody"], []),
        (["--from", "1700000010", "--to", "1700000013"], range(10, 13)),
        (["--from", "2023-11-14T22:13:30", "--client", "shop", "--api", "api1"], range(11, 50, 2)),
    ],
)
def test_stats_and_tail_look_at_the_requests_asked_for(busy, words, wanted, capsys):
    assert main(["trace", "tail", "--in", str(busy), "--json", "--count", "1000", *words]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["correlation_id"] for row in rows] == list(wanted)
    assert main(["trace", "stats", "--in", str(busy), "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(api["count"] for api in found["apis"]) == len(list(wanted)) == found["weighted"]
    assert found["finished"] == found["records"] + found["dropped"] + found["sampled_out"] == 103, "losses are of all"
    assert main(["trace", "stats", "--in", str(busy), *words]) == 0
    said = f"below are only those asked for: {len(list(wanted))} requests"
    assert (said in capsys.readouterr().out) == bool(words)
    assert main(["trace", "tail", "--in", str(busy), "--json", "--count", "2", *words]) == 0
    last = [json.loads(line)["correlation_id"] for line in capsys.readouterr().out.splitlines()]
    assert last == list(wanted)[-2:]


def test_mistakes_in_what_is_asked_for_are_told(busy, capsys):
    for words, sentence in ((["--api", "Prodce"], "near it: Produce"), (["--from", "noon"], "'noon' is no time")):
        for part in ("stats", "tail"):
            assert main(["trace", part, "--in", str(busy), *words]) == 2
            assert sentence in capsys.readouterr().err


def test_each_part_explains_itself(capsys):
    told = []
    for part in ("ls", "stats", "tail"):
        assert main(["trace", part, "--help"]) == 0
        told.append(" ".join(capsys.readouterr().out.partition("options:")[0].split()))
    assert "List the segments" in told[0] and "percentiles of each stage" in told[1] and "--follow" in told[2]
    assert len(set(told)) == 3


def test_one_file_alone(directory, capsys):
    path = next(directory.glob("*-00000000000000000003.mpt"))
    assert main(["trace", "stats", "--in", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 1


def test_what_is_wrong_is_one_sentence(tmp_path, capsys):
    assert main(["trace", "ls", "--data-dir", str(tmp_path)]) == 2
    assert "is no directory" in capsys.readouterr().err
    (tmp_path / "traces").mkdir()
    assert main(["trace", "stats", "--data-dir", str(tmp_path)]) == 2
    assert "no trace segments" in capsys.readouterr().err
    (tmp_path / "traces" / "x.mpt").write_bytes(b"x")
    assert main(["trace", "stats", "--data-dir", str(tmp_path)]) == 2
    assert "x.mpt: 1 bytes are no trace segment" in capsys.readouterr().err


def test_reading_needs_the_standard_library_alone(directory):
    program = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] not in sys.stdlib_module_names | {'mpbroker'} or name == 'mpbroker._native':\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "from mpbroker.cli.main import main\n"
        f"sys.exit(main(['trace', 'stats', '--json', '--in', {str(directory)!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and json.loads(done.stdout)["records"] == 4


def test_several_folders_files_and_copies(directory, tmp_path_factory, capsys):
    below = tmp_path_factory.mktemp("more") / "deep" / "down"
    below.mkdir(parents=True)
    first, second = sorted(directory.glob("*.mpt"))
    (below / first.name).write_bytes(first.read_bytes())
    assert main(["trace", "stats", "--json", "--in", str(directory), str(below.parents[1]), str(second)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["records"], found["segments"], found["gaps"], found["damage"]) == (4, 2, [], [])


def test_gaps_and_damage_are_shown(directory, capsys):
    write_segment(directory, [full_request(number) for number in range(9, 12)])
    first = min(directory.glob("*.mpt"))
    first.write_bytes(first.read_bytes()[:-1])
    (directory / "junk.mpt").write_bytes(b"junk")
    assert main(["trace", "stats", "--json", "--in", str(directory)]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [(gap["first_seq"], gap["missing"]) for gap in found["gaps"]] == [(2, 1), (4, 5)] and len(
        found["damage"]
    ) == 2
    assert str(first) in err and "junk.mpt" in err
    assert found["finished"] == found["records"] + found["dropped"] + found["sampled_out"]
    assert main(["trace", "stats", "--in", str(directory)]) == 0
    out = capsys.readouterr().out
    assert "6 requests are missing in 2 gaps" in out and "5 from number 4 on" in out and "2 damaged files" in out


def test_a_sample_is_weighted_and_counts_stay_counts(tmp_path, capsys):
    write_segment(tmp_path, [full_request(0, flags=3 << 12), full_request(1)])
    assert main(["trace", "stats", "--json", "--in", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["records"], found["weighted"], found["apis"][0]["count"]) == (2, 9, 9)
    assert main(["trace", "stats", "--in", str(tmp_path)]) == 0
    assert "its records stand for 9 requests" in capsys.readouterr().out


def test_a_marker_for_nobody(tmp_path, capsys):
    assert main(["trace", "mark", "x", "--data-dir", str(tmp_path)]) == 3
    assert "no broker runs" in capsys.readouterr().err
    assert main(["trace", "mark", "x", "--in", str(tmp_path)]) == 3
    assert "no broker traces into" in capsys.readouterr().err


def test_tail_names_clients_and_topics(tmp_path, capsys):
    info = write_segment(
        tmp_path, [full_request(0)._replace(client_hash=7, topic_hash=9), full_request(1)._replace(client_hash=8)]
    )
    writer = DictionaryWriter(tmp_path, info.opened.broker_id, info.opened.boot_id)
    writer.client(7, "billing\x1b[2J")
    writer.topic(9, "orders")
    writer.flush()
    writer.close()
    assert main(["trace", "tail", "--in", str(tmp_path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "c0#0 client 'billing\\x1b[2J' topic 'orders' 0→0 B" in first and "c0#1 0→0 B" in second
    assert main(["trace", "tail", "--in", str(tmp_path), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["client"], row["topic"]) for row in rows] == [("billing\x1b[2J", "orders"), (None, None)]


def test_a_compacted_trace_is_told_from_an_empty_folder(tmp_path, capsys):
    (tmp_path / "compact.json").write_text("{}")
    assert main(["trace", "stats", "--in", str(tmp_path)]) == 2
    assert "was made by trace compact" in capsys.readouterr().err
