"""File, environment, overrides: names, order, and what each unknown thing gets."""

import pytest

from mpbroker.config.sources import gather, setting_of_variable


@pytest.fixture
def write(tmp_path):
    def make(text):
        path = tmp_path / "server.properties"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return make


def errors_of(given):
    return [str(error) for error in given.errors]


def test_later_sources_win(write):
    path = write("num.partitions=1\nnum.io.threads=1\nnum.network.threads=1\nqueued.max.requests=1\n")
    environ = {
        "KAFKA_NUM_IO_THREADS": "2",
        "KAFKA_NUM_NETWORK_THREADS": "2",
        "MPBROKER_NUM_NETWORK_THREADS": "3",
        "KAFKA_QUEUED_MAX_REQUESTS": "2",
    }
    given = gather(path, environ, ["queued.max.requests=3", "queued.max.requests=4"])
    assert given.texts == {
        "num.partitions": "1",
        "num.io.threads": "2",
        "num.network.threads": "3",
        "queued.max.requests": "4",
    }
    assert given.origins["num.partitions"] == f"{path}, line 1"
    assert given.origins["num.io.threads"] == "KAFKA_NUM_IO_THREADS"
    assert given.origins["queued.max.requests"] == ""


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_NUM_NETWORK_THREADS", "num.network.threads"),
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("MPBROKER_LOG_DIRS", "log.dirs"),
        ("MPBROKER_TRACE_ENABLED", "mpbroker.trace.enabled"),
        ("MPBROKER_LOG_FLUSH", "mpbroker.log.flush"),
        ("KAFKA_MPBROKER_TRACE_ENABLED", "mpbroker.trace.enabled"),
        ("KAFKA_LISTENER_NAME_INTERNAL_MAX_CONNECTIONS", "listener.name.internal.max.connections"),
        ("KAFKA_LISTENER_NAME_MY__NET_MAX_CONNECTIONS", "listener.name.my_net.max.connections"),
        ("KAFKA_LISTENER_NAME_MY___NET_MAX_CONNECTIONS", "listener.name.my-net.max.connections"),
        ("KAFKA_TRACE_ENABLED", None),
        ("KAFKA_HEAP_OPTS", None),
        ("MPBROKER_NOPE", None),
    ],
)
def test_names_of_variables(variable, name):
    assert setting_of_variable(variable) == name


def test_unknown_kafka_variables_get_one_warning_each():
    given = gather(
        None,
        {
            "KAFKA_HEAP_OPTS": "-Xmx1g",
            "KAFKA_OPTS": "",
            "HOME": "/",
            "MPBROKER_CRASH": "x",
            "MPBROKER_BOOTSTRAP": "h:1",
        },
        [],
    )
    assert (given.texts, given.errors) == ({}, ())
    assert [warning.split()[0] for warning in given.warnings] == ["KAFKA_HEAP_OPTS", "KAFKA_OPTS"]


def test_unknown_own_variable_is_an_error():
    assert errors_of(gather(None, {"MPBROKER_NUM_IO_THREAD": "4"}, [])) == [
        "MPBROKER_NUM_IO_THREAD: unknown setting num.io.thread; did you mean num.io.threads?"
    ]


def test_unknown_key_of_a_file_is_an_error_with_its_line(write):
    path = write("num.partitions=1\nno.such=1\n")
    assert errors_of(gather(path, {}, [])) == [
        f"{path}, line 2: unknown setting no.such; docs/configuration.md lists them all"
    ]


def test_what_kafka_alone_knows_is_a_warning_or_an_error(write):
    path = write("zookeeper.connect=x\nssl.keystore.type=JKS\nauthorizer.class.name=x\n")
    given = gather(path, {}, [])
    assert [warning.split(" is ignored: ")[0] for warning in given.warnings] == [
        "zookeeper.connect",
        "ssl.keystore.type",
    ]
    assert errors_of(given) == [
        f"{path}, line 3: authorizer.class.name cannot be used: access control is not supported yet, "
        "every client may do everything; remove it"
    ]
    assert (given.texts, given.origins) == ({}, {})


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("num.io.threads", "--override num.io.threads: must be KEY=VALUE"),
        ("=4", "--override =4: must be KEY=VALUE"),
        ("no.such=4", "unknown setting no.such; docs/configuration.md lists them all"),
    ],
)
def test_bad_overrides(override, sentence):
    assert errors_of(gather(None, {}, [override])) == [sentence]


def test_listener_prefixes_are_one_setting_however_they_are_spelled():
    given = gather(None, {}, ["listener.name.INTERNAL.max.connections=1", "listener.name.internal.max.connections=2"])
    assert given.texts == {"listener.name.internal.max.connections": "2"}


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"a=\xff", "is not UTF-8 text (byte 2)"), (b"#" * (1024 * 1024 + 1), "is larger than 1048576 bytes")],
)
def test_files_with_unusable_content(write, content, why):
    path = write(content)
    assert errors_of(gather(path, {}, [])) == [f"configuration file {path} {why}"]


@pytest.mark.parametrize(("name", "why"), [("none", "No such file or directory"), (".", "Is a directory")])
def test_files_that_cannot_be_read(tmp_path, name, why):
    path = str(tmp_path / name)
    assert errors_of(gather(path, {}, [])) == [f"configuration file {path} cannot be read: {why}"]


@pytest.mark.parametrize("variable", ["KAFKA_AUTHORIZER_CLASS_NAME", "MPBROKER_AUTHORIZER_CLASS_NAME"])
def test_a_variable_that_promises_what_is_not_there_is_an_error(variable):
    """As in a file: a broker without the access control that somebody asked for does not start."""
    given = gather(None, {variable: "kafka.security.authorizer.AclAuthorizer"}, [])
    assert [str(error).partition(" cannot be used")[0] for error in given.errors] == [
        f"{variable}: authorizer.class.name"
    ]
    assert (given.texts, list(given.warnings)) == ({}, [])
