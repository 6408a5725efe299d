"""`python -m perf.load.flood PORT TOPIC PRODUCERS SECONDS`: producers of 16 kB requests; prints requests per second."""

from __future__ import annotations

import os
import sys

from perf.load.produce_load import ProduceLoad

VALUE_BYTES, IN_FLIGHT = 16_000, 4


def main() -> None:
    """Runs the flood for the time asked."""
    port, topic, producers, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    os.nice(10)  # real clients have processors of their own: the flood must not keep the probes from theirs
    load = ProduceLoad(
        "127.0.0.1", port, topic, connections=producers, in_flight=IN_FLIGHT, values=[b"x" * VALUE_BYTES]
    )
    result = load.run(seconds)
    load.close()
    print(result.requests_per_s)


if __name__ == "__main__":
    main()
