"""The crash matrix: runs scenarios with the real program and the published Python SDK, kills the program at every crash
point of every scenario, starts it again in the same directory and checks its promises.

  tests/crash/run                          all points, several hits of each; what CI runs
  tests/crash/run --random --minutes 10    random points, hits and moments, several kills in a row
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
from home import Kill, Home
from scenarios import Scenario
from support import REPOSITORY, Model

#: The source of the crash points: a new point is tested, or the matrix fails.
SOURCE = REPOSITORY / "crates/runtime/src/crash.rs"

#: The hits of a point to test, until one is not reached. A long turn passes some points dozens of times.
HITS = [1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 29, 38, 50]

#: The model stores all requests, so it is restarted after this many cells.
CELLS_PER_MODEL = 100


@dataclass(frozen=True)
class Cell:
    """One case: a scenario, the kills of successive servers, and whether clients continue pending work afterwards."""

    scenario: str
    kills: tuple[Kill, ...]
    continue_work: bool
    number: int = 0

    def __str__(self) -> str:
        then = "continue pending work" if self.continue_work else "discard pending work"
        return f"{self.scenario} [{', then '.join(map(str, self.kills))}; {then}]"


@dataclass(frozen=True)
class Result:
    """The result of a cell. It counts if the first kill happened."""

    cell: Cell
    was_killed: bool
    problem: str | None = None


def crash_points() -> list[str]:
    """Returns the names of the crash points of the store in use, in the order of the source."""
    body = re.search(r"pub enum CrashPoint \{(.*?)\n\}", SOURCE.read_text(), re.S).group(1)
    names = re.findall(r"^    (\w+),", body, re.M)
    points = [re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower() for name in names]
    # PostgreSQL migrates in one transaction of its own: there is no moment between.
    is_postgres = bool(os.environ.get("BATON_CRASH_POSTGRES"))
    return [point for point in points if not (is_postgres and point.endswith("_migration"))]


class Worker:
    """The SDK and the model of one worker process."""

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
        return asyncio.run(cls.run_cell(cell, keep))

    @classmethod
    def stop_model(cls) -> None:
        if cls.model:
            cls.model.stop()

    @classmethod
    async def run_cell(cls, cell: Cell, keep: bool) -> Result:
        home = Home(cls.sdk, cls.model)
        was_killed, problem = False, None
        try:
            was_killed = await run_scenario(home, scenarios.ALL[cell.scenario], cell)
        except Exception as error:  # Every error is the result of the cell.
            problem = f"{error or type(error).__name__}"
            if not isinstance(error, promises.BrokenPromise):
                problem += "\n" + "".join(traceback.format_exception(error)[-3:])
            problem += f"\nend of the server's log: {home.end_of_log()}" if (home.path / "log").exists() else ""
        if problem and keep:
            problem += f"\ndirectory: {home.path}"
        else:
            home.remove()
        return Result(cell, was_killed or bool(problem), problem)


async def run_scenario(home: Home, scenario: Scenario, cell: Cell) -> bool:
    """Runs all servers of a cell. Returns whether the first kill happened; if not, there is nothing to recover from."""
    first, *more = cell.kills
    if scenario.past:
        await home.live(lambda home: act_and_kill(home, scenario.past))
    if scenario.is_command:
        await scenario.act(home)
        was_killed = scenarios.run_import(home, first)
        promises.imported(home)
        return was_killed
    was_killed = await home.live(scenario.act, first)
    if not was_killed and first.point:
        return False
    for kill in more:
        await home.live(lambda home: promises.check_recovery(home, cell.continue_work), kill)
    await home.live(lambda home: promises.check_recovery(home, cell.continue_work))
    promises.check_after_shutdown(home)
    return was_killed


async def act_and_kill(home: Home, act: scenarios.Act) -> None:
    await act(home)
    home.server.signal(9)
    await home.server.ended


def chain(scenario: str, point: str, keep: bool) -> list[Result]:
    """Tests the hits of a point in a scenario, until one is not reached. Alternates whether clients continue work."""
    results = []
    hits = [(1, False), *((hit, hit % 2 == 1) for hit in HITS)]
    for hit, continue_work in hits:
        result = Worker.run(Cell(scenario, (Kill(point, hit),), continue_work), keep)
        if not result.was_killed:
            break
        results.append(result)
        if sum(bool(each.problem) for each in results) > 2:
            break  # Further hits would fail in the same way.
    return results


def random_cell(seed: str, number: int, points: list[str]) -> Cell:
    """Returns a cell of a random run, determined by seed and number."""
    dice = random.Random(f"{seed}/{number}")
    scenario = dice.choice([each for each in scenarios.ALL.values()])

    def kill(first: bool) -> Kill:
        if not scenario.is_command and dice.random() < 0.4:
            return Kill(after=dice.uniform(0.0, 0.25))
        likely = sorted(scenario.reaches) if first and dice.random() < 0.8 else points
        return Kill(dice.choice(likely), 1 + int(dice.expovariate(0.25)))

    kills = [kill(True)]
    while not scenario.is_command and len(kills) < 4 and dice.random() < 0.35:
        kills.append(kill(False))
    return Cell(scenario.name, tuple(kills), dice.random() < 0.6, number)


def random_cells(seed: str, start: int, step: int, until: float, points: list[str], keep: bool) -> list[Result]:
    """Runs a worker's share of a random run."""
    results, number = [], start
    while time.time() < until:
        results.append(Worker.run(random_cell(seed, number, points), keep))
        if results[-1].problem:
            print(f"\nseed {seed}, cell {number}: {results[-1].cell}\n{results[-1].problem}", flush=True)
        number += step
    return results


def run_matrix(options: argparse.Namespace, points: list[str]) -> tuple[list[Result], list[str]]:
    """Runs the matrix. Returns the results and the unreached points, which are failures: they test nothing."""
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
                missing.append(f"{name} never reaches {point}")
            for result in future.result():
                if result.problem:
                    print(f"\n{result.cell}\n{result.problem}", flush=True)
            results += future.result()
    if not options.scenario:
        reached = {result.cell.kills[0].point for result in results}
        missing += [f"no scenario reaches {point}" for point in wanted if point not in reached]
    return results, missing


def run_random(options: argparse.Namespace, points: list[str]) -> tuple[list[Result], list[str]]:
    seed = options.seed or str(random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed}: repeat this with --seed {seed}, one cell of it with --seed {seed} --cell NUMBER", flush=True)
    if options.cell is not None:
        cell = random_cell(seed, options.cell, points)
        with pool(1) as workers:
            result = workers.submit(Worker.run, cell, options.keep).result()
        print(f"{cell}\n{result.problem or 'all promises hold'}")
        return [result], []
    until, jobs = time.time() + 60 * options.minutes, options.jobs
    with pool(jobs) as workers:
        shares = [workers.submit(random_cells, seed, job, jobs, until, points, options.keep) for job in range(jobs)]
        return [result for share in shares for result in share.result()], []


def pool(jobs: int) -> ProcessPoolExecutor:
    """Creates worker processes by forking, so that they share the imported SDK, which is large."""
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork"))


def table(results: list[Result], points: list[str]) -> Iterator[str]:
    """Formats the results as Markdown."""
    cells = Counter(kill_label(result.cell) for result in results if result.was_killed)
    passed = Counter(kill_label(result.cell) for result in results if result.was_killed and not result.problem)
    yield "| killed | cells | passed |"
    yield "|---|---:|---:|"
    for how in [*points, "at a random moment"]:
        if cells[how]:
            yield f"| {f'`{how}`' if how in points else how} | {cells[how]} | {passed[how]} |"
    yield f"| **all** | **{cells.total()}** | **{passed.total()}** |"


def kill_label(cell: Cell) -> str:
    return cell.kills[0].point or "at a random moment"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/crash/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--jobs", type=int, default=2 * (os.cpu_count() or 2), help="number of concurrent cells (%(default)s)")
    add("--scenario", default="", help="only scenarios with this in their name")
    add("--point", default="", help="only points with this in their name")
    add("--keep", action="store_true", help="keep the directories of cells that fail")
    add("--table", metavar="FILE", type=Path, help="also write the table to a file")
    add("--random", action="store_true", help="random cells instead of the matrix")
    add("--minutes", type=float, default=1.0, help="duration of a random run (%(default)s)")
    add("--seed", help="seed of a random run (default: random, printed at the start)")
    add("--cell", type=int, help="only this cell of a random run")
    return parser.parse_args()


def main() -> int:
    options, points = parse(), crash_points()
    logging.disable()  # Clients log that their servers are gone, which is expected here.
    Worker.sdk = adapters.load()
    start = time.monotonic()
    results, missing = (run_random if options.random else run_matrix)(options, points)
    failed = [result for result in results if result.problem]
    lines = list(table(results, points))
    print("", *lines, "", *missing, sep="\n")
    if options.table:
        options.table.write_text("\n".join(lines) + "\n")
    names = {result.cell.scenario for result in results}
    kills = sum(len(result.cell.kills) for result in results if result.was_killed)
    print(
        f"{len(names)} scenarios, {sum(r.was_killed for r in results)} cells, {kills} kills planned, "
        f"{len(failed)} broken promises, {len(missing)} points not reached, SDK {Worker.sdk.version}, {time.monotonic() - start:.0f} s"
    )
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
