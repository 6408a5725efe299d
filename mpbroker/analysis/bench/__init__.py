"""`mpbroker bench`: the same four loads against ours or any broker, and a sweep over processors, handlers and cores."""
