"""Controller, brokers, network and store stepped from one seed (docs/architecture.md)."""
