"""Three real brokers: fail-over, and a run in which everything fails (chaos.py)."""
