"""`mpbroker lab`: experiments with brokers of its own: scenarios, open-loop load, studies, a report."""

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mpbroker.cli.client_arguments import whole
from mpbroker.cli.extras import extras, require
from mpbroker.cli.study_text import outcome_text

if TYPE_CHECKING:
    from mpbroker.analysis.lab.scenario import Scenario

DESCRIPTION = """\
Run an experiment: start brokers, drive a load with intended send times, mark its phases, join what
the clients saw with what the traces say, study it, write a report. A repeat ends by itself within
five minutes, and nothing is left behind but the output. docs/lab.md says how to write a scenario."""
EXAMPLES = (
    ("mpbroker lab ls", "the scenarios that come with mpbroker, and what each asks"),
    ("mpbroker lab run noisy-neighbour --out R", "one of them; R/report.html is the result"),
    ("mpbroker lab run steady --seconds 4", "shorter: four seconds of load for each variant"),
    ("mpbroker lab run noisy-neighbour --repeat 5 --seed 7", "five runs of each variant, and whether they differ"),
    ("mpbroker lab run kafka-4453 --elections 5", "two leaders at once, and what the control plane changes"),
    ("mpbroker lab run mine.toml --engine spark", "a scenario of your own, studied by Spark"),
)
ENGINES = ("auto", "local", "spark")


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `lab`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ls|run")
    actions.add_parser("ls", help="list the scenarios that come with mpbroker")
    run_parser = actions.add_parser("run", help="run a scenario")
    run_parser.add_argument("scenario", metavar="SCENARIO", help="a name that `lab ls` shows, or a file *.toml")
    run_parser.add_argument("--out", metavar="R", help="where everything is written (default: ./lab-SCENARIO)")
    run_parser.add_argument(
        "--seconds", type=float, metavar="S", help="of load for each variant (default: the scenario's)"
    )
    run_parser.add_argument(
        "--repeat",
        type=whole("--repeat", 1, 100),
        metavar="N",
        help="runs of each variant, in random order; from 5 on variants are compared (default: what the scenario says)",
    )
    run_parser.add_argument(
        "--seed", type=whole("--seed", 0), default=1, metavar="S", help="of the order and of the arrivals (default: 1)"
    )
    run_parser.add_argument(
        "--elections",
        type=whole("--elections", 1, 200),
        metavar="N",
        help="of an incident, from A to B in each variant (default: the incident's)",
    )
    run_parser.add_argument(
        "--engine", choices=ENGINES, default="local", help="what computes the studies (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """List, or run; say what was found and where the report is."""
    from mpbroker.analysis.lab import scenario
    from mpbroker.analysis.lab.incident import incident_plan

    if arguments.action == "ls":
        for name in scenario.names():
            found = scenario.load(name)
            print(f"{name}\n    {found.question}\n    {_size(found)}")
        for name in incident_plan.names():
            incident = incident_plan.load(name)
            size = f"{len(incident.variants)} variants, {incident.elections} elections each"
            print(f"{name}\n    {incident.question}\n    {size}")
        return 0
    if arguments.scenario in incident_plan.names():
        return _run_incident(arguments)
    wanted = scenario.load(arguments.scenario)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as after Ctrl-C: nothing is left behind
    require("plotly")
    with extras():
        from mpbroker.analysis.lab.scenario_run import run_scenario

        say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
        outcome = run_scenario(
            wanted,
            Path(arguments.out or f"lab-{wanted.name}"),
            arguments.seconds,
            arguments.engine,
            say,
            arguments.repeat or wanted.repeat,
            arguments.seed,
        )
    print(outcome_text(outcome, sentences=False))
    return 0


def _run_incident(arguments: argparse.Namespace) -> int:
    """Three brokers and elections instead of phases."""
    from mpbroker.analysis.lab.incident import incident_plan

    wanted = incident_plan.load(arguments.scenario)
    if arguments.elections is not None:
        wanted = wanted.shorter(arguments.elections)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    require("plotly")
    with extras():
        from mpbroker.analysis.lab.incident.incident_report import run_incident

        say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
        outcome = run_incident(wanted, Path(arguments.out or f"lab-{wanted.name}"), arguments.engine, say)
    print(outcome_text(outcome))
    return 0


def _size(found: "Scenario") -> str:
    variants = f"{len(found.variants)} variants, " if len(found.variants) > 1 else ""
    return (
        f"{variants}{found.seconds:g} s of load{' each' if variants else ''}: {', '.join(g.name for g in found.groups)}"
    )
