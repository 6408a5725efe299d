"""One state of the fuzzer: copy, mutate, start, look, put back, start again, look."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.filestates import oracle
from tests.filestates.bases import Base
from tests.filestates.mutations import State, mutate
from tests.filestates.started import Refused, Running, started_here, started_really

Start = Callable[..., AbstractContextManager[Running]]


class Result(NamedTuple):
    """`outcome`: served, refused; `problems`: sentences, none if all is well."""

    outcome: str
    mutations: list[str]
    problems: list[str]


def run_state(random: Random, bases: list[Base], directory: Path, *, really: bool) -> Result:
    """Works in `directory`, which it empties in the end only if all is well."""
    base = random.choice(bases)
    path = directory / "data"
    shutil.copytree(base.path, path)
    original, start = base.files, started_really if really else started_here
    started = partial(start, homes=base.homes)
    done = [f"base {base.name}", *mutate(random, State(path, base))]
    mutated = oracle.read_files(path)
    starts = random.choice([1, 1, 1, 2])
    outcome, found = "", []
    for _ in range(starts):
        clean_stop = random.random() < 0.4
        done.append(f"start, {'stop' if clean_stop else 'kill'}")
        outcome, found = _start(path, base, original, started, really=really, clean_stop=clean_stop)
        if found:
            break
    if not found:
        done.append(_put_back(random, path, base, mutated, original))
        found = _start_again(path, base, started)
    if not found:
        shutil.rmtree(directory)
    return Result(outcome, done, found)


def _start(
    path: Path, base: Base, original: oracle.Files, started: Start, *, really: bool, clean_stop: bool
) -> tuple[str, list[str]]:
    before = oracle.read_files(path)
    found: list[str] = []
    outcome = "served"
    wanted = oracle.expectations(path, before, base, original)
    try:
        with started(path, clean_stop=clean_stop) as running:
            found += oracle.problems(running, wanted, before, base, original)
    except Refused as error:
        outcome = "refused"
        found += [f"refused ({error}), but {name} changed" for name in _touched(before, oracle.read_files(path))]
        homes = {home.rstrip("/") for home in base.homes}
        if not any(name.rpartition("/")[0] in homes for name in oracle.changed(before, original)):
            found.append(f"refused, but nothing was done to the directory's own files: {error}")
    except Exception as error:
        return "failed", [f"the start failed: {error!r}"]
    after = oracle.read_files(path)
    found += [
        f"{name} is not there any more as it was"
        for name in oracle.not_kept(before, after, was_written=really or clean_stop)
    ]
    return outcome, found


def _touched(before: oracle.Files, after: oracle.Files) -> list[str]:
    """SQLite's own files may be another way to hold the same; a lock says nothing."""
    return [name for name in oracle.changed(before, after) if not _is_store(name) and not name.endswith(".lock")]


def _is_store(name: str) -> bool:
    return name.rpartition("/")[2].startswith(oracle.STORE)


def _put_back(random: Random, path: Path, base: Base, mutated: oracle.Files, original: oracle.Files) -> str:
    """What was done is undone: all files as they were, or only those that something was done to, and the logs that
    recovery shortened or set aside for it. What recovery put beside them stays."""
    everything = random.random() < 0.5
    now = oracle.read_files(path)
    for name in mutated.keys() - original.keys():
        (path / name).unlink(missing_ok=True)
    hurt = set(oracle.changed(mutated, original))
    store_too = any(_is_store(name) for name in hurt)  # also by a file more: a log of it that is older
    if store_too:
        hurt |= {name for name in original if _is_store(name)}
    for name in original:
        if everything or name in hurt or (name.endswith(".log") and now.get(name) != original[name]):
            (path / name).parent.mkdir(exist_ok=True, parents=True)
            shutil.copy2(base.path / name, path / name)
    if everything or store_too:
        for name in now.keys() - original.keys():
            if _is_store(name):
                (path / name).unlink(missing_ok=True)
    return f"put back {'everything' if everything else 'what was hurt'}"


def _start_again(path: Path, base: Base, started: Start) -> list[str]:
    try:
        with started(path, clean_stop=False) as running:
            shown = running.partitions()
            found = [f"put back, but {name} is not served" for name in base.batches if not shown.get(name)]
            for name in base.batches:
                if shown.get(name):
                    wanted = [(batch.first, batch) for batch in base.batches[name]]
                    found += [f"put back: {one}" for one in oracle.not_read(running, name, wanted)]
    except Refused as error:
        return [f"put back, but refused: {error}"]
    except Exception as error:
        return [f"put back, but the start failed: {error!r}"]
    return found
