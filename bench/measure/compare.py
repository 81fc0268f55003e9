"""Compares Baton with the official runtime, alternating within one run. Prints a table. Started by `bench/run`."""

import json
import subprocess
import time
from pathlib import Path

from . import driver, machine, part, programs
from .process import Process
from .services import serving
from .table import judge, percentile, print_text, to_markdown
from .wire import timed

# Pause before memory is read, for background work of the runtime to finish.
SETTLE_SECONDS = 2.0
STAGES = (1, 20, 1000)
WARM_UPS = 3
STARTS, CREATIONS, TURNS = 10, 50, 30


def main():
    """Runs the measurements and prints the table."""
    options = parse_arguments()
    part.build(options, "--bins")
    runtimes, absent = find_runtimes(options)
    load = part.watch_machine(options)
    with programs.scratch() as scratch, serving(programs.scripted_model()) as endpoints:
        comparison = Comparison(runtimes, endpoints, scratch, options)
        comparison.run()
    report = {
        "machine": machine.describe(),
        "others": load.share(),
        "versions": {runtime.name: runtime.version for runtime in runtimes},
        "absent": absent,
        "rounds": options.rounds,
        "floor": percentile(comparison.floor, 50),
        "samples": comparison.samples,
    }
    report["rows"] = judge(report)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    print(to_markdown(report)) if options.markdown else print_text(report)


def parse_arguments():
    """Parses the command line."""
    parser = part.arguments("", __doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="number of rounds (%(default)s)")
    add("--json", metavar="FILE", help="also write every sample to a file")
    add("--markdown", action="store_true", help="print the table as Markdown")
    add("--peer", metavar="PROGRAM", help="native binary of the official runtime")
    add("--peer-version", default=programs.PEER_VERSION, help="version to install with npm (%(default)s)")
    add("--no-peer", action="store_true", help="measure only Baton")
    add("--limit", metavar="SECONDS", type=float, default=120, help="time limit for creating 1000 sessions (%(default)s)")
    return parser.parse_args()


def find_runtimes(options):
    """Returns the available programs, and the reason if the official runtime is not available."""
    runtimes, absent = [programs.baton(options.baton)], None
    try:
        if options.no_peer:
            raise programs.Unavailable("excluded by --no-peer.")
        runtimes.append(programs.official(options.peer_version, options.peer))
    except programs.Unavailable as reason:
        absent = str(reason)
        part.say(f"the official runtime is not measured: {absent}")
    return runtimes, absent


class Comparison:
    """All measurements of one run. Programs alternate, and only the measured one is running."""

    def __init__(self, runtimes, endpoints, scratch, options):
        self.runtimes, self.endpoints, self.scratch, self.options = runtimes, endpoints, scratch, options
        self.floor = []
        self.samples = {runtime.name: {"disk": [runtime.disk_bytes / 1e6]} for runtime in runtimes}

    def run(self):
        """Runs all rounds. The order of the programs changes with every round."""
        for runtime in self.runtimes:
            part.say(f"{runtime.name} {runtime.version}: first start, not measured")
            self.first_start(runtime)
        for number in range(self.options.rounds):
            order = self.runtimes[:: -1 if number % 2 else 1]
            part.say(f"round {number + 1} of {self.options.rounds}: {', then '.join(each.name for each in order)}")
            for _ in range(STARTS):
                self.measure_floor()
                for runtime in order:
                    self.measure_start(runtime)
            for measure in (self.measure_creation, self.measure_turns, self.measure_memory):
                for runtime in order:
                    measure(runtime)

    def start(self, runtime, home=None):
        """Starts a runtime and connects to it."""
        process = Process(runtime, self.endpoints, self.scratch, home)
        try:
            driver.connect(process.wire)
        except BaseException:
            process.stop()
            raise
        return process

    def first_start(self, runtime):
        """Fills caches: the official runtime unpacks itself at its first start, which takes seconds."""
        home = self.scratch / f"{runtime.name}-starts"
        home.mkdir()
        with self.start(runtime, home) as process:
            driver.checked_turn(process.wire, driver.create(process.wire))

    def measure_floor(self):
        """Measures the cost of starting any program with the same call: `true`, until it has exited."""
        taken, _ = timed(lambda: subprocess.run(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self.floor.append(taken)

    def measure_start(self, runtime):
        """Measures from spawning the program to its reply to `connect`, in a home that was used before."""
        with self.start(runtime, self.scratch / f"{runtime.name}-starts") as process:
            self.add(runtime, "start", (time.perf_counter_ns() - process.spawned) / 1e6)

    def measure_creation(self, runtime):
        """Measures `session.create`. All sessions stay open."""
        with self.start(runtime) as process:
            for _ in range(WARM_UPS):
                driver.create(process.wire)
            for _ in range(CREATIONS):
                self.add(runtime, "create", timed(lambda: driver.create(process.wire))[0])

    def measure_turns(self, runtime):
        """Measures turns in one session, whole and streamed."""
        for name, streaming in (("turn", False), ("turn_streamed", True)):
            with self.start(runtime) as process:
                session = driver.create(process.wire, streaming)
                for _ in range(WARM_UPS):
                    driver.checked_turn(process.wire, session)
                for _ in range(TURNS):
                    self.add(runtime, name, timed(lambda: driver.turn(process.wire, session))[0])

    def measure_memory(self, runtime):
        """Measures memory after the start and with growing numbers of idle sessions."""
        with self.start(runtime) as process:
            self.add_memory(runtime, "memory_start", process)
            made, deadline = 0, time.monotonic() + self.options.limit
            for stage in STAGES:
                while made < stage and time.monotonic() < deadline:
                    driver.create(process.wire)
                    made += 1
                self.add_memory(runtime, f"memory_{stage}", process)
            self.add(runtime, "sessions", made)
            if made > STAGES[-2]:
                few, many = (self.samples[runtime.name][f"memory_{stage}"][-1] for stage in STAGES[-2:])
                self.add(runtime, "per_session", (many - few) * 1e3 / (made - STAGES[-2]))

    def add_memory(self, runtime, name, process):
        """Adds samples of memory in megabytes, after a pause."""
        time.sleep(SETTLE_SECONDS)
        for kind, kilobytes in process.memory().items():
            self.add(runtime, name if kind == "pss" else f"{name}_{kind}", kilobytes * 1024 / 1e6)

    def add(self, runtime, name, value):
        """Adds a sample."""
        self.samples[runtime.name].setdefault(name, []).append(round(value, 4))


if __name__ == "__main__":
    part.run(main)
