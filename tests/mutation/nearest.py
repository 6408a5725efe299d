"""Which tests are nearest to a file: for C the programs of its room, then the Python tests that load the binding; for
Python the mirrored file, then its room. The first that is red is enough.

Seconds after which a mutant that hangs has been noticed are several times what the tests need on a busy machine.
"""

from __future__ import annotations

from pathlib import Path

#: Programs of native/tests by room, what is quick first. Another room's program is named where it uses this room most.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "shm": ("metadata", "robust_lock", "cache_lines", "ring", "request_path", "append"),
    "record": ("compaction", "record_batch", "append", "appends_refused", "swap"),
    "trace": ("trace_lane", "request_path"),
    "log": (
        "appends_refused",
        "log_flush",
        "log_handles",
        "append",
        "append_threads",
        "swap",
        "log_scan",
        "log_errnos",
        "append_points",
        "append_soak",
        "append_faults",
        "stale_repair",
        "append_pairs",
        "append_steps",
    ),
    "request": (
        "known_rows",
        "request_metrics",
        "cache_lines",
        "command_recovery",
        "request_path",
        "request_soak",
        "request_points",
        "connection",
        "request_pairs",
        "command_pairs",
        "request_standstill",
        "request_steps",
    ),
    "network": ("connection", "turn_steps"),
    "produce": (),
    "python": (),
}
#: Room of native/ → rooms of tests/unit that load it.
LOADED_BY: dict[str, tuple[str, ...]] = {
    "shm": ("shm", "channel", "supervisor", "metadata", "native"),
    "record": ("record", "native", "log"),
    "trace": ("trace", "channel"),
    "log": ("native", "log"),
    "request": ("channel", "server", "network"),
    "network": ("network",),
    "produce": ("server",),
    "python": ("native", "protocol", "channel", "shm", "record", "server", "trace", "metadata", "network", "log"),
}
#: What a room's own tests leave to tests that start a broker.
BROKER_TESTS: dict[str, tuple[str, ...]] = {
    "mpbroker/supervisor": ("test_processes.py", "test_failed_start.py", "test_cli.py"),
    "mpbroker/coordinator": ("test_consumer_groups.py",),
    "mpbroker/server": ("test_bad_input.py", "test_kafka_python.py"),
    "mpbroker/trace": ("test_traces.py",),
    "mpbroker/controller": ("test_data_directory.py", "test_kafka_python.py"),
    "mpbroker/log": ("test_log_keeping.py", "test_broker_log.py"),
    "mpbroker/network": ("test_connection_failures.py",),
    "native/produce": ("test_kafka_python.py",),
}
#: They compile, and run the programs that ran before.
NOT_AGAIN = ("tests/unit/native/test_programs.py", "tests/unit/native/test_aarch64.py")
PROGRAM_LIMIT_S, LONG_PROGRAM_LIMIT_S, PYTEST_LIMIT_S = 30, 180, 240
LONG_PROGRAMS = {"append_steps", "append_pairs", "stale_repair", "append_faults", "request_standstill", "request_steps"}
LONG_PROGRAMS |= {"request_pairs", "command_pairs", "turn_steps"}


def programs_of(path: str) -> tuple[str, ...]:
    """Programs for a C file, the one of its own name first."""
    room, stem = path.split("/")[1], Path(path).stem
    return tuple(sorted(PROGRAMS[room], key=lambda name: name != stem))


def program_limit_s(program: str) -> int:
    """Seconds after which a program hangs."""
    return LONG_PROGRAM_LIMIT_S if program in LONG_PROGRAMS else PROGRAM_LIMIT_S


def pytest_runs(tree: Path, path: str) -> list[list[str]]:
    """Arguments of pytest for a file of either language, one run after the other."""
    room = path.split("/")[1]
    rooms = LOADED_BY[room] if path.startswith("native/") else (room,)
    name = f"test_{Path(path).stem}.py"
    mirrored = sorted(str(one.relative_to(tree)) for one in (tree / "tests" / "unit").glob(f"*/**/{name}"))
    mirrored = [one for one in mirrored if one.split("/")[2] in rooms]
    ignored = [f"--ignore={one}" for one in NOT_AGAIN] + [f"--deselect={one}" for one in mirrored]
    runs = [[*mirrored]] if mirrored else []
    runs += [["-m", "not slow", f"tests/unit/{one}", *ignored] for one in rooms]
    broker = BROKER_TESTS.get("/".join(path.split("/")[:2]), ())
    return runs + [[f"tests/integration/{one}" for one in broker]] * bool(broker)
