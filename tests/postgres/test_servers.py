"""Runs the scenarios with three servers on one database, or those whose names are given."""

from __future__ import annotations

import asyncio
import sys
import time
import traceback

import clients
import moves
import people
from scenario import SCENARIOS
from servers import World, report

assert clients and moves and people  # Importing them declares their scenarios.


async def run(wanted: list[str]) -> int:
    failed = 0
    for number, function in enumerate(SCENARIOS):
        if wanted and function.__name__ not in wanted:
            continue
        world = World(f"servers_{number}")
        start = time.monotonic()
        try:
            await asyncio.wait_for(function(world), 120)
            print(f"ok     {function.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
        except BaseException as error:  # Every failure is reported with the logs of the servers.
            failed += 1
            print(f"FAILED {function.__name__}", flush=True)
            traceback.print_exc()
            report(world, error)
        finally:
            await world.close()
            world.remove()
    print(f"{len(wanted or SCENARIOS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(run(sys.argv[1:])))
