"""Measures the overhead of Baton over an engine: a turn of codex alone and through Baton, and memory of idle sessions.

Prints a table. Started by `bench/run engines`. Runs the real codex with a scripted model.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import driver, part, programs
from .process import DEAD_PROXY, Process
from .services import serving
from .table import number, percentile
from .wire import timed

ROUNDS = 20
SESSIONS = 100
INSTALLED = programs.ROOT / ".cache" / "engines" / "codex" / "node_modules" / ".bin" / "codex"


def main():
    """Runs the measurements and prints the table."""
    parser = part.arguments("engines", __doc__)
    parser.add_argument("--codex", metavar="PROGRAM", type=Path, default=INSTALLED, help="codex (%(default)s)")
    options = parser.parse_args()
    if not options.codex.exists():
        raise programs.Unavailable(f"{options.codex} does not exist; install it with `scripts/test engines`.")
    load = part.prepare(options, "--bins")
    with programs.scratch() as scratch, serving(programs.scripted_model()) as endpoints:
        engines = Engines(programs.baton(options.baton), options.codex, endpoints, scratch)
        rows = [*engines.turns(), *engines.memory()]
    part.print_rows(rows, load)


class Engines:
    """The measurements."""

    def __init__(self, runtime, codex, endpoints, scratch):
        self.runtime, self.codex, self.endpoints, self.scratch = runtime, codex, endpoints, scratch
        self.codex_home = scratch / "codex"
        self.codex_home.mkdir()
        (self.codex_home / "config.toml").write_text(
            'model = "scripted"\nmodel_provider = "scripted"\n[model_providers.scripted]\nname = "Scripted"\n'
            f'base_url = "{endpoints.model}/v1"\nwire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
        )

    @contextlib.contextmanager
    def baton(self, mode):
        """Starts Baton with codex as an engine in one of its modes."""
        home = Path(tempfile.mkdtemp(prefix=f"{mode}-", dir=self.scratch))
        config = home / "config" / "baton" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(
            f'[engines.codex]\nprogram = "{self.codex}"\nmode = "{mode}"\n'
            f'env = {{ CODEX_HOME = "{self.codex_home}", SCRIPTED_KEY = "dummy" }}\n'
        )
        with Process(self.runtime, self.endpoints, self.scratch, home=home) as process:
            driver.connect(process.wire)
            yield process
        shutil.rmtree(home, ignore_errors=True)

    def turns(self):
        """Measures the same prompt, answered by codex alone and by codex in a session, alternating."""
        part.say(f"turns: {ROUNDS} of each")
        alone, exec_mode, interactive, further = [], [], [], []
        with self.baton("exec") as exec_baton, self.baton("interactive") as interactive_baton:
            for round_number in range(ROUNDS + 1):
                taken = [
                    timed(self.run_alone)[0],
                    timed(lambda: first_turn(exec_baton.wire))[0],
                    timed(lambda: first_turn(interactive_baton.wire))[0],
                ]
                session = first_turn(interactive_baton.wire)
                taken.append(timed(lambda: driver.checked_turn(interactive_baton.wire, session))[0])
                # The first round reads the programs from disk and is not counted.
                if round_number:
                    for samples, once in zip((alone, exec_mode, interactive, further), taken):
                        samples.append(once)
        base = percentile(alone, 50)
        yield "`codex exec` alone, start to exit", milliseconds(alone), ""
        title = "new session and first turn through Baton, codex"
        yield f"{title} in exec mode", milliseconds(exec_mode, base), at_most_five_per_cent(exec_mode, base)
        target = at_most_five_per_cent(interactive, base)
        yield f"{title} in interactive mode (default)", milliseconds(interactive, base), target
        yield "further turn in interactive mode", milliseconds(further, base), at_most_five_per_cent(further, base)

    def run_alone(self):
        """Runs `codex exec` as Baton does in exec mode."""
        with tempfile.TemporaryDirectory(prefix="bench-work-") as work:
            done = subprocess.run(
                [self.codex, "exec", "--json", "--skip-git-repo-check", "--color=never", "-"],
                cwd=work,
                input=driver.PROMPT.encode(),
                capture_output=True,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.scratch),
                    "CODEX_HOME": str(self.codex_home),
                    "SCRIPTED_KEY": "dummy",
                    "HTTP_PROXY": DEAD_PROXY,
                    "HTTPS_PROXY": DEAD_PROXY,
                    "NO_PROXY": "127.0.0.1,localhost,::1",
                },
            )
        if driver.ANSWER.encode() not in done.stdout:
            raise RuntimeError(f"codex did not answer: {done.stdout[-500:]!r} {done.stderr[-500:]!r}")

    def memory(self):
        """Measures the memory of Baton without the programs it started, before and after many sessions had a turn."""
        part.say(f"memory: {SESSIONS} sessions")
        with self.baton("interactive") as process:
            session = first_turn(process.wire)
            process.wire.call("session.destroy", {"sessionId": session})
            before = process.memory(descendants=False)["pss"]
            for _ in range(SESSIONS):
                first_turn(process.wire)
            growth = (process.memory(descendants=False)["pss"] - before) * 1024 / 1e6
        title = f"memory of Baton itself for {SESSIONS} idle sessions with codex"
        yield title, f"{number(growth)} MB", f"<= 10 MB {part.verdict(growth <= 10)}"


def first_turn(wire):
    """Creates a session in which codex answers once. Returns its id."""
    session = driver.create(wire, model="codex")
    driver.checked_turn(wire, session)
    return session


def milliseconds(samples, base=None):
    text = f"{number(percentile(samples, 50))} ms (p90 {number(percentile(samples, 90))})"
    return f"{text}, {percentile(samples, 50) / base - 1:+.1%}" if base else text


def at_most_five_per_cent(samples, base):
    return f"<= +5 % {part.verdict(percentile(samples, 50) <= 1.05 * base)}"


if __name__ == "__main__":
    part.run(main)
