"""Two layers above the file's: which value is in force, what is shown, what is refused."""

import pytest

from mpbroker.config.broker_changes import UnknownList, UnknownOperation, changed_broker_configs, refusal
from mpbroker.config.broker_config import ConfigSource
from mpbroker.config.describe import describe_broker, describe_cluster_default, describe_topic
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.sources import Given
from mpbroker.config.topic_changes import NotAList
from mpbroker.config.topic_config import effective
from mpbroker.metadata.commands import ConfigChange

SEGMENT, RATE = "log.segment.bytes", "leader.replication.throttled.rate"


def config_with(static: dict[str, str], cluster: dict[str, str] | None = None, broker: dict[str, str] | None = None):
    return build_broker_config(Given(static, {}, ()), 2, DynamicSettings(cluster or {}, broker or {}))


def test_the_highest_layer_is_in_force_and_all_are_shown():
    layers = ({SEGMENT: "1000"}, {SEGMENT: "2000"}, {SEGMENT: " 3000 "})
    sources = (4, 3, 2)
    for given in range(1, 4):
        config = config_with(*layers[:given])
        assert config.log_segment_bytes == int(layers[given - 1][SEGMENT])
        (row,) = describe_broker(config, [SEGMENT])
        assert (row.value, row.source) == (str(config.log_segment_bytes), sources[given - 1])
        shown = [(synonym.value, synonym.source) for synonym in row.synonyms]
        expected = [(layers[n][SEGMENT], sources[n]) for n in reversed(range(given))]
        assert shown == [*expected, ("1073741824", 5)]
        assert config.source(SEGMENT) == ConfigSource(sources[given - 1])
        assert config.texts == layers[0], "what was given at the start stays that"
    (row,) = describe_topic({}, config, ["segment.bytes"])
    assert (row.value, row.source) == ("3000", 2)
    assert effective({}, config).segment_bytes == 3000


def test_what_nobody_knows_is_kept_and_never_shown():
    config = config_with({}, {"my.password": "a"}, {"my.password": "secret", SEGMENT: "50"})
    (row,) = describe_broker(config, ["my.password"])
    assert (row.value, row.sensitive, row.read_only, row.kind) == (None, True, True, 0)
    assert [(synonym.value, synonym.source) for synonym in row.synonyms] == [(None, 2), (None, 3)]
    assert not row.is_default
    (row,) = describe_cluster_default(config)
    assert (row.name, row.value, row.source) == ("my.password", None, 3)
    assert [tuple(synonym) for synonym in row.synonyms] == [("my.password", None, 3)]
    assert "secret" not in str(describe_broker(config))
    (row,) = describe_broker(config_with({}, {}, {"my.password": "secret"}), ["my.password"])
    assert (row.source, [tuple(synonym) for synonym in row.synonyms]) == (2, [("my.password", None, 2)])


def test_what_was_set_for_all_brokers_is_shown_as_written_and_in_kafkas_spelling():
    config = config_with({}, {SEGMENT: " 2000 ", "min.insync.replicas": "2"}, {SEGMENT: "50"})
    shown = {
        row.name: (row.value, row.source, list(map(tuple, row.synonyms))) for row in describe_cluster_default(config)
    }
    assert shown == {
        SEGMENT: ("2000", 3, [(SEGMENT, " 2000 ", 3)]),
        "min.insync.replicas": ("2", 3, [("min.insync.replicas", "2", 3)]),
    }
    assert [row.name for row in describe_cluster_default(config, [SEGMENT, "nosuch"])] == [SEGMENT]
    assert len(describe_cluster_default(config, [])) == 2


def changed(*changes: tuple[str, int, str | None]) -> dict[str, str]:
    return changed_broker_configs({"max.connections": "9"}, [ConfigChange(*change) for change in changes])


def test_changes():
    assert changed(("max.connections", 1, None), (SEGMENT, 0, "1")) == {SEGMENT: "1"}
    assert changed(("log.cleanup.policy", 2, "compact"))["log.cleanup.policy"] == "delete,compact"
    with pytest.raises(UnknownOperation, match="Unknown operations type 7"):
        changed((SEGMENT, 7, "1"))
    with pytest.raises(UnknownList, match=r"^no\.such$"):
        changed(("no.such", 2, "1"))
    for operation, verb in ((2, "append"), (3, "subtract")):
        with pytest.raises(NotAList, match=f"^Config value {verb} is not allowed for config key: {SEGMENT}$"):
            changed((SEGMENT, operation, "1"))
    assert changed(("log.cleanup.policy", 3, "delete"))["log.cleanup.policy"] == ""


@pytest.mark.parametrize(
    ("name", "counts", "refused"),
    [
        ("num.io.threads", {4: (2, 4, 8), 5: (2, 10), 1: (1, 2)}, {4: (1, 9), 5: (1, 11), 1: (3,)}),
        ("num.network.threads", {4: (2, 8)}, {4: (1, 9)}),
        ("log.cleaner.threads", {2: (1, 4)}, {2: (0, 5)}),
    ],
)
def test_threads_at_least_half_at_most_double(name, counts, refused):
    for allowed, expected in ((counts, False), (refused, True)):
        for before, afters in allowed.items():
            for after in afters:
                present = config_with({name: str(before)})
                sentence = refusal(present, DynamicSettings({}, {name: str(after)}), True)
                assert (sentence is not None) == expected, (before, after, sentence)


OWN_THREADS = "listener.name.plaintext.num.network.threads"
POOL = "Dynamic thread count update validation failed for {}={}, value should {} the current value 4"
CLEANERS = "Log cleaner threads {}"


@pytest.mark.parametrize(
    ("name", "count", "sentence"),
    [
        ("num.network.threads", 1, POOL.format("num.network.threads", 1, "be at least half")),
        ("num.network.threads", 9, POOL.format("num.network.threads", 9, "not be greater than double")),
        (OWN_THREADS, 1, POOL.format(OWN_THREADS, 1, "be at least half")),
        (OWN_THREADS, 9, POOL.format(OWN_THREADS, 9, "not be greater than double")),
        ("num.io.threads", 9, POOL.format("num.io.threads", 9, "not be greater than double")),
        ("background.threads", 1, POOL.format("background.threads", 1, "be at least half")),
        ("num.replica.fetchers", 9, POOL.format("num.replica.fetchers", 9, "not be greater than double")),
        (
            "num.recovery.threads.per.data.dir",
            1,
            POOL.format("num.recovery.threads.per.data.dir", 1, "be at least half"),
        ),
        ("log.cleaner.threads", 0, CLEANERS.format("should be at least 1")),
        ("log.cleaner.threads", 1, CLEANERS.format("cannot be reduced to less than half the current value 4")),
        ("log.cleaner.threads", 9, CLEANERS.format("cannot be increased to more than double the current value 4")),
    ],
)
def test_the_pool_that_is_out_of_step_is_named_as_it_was_given(name, count, sentence):
    assert refusal(config_with({name: "4"}), DynamicSettings({}, {name: str(count)}), True) == sentence


def test_no_cleaner_at_all_may_become_one():
    present = config_with({"log.cleaner.threads": "0"})
    told = [refusal(present, DynamicSettings({}, {"log.cleaner.threads": str(count)}), True) for count in (0, 1, 2)]
    assert told == [None, None, CLEANERS.format("cannot be increased to more than double the current value 0")]


def test_refusals_in_kafkas_order():
    present = config_with({})
    for layer, start in (
        (
            {"num.partitions": "x", "node.id": "1", SEGMENT: "x"},
            "Cannot update these configs dynamically: Set(node.id, ",
        ),
        ({SEGMENT: "13", "listeners": "x"}, f"Invalid value 13 for configuration {SEGMENT}: Value must be at least 14"),
        ({"listeners": "x"}, "Cannot update these configs at default cluster level, broker id must be specified: "),
        ({"ssl.keystore.password": "x"}, "Cannot update these configs dynamically: Set(ssl.keystore.password)"),
        ({"authorizer.class.name": "x"}, "Cannot update these configs dynamically: "),
        ({"log.retention.ms": "0"}, "log.retention.ms=0: "),
        ({RATE: "-1"}, f"Invalid value -1 for configuration {RATE}: Value must be at least 0"),
        ({RATE: "x"}, f"Invalid value x for configuration {RATE}: Not a number of type LONG"),
    ):
        assert (refusal(present, DynamicSettings(layer), False) or "").startswith(start)
    assert refusal(present, DynamicSettings({SEGMENT: "14", "no.such": "x", RATE: "0"}), False) is None


def test_a_listener_that_is_not_there_may_have_settings_and_one_that_is_must_have_sound_ones():
    own = "listener.name.{}.max.connections"
    assert config_with({}, {own.format("later"): "5"}).max_connections == 2**31 - 1
    assert config_with({}, {own.format("plaintext"): "5"}).for_listener("PLAINTEXT", "max.connections") == 5
    sentence = refusal(config_with({}), DynamicSettings({own.format("plaintext"): "0"}), False)
    assert sentence is not None and "at least 1" in sentence


MORE = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT"}


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ({"listeners": "PLAINTEXT://h:1,B://h:2", **MORE}, None),
        ({"advertised.listeners": "PLAINTEXT://h:3"}, None),
        ({"listeners": "PLAINTEXT://h:1,B://h:2"}, "B has no security protocol"),
        ({"listeners": "B://h:2", **MORE}, "for inter-broker listener ListenerName(PLAINTEXT)"),
        ({"advertised.listeners": "NOPE://h:3"}, "NOPE has no security protocol"),
        ({"listeners": "PLAINTEXT://h:1,SSL://h:2"}, "SSL is not supported yet"),
        ({"listeners": "garbage"}, "must be NAME://HOST:PORT"),
    ],
)
def test_listeners_change_as_long_as_brokers_find_each_other(own, sentence):
    told = refusal(config_with({}), DynamicSettings({}, own), True)
    assert told is None if sentence is None else sentence in (told or "")


def test_in_a_cluster_listeners_change_too():
    present = config_with({"mpbroker.cluster.store": "sqlite:/somewhere"})
    own = DynamicSettings({}, {"listeners": "PLAINTEXT://127.0.0.1:0"})
    assert refusal(present, own, True) is None
    own = DynamicSettings({}, {"listeners": "B://h:2", **MORE})
    assert "inter-broker" in (refusal(present, own, True) or "")
