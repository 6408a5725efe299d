"""What one generator process is told to do: plain values, handed over as a JSON file. Pure."""

from __future__ import annotations

from typing import NamedTuple

PREPARED = ("produce", "fetch", "list_offsets", "metadata", "api_versions")
#: Whose next request follows from the last answer (conversations.py).
TALKING = ("classic_member", "consumer_member", "transaction")
APIS = PREPARED + TALKING
LOOPS = ("open", "closed")
ARRIVALS = ("regular", "poisson")


class GeneratorPlan(NamedTuple):
    """One group of clients. `rates`: requests a second on each connection, one per phase (schedule.CLOSED, 0: silence).

    `value_bytes` is the size of a produced record's value, for `fetch` the most bytes asked for. `first_connection`
    numbers this process's connections among all of the run, so that no correlation id is used twice. A group may be
    spread over processes: this one has its clients from `first_client` on, of `of_clients` (0: all are here).
    """

    group: str
    client_id: str
    host: str
    port: int
    clients: int
    first_connection: int
    api: str
    topic: str
    partitions: int
    value_bytes: int
    records: int
    acks: int
    in_flight: int
    loop: str
    arrival: str
    seed: int
    nice: int
    durations_s: list[float]
    rates: list[float]
    log: str
    requests_most: int = 0  # of each connection; 0: as many as there is time for
    process: int = 0  # number among the processes of the group
    first_client: int = 0
    of_clients: int = 0
    read_bytes_per_s: int = 0  # of each connection; 0: as they come
    group_size: int = 0  # members of one consumer group; 0: all clients
    turns: int = 10  # heartbeats before a member leaves, Produce requests of a transaction
