"""The Kafka wire protocol: message classes, the codec that reads and writes them, headers and frames."""
