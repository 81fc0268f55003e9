"""The HTTP door: prompts from many at once beside plain SQLite, and many readers of one streamed answer.

Started by `bench/run http`. The load comes from `http_figures`, an example of baton-testkit; see there.
"""

import argparse
import json
import subprocess

from . import programs


def main():
    """Measures, and prints."""
    parser = argparse.ArgumentParser(prog="bench/run http", description=__doc__)
    parser.add_argument("--no-build", action="store_true", help="measure what is in target/release already")
    parser.add_argument("--baton", metavar="PROGRAM", help="another build of Baton")
    parser.add_argument("part", nargs="?", choices=["posters", "subscribers"], help="only this part")
    options = parser.parse_args()
    if not options.no_build:
        programs.build("-p", "baton")
        programs.build("-p", "baton-testkit", "--example", "http_figures")
    baton = options.baton or programs.target() / "baton"
    command = [programs.target() / "examples" / "http_figures", baton, *filter(None, [options.part])]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    print("| | | target |\n|---|---:|---:|")
    for line in output.splitlines():
        figures = json.loads(line)
        for row in {"posters": posters, "subscribers": subscribers}[figures["part"]](figures):
            print("| " + " | ".join(row) + " |")


def posters(figures):
    """How fast prompts are accepted for good."""
    rate, plain = figures["accepted_per_second"], figures["sqlite_per_second"]
    yield f"prompts accepted, fully durable, from {figures['posters']} posters", f"{rate:,.0f} a second", ""
    yield "the time until one is accepted", f"p50 {figures['p50_ms']:.1f} ms, p99 {figures['p99_ms']:.1f} ms", ""
    batch = f"{figures['row_bytes']} bytes each, {figures['rows_in_a_batch']:.1f} in a commit"
    yield f"plain SQLite, the same rows ({batch})", f"{plain:,.0f} a second", ""
    yield "Baton, over plain SQLite", f"{figures['ratio']:.2f}", f">= 0.5 {verdict(figures['ratio'] >= 0.5)}"


def subscribers(figures):
    """How fast a streamed answer reaches everybody, and what each reader costs."""
    times = f"p50 {figures['p50_ms']:.1f} ms, p99 {figures['p99_ms']:.1f} ms"
    title = f"a piece of a streamed answer to each of {figures['subscribers']:,} SSE readers"
    yield title, times, f"p99 <= 20 ms {verdict(figures['p99_ms'] <= 20)}"
    yield "memory for each of them", f"{figures['kb_each']:.1f} KB", f"<= 40 KB {verdict(figures['kb_each'] <= 40)}"


def verdict(met):
    """Whether a target is met, for people."""
    return "✓" if met else "✗"


if __name__ == "__main__":
    main()
