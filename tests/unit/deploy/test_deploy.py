"""The files in deploy/, as far as they can be checked without a container engine and without systemd."""

import configparser
import json
import re
import shlex

import pytest

from mpbroker.cli.main import COMMANDS, NOT_AVAILABLE, USAGE, load, parser_for
from mpbroker.config.load_config import load_broker_config
from mpbroker.supervisor.handover import GRACE_S
from mpbroker.supervisor.status import SECOND_LOOK_S
from tests.tidy.source_tree import ROOT

DEPLOY = ROOT / "deploy"


def _dockerfile() -> list[tuple[str, str]]:
    """(instruction, rest) of every instruction, continuation lines joined."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def _all(instruction: str) -> list[str]:
    return [rest for name, rest in _dockerfile() if name == instruction]


def _settings() -> dict[str, str]:
    """The image's environment, as far as it is configuration."""
    pairs = dict(pair.split("=", 1) for rest in _all("ENV") for pair in shlex.split(rest))
    return {name: value for name, value in pairs.items() if name.startswith(("KAFKA_", "MPBROKER_"))}


def _unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",), comment_prefixes=("#",))
    unit.optionxform = str
    unit.read(DEPLOY / "mpbroker.service")
    return unit


def _parse(words: list[str]):
    """The arguments of an `mpbroker …` command line; UsageError when there is no such command or flag."""
    assert words[0].rpartition("/")[2] == "mpbroker" and words[1] in COMMANDS
    return parser_for(words[1], load(words[1])).parse_args(words[2:])


def test_every_file_copied_into_the_image_exists():
    sources = [word for rest in _all("COPY") if "--from" not in rest for word in rest.split()[:-1]]
    assert sources and not [source for source in sources if not (ROOT / source).exists()]
    kept = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert not [source for source in sources if f"!{source.removeprefix('./')}" not in kept]


def test_the_image_runs_the_broker_as_process_one_without_root():
    assert _all("USER")[-1].split(":")[0] not in ("0", "root")
    assert [name for name, _ in _dockerfile()].index("USER") > [rest for _, rest in _dockerfile()].index(
        _all("FROM")[-1]
    )
    command = json.loads(_all("ENTRYPOINT")[-1]) + json.loads(_all("CMD")[-1])
    assert command[:2] == ["mpbroker", "start"], "exec form: a shell as process one would keep SIGTERM to itself"
    _parse(command)
    assert _all("STOPSIGNAL") == ["SIGTERM"] and _all("EXPOSE") == ["9092"]


def test_the_image_asks_the_broker_it_starts_how_it_is():
    (check,) = _all("HEALTHCHECK")
    arguments = _parse(json.loads(check.partition("CMD")[2]))
    assert arguments.data_dir == _settings()["KAFKA_LOG_DIRS"] == _all("VOLUME")[-1]
    assert arguments.check, "exit code 1 when a process hangs; without it `status` succeeds as long as something runs"
    timeout_s, start_s = (int(re.search(rf"--{name}=(\d+)s", check)[1]) for name in ("timeout", "start-period"))
    assert timeout_s > SECOND_LOOK_S and start_s >= 60


def test_the_images_environment_is_a_configuration():
    config = load_broker_config(None, environ=_settings())
    assert config.data_dir == _all("VOLUME")[-1] and not config.warnings
    assert [(each.host, each.port) for each in config.end_points.all] == [("", 9092)]


def test_the_python_of_the_image_is_supported():
    (version,) = [rest.split("=")[1] for rest in _all("ARG")]
    needed = re.search(r'requires-python = ">=(\d+)\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert tuple(map(int, version.split("."))) >= tuple(map(int, needed.groups()))


def test_the_unit_starts_and_reloads_what_exists():
    service = _unit()["Service"]
    arguments = _parse(shlex.split(service["ExecStart"]))
    assert arguments.properties == "/etc/mpbroker/server.properties"
    assert arguments.data_dir == f"/var/lib/{service['StateDirectory']}"
    assert service["ExecReload"].split()[1:] == ["-HUP", "$MAINPID"]
    assert service["RestartPreventExitStatus"].split() == [str(USAGE), str(NOT_AVAILABLE)]
    assert service["User"] != "root" and service["OOMPolicy"] == "continue" and service["KillMode"] == "mixed"


def test_the_unit_and_the_composition_wait_as_long_as_a_stop_may_take():
    config = load_broker_config(None, environ={})
    timeouts_ms = (
        config.mpbroker_drain_timeout_ms,
        config.mpbroker_stop_flush_timeout_ms,
        2 * config.mpbroker_stop_timeout_ms,
    )
    handover_s = GRACE_S + config.controlled_shutdown_max_retries * config.controlled_shutdown_retry_backoff_ms / 1000
    longest_s = handover_s + sum(timeouts_ms) / 1000
    assert int(_unit()["Service"]["TimeoutStopSec"]) > longest_s
    (grace_s,) = re.findall(r"stop_grace_period: (\d+)s", (DEPLOY / "compose.yaml").read_text())
    assert int(grace_s) > longest_s


@pytest.mark.parametrize(
    "line",
    [
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=",
        "SystemCallFilter=@system-service",
        "PrivateDevices=yes",
    ],
)
def test_the_unit_is_hardened(line):
    assert line in (DEPLOY / "mpbroker.service").read_text().splitlines()


def test_the_composition_is_read_only_and_names_the_dockerfile():
    text = (DEPLOY / "compose.yaml").read_text()
    assert "read_only: true" in text and "cap_drop: [ALL]" in text and "\t" not in text
    (dockerfile,) = re.findall(r"dockerfile: (\S+)", text)
    (context,) = re.findall(r"context: (\S+)", text)
    assert (DEPLOY / context / dockerfile).resolve() == DEPLOY / "Dockerfile"
    (volume,) = re.findall(r"- data:(\S+)", text)
    assert volume == _all("VOLUME")[-1]
    variables = re.findall(r"^ +(KAFKA_\w+): (\S+)$", text, re.MULTILINE)
    config = load_broker_config(None, environ={**_settings(), **dict(variables)})
    assert [(each.host, each.port) for each in config.end_points.advertised] == [("localhost", 9092)]


def test_the_sample_properties_start_a_broker():
    config = load_broker_config(str(DEPLOY / "server.properties"), environ={})
    assert not config.warnings and config.end_points.all[0].host == "127.0.0.1"
