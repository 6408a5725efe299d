"""The internal Kafka client: used by the CLI now and between brokers later. Talks to any broker, ours or not."""
