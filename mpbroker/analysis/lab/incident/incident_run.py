"""One variant of the incident: three brokers, the flood on A, probes, elections; what stays are traces and the probes'
log. Runs in the process of `mpbroker lab run`.

`hot` has one partition on A and B, whose order of replicas alternates by reassignment; then its preferred leader is
elected. So each round moves the lead from A, which the flood keeps busy, to B and back.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mpbroker.analysis.lab.generator_plan import GeneratorPlan
from mpbroker.analysis.lab.generator_process import GeneratorProcess
from mpbroker.analysis.lab.incident.cluster_brokers import CONTROLLER, ClusterBrokers
from mpbroker.analysis.lab.incident.incident_plan import Incident, IncidentVariant
from mpbroker.analysis.lab.incident.probe import ProbePlan
from mpbroker.analysis.lab.schedule import CLOSED
from mpbroker.analysis.lab.variant_run import slug
from mpbroker.client.consumer import EARLIEST, LATEST, Consumer, offset_for
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.client.topic_admin import describe_topic
from mpbroker.errors import ErrorCode, KafkaError, MpbrokerError
from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from mpbroker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from mpbroker.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

A, B = 1, 2
HOT, NOISE, NOISE_PARTITIONS = "hot", "noise", 4
WARM_UP_MOST_S, TRACE_SETTLE_S = 1.0, 0.3
PATIENCE_S, LOOK_S = 30.0, 0.02
FLOOD_SECONDS = 300.0
"""It ends with its block; this only has to be longer."""


class IncidentFailed(MpbrokerError):
    """The brokers did not do what a round needs."""


class Election(NamedTuple):
    """One that was asked for: its new leader, and when it was asked for and answered (CLOCK_MONOTONIC)."""

    leader: int
    asked_ns: int
    answered_ns: int


class IncidentResult(NamedTuple):
    """`probes`: rows of probe.py. `log`: names of records in the final log of `hot`, by offset. `flood_ns`: from when
    to when it was watched."""

    variant: IncidentVariant
    traces: Path
    elections: list[Election]
    probes: list[list[Any]]
    log: dict[int, str]
    flood_ns: tuple[int, int]


def run_incident_variant(
    incident: Incident, variant: IncidentVariant, out: Path, scratch: Path, say: Callable[[str], None]
) -> IncidentResult:
    """From the brokers' start to their end."""
    traces, place = out / "traces" / slug(variant.name), scratch / slug(variant.name)
    place.mkdir(parents=True)
    overrides = {
        "auto.leader.rebalance.enable": False,
        "mpbroker.trace.retention.bytes": 1 << 34,
        **incident.broker,
        **variant.broker,
    }
    with ClusterBrokers(overrides, traces, variant.control_listener) as brokers:
        _create_topics(brokers, incident)
        with (
            GeneratorProcess(_flood(incident, brokers, place), place) as flood,
            _Probes(incident, brokers, place) as probes,
        ):
            flood.wait_ready()
            flood.start(time.monotonic_ns())
            time.sleep(min(WARM_UP_MOST_S, 4 * incident.settle_ms / 1000))
            begun_ns = time.monotonic_ns()
            elections = _elect(incident, brokers, say)
            ended_ns = time.monotonic_ns()
            rows = probes.finish()
            if not flood.alive:
                raise IncidentFailed("the flood ended before the elections did")
        log = _read_hot(brokers)
        time.sleep(TRACE_SETTLE_S)
    return IncidentResult(variant, traces, elections, rows, log, (begun_ns, ended_ns))


def _create_topics(brokers: ClusterBrokers, incident: Incident) -> None:
    with NetworkClient(*brokers.addresses[CONTROLLER], client_id="lab") as client:
        placed = {NOISE: [[A]] * NOISE_PARTITIONS, HOT: [[A, B]]}
        settings: dict[str, dict[str, Any]] = {NOISE: incident.noise, HOT: {"min.insync.replicas": 2}}
        for name, replicas in placed.items():
            topic = CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=number, broker_ids=ids)
                    for number, ids in enumerate(replicas)
                ],
                configs=[CreatableTopicConfig(name=key, value=str(value)) for key, value in settings[name].items()],
            )
            answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse, 5)
            if answer.topics[0].error_code:
                raise KafkaError(answer.topics[0].error_code, about=name)
    for broker in (A, B):
        _await_hot(brokers, broker)


def _await_hot(brokers: ClusterBrokers, broker: int) -> None:
    """A broker knows that A leads, with both replicas in sync."""
    _until(lambda: _hot(brokers, broker) == (A, [A, B]), f"broker {broker} knows no leader of {HOT} with both in sync")


def _hot(brokers: ClusterBrokers, broker: int) -> tuple[int, list[int]]:
    """Leader and ISR as a broker knows them."""
    try:
        with NetworkClient(*brokers.addresses[broker], client_id="lab") as client:
            (one,) = describe_topic(client, HOT).partitions
    except (KafkaError, ValueError):
        return -1, []
    return one["leader"], sorted(one["isr"])


def _until(holds: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise IncidentFailed(problem)
        time.sleep(LOOK_S)


def _flood(incident: Incident, brokers: ClusterBrokers, place: Path) -> GeneratorPlan:
    host, port = brokers.addresses[A]
    return GeneratorPlan(
        group="flood",
        client_id="flood",
        host=host,
        port=port,
        clients=incident.flood.connections,
        first_connection=0,
        api="produce",
        topic=NOISE,
        partitions=NOISE_PARTITIONS,
        value_bytes=incident.flood.value_bytes,
        records=1,
        acks=-1,
        in_flight=incident.flood.in_flight,
        loop="closed",
        arrival="regular",
        seed=1,
        nice=10,
        durations_s=[FLOOD_SECONDS],
        rates=[CLOSED],
        log=str(place / "flood.log"),
    )


class _Probes:
    """The probes' process."""

    def __init__(self, incident: Incident, brokers: ClusterBrokers, place: Path) -> None:
        probes = incident.probes
        addresses = [brokers.addresses[A], brokers.addresses[B]]
        self._log = place / "probes.json"
        self._plan = place / "probes.plan.json"
        self._errors = place / "probes.err"
        self._most_s = probes.timeout_ms / 1000 + 20
        plan = ProbePlan(HOT, addresses, probes.connections, probes.rate_per_s, probes.timeout_ms, str(self._log))
        self._plan.write_text(json.dumps(plan._asdict()))

    def __enter__(self) -> _Probes:
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mpbroker.analysis.lab.incident.probe", str(self._plan)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            raise IncidentFailed(f"the probes did not start: {self._errors.read_text()[-500:]}")
        return self

    def finish(self) -> list[list[Any]]:
        """No more probes; what became of all of them."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(self._most_s)
        except subprocess.TimeoutExpired:
            raise IncidentFailed("the probes do not end") from None
        if self._process.returncode:
            raise IncidentFailed(f"the probes failed: {self._errors.read_text()[-500:]}")
        rows: list[list[Any]] = json.loads(self._log.read_text())
        return rows

    def __exit__(self, *_exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def _elect(incident: Incident, brokers: ClusterBrokers, say: Callable[[str], None]) -> list[Election]:
    found, settle_s = [], incident.settle_ms / 1000
    with NetworkClient(*brokers.addresses[CONTROLLER], client_id="lab") as client:
        for number in range(1, incident.elections + 1):
            for leader, other in ((B, A), (A, B)):
                _prefer(client, [leader, other])
                time.sleep(settle_s)
                found.append(_election(client, leader))
                time.sleep(settle_s)
            if number % 10 == 0:
                say(f"  {number} of {incident.elections} elections")
    return found


def _prefer(client: NetworkClient, replicas: list[int]) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=HOT, partitions=[partition])])
    answer = client.call(request, AlterPartitionReassignmentsResponse, 0)
    code = answer.error_code or answer.responses[0].partitions[0].error_code
    if code:
        raise KafkaError(code, about=HOT)


def _election(client: NetworkClient, leader: int) -> Election:
    """Tried again while the new leader is not back in sync: its ISR follows its fetches, which the flood delays."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        asked_ns = time.monotonic_ns()
        request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=HOT, partitions=[0])])
        answer = client.call(request, ElectLeadersResponse, 2)
        results = [one for topic in answer.replica_election_results for one in topic.partition_result]
        code = answer.error_code or (results[0].error_code if results else ErrorCode.NONE)
        if not code:
            return Election(leader, asked_ns, time.monotonic_ns())
        if code != ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE or time.monotonic() > deadline:
            raise KafkaError(code, about=f"electing {leader} leader of {HOT}")
        time.sleep(LOOK_S)


def _read_hot(brokers: ClusterBrokers) -> dict[int, str]:
    """The log as its last leader, A, has it once both replicas agree."""
    _await_hot(brokers, A)
    found: dict[int, str] = {}
    with NetworkClient(*brokers.addresses[A], client_id="lab") as client, PartitionLeaders(client) as leaders:
        first, end = (offset_for(leaders, HOT, 0, at) for at in (EARLIEST, LATEST))
        consumer = Consumer(leaders, HOT, {0: first})
        while consumer.positions[0] < end:
            for _, record in consumer.poll(500):
                found[record.offset] = (record.value or b"").decode()
    return found
