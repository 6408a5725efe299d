"""SIGHUP and the listeners of a start: what is taken over of a file that was read again, what is refused, what a start
does without."""

import pytest

from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.sources import Given
from mpbroker.errors import ConfigError
from mpbroker.supervisor import reload
from mpbroker.supervisor.reload import _named_in, open_as_stored, read_again

TEXTS = {"num.io.threads": "2", "log.retention.ms": "5000", "listeners": "PLAINTEXT://:9092"}


class Lines:
    def __init__(self):
        self.told = []

    def info(self, event, **about):
        self.told.append((event, about))

    error = info


def config_of(dynamic=None, **texts):
    given = {**TEXTS, **{name.replace("_", "."): text for name, text in texts.items()}}
    kept = {name: text for name, text in given.items() if text is not None}
    return build_broker_config(Given(kept, {}, ()), 4, *(() if dynamic is None else (dynamic,)))


def again(old, new):
    log = Lines()
    return read_again(old, lambda: new, log), log.told


def test_nothing_changes_where_nothing_did():
    assert again(config_of(), config_of()) == (None, [("reloaded", {"changed": "nothing", "needs_restart": "nothing"})])


def test_what_may_change_is_taken_and_what_needs_a_restart_is_told():
    changed = config_of(num_io_threads="3", log_retention_ms=None, node_id="7")
    taken, told = again(config_of(), changed)
    assert (taken.num_io_threads, taken.node_id) == (3, config_of().node_id)
    assert "log.retention.ms" not in taken.texts
    [(event, about)] = told
    assert event == "reloaded" and "num.io.threads" in about["changed"] and "node.id" in about["needs_restart"]


def test_what_was_changed_while_it_ran_stays():
    dynamic = DynamicSettings({"num.network.threads": "6"}, {}, {})
    taken, _ = again(config_of(dynamic), config_of(num_io_threads="3"))
    assert (taken.num_io_threads, taken.num_network_threads) == (3, 6) and taken.dynamic == dynamic


def test_a_file_that_is_wrong_changes_nothing():
    log = Lines()

    def wrong():
        raise ConfigError("num.io.threads", "x", problem="it is no number")

    assert read_again(config_of(), wrong, log) is None
    [(event, about)] = log.told
    assert event == "reload_refused" and "it is no number" in str(about["reason"])


def test_a_listener_that_others_need_is_not_given_up(monkeypatch):
    monkeypatch.setattr(reload, "lost_listener", lambda old, new: "brokers come over it")
    taken, told = again(config_of(), config_of(num_io_threads="3"))
    assert taken is None
    assert [event for event, _ in told] == ["reload_refused"] and "brokers come over it" in str(told[0][1]["reason"])


@pytest.mark.parametrize("dynamic", [{}, {"listeners": "PLAINTEXT://:1"}])
@pytest.mark.parametrize("fails", [False, True])
def test_a_start_has_the_listeners_of_the_file_where_changed_ones_cannot_be_had(monkeypatch, dynamic, fails):
    asked, log = [], Lines()

    def open_listeners(config):
        asked.append(config.texts["listeners"] if not config.dynamic.broker else config.dynamic.broker["listeners"])
        if fails and len(asked) == 1:
            raise ConfigError("listeners", asked[-1], problem="it is in use")
        return [], {}

    monkeypatch.setattr(reload, "open_listeners", open_listeners)
    monkeypatch.setattr(reload, "Listening", lambda *opened: opened)
    config = config_of(DynamicSettings({}, dynamic, {}))
    if fails and not dynamic:
        with pytest.raises(ConfigError, match="in use"):
            open_as_stored(config, log)
        return
    found, opened = open_as_stored(config, log)
    assert opened == ([], {})
    changed = dynamic.get("listeners", TEXTS["listeners"])
    assert asked == ([changed, TEXTS["listeners"]] if fails else [changed])
    assert found.dynamic.broker == ({} if fails else dynamic)
    assert [(event, about["settings"]) for event, about in log.told] == (
        [("dynamic_setting_left_out", "listeners")] if fails else []
    )


def test_which_settings_an_error_is_about():
    dynamic = DynamicSettings({"num.io.threads": "x", "log.retention.ms": "5"}, {"num.network.threads": "2"}, {})
    every = {"num.io.threads", "log.retention.ms", "num.network.threads"}
    for error, found in (
        (ConfigError("num.io.threads", "x", problem="no number"), {"num.io.threads"}),
        (ConfigError("node.id", "x", problem="with num.network.threads it is too much"), {"num.network.threads"}),
        (ConfigError("node.id", "x", problem="no number"), every),
    ):
        assert _named_in(error, dynamic) == found
