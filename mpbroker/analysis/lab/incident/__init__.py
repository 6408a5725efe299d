"""The laboratory's incident: three brokers, elections under a flood, told from traces (KAFKA-4453)."""
