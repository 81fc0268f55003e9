"""Measures MCP servers: what they cost `session.create`, a call, many idle sessions, and memory.

Prints a table. Started by `bench/run mcp`. The server is a script of the standard library.
"""

import json
import subprocess
import sys

from . import driver, part, programs
from .process import Process
from .services import serving
from .table import number, percentile

CREATED = 300
SERVERS = 10
SESSIONS = 100
SCRIPT = programs.ROOT / "crates" / "mcp" / "tests" / "odd_server.py"


def main():
    """Runs the measurements and prints the table."""
    options = part.arguments("mcp", __doc__).parse_args()
    load = part.prepare(options, "--bins")
    with programs.scratch() as scratch, serving(programs.scripted_model()) as endpoints:
        mcp = Mcp(programs.baton(options.baton), endpoints, scratch)
        rows = [mcp.create(), call(), *mcp.shared(), mcp.memory()]
    part.print_rows(rows, load)


def config(**more):
    return {"command": sys.executable, "args": [str(SCRIPT), "well"], **more}


class Mcp:
    """The measurements with whole servers."""

    def __init__(self, runtime, endpoints, scratch):
        self.runtime, self.endpoints, self.scratch = runtime, endpoints, scratch

    def process(self):
        return Process(self.runtime, self.endpoints, self.scratch)

    def create(self):
        """Creates sessions with ten servers and without, alternating."""
        part.say(f"session.create: {CREATED} of each")
        servers = {f"server{n}": config() for n in range(SERVERS)}
        without, with_servers = [], []
        with self.process() as process:
            driver.connect(process.wire)
            for number_of in range(CREATED + 10):
                one = driver.timed_create(process.wire)
                other = driver.timed_create(process.wire, mcpServers=servers)
                if number_of >= 10:
                    without.append(one)
                    with_servers.append(other)
        base, loaded = percentile(without, 50), percentile(with_servers, 50)
        title = f"`session.create` with {SERVERS} configured servers, and without"
        figure = f"{number(loaded)} ms, {number(base)} ms, {loaded / base - 1:+.1%}"
        return title, figure, f"<= +5 % {part.verdict(loaded <= 1.05 * base)}"

    def shared(self):
        """Lets idle sessions share a server."""
        part.say(f"sharing: {SESSIONS} sessions")
        with self.process() as process:
            driver.connect(process.wire)
            for _ in range(SESSIONS):
                session = driver.create(process.wire, mcpServers={"odd": config(shared=True)})
                process.wire.call("session.mcp.list", {"sessionId": session})
            running = servers_of(process)
        title = f"processes of a shared server, {SESSIONS} idle sessions"
        yield title, str(running), f"1 {part.verdict(running == 1)}"

    def memory(self):
        """Connects servers in sessions of their own, and counts what each adds to Baton itself."""
        part.say("memory of connected servers")
        with self.process() as process:
            driver.connect(process.wire)
            sessions = [driver.create(process.wire, mcpServers={"odd": config()}) for _ in range(SESSIONS // 2)]
            process.wire.call("session.mcp.list", {"sessionId": sessions[0]})
            before = process.memory(descendants=False)["pss"]
            for session in sessions[1:]:
                process.wire.call("session.mcp.list", {"sessionId": session})
            grown = (process.memory(descendants=False)["pss"] - before) / (len(sessions) - 1)
        return "memory of Baton for each connected stdio server", f"{grown:.0f} KB", f"<= 150 KB {part.verdict(grown <= 150)}"


def servers_of(process):
    """Returns how many processes of the script descend from a process."""
    found = subprocess.run(["pgrep", "--full", "--count", f"{SCRIPT} well"], capture_output=True, text=True)
    return int(found.stdout.strip() or 0)


def call():
    """Calls a tool by hand and through Baton's client, alternating in one process."""
    part.say("a call")
    built = ["cargo", "run", "--release", "--quiet", "-p", "baton-mcp", "--example", "overhead"]
    done = subprocess.run(built, cwd=programs.ROOT, capture_output=True, text=True)
    if done.returncode:
        raise programs.Unavailable(f"the example `overhead` failed: {done.stderr[-500:]}")
    figures = json.loads(done.stdout)
    more = (figures["baton"] - figures["bare"]) / 1000
    figure = f"{figures['baton']} µs, {figures['bare']} µs, {more:+.2f} ms"
    return "a call of a stdio server, and written by hand", figure, f"<= +0.3 ms {part.verdict(more <= 0.3)}"


if __name__ == "__main__":
    part.run(main)
