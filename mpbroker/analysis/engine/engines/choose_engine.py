"""The engine of a name, or the one that suits a trace. Runs in a command's process.

local_engine.py needs numpy and pyarrow; Spark's engine and its JVM are loaded only when chosen.
"""

from mpbroker.analysis.engine.engines.engine import Engine, EngineError
from mpbroker.analysis.engine.input.trace_input import TraceInput

ENGINES = ("auto", "local", "spark")
LOCAL_RECORDS = 20_000_000


def choose_engine(name: str, source: TraceInput, *, master: str | None = None, remote: str | None = None) -> Engine:
    """The engine of a name. "auto": local below 20 million records, unless a master or remote is named."""
    if name not in ENGINES:
        raise EngineError(f"there is no engine {name!r}; there are: {', '.join(ENGINES)}")
    if name == "auto":
        name = "spark" if master or remote or source.loss.records >= LOCAL_RECORDS else "local"
    if name == "local":
        from mpbroker.analysis.engine.engines.local_engine import LocalEngine

        return LocalEngine(source)
    from mpbroker.analysis.spark.engine import SparkEngine

    return SparkEngine(source, master=master, remote=remote)
