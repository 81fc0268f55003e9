"""Common functions of all parts: arguments, preparation, tables, errors."""

import argparse
import sys

from . import machine, programs


def arguments(name, description):
    """Returns a parser with the arguments of every part."""
    parser = argparse.ArgumentParser(prog=f"bench/run {name}".strip(), description=description)
    parser.add_argument("--no-build", action="store_true", help="use the existing build in target/release")
    parser.add_argument("--baton", metavar="PROGRAM", help="the Baton to measure, instead of building one")
    parser.add_argument("--wait", metavar="MINUTES", type=float, default=0, help="wait this long for an idle machine")
    return parser


def prepare(options, *testkit):
    """Builds, and waits for an idle machine. Returns the load by other programs."""
    build(options, *testkit)
    return watch_machine(options)


def build(options, *testkit):
    """Builds Baton and the given targets of baton-testkit."""
    if not options.no_build:
        if not options.baton:
            programs.build("-p", "baton")
        programs.build("-p", "baton-testkit", *testkit)


def watch_machine(options):
    """Waits for an idle machine. Returns the load by other programs from then on."""
    machine.wait_until_idle(options.wait, say)
    return machine.BackgroundLoad()


def print_rows(rows, load):
    """Prints rows of title, figure and target as Markdown, and describes the machine."""
    print("| | | target |\n|---|---:|---:|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    about = machine.describe()
    print(
        f"\n{about['date']}, {about['cpu']}, {about['cores']} cores, Linux {about['kernel']}; medians. "
        f"Other programs used {load.share():.0%} of the processors."
    )


def verdict(met):
    """Returns the mark for a target that is met or missed."""
    return "✓" if met else "✗"


def say(text):
    """Prints progress to stderr; stdout is for the table."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run(main):
    """Runs a part. A missing program is reported without a stack trace."""
    try:
        main()
    except programs.Unavailable as reason:
        sys.exit(f"bench: {reason}")
