"""How full the control plane's ring gets: handlers of one broker stand still for five seconds, the controller's broker
dies meanwhile, then a client sends thirty requests at once on the control-plane listener.

    python -m perf.control_ring [--json FILE]

Twice: with the reserved handler stopped (the other one serves control requests, too), and with both. What is printed is
the ring's largest depth after each step, as `/metrics` has it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import time
import urllib.request
from pathlib import Path

from mpbroker.analysis.lab.incident.cluster_brokers import CONTROLLER, ClusterBrokers
from mpbroker.shm.page_view import open_page
from perf.load.processes import machine
from tests.harness.raw_client import api_versions

STOPPED, HANDLER_ROLE, PIPELINED = 2, 3, 30
STOP_S, LOOK_S = 5.0, 2.0
CAPACITY = 20


def ring(brokers: ClusterBrokers, field: str) -> int:
    """Of the control plane's ring of the broker whose handlers stand still."""
    with urllib.request.urlopen(f"{brokers.admin[STOPPED]}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return int(next(line for line in lines if line.startswith(f'mpbroker_ring_{field}{{ring="control"}}')).split()[1])


def handlers(brokers: ClusterBrokers) -> list[int]:
    """Pids: the reserved one first."""
    page = open_page(str(brokers.directory / f"broker-{STOPPED}"))
    return [row.pid for row in page.processes() if row.role == HANDLER_ROLE and row.pid]


def control_port(brokers: ClusterBrokers) -> int:
    """Where the stopped broker takes control requests."""
    ready = json.loads((brokers.directory / f"ready-{STOPPED}.json").read_text())
    return next(int(row["port"]) for row in ready["listeners"] if row["name"] == "CONTROLLER")


def run_once(stopped_handlers: int) -> dict[str, int]:
    """Peaks of the control ring, step by step."""
    with ClusterBrokers({}, control_listener=True) as brokers:
        found = {"handlers_stopped": stopped_handlers, "peak_before": ring(brokers, "peak")}
        victims = handlers(brokers)[:stopped_handlers]
        port = control_port(brokers)
        for pid in victims:
            os.kill(pid, signal.SIGSTOP)
        stopped_s = time.monotonic()
        try:
            brokers.kill(CONTROLLER)
            time.sleep(LOOK_S)
            found["peak_after_fail_over"] = ring(brokers, "peak")
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                client.sendall(b"".join(api_versions(number) for number in range(1, PIPELINED + 1)))
                time.sleep(LOOK_S / 2)
                found["depth_with_a_client"] = ring(brokers, "depth")
                found["peak_with_a_client"] = ring(brokers, "peak")
                time.sleep(max(0.0, stopped_s + STOP_S - time.monotonic()))
                for pid in victims:
                    os.kill(pid, signal.SIGCONT)
                answered = 0
                client.settimeout(20)
                while answered < PIPELINED:
                    head = client.recv(4, socket.MSG_WAITALL)
                    client.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
                    answered += 1
            found["answered_afterwards"] = answered
            found["peak_in_the_end"] = ring(brokers, "peak")
        finally:
            for pid in victims:
                os.kill(pid, signal.SIGCONT)
    return found


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    found = {"machine": machine(), "capacity": CAPACITY, "runs": [run_once(count) for count in (1, 2)]}
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.json:
        Path(arguments.json).write_text(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
