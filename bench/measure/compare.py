"""Baton and the official runtime, side by side in one run. Prints a table. Started by `bench/run`."""

import json
import subprocess
import time
from pathlib import Path

from . import driver, machine, part, programs
from .process import Process
from .services import serving
from .table import judge, percentile, print_text, to_markdown
from .wire import timed

# How long a runtime may come to rest before its memory is read.
SETTLE_SECONDS = 2.0
STAGES = (1, 20, 1000)
WARM_UPS = 3
STARTS, CREATIONS, TURNS = 10, 50, 30


def main():
    """Measures, and prints."""
    options = parse_arguments()
    part.build(options, "--bins")
    runtimes, absent = find_runtimes(options)
    others = part.quiet(options)
    with programs.scratch() as scratch, serving(programs.scripted_model()) as endpoints:
        bench = Bench(runtimes, endpoints, scratch, options)
        bench.run()
    report = {
        "machine": machine.describe(),
        "others": others.share(),
        "versions": {runtime.name: runtime.version for runtime in runtimes},
        "absent": absent,
        "rounds": options.rounds,
        "floor": percentile(bench.floor, 50),
        "samples": bench.samples,
    }
    report["rows"] = judge(report)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    print(to_markdown(report)) if options.markdown else print_text(report)


def parse_arguments():
    """What can be typed."""
    parser = part.arguments("", __doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="how often everything is done (%(default)s)")
    add("--json", metavar="FILE", help="also write every sample to a file")
    add("--markdown", action="store_true", help="print the table as Markdown")
    add("--peer", metavar="PROGRAM", help="the official runtime's native binary, in its package's directory")
    add("--peer-version", default=programs.PEER_VERSION, help="which version npm installs (%(default)s)")
    add("--no-peer", action="store_true", help="measure Baton alone")
    add("--limit", metavar="SECONDS", type=float, default=120, help="for making 1000 sessions (%(default)s)")
    return parser.parse_args()


def find_runtimes(options):
    """The programs that can be measured, and why one of them cannot."""
    runtimes, absent = [programs.baton(options.baton)], None
    try:
        if options.no_peer:
            raise programs.Unavailable("it was not asked for (--no-peer).")
        runtimes.append(programs.official(options.peer_version, options.peer))
    except programs.Unavailable as reason:
        absent = str(reason)
        part.say(f"the official runtime is not measured: {absent}")
    return runtimes, absent


class Bench:
    """All measurements of one run. Programs take turns, and only the one that is measured is running."""

    def __init__(self, runtimes, endpoints, scratch, options):
        self.runtimes, self.endpoints, self.scratch, self.options = runtimes, endpoints, scratch, options
        self.floor = []
        self.samples = {runtime.name: {"disk": [runtime.disk_bytes / 1e6]} for runtime in runtimes}

    def run(self):
        """Everything, round by round. Who goes first changes with every round."""
        for runtime in self.runtimes:
            part.say(f"{runtime.name} {runtime.version}: a first start, which is not measured")
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
        """A runtime that has been greeted."""
        process = Process(runtime, self.endpoints, self.scratch, home)
        try:
            driver.connect(process.wire)
        except BaseException:
            process.stop()
            raise
        return process

    def first_start(self, runtime):
        """Fills caches: the official runtime unpacks itself, which takes it seconds."""
        home = self.scratch / f"{runtime.name}-starts"
        home.mkdir()
        with self.start(runtime, home) as process:
            driver.checked_turn(process.wire, driver.create(process.wire))

    def measure_floor(self):
        """What starting any program costs here, through the same call: `true`, until it has ended."""
        taken, _ = timed(lambda: subprocess.run(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self.floor.append(taken)

    def measure_start(self, runtime):
        """From spawning the program to its reply to `connect`, in a home that has been used before."""
        with self.start(runtime, self.scratch / f"{runtime.name}-starts") as process:
            self.add(runtime, "start", (time.perf_counter_ns() - process.spawned) / 1e6)

    def measure_creation(self, runtime):
        """Sessions, one after the other, each in use until the end."""
        with self.start(runtime) as process:
            for _ in range(WARM_UPS):
                driver.create(process.wire)
            for _ in range(CREATIONS):
                self.add(runtime, "create", timed(lambda: driver.create(process.wire))[0])

    def measure_turns(self, runtime):
        """Turns in one session, whole and streamed."""
        for name, streaming in (("turn", False), ("turn_streamed", True)):
            with self.start(runtime) as process:
                session = driver.create(process.wire, streaming)
                for _ in range(WARM_UPS):
                    driver.checked_turn(process.wire, session)
                for _ in range(TURNS):
                    self.add(runtime, name, timed(lambda: driver.turn(process.wire, session))[0])

    def measure_memory(self, runtime):
        """Memory after the start, and with more and more sessions that do nothing."""
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
        """Megabytes, once the program has come to rest."""
        time.sleep(SETTLE_SECONDS)
        for kind, kilobytes in process.memory().items():
            self.add(runtime, name if kind == "pss" else f"{name}_{kind}", kilobytes * 1024 / 1e6)

    def add(self, runtime, name, value):
        """Keeps a sample."""
        self.samples[runtime.name].setdefault(name, []).append(round(value, 4))


if __name__ == "__main__":
    part.run(main)
