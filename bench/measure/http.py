"""Measures the HTTP API: concurrent prompts compared with plain SQLite, and many readers of one streamed answer.

Started by `bench/run http`. The example `http_figures` of baton-testkit generates the load.
"""

import json
import subprocess

from . import part, programs


def main():
    """Runs the measurements and prints the table."""
    parser = part.arguments("http", __doc__)
    parser.add_argument("part", nargs="?", choices=["posters", "subscribers"], help="run only this part")
    options = parser.parse_args()
    load = part.prepare(options, "--example", "http_figures")
    baton = options.baton or programs.target() / "baton"
    command = [programs.target() / "examples" / "http_figures", baton, *filter(None, [options.part])]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = {"posters": posters, "subscribers": subscribers}
    figures = map(json.loads, output.splitlines())
    part.print_rows([row for each in figures for row in rows[each["part"]](each)], load)


def posters(figures):
    """Formats the rate of durably accepted prompts."""
    rate, plain = figures["accepted_per_second"], figures["sqlite_per_second"]
    yield f"durably accepted prompts, {figures['posters']} concurrent clients", f"{rate:,.0f} a second", ""
    yield "time to accept a prompt", f"p50 {figures['p50_ms']:.1f} ms, p99 {figures['p99_ms']:.1f} ms", ""
    batch = f"{figures['row_bytes']} bytes each, {figures['rows_in_a_batch']:.1f} in a commit"
    yield f"plain SQLite, the same rows ({batch})", f"{plain:,.0f} a second", ""
    yield "Baton relative to plain SQLite", f"{figures['ratio']:.2f}", f">= 0.5 {part.verdict(figures['ratio'] >= 0.5)}"


def subscribers(figures):
    """Formats the delay of a streamed answer and the memory for each reader."""
    times = f"p50 {figures['p50_ms']:.1f} ms, p99 {figures['p99_ms']:.1f} ms"
    title = f"delay of a streamed delta to each of {figures['subscribers']:,} SSE readers"
    yield title, times, f"p99 <= 20 ms {part.verdict(figures['p99_ms'] <= 20)}"
    yield "memory for each reader", f"{figures['kb_each']:.1f} KB", f"<= 40 KB {part.verdict(figures['kb_each'] <= 40)}"


if __name__ == "__main__":
    part.run(main)
