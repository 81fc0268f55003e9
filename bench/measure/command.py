"""Measures `baton run`: from starting the command to the first byte of its answer.

Started by `bench/run command`. The model is the built-in demo model, so that nothing but Baton is measured. The command holds its session itself, in a new home and in one that has sessions, and uses a running server. A start of `true` tells what of it is starting a process from Python.
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from . import part, programs

TARGET = 0.030


def main():
    """Runs the measurement and prints the table."""
    parser = part.arguments("command", __doc__)
    parser.add_argument("--samples", type=int, default=30, help="commands of each kind (default: 30)")
    options = parser.parse_args()
    if not options.no_build and not options.baton:
        programs.build("-p", "baton")
    load = part.watch_machine(options)
    baton = str(options.baton or programs.target() / "baton")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="baton-bench-command-"))
    try:
        figures = measure(baton, directory, options.samples)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    part.print_rows(list(rows(figures)), load)


def rows(figures):
    """Formats the figures."""
    for title, times in figures.items():
        median, worst = statistics.median(times), max(times)
        figure = f"p50 {median * 1000:.1f} ms, worst of {len(times)} {worst * 1000:.1f} ms"
        has_target = title.startswith("`baton run`") and "new home" not in title
        yield title, figure, f"<= 30 ms {part.verdict(median <= TARGET)}" if has_target else ""


def measure(baton, directory, samples):
    """Returns the times of each kind. The kinds alternate, so that all see the same machine."""
    used, served = directory / "used", directory / "served"
    server = serve(baton, served)
    figures = {
        "`baton run` of the demo model to its first byte, new home": [],
        "`baton run` of the demo model to its first byte": [],
        "`baton run` of the demo model to its first byte, on a running server": [],
        "starting `true`, to its end": [],
    }
    new, again, remote, nothing = figures.values()
    try:
        first_byte(baton, used, "--demo")
        first_byte(baton, served)
        for number in range(samples):
            new.append(first_byte(baton, directory / f"new-{number}", "--demo"))
            again.append(first_byte(baton, used, "--demo"))
            remote.append(first_byte(baton, served))
            begun = time.perf_counter()
            subprocess.run(["true"], check=True)
            nothing.append(time.perf_counter() - begun)
    finally:
        server.terminate()
        server.wait()
    return figures


def serve(baton, home):
    """Starts a server, and waits until it is ready."""
    command = [baton, "--home", str(home), "serve", "--demo"]
    server = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    next(line for line in server.stdout if "listening on unix://" in line)
    return server


def first_byte(baton, home, *flags):
    """Runs a command. Returns the time to the first byte on its standard output."""
    command = [baton, "--home", str(home), "run", *flags, "hello"]
    begun = time.perf_counter()
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        first = os.read(running.stdout.fileno(), 1)
        taken = time.perf_counter() - begun
        running.stdout.read()
    if not first or running.returncode != 0:
        raise SystemExit(f"bench: {' '.join(command)} failed with {running.returncode}")
    return taken


def environment():
    """Returns the environment of a user without keys: the demo model answers."""
    keys = ("OPENAI_", "ANTHROPIC_", "COPILOT_", "BATON_")
    return {name: value for name, value in os.environ.items() if not name.startswith(keys)}


if __name__ == "__main__":
    part.run(main)
