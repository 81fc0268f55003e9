"""The crash matrix: the real program, driven by the published Python SDK, is killed at every crash point of every
scenario, comes up again on the same directory, and is held to its promises.

  tests/crash/run                          every point, several hits of each; what CI runs
  tests/crash/run --random --minutes 10    random points, hits and moments, several deaths in a row, for as long as asked
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import os
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path

import adapters
import promises
import scenarios
from home import Death, Home
from scenarios import Scenario
from support import REPOSITORY, Model

#: The crash points, read from where they are: one that is added is tested, or the matrix fails.
SOURCE = REPOSITORY / "crates/server/src/crash.rs"

#: Which hits of a point are tried, until one is not reached any more. A long turn passes some points dozens of times.
HITS = [1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 29, 38, 50]

#: The model remembers everything that it was asked; after so many cells a new one takes over.
CELLS_PER_MODEL = 100


@dataclass(frozen=True)
class Cell:
    """One try: a scenario, how servers die one after the other, and whether clients want to go on afterwards."""

    scenario: str
    deaths: tuple[Death, ...]
    go_on: bool
    number: int = 0

    def __str__(self) -> str:
        wish = "going on" if self.go_on else "starting over"
        return f"{self.scenario} [{', then '.join(map(str, self.deaths))}; {wish}]"


@dataclass(frozen=True)
class Result:
    """What became of a cell. It counts if the first death came about."""

    cell: Cell
    fired: bool
    problem: str | None = None


def crash_points() -> list[str]:
    """The names of all crash points, in the order of the source."""
    body = re.search(r"pub enum CrashPoint \{(.*?)\n\}", SOURCE.read_text(), re.S).group(1)
    names = re.findall(r"^    (\w+),", body, re.M)
    return [re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower() for name in names]


class Worker:
    """What one process of the driver has: an SDK and a model."""

    sdk: adapters.Sdk
    model: Model | None = None
    cells = 0

    @classmethod
    def run(cls, cell: Cell, keep: bool) -> Result:
        if cls.model is None:
            Finalize(None, cls.stop_model, exitpriority=1)
        if cls.cells % CELLS_PER_MODEL == 0:
            cls.stop_model()
            cls.model = Model()
        cls.cells += 1
        return asyncio.run(cls.try_cell(cell, keep))

    @classmethod
    def stop_model(cls) -> None:
        if cls.model:
            cls.model.stop()

    @classmethod
    async def try_cell(cls, cell: Cell, keep: bool) -> Result:
        home = Home(cls.sdk, cls.model)
        fired, problem = False, None
        try:
            fired = await run_scenario(home, scenarios.ALL[cell.scenario], cell)
        except Exception as error:  # Whatever goes wrong is the cell's result.
            problem = f"{error or type(error).__name__}"
            if not isinstance(error, promises.Broken):
                problem += "\n" + "".join(traceback.format_exception(error)[-3:])
            problem += f"\nthe server's last words: {home.last_words()}" if (home.path / "log").exists() else ""
        if problem and keep:
            problem += f"\nkept: {home.path}"
        else:
            home.remove()
        return Result(cell, fired or bool(problem), problem)


async def run_scenario(home: Home, scenario: Scenario, cell: Cell) -> bool:
    """All lives of a cell. Says whether the first death came about; if not, there is nothing to come back from."""
    first, *more = cell.deaths
    if scenario.past:
        await home.live(lambda home: then_die(home, scenario.past))
    if scenario.is_command:
        await scenario.act(home)
        fired = scenarios.import_again(home, first)
        promises.imported(home)
        return fired
    fired = await home.live(scenario.act, first)
    if not fired and first.point:
        return False
    for death in more:
        await home.live(lambda home: promises.come_back(home, cell.go_on), death)
    await home.live(lambda home: promises.come_back(home, cell.go_on))
    promises.at_rest(home)
    return fired


async def then_die(home: Home, act: scenarios.Act) -> None:
    await act(home)
    home.server.signal(9)
    await home.server.ended


def chain(scenario: str, point: str, keep: bool) -> list[Result]:
    """One hit after the other of a point in a scenario, until one is not reached. Clients' wishes take turns."""
    results = []
    wishes = [(1, False), *((hit, hit % 2 == 1) for hit in HITS)]
    for hit, go_on in wishes:
        result = Worker.run(Cell(scenario, (Death(point, hit),), go_on), keep)
        if not result.fired:
            break
        results.append(result)
        if sum(bool(each.problem) for each in results) > 2:
            break  # The rest would say the same.
    return results


def random_cell(seed: str, number: int, points: list[str]) -> Cell:
    """The so-manieth cell of a random run: the same for the same seed."""
    dice = random.Random(f"{seed}/{number}")
    scenario = dice.choice([each for each in scenarios.ALL.values()])

    def death(first: bool) -> Death:
        if not scenario.is_command and dice.random() < 0.4:
            return Death(after=dice.uniform(0.0, 0.25))
        likely = sorted(scenario.reaches) if first and dice.random() < 0.8 else points
        return Death(dice.choice(likely), 1 + int(dice.expovariate(0.25)))

    deaths = [death(True)]
    while not scenario.is_command and len(deaths) < 4 and dice.random() < 0.35:
        deaths.append(death(False))
    return Cell(scenario.name, tuple(deaths), dice.random() < 0.6, number)


def random_cells(seed: str, start: int, step: int, until: float, points: list[str], keep: bool) -> list[Result]:
    """A worker's share of a random run."""
    results, number = [], start
    while time.time() < until:
        results.append(Worker.run(random_cell(seed, number, points), keep))
        if results[-1].problem:
            print(f"\nseed {seed}, cell {number}: {results[-1].cell}\n{results[-1].problem}", flush=True)
        number += step
    return results


def run_matrix(options: argparse.Namespace, points: list[str]) -> tuple[list[Result], list[str]]:
    """Everything, and what is missing: a cell that never fires shows nothing, and is a failure of the matrix."""
    chosen = [name for name in scenarios.ALL if options.scenario in name]
    wanted = [point for point in points if options.point in point]
    tasks = [(name, point) for name in chosen for point in wanted if point in scenarios.ALL[name].reaches]
    results: list[Result] = []
    missing = []
    with pool(options.jobs) as workers:
        futures = {workers.submit(chain, name, point, options.keep): (name, point) for name, point in tasks}
        for future in as_completed(futures):
            name, point = futures[future]
            if not future.result():
                missing.append(f"{name} never comes by {point}")
            for result in future.result():
                if result.problem:
                    print(f"\n{result.cell}\n{result.problem}", flush=True)
            results += future.result()
    if not options.scenario:
        reached = {result.cell.deaths[0].point for result in results}
        missing += [f"no scenario comes by {point}" for point in wanted if point not in reached]
    return results, missing


def run_random(options: argparse.Namespace, points: list[str]) -> tuple[list[Result], list[str]]:
    seed = options.seed or str(random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed}: repeat this with --seed {seed}, one cell of it with --seed {seed} --cell NUMBER", flush=True)
    if options.cell is not None:
        cell = random_cell(seed, options.cell, points)
        with pool(1) as workers:
            result = workers.submit(Worker.run, cell, options.keep).result()
        print(f"{cell}\n{result.problem or 'kept its promises'}")
        return [result], []
    until, jobs = time.time() + 60 * options.minutes, options.jobs
    with pool(jobs) as workers:
        shares = [workers.submit(random_cells, seed, job, jobs, until, points, options.keep) for job in range(jobs)]
        return [result for share in shares for result in share.result()], []


def pool(jobs: int) -> ProcessPoolExecutor:
    """Processes that share what has been imported: the SDK is large."""
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork"))


def table(results: list[Result], points: list[str]) -> Iterator[str]:
    """In Markdown, for people."""
    cells = Counter(how_of(result.cell) for result in results if result.fired)
    passed = Counter(how_of(result.cell) for result in results if result.fired and not result.problem)
    yield "| killed | cells | passed |"
    yield "|---|---:|---:|"
    for how in [*points, "at a random moment"]:
        if cells[how]:
            yield f"| {f'`{how}`' if how in points else how} | {cells[how]} | {passed[how]} |"
    yield f"| **all** | **{cells.total()}** | **{passed.total()}** |"


def how_of(cell: Cell) -> str:
    return cell.deaths[0].point or "at a random moment"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/crash/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--jobs", type=int, default=2 * (os.cpu_count() or 2), help="how many cells at a time (%(default)s)")
    add("--scenario", default="", help="only scenarios with this in their name")
    add("--point", default="", help="only points with this in their name")
    add("--keep", action="store_true", help="keep the directories of cells that fail")
    add("--table", metavar="FILE", type=Path, help="also write the table to a file")
    add("--random", action="store_true", help="a random run")
    add("--minutes", type=float, default=1.0, help="how long a random run takes (%(default)s)")
    add("--seed", help="of a random run; it prints the one that it took")
    add("--cell", type=int, help="only this cell of a random run")
    return parser.parse_args()


def main() -> int:
    options, points = parse(), crash_points()
    logging.disable()  # Clients complain that their servers are gone. That is what this is about.
    Worker.sdk = adapters.load()
    began = time.monotonic()
    results, missing = (run_random if options.random else run_matrix)(options, points)
    failed = [result for result in results if result.problem]
    lines = list(table(results, points))
    print("", *lines, "", *missing, sep="\n")
    if options.table:
        options.table.write_text("\n".join(lines) + "\n")
    names = {result.cell.scenario for result in results}
    deaths = sum(len(result.cell.deaths) for result in results if result.fired)
    print(
        f"{len(names)} scenarios, {sum(r.fired for r in results)} cells, {deaths} deaths planned, {len(failed)} broken "
        f"promises, {len(missing)} points not reached, SDK {Worker.sdk.version}, {time.monotonic() - began:.0f} s"
    )
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
