"""What Baton adds to a streamed answer: beside curl, which reads the same stream, and from the model to many clients.

Started by `bench/run stream`. The model and the clients are in `stream_figures`, an example of baton-testkit; see there.
"""

import argparse
import json
import subprocess

from . import programs
from .table import number


def main():
    """Measures, and prints."""
    parser = argparse.ArgumentParser(prog="bench/run stream", description=__doc__)
    parser.add_argument("--no-build", action="store_true", help="measure what is in target/release already")
    parser.add_argument("--baton", metavar="PROGRAM", help="another build of Baton")
    options = parser.parse_args()
    if not options.no_build:
        programs.build("-p", "baton")
        programs.build("-p", "baton-testkit", "--example", "stream_figures")
    command = [programs.target() / "examples" / "stream_figures", options.baton or programs.target() / "baton"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    print("| | | target |\n|---|---:|---:|")
    for line in output.splitlines():
        figures = json.loads(line)
        for row in {"overhead": overhead, "delivery": delivery}[figures["part"]](figures):
            print("| " + " | ".join(row) + " |")


def overhead(figures):
    """The same stream, read by curl and through Baton."""
    paced = figures["pause_ms"] > 0
    stream = f"{figures['pieces']:,} pieces, " + (f"{figures['pause_ms']} ms apart" if paced else "all at once")
    yield f"{stream}: read by curl", f"{number(figures['curl_ms'])} ms", ""
    target = f"<= +10 % {verdict(figures['ratio'] <= 1.1)}" if paced else ""
    yield f"{stream}: by a client of Baton", f"{number(figures['baton_ms'])} ms, {figures['ratio'] - 1:+.1%}", target


def delivery(figures):
    """From the model to the clients."""
    clients = "1 client" if figures["clients"] == 1 else f"each of {figures['clients']} clients"
    figure = f"p50 {number(figures['p50_ms'])} ms, p99 {number(figures['p99_ms'])} ms"
    yield f"a piece, from the model to {clients}", figure, f"p50 <= 1 ms {verdict(figures['p50_ms'] <= 1)}"


def verdict(met):
    """Whether a target is met, for people."""
    return "✓" if met else "✗"


if __name__ == "__main__":
    main()
