"""Measures the page in Chromium: first paint, a session of 100,000 events, requests on an open page, streaming.

Started by `bench/run page`. Needs Chromium and the modules that `scripts/test page` installs; `measure/page.mjs` measures.
"""

import json
import os
import subprocess
from pathlib import Path

from . import part, programs
from .table import number


def main():
    """Runs the measurements and prints the table."""
    options = part.arguments("page", __doc__).parse_args()
    load = part.prepare(options, "--bin", "baton-scripted-model")
    modules = Path(".cache/page").absolute()
    if not modules.exists():
        raise programs.Unavailable(f"{modules} does not exist; run `scripts/test page` once.")
    environment = os.environ | {
        "BATON_BIN_DIR": str(programs.baton(options.baton).program.parent),
        "BATON_SCRIPTED_MODEL": str(programs.scripted_model()),
        "BATON_PAGE_MODULES": str(modules),
    }
    command = ["node", "bench/measure/page.mjs"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    part.print_rows(list(rows(json.loads(output))), load)


def rows(figures):
    """Formats the figures."""
    size = figures["size"] / 1000
    yield "whole application over the wire", f"{number(size)} KB", f"<= 120 KB {part.verdict(size <= 120)}"
    yield limit("first paint of a cold load", figures["firstPaint"], 300)
    yield "session of 100 events: interactive", f"{number(figures['short'])} ms", ""
    yield limit("session of 100,000 events: interactive", figures["long"], 500)
    request = figures["request"]
    shown = f"p50 {number(request['median'])} ms, p99 {number(request['p99'])} ms"
    yield "pending request visible on an open page", shown, f"p99 <= 100 ms {part.verdict(request['p99'] <= 100)}"
    yield limit("10,000 streamed pieces: longest frame", figures["longestFrame"], 100)


def limit(title, time, most):
    """Formats a time with its limit."""
    return title, f"{number(time)} ms", f"<= {most} ms {part.verdict(time <= most)}"


if __name__ == "__main__":
    part.run(main)
