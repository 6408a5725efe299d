"""Real clients for a trace worth reading: a shop that sends a little all the time, and an export that floods the
broker.

Used by the test of docs/traces.md, whose outputs come from the same load for a longer time.
"""

import threading
import time

CALM_CLIENT, FLOOD_CLIENT, TOPIC = "shop", "nightly-export", "orders"
PARTITIONS, SHOP_BYTES, EXPORT_BYTES = 4, 200, 8000


def record(bootstrap: str, calm_s: float, flood_s: float) -> None:
    """Let the shop run alone, then beside the export; returns when both are done and nothing is in flight."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "operator"})
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        created.result(20)
    calm_over, over = time.monotonic() + calm_s, time.monotonic() + calm_s + flood_s
    threads = [
        threading.Thread(target=_send, args=(bootstrap, CALM_CLIENT, SHOP_BYTES, 0.01, time.monotonic(), over)),
        *(
            threading.Thread(target=_send, args=(bootstrap, FLOOD_CLIENT, EXPORT_BYTES, 0.0, calm_over, over))
            for _ in range(3)
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _send(bootstrap: str, client_id: str, value_bytes: int, pause_s: float, from_s: float, until_s: float) -> None:
    """Produce from one moment to another, a record a request."""
    from confluent_kafka import Producer

    time.sleep(max(0.0, from_s - time.monotonic()))
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "acks": "all",
            "linger.ms": 0,
            "batch.num.messages": 1,
            "queue.buffering.max.messages": 200,
            "log_level": 0,
        }
    )
    value, sent = b"x" * value_bytes, 0
    while time.monotonic() < until_s:
        try:
            producer.produce(TOPIC, value, partition=sent % PARTITIONS)
            sent += 1
        except BufferError:
            producer.poll(0.01)
        producer.poll(0)
        time.sleep(pause_s)
    producer.flush(20)
