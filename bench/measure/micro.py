"""Measures fan-out to many clients and the opening of long sessions in detail, then single functions.

Prints figures and their ratios, and what the benchmarks of the crates print. Started by `bench/run micro`.
"""

import json
import os
import select
import subprocess
import time
import uuid

from . import driver, part, programs
from .process import Process, environment
from .services import serving
from .table import number, percentile
from .wire import Wire, timed

CLIENTS = (1, 100)
WORDS, TURNS = 1000, 3
OPENINGS = 15


def main():
    """Runs the measurements and prints the figures."""
    parser = part.arguments("micro", __doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="length of the long session (%(default)s)")
    options = parser.parse_args()
    part.prepare(options, "--bins")
    runtime = programs.baton(options.baton)
    with programs.scratch() as scratch, serving(programs.scripted_model()) as endpoints:
        fan_out(runtime, endpoints, scratch)
        opening(runtime, endpoints, scratch, options.events)
    print(flush=True)
    programs.bench("-p", "baton-core", "-p", "baton-protocol", "-p", "baton-store")


def fan_out(runtime, endpoints, scratch):
    """Measures the server's cost of an event of a streamed answer, with one client and with many."""
    print(f"Fan-out: {TURNS} turns of {WORDS} streamed words; processor time of the server")
    costs = {}
    for clients in CLIENTS:
        with Process(runtime, endpoints, scratch, tcp=True) as process:
            cpu, delivered = stream(process, *attach(process.port(), clients))
        costs[clients] = cpu / (delivered / clients) * 1e6
        print(
            f"  {clients:4} clients: {delivered:,} frames delivered; "
            f"{costs[clients]:.1f} µs an event, {costs[clients] / clients:.2f} µs an event and client"
        )
    one, many = (costs[clients] for clients in CLIENTS)
    print(f"  each further client: {(many - one) / (CLIENTS[1] - CLIENTS[0]):.2f} µs an event")
    print(f"  {CLIENTS[1]} clients cost {number(many / one)} times what one costs")


def attach(port, clients):
    """Creates a session and attaches clients. Returns the session and the connections."""
    wires = [Wire.to_port(port) for _ in range(clients)]
    for wire in wires:
        driver.connect(wire)
    session = driver.create(wires[0], streaming=True)
    for wire in wires[1:]:
        wire.call("session.resume", driver.session_params(session, streaming=True))
    # A warm-up turn.
    driver.turn(wires[0], session)
    for wire in wires[1:]:
        wire.wait_for_event("session.idle")
    return session, wires


def stream(process, session, wires):
    """Streams answers. Returns the server's processor time and the number of frames that all clients received."""
    frames, cpu = sum(wire.frames for wire in wires), process.cpu_seconds()
    for _ in range(TURNS):
        wires[0].begin("session.send", {"sessionId": session, "prompt": f"[[slow:{WORDS}:1]]"})
        drain(wires)
    return process.cpu_seconds() - cpu, sum(wire.frames for wire in wires) - frames


def drain(wires):
    """Reads until every client has received the end of the turn."""
    poll = select.epoll()
    waiting = {wire.read_fd: wire for wire in wires}
    for fd in waiting:
        poll.register(fd, select.EPOLLIN)
    while waiting:
        ready = poll.poll(30)
        if not ready:
            raise TimeoutError(f"{len(waiting)} clients did not receive the end of the turn")
        for fd, _ in ready:
            if any(b'"session.idle"' in frame for frame in waiting[fd].take_frames()):
                poll.unregister(fd)
                del waiting[fd]
    poll.close()


def opening(runtime, endpoints, scratch, events):
    """Measures `session.resume` in a new process, for a short and a long session."""
    print(f"\nOpening: `session.resume` of a session that is not in memory, {OPENINGS} new processes each")
    home = scratch / "opening"
    home.mkdir()
    times = {}
    sessions = {length: import_session(runtime, endpoints, home, length) for length in (10, events)}
    for _ in range(OPENINGS):
        for length, session in sessions.items():
            with Process(runtime, endpoints, scratch, home) as process:
                driver.connect(process.wire)
                taken, _ = timed(lambda: process.wire.call("session.resume", driver.session_params(session)))
                times.setdefault(length, []).append(taken)
    for length, taken in times.items():
        print(f"  {length:9,} events: p50 {percentile(taken, 50):.2f} ms, p90 {percentile(taken, 90):.2f} ms")
    short, long = (percentile(taken, 50) for taken in times.values())
    print(f"  ratio of the long session to the short one: {number(long / short)}")


def import_session(runtime, endpoints, home, length, quiet=False):
    """Imports a session with a number of events. Returns its id."""
    file = home / f"{length}.jsonl"
    with open(file, "w") as out:
        out.writelines(history(str(uuid.uuid4()), length))
    command = [runtime.program, "sessions", "import", file]
    settings = {"env": environment(home, runtime.cache, endpoints), "capture_output": True, "text": True}
    taken, done = timed(lambda: subprocess.run(command, check=True, **settings))
    if not quiet:
        print(f"  imported {length:,} events ({os.path.getsize(file) / 1e6:.0f} MB) in {taken / 1000:.1f} s")
    file.unlink()
    return done.stdout.strip()


def history(session, length):
    """Generates a conversation as JSON lines: a start, then turns of four events."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    about = {"version": 1, "producer": "bench", "copilotVersion": "1", "startTime": stamp}
    events = [
        ("session.start", {"sessionId": session, **about}),
        ("user.message", {"content": "What comes next, and why?"}),
        ("assistant.turn_start", {"turnId": "0"}),
        ("assistant.message", {"messageId": "m", "content": driver.ANSWER, "toolRequests": []}),
        ("assistant.turn_end", {"turnId": "0"}),
    ]
    first, *turn = (json.dumps({"type": kind, "data": data})[1:-1] for kind, data in events)
    parent = "null"
    for index in range(length):
        body = turn[(index - 1) % len(turn)] if index else first
        name = f'"{uuid.UUID(int=(0x0190C2F0_0000_7000_8000 << 48) + index)}"'
        yield f'{{{body}, "id": {name}, "timestamp": "{stamp}", "parentId": {parent}}}\n'
        parent = name


if __name__ == "__main__":
    part.run(main)
