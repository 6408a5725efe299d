"""The laboratory: scenarios as data, brokers started for them, open-loop load, what the clients saw beside what the
trace saw."""
