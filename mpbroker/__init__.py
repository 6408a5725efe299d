"""mpbroker: a Kafka-compatible broker of cooperating processes over shared memory."""

__version__ = "0.1.0"
