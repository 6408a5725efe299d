"""Metric families of the cluster's controller, under the names that Kafka's JMX exporter gives them. Pure; used by the
admin process of a broker of a cluster. Each broker tells of its own controller process: those not elected say 0.
"""

from collections.abc import Iterator
from typing import Final

from mpbroker.admin.exposition import COUNTER, GAUGE, SUMMARY, Family, Sample, labelled
from mpbroker.shm.controller_board import QUANTILES, ControllerFigures, TimerFigures

_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_CHANNELS: Final = "kafka_controller_controllerchannelmanager_"
_EVENTS: Final = "kafka_controller_controllereventmanager_"
_STATS: Final = "kafka_controller_controllerstats_"


def controller_families(figures: ControllerFigures) -> Iterator[Family]:
    """All families of the controller."""
    for name, value, sentence in (
        ("activecontrollercount", int(figures.is_active), "1 where the elected controller runs."),
        ("offlinepartitionscount", figures.offline_partitions, "Partitions without a leader."),
        ("preferredreplicaimbalancecount", figures.imbalance, "Partitions led by another than their first replica."),
        ("globaltopiccount", figures.topics, "Topics of the cluster."),
        ("globalpartitioncount", figures.partitions, "Partitions of the cluster."),
        ("activebrokercount", figures.brokers, "Registered brokers."),
    ):
        yield Family(_CONTROLLER + name, GAUGE, sentence, [labelled(value)])
    yield from _channels(figures)
    sentence = "Commands and events that the controller has not answered."
    yield Family(f"{_EVENTS}eventqueuesize", GAUGE, sentence, [labelled(figures.event_queue_size)])
    yield _timer(f"{_EVENTS}eventqueuetimems", "Time a command waited for the controller.", figures.event_queue_time)
    sentence = "Elections, and the time from their cause to the store's word."
    yield _timer(f"{_STATS}leaderelectionrateandtimems", sentence, figures.elections)
    sentence = "Leaders elected from outside the in-sync replicas."
    name = f"{_STATS}uncleanleaderelections_total"
    yield Family(name, COUNTER, sentence, [labelled(figures.unclean_elections)])


def _channels(figures: ControllerFigures) -> Iterator[Family]:
    channels = figures.channels
    sentence = "Partitions whose latest state the broker has not confirmed."
    samples = [labelled(one.queue_size, broker_id=one.broker) for one in channels]
    yield Family(f"{_CHANNELS}queuesize", GAUGE, sentence, samples)
    total = sum(one.queue_size for one in channels)
    yield Family(f"{_CHANNELS}totalqueuesize", GAUGE, "The same of all brokers.", [labelled(total)])
    samples = [sample for one in channels for sample in _samples(one.queue_time, broker_id=one.broker)]
    sentence = "Requests to the broker, and how long their first change had waited. Milliseconds, since the election."
    yield Family(f"{_CHANNELS}requestrateandqueuetimems", SUMMARY, sentence, samples)
    samples = [labelled(one.oldest_ms / 1000, broker_id=one.broker) for one in channels]
    sentence = "For how long the broker has not confirmed what it was to be told."
    yield Family("mpbroker_controller_oldest_unconfirmed_seconds", GAUGE, sentence, samples)


def _timer(name: str, sentence: str, figures: TimerFigures) -> Family:
    return Family(name, SUMMARY, f"{sentence} Milliseconds, since the election.", _samples(figures))


def _samples(figures: TimerFigures, **labels: object) -> list[Sample]:
    told = zip(QUANTILES, figures.quantiles_ms, strict=False)
    samples = [labelled(value, **labels, quantile=quantile) for quantile, value in told]
    return [*samples, labelled(figures.sum_ms, "_sum", **labels), labelled(figures.count, "_count", **labels)]
