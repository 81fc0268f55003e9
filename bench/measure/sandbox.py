"""Measures the sandbox: what a command costs inside and outside, a build inside, and memory of the proxy.

Prints a table. Started by `bench/run sandbox`. Each figure is the time of a turn in which the scripted model calls the shell tool once. Kinds alternate, so that all see the same machine; a third kind repeats the outside, and tells what two runs of the same differ by.
"""

import json
import os
import shutil
import statistics
from pathlib import Path

from . import driver, part, programs
from .process import Process
from .services import serving
from .wire import timed

CALLS = 100
BUILDS = 20
MANIFEST = '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n'
LIBRARY = "\n".join(f"pub fn f{n}(x: u32) -> String {{ format!(\"{{x}} {n}\") }}" for n in range(2000))


def main():
    """Runs the measurements and prints the table."""
    parser = part.arguments("sandbox", __doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help=f"commands of each kind (default: {CALLS})")
    parser.add_argument("--builds", type=int, default=BUILDS, help=f"builds of each kind (default: {BUILDS})")
    options = parser.parse_args()
    load = part.prepare(options, "--bins")
    with programs.scratch() as scratch, serving(programs.scripted_model()) as endpoints:
        work = Path(scratch) / "work"
        (work / "src").mkdir(parents=True)
        (work / "Cargo.toml").write_text(MANIFEST)
        (work / "src/lib.rs").write_text(LIBRARY)
        with Process(programs.baton(options.baton), endpoints, scratch) as process:
            driver.connect(process.wire)
            shells = Shells(process, work)
            rows = [*shells.commands(options.calls), *shells.builds(options.builds)]
    part.print_rows(rows, load)


class Shells:
    """Sessions whose commands run outside, outside again, and inside."""

    def __init__(self, process, work):
        self.process, self.work = process, work
        self.sessions = {"outside": self.session(), "again": self.session(), "inside": self.session(sandboxConfig={"enabled": True})}

    def session(self, **settings):
        session = driver.create(self.process.wire, workingDirectory=str(self.work), **settings)
        self.process.wire.call("session.permissions.setApproveAll", {"sessionId": session, "enabled": True})
        return session

    def run(self, kind, command):
        """Runs a command. Returns how long its turn took, in milliseconds."""
        arguments = json.dumps({"command": command, "description": "bench", "initial_wait": 120})
        prompt = f"[[tool:bash {arguments}]][[text:done]]"
        return timed(lambda: self.turn(kind, prompt))[0]

    def turn(self, kind, prompt):
        wire = self.process.wire
        wire.call("session.send", {"sessionId": self.sessions[kind], "prompt": prompt})
        done = wire.wait_for_event("tool.execution_complete")["data"]
        if "exited with exit code 0" not in json.dumps(done):
            raise RuntimeError(f"the command failed: {done}")
        wire.wait_for_event("session.idle")

    def rounds(self, count, command):
        """Runs a command in all sessions, and returns the times of each. The first round is not counted."""
        times = {kind: [] for kind in self.sessions}
        for number in range(count + 1):
            for kind in times:
                took = self.run(kind, command)
                if number:
                    times[kind].append(took)
        return times

    def commands(self, count):
        part.say(f"true: {count} of each")
        self.rounds(1, "true")
        before = self.process.memory(descendants=False)["pss"]
        times = self.rounds(count, "true")
        grown = (self.process.memory(descendants=False)["pss"] - before) / 1024
        medians = {kind: statistics.median(values) for kind, values in times.items()}
        more = medians["inside"] - medians["outside"]
        figure = f"{medians['inside']:.1f} ms, {medians['outside']:.1f} ms, again {medians['again']:.1f} ms"
        yield "a turn with `true` inside, outside, outside again", figure, f"<= 15 ms more {part.verdict(more <= 15)}"
        yield f"memory of the server after {count} commands inside and {2 * count} outside", f"+{grown:.1f} MB", f"<= 10 MB {part.verdict(grown <= 10)}"

    def builds(self, count):
        if not shutil.which("cargo"):
            return
        part.say(f"cargo check: {count} of each")
        # The home of the measured program is another, without tools.
        home = Path.home()
        tools = f"RUSTUP_HOME={os.environ.get('RUSTUP_HOME', home / '.rustup')} CARGO_HOME={os.environ.get('CARGO_HOME', home / '.cargo')}"
        command = f"touch src/lib.rs && {tools} cargo check --offline --quiet"
        times = self.rounds(count, command)
        medians = {kind: statistics.median(values) for kind, values in times.items()}
        ratio, noise = medians["inside"] / medians["outside"], medians["again"] / medians["outside"]
        figure = f"{medians['inside']:.0f} ms, {medians['outside']:.0f} ms: {ratio - 1:+.1%} (again {noise - 1:+.1%})"
        yield "`cargo check` of a small crate inside, outside", figure, f"<= +5 % {part.verdict(ratio <= 1.05)}"


if __name__ == "__main__":
    part.run(main)
