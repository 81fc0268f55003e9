"""Measures the overhead of Baton for a streamed answer: compared with curl, and from the model to many clients.

Started by `bench/run stream`. The example `stream_figures` of baton-testkit has the model and the clients.
"""

import json
import subprocess

from . import part, programs
from .table import number


def main():
    """Runs the measurements and prints the table."""
    options = part.arguments("stream", __doc__).parse_args()
    load = part.prepare(options, "--example", "stream_figures")
    command = [programs.target() / "examples" / "stream_figures", options.baton or programs.target() / "baton"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = {"overhead": overhead, "delivery": delivery}
    figures = map(json.loads, output.splitlines())
    part.print_rows([row for each in figures for row in rows[each["part"]](each)], load)


def overhead(figures):
    """Formats the times to read a stream with curl and through Baton."""
    paced = figures["pause_ms"] > 0
    stream = f"{figures['pieces']:,} deltas, " + (f"{figures['pause_ms']} ms apart" if paced else "all at once")
    yield f"{stream}: read by curl", f"{number(figures['curl_ms'])} ms", ""
    target = f"<= +10 % {part.verdict(figures['ratio'] <= 1.1)}" if paced else ""
    yield f"{stream}: read through Baton", f"{number(figures['baton_ms'])} ms, {figures['ratio'] - 1:+.1%}", target


def delivery(figures):
    """Formats the delay from the model to the clients."""
    clients = "1 client" if figures["clients"] == 1 else f"each of {figures['clients']} clients"
    figure = f"p50 {number(figures['p50_ms'])} ms, p99 {number(figures['p99_ms'])} ms"
    yield f"delay of a delta from the model to {clients}", figure, f"p50 <= 1 ms {part.verdict(figures['p50_ms'] <= 1)}"


if __name__ == "__main__":
    part.run(main)
