"""How a controller process opens the log directories: one that cannot be read goes offline, and all else goes on."""

from types import SimpleNamespace

import pytest

from mpbroker.controller import open_logs


class Log:
    def __init__(self, offline=()):
        self.offline, self.failed, self.full = offline, [], {}

    def log_dir_online(self, number):
        return number not in self.offline

    def refuse_appends(self, number, refuses):
        self.full[number] = refuses

    def repair_slot(self, slot):
        self.repaired = slot

    def fail_log_dir(self, number):
        self.failed.append(number)


@pytest.fixture
def opened(monkeypatch):
    """(log, lines, what PartitionLogs is given) of three directories; the loader of "/unreadable" raises."""

    def loader(log, path, *_):
        if path == "/unreadable":
            raise PermissionError(path)
        return f"loader of {path}"

    monkeypatch.setattr(open_logs, "LogLoader", loader)
    monkeypatch.setattr(open_logs, "PartitionLogs", lambda *given: given)
    monkeypatch.setattr(open_logs.reserve_file, "was_given_up", lambda path: path == "/full")

    def build(*paths, offline=()):
        log, lines = Log(offline), []
        ctx = SimpleNamespace(
            data_dirs=paths,
            directory_ids=tuple(f"id of {path}" for path in paths),
            process_row=SimpleNamespace(count=None),
            log=SimpleNamespace(error=lambda event, **fields: lines.append((event, fields["directory"]))),
            core=SimpleNamespace(crash_point=None),
            slot=5,
        )
        return log, lines, open_logs.build_logs(ctx, log)

    return build


def test_a_directory_that_cannot_be_read_is_offline(opened):
    log, lines, given = opened("/first", "/unreadable", "/full")
    assert (log.failed, log.full, log.repaired) == ([1], {0: False, 2: True}, 5)
    assert lines == [("log_directory_unreadable", "/unreadable")]
    assert given[1:3] == ("/first", "loader of /first") and given[6] == "id of /first"
    assert given[5] == [
        (1, "/unreadable", "id of /unreadable", None),
        (2, "/full", "id of /full", "loader of /full"),
    ]


def test_a_directory_that_was_offline_is_not_read(opened):
    log, lines, given = opened("/first", "/second", offline=(1,))
    assert (log.failed, log.full, lines) == ([], {0: False}, [])
    assert given[5] == [(1, "/second", "id of /second", None)]
