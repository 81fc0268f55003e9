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
    for line in output.splitlines():
        figures = json.loads(line)
        {"posters": posters, "subscribers": subscribers}[figures["part"]](figures)


def posters(figures):
    """How fast prompts are accepted for good."""
    print(f"{figures['posters']} posters of prompts, each row {figures['row_bytes']} bytes, fully durable:")
    print(
        f"  {figures['accepted_per_second']:,.0f} accepted a second, {figures['rows_in_a_batch']:.1f} in a commit; "
        f"p50 {figures['p50_ms']:.1f} ms, p99 {figures['p99_ms']:.1f} ms"
    )
    print(f"  plain SQLite, the same rows in the same batches: {figures['sqlite_per_second']:,.0f} a second")
    print(f"  ratio {figures['ratio']:.2f} (target: at least 0.5){verdict(figures['ratio'] >= 0.5)}")


def subscribers(figures):
    """How fast a streamed answer reaches everybody, and what each reader costs."""
    print(f"{figures['subscribers']} readers of one streamed answer, {figures['delivered']:,} pieces delivered:")
    print(
        f"  p50 {figures['p50_ms']:.1f} ms, p99 {figures['p99_ms']:.1f} ms, at most {figures['max_ms']:.1f} ms "
        f"(target: p99 within 20 ms){verdict(figures['p99_ms'] <= 20)}"
    )
    print(
        f"  {figures['idle_kb_each']:.1f} KB each while nothing happens, {figures['kb_each']:.1f} KB after the answer "
        f"(target: at most 40 KB){verdict(figures['kb_each'] <= 40)}"
    )


def verdict(met):
    """Whether a target is met, for people."""
    return ": met" if met else ": MISSED"


if __name__ == "__main__":
    main()
