"""What all parts of the bench share: their arguments, their tables, and how they begin and end."""

import argparse
import sys

from . import machine, programs


def arguments(name, description):
    """A parser with the arguments that every part takes."""
    parser = argparse.ArgumentParser(prog=f"bench/run {name}".strip(), description=description)
    parser.add_argument("--no-build", action="store_true", help="measure what is in target/release already")
    parser.add_argument("--baton", metavar="PROGRAM", help="another build of Baton")
    parser.add_argument("--wait", metavar="MINUTES", type=float, default=0, help="wait so long for a quiet machine")
    return parser


def ready(options, *testkit):
    """Builds, then waits for the machine. Returns who else uses it."""
    build(options, *testkit)
    return quiet(options)


def build(options, *testkit):
    """Builds what is measured, and this of baton-testkit."""
    if not options.no_build:
        if not options.baton:
            programs.build("-p", "baton")
        programs.build("-p", "baton-testkit", *testkit)


def quiet(options):
    """Waits for the machine, and watches it from then on."""
    machine.wait_until_quiet(options.wait, say)
    return machine.Others()


def print_rows(rows, others):
    """Rows of title, figure and target, as Markdown, and what they were measured on."""
    print("| | | target |\n|---|---:|---:|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    about = machine.describe()
    print(
        f"\n{about['date']}, {about['cpu']}, {about['cores']} cores, Linux {about['kernel']}; medians. "
        f"Other programs had {others.share():.0%} of the processors meanwhile."
    )


def verdict(met):
    """Whether a target is met, for people."""
    return "✓" if met else "✗"


def say(text):
    """Progress goes to stderr: stdout is for the table."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run(main):
    """Runs a part; a program that cannot be had is no fault of ours, and is told without a trace."""
    try:
        main()
    except programs.Unavailable as problem:
        sys.exit(f"bench: {problem}")
