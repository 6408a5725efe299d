"""`mpbroker trace export`: a trace, or a slice of one, for another program. Runs in the command's process; needs the
extra `studies`, `--hdr` the extra `export`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpbroker.cli import trace_arguments, trace_text
from mpbroker.cli.extras import extras
from mpbroker.errors import MpbrokerError

if TYPE_CHECKING:
    from mpbroker.analysis.export.written import Written

DESCRIPTION = """\
Write a trace for another program.
--perfetto: Chrome trace events, for https://ui.perfetto.dev (which reads the file in the browser and
sends it nowhere): a track per processor and handler with arrows that follow each request. At most
about a million events (some 30,000 requests): choose a time, an API, or the slowest.
--otlp: OpenTelemetry, a span per request and stage; with --histograms exponential histograms instead.
To a file that a collector's otlpjsonfile receiver reads, or with --endpoint to a collector.
--hdr: a log of HdrHistogram with a histogram per window and API, for its plotter and its tools.
--request-log: a line per request as in Kafka's kafka-request.log."""
EXAMPLES = (
    ("mpbroker trace export --perfetto --in mpbroker-data/traces --out slice.json", "the first 30,000 requests or so"),
    ("mpbroker trace export --perfetto --slowest 1000 --out slow.json.gz", "the thousand slowest"),
    (
        "mpbroker trace export --perfetto --from 2026-11-21T17:00:00 --to 2026-11-21T17:00:01 --out slice.json.gz",
        "one second, compressed",
    ),
    ("mpbroker trace export --otlp --endpoint http://127.0.0.1:4318 --limit 10000", "spans to a collector"),
    ("mpbroker trace export --otlp --histograms --window 10 --out metrics.jsonl", "a histogram each 10 s"),
    ("mpbroker trace export --hdr --out latency.hlog", "what HdrHistogram's log tools read"),
    ("mpbroker trace export --request-log --api Fetch --out kafka-request.log", "one API, as Kafka logs it"),
)
_DEFAULT_OUT = {
    "perfetto": "trace.json",
    "otlp": "otlp.jsonl",
    "hdr": "latency.hlog",
    "request-log": "kafka-request.log",
}
_ONLY = {
    "slowest": {"perfetto"},
    "histograms": {"otlp"},
    "endpoint": {"otlp"},
    "limit": {"otlp", "request-log"},
    "window": {"otlp", "hdr"},
}


class BadExport(MpbrokerError):
    """Options that do not go together. Exit code 2."""

    exit_code = 2


def define(parser: argparse.ArgumentParser, _: str = "export") -> None:
    """The arguments of `trace export`."""
    formats = parser.add_mutually_exclusive_group(required=True)
    for name, text in (
        ("perfetto", "Chrome trace events as JSON"),
        ("otlp", "OpenTelemetry, as OTLP's JSON"),
        ("hdr", "a log of HdrHistogram (.hlog)"),
        ("request-log", "Kafka's request log"),
    ):
        formats.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=text)
    trace_arguments.define_input(parser)
    trace_arguments.define_slice(parser)
    number = trace_arguments.whole_number(1, 1_000_000)
    parser.add_argument(
        "--slowest", type=number, metavar="N",
        help="perfetto: only the N slowest requests, not counting waiting that their clients asked for",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=trace_arguments.whole_number(1, 100_000_000), metavar="N",
        help="otlp, request-log: at most so many requests, the earliest (default: 1,000,000)",
    )  # fmt: skip
    parser.add_argument(
        "--window", type=trace_arguments.whole_number(1, 86_400), metavar="S",
        help="otlp --histograms, hdr: seconds of each histogram (default: 1 for hdr, 60 for otlp)",
    )  # fmt: skip
    parser.add_argument("--histograms", action="store_true", default=None, help="otlp: histograms instead of spans")
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--out",
        metavar="F",
        help=f"the file; compressed if it ends with .gz (default: {', '.join(_DEFAULT_OUT.values())})",
    )
    place.add_argument("--endpoint", metavar="URL", help="otlp: a collector's address (OTLP/HTTP), instead of a file")


def run(arguments: argparse.Namespace) -> int:
    """Write it, and say what it has."""
    _check(arguments)
    with extras():
        from mpbroker.analysis.engine.engines.choose_engine import choose_engine
        from mpbroker.analysis.engine.input.trace_input import open_input

        trace_arguments.require_traces(arguments)
        source = open_input(trace_arguments.paths_of(arguments), **trace_arguments.slice_of(arguments))
        trace_text.warn_of_damage(source.loss)
        engine = choose_engine("local", source)
        try:
            written = _write(arguments, engine)
        finally:
            engine.close()
    for sentence in written.sentences:
        print(f"note: {sentence}")
    print(f"{written.what}: {written.path}")
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Each option belongs to some formats."""
    for name, formats in _ONLY.items():
        if getattr(arguments, name) is not None and arguments.format not in formats:
            raise BadExport(f"--{name} is for --{' and --'.join(sorted(formats))}")
    if arguments.window is not None and arguments.format == "otlp" and not arguments.histograms:
        raise BadExport("--window is for histograms: add --histograms")


def _write(arguments: argparse.Namespace, engine: Any) -> "Written":
    from mpbroker.analysis.export import hdr_log, otlp_send, perfetto, request_log
    from mpbroker.analysis.export.written import MAX_REQUESTS

    out, most = Path(arguments.out or _DEFAULT_OUT[arguments.format]), arguments.limit or MAX_REQUESTS
    if arguments.format == "perfetto":
        return perfetto.export(engine, out, slowest=arguments.slowest).written()
    if arguments.format == "request-log":
        return request_log.export(engine, out, most)
    if arguments.format == "hdr":
        return hdr_log.export(engine, out, (arguments.window or 1) * 1000)
    if arguments.histograms:
        return otlp_send.export_histograms(engine, out, arguments.endpoint, (arguments.window or 60) * 1000)
    return otlp_send.export_spans(engine, out, arguments.endpoint, most)
