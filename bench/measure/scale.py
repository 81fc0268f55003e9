"""Measures several servers on one PostgreSQL database: prompts beside pgbench, kills, idle sessions, the peer link.

Started by `bench/run scale`. `tests/postgres/figures.py` measures, in a cluster of its own that syncs to disk.
"""

import json
import os
import subprocess
from pathlib import Path

from . import part, programs
from .table import number


def main():
    """Runs the measurements and prints the table."""
    parser = part.arguments("scale", __doc__)
    parser.add_argument("--kills", default="30", help="number of killed servers")
    parser.add_argument("--idle", default="10000", help="number of idle sessions")
    options = parser.parse_args()
    load = part.prepare(options)
    programs_in = Path(options.baton).resolve().parent if options.baton else programs.target()
    tests = programs.ROOT / "tests/postgres"
    command = [tests / "with-cluster", tests / "run", "figures", "--kills", options.kills, "--idle", options.idle]
    environment = os.environ | {"BATON_BIN_DIR": str(programs_in), "BATON_TEST_FSYNC": "on"}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    figures = map(json.loads, output.splitlines())
    part.print_rows([ROWS[each["part"]](each) for each in figures], load)


def prompts(figures):
    """Formats the prompts accepted by some servers."""
    servers = "1 server" if figures["servers"] == 1 else f"{figures['servers']} servers"
    figure = f"{figures['rate']:,.0f} / s, {figures['ratio']:.2f} of pgbench"
    target = f">= 0.5 {part.verdict(figures['ratio'] >= 0.5)}" if figures["servers"] == 1 else ""
    return f"prompts accepted, {servers}", figure, target


def link(figures):
    """Formats what the peer link adds to a streamed piece."""
    figure = f"p50 {number(figures['p50_ms'])} ms, p99 {number(figures['p99_ms'])} ms"
    return "peer link, delay of a streamed piece", figure, f"p50 <= 0.5 ms {part.verdict(figures['p50_ms'] <= 0.5)}"


def kills(figures):
    """Formats the time from a kill to the next event."""
    figure = f"p50 {figures['p50_s']:.2f} s, p99 {figures['p99_s']:.2f} s"
    title = f"`kill -9` of the owner to the next event at another server, {figures['kills']} times"
    return title, figure, f"p99 <= 5 s {part.verdict(figures['p99_s'] <= 5)}"


def idle(figures):
    """Formats the cost of idle sessions."""
    figure = f"{figures['writes']:.2f} writes / s, {figures['cpu_percent']:.1f} % of a core, {figures['mb']:.0f} MB"
    return f"{figures['sessions']:,} idle sessions, 1 server", figure, f"1 write / s {part.verdict(figures['writes'] < 1.5)}"


ROWS = {
    "pgbench": lambda figures: ("pgbench inserting the same rows, 16 clients", f"{figures['rate']:,.0f} / s", ""),
    "prompts": prompts,
    "link": link,
    "kills": kills,
    "idle": idle,
}

if __name__ == "__main__":
    part.run(main)
