"""A thousand members of a next-generation group (KIP-848): how many heartbeats a change of membership takes to settle.

    python -m perf.group_membership HOST:PORT=PID [--members 1000] [--partitions 500] [--leaving 10]

All members beat once in a round; between rounds most of the heartbeat interval is left out, for nothing depends on it.
Prints one JSON object: rounds until every partition has one owner again and all have their share, after everybody has
joined (which is the first round) and after some have left; the milliseconds of a round, and of the slowest single
heartbeat, in which a target may be worked out.
"""

import argparse
import json
import time
from typing import Any

from mpbroker.analysis.bench.process_tree import usage
from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.harness.peer import Peer, create_topic

TOPIC = GROUP = "perf-group-membership"
MOST_ROUNDS = 20


class Member:
    """It gives back what it is asked for, and tells so with its next heartbeat."""

    def __init__(self, peer: Peer, number: int) -> None:
        self._peer, self._id = peer, f"member-{number}"
        self._epoch = 0
        self.owned: set[tuple[bytes, int]] = set()

    def beat(self) -> float:
        """One heartbeat; milliseconds."""
        rows: dict[bytes, list[int]] = {}
        for topic, partition in self.owned:
            rows.setdefault(topic, []).append(partition)
        first: dict[str, Any] = (
            {} if self._epoch else {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC]}
        )
        held = [ConsumerGroupHeartbeatRequestTopicPartitions(*row) for row in rows.items()]
        begun = time.perf_counter()
        request = ConsumerGroupHeartbeatRequest(GROUP, self._id, self._epoch, topic_partitions=held, **first)
        answer = self._peer.ask(request, 1)
        took_ms = (time.perf_counter() - begun) * 1000
        assert not answer.error_code, answer
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            told = answer.assignment.topic_partitions
            self.owned = {(row.topic_id, number) for row in told for number in row.partitions}
        return took_ms

    def leave(self) -> None:
        """Says good-bye."""
        self._peer.ask(ConsumerGroupHeartbeatRequest(GROUP, self._id, -1), 1)


def settle(members: list[Member], partitions: int) -> dict[str, float]:
    """Rounds until everything is shared out, evenly and to one each."""
    longest_ms = 0.0
    for number in range(1, MOST_ROUNDS + 1):
        begun = time.perf_counter()
        longest_ms = max(longest_ms, *(member.beat() for member in members))
        round_ms = (time.perf_counter() - begun) * 1000
        owned = [one for member in members for one in member.owned]
        most = max(len(member.owned) for member in members)
        if len(owned) == len(set(owned)) == partitions and most <= -(-partitions // len(members)):
            return {"rounds": number, "round_ms": round(round_ms, 1), "longest_beat_ms": round(longest_ms, 1)}
        time.sleep(1.1)  # no two targets within group.consumer.assignment.interval.ms
    raise SystemExit(f"not settled after {MOST_ROUNDS} rounds")


def main() -> None:
    """See the module's description."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", metavar="HOST:PORT=PID")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--leaving", type=int, default=10)
    options = parser.parse_args()
    where, _, pid = options.broker.partition("=")
    with Peer(int(where.rsplit(":", 1)[1]), timeout_s=60) as peer:
        create_topic(peer, TOPIC, options.partitions)
        while peer.ask(FindCoordinatorRequest(key=GROUP, key_type=0), 2).error_code:
            time.sleep(0.2)  # its topic is being made
        before = usage(int(pid))
        members = [Member(peer, number) for number in range(options.members)]
        joined = settle(members, options.partitions)
        for _ in range(options.leaving):
            members.pop(0).leave()
        left = settle(members, options.partitions)
        cpu_s = usage(int(pid)).since(before).total_us / 1e6
    print(json.dumps({"joined": joined, "left": left, "broker_cpu_s": round(cpu_s, 2)}, indent=1))


if __name__ == "__main__":
    main()
