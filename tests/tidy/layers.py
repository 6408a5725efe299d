"""The layer of every package and what stands beside the layers (docs/architecture.md, "Layers")."""

LAYERS = {
    "errors": 0,
    "config": 1, "protocol": 1, "record": 1,
    "shm": 2,
    "channel": 3, "log": 3, "metrics": 3, "trace": 3, "security": 3, "metadata": 3,
    "cluster": 4, "purgatory": 4, "client": 4,
    "network": 5, "server": 5, "replication": 5, "controller": 5, "coordinator": 5,
    "supervisor": 6,
    "cli": 7,
    "__main__": 8,
}

#: Packages that may import the C extension: the thin typed faces of what C owns.
NATIVE_USERS = {"shm", "protocol", "record", "log", "network", "trace", "channel", "metadata"}

#: Modules whose use of clocks, forks or randomness is their purpose, with the reason.
FORK_HOME = "mpbroker/supervisor/launch.py"
BANNED_MODULE_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
