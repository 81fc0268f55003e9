"""Measures recovery after `kill -9`, catch-up, fan-out to many clients, and the effect of a client that never reads.

Prints a table. Started by `bench/run handover`.
"""

import json
import signal
import time

from . import driver, part, programs
from .micro import attach, import_session, stream
from .process import Process
from .services import serving
from .table import number, percentile
from .wire import Wire, timed

SESSIONS, BUSY = 1000, 100
MISSED = 10_000
CLIENTS = 100
RESTARTS, CATCH_UPS, FAN_OUTS = 7, 15, 3
STALLED_TURNS = 20
# Long, so that a client that never reads soon falls far behind.
LONG_PROMPT = "Say it. [[text:" + "word " * 40_000 + "]]"


def main():
    """Runs the measurements and prints the table."""
    options = part.arguments("handover", __doc__).parse_args()
    load = part.prepare(options, "--bins")
    with programs.scratch() as scratch, serving(programs.scripted_model()) as endpoints:
        handover = Handover(programs.baton(options.baton), endpoints, scratch)
        rows = [*handover.recovery(), *handover.catch_up(), *handover.fan_out(), *handover.stalled_client()]
    part.print_rows(rows, load)


class Handover:
    """The measurements."""

    def __init__(self, runtime, endpoints, scratch):
        self.runtime, self.endpoints, self.scratch = runtime, endpoints, scratch

    def process(self, **options):
        return Process(self.runtime, self.endpoints, self.scratch, **options)

    def recovery(self):
        """Kills a server with many sessions, starts a new one and resumes sessions in the middle of a turn."""
        part.say(f"recovery: {SESSIONS} sessions, {BUSY} of them in the middle of a turn, {RESTARTS} times")
        home = self.scratch / "recovery"
        home.mkdir()
        with self.process(home=home) as process:
            driver.connect(process.wire)
            sessions = [driver.create(process.wire) for _ in range(SESSIONS)]
            for session in sessions[:BUSY]:
                busy_turn(process.wire, session)
            process.child.send_signal(signal.SIGKILL)
        connected, one_resumed, all_resumed = [], [], []
        for _ in range(RESTARTS):
            with self.process(home=home) as process:
                start = process.spawned
                driver.connect(process.wire)
                connected.append(since(start))
                process.wire.call("session.list", {})
                resume(process.wire, sessions[0], continue_turn=True)
                one_resumed.append(since(start))
                for session in sessions[1:BUSY]:
                    begin_resume(process.wire, session, continue_turn=True)
                for _ in sessions[1:BUSY]:
                    process.wire.next_reply()
                all_resumed.append(since(start))
                process.child.send_signal(signal.SIGKILL)
        title = "recovery after `kill -9`"
        yield f"{title}: start to `connect` reply", milliseconds(connected), ""
        target = at_most(one_resumed, 200, "ms")
        yield f"{title}: list {SESSIONS:,} sessions, resume one mid-turn", milliseconds(one_resumed), target
        yield f"{title}: resume all {BUSY} that were mid-turn", milliseconds(all_resumed), ""

    def catch_up(self):
        """Reconnects a client with its old cursor, and reads the events that it missed."""
        part.say(f"catch-up: {MISSED:,} missed events, {CATCH_UPS} times")
        home = self.scratch / "catch-up"
        home.mkdir()
        session = import_session(self.runtime, self.endpoints, home, MISSED + 1, quiet=True)
        taken = []
        with self.process(home=home, tcp=True) as process:
            port = process.port()
            first = Wire.to_port(port)
            driver.connect(first)
            resume(first, session)
            page, _ = read(first, session, None, 1)
            for _ in range(CATCH_UPS):
                once, count = timed(lambda: reconnect(port, session, page))
                if count < MISSED:
                    raise RuntimeError(f"only {count} of {MISSED} events arrived")
                taken.append(once)
        yield f"reconnect and read {MISSED:,} missed events", milliseconds(taken), at_most(taken, 100, "ms")

    def fan_out(self):
        """Measures the cost of delivering an event to one client, with one and with many clients."""
        part.say(f"fan-out: 1 and {CLIENTS} clients, {FAN_OUTS} times")
        costs = {1: [], CLIENTS: []}
        for _ in range(FAN_OUTS):
            for clients, samples in costs.items():
                with self.process(tcp=True) as process:
                    cpu, delivered = stream(process, *attach(process.port(), clients))
                samples.append(cpu / delivered * 1e6)
        one, many = (percentile(samples, 50) for samples in costs.values())
        yield "processor time for each delivered event, 1 client", f"{number(one)} µs", ""
        target = f"<= 1 client {part.verdict(many <= one)}"
        yield f"processor time for each delivered event, {CLIENTS} clients", f"{number(many)} µs", target

    def stalled_client(self):
        """Measures turns of a client while a second one is attached and never reads."""
        part.say(f"stalled client: {STALLED_TURNS} long turns, with and without")
        turns, growth = {}, {}
        for stalled in (False, True):
            with self.process(tcp=True) as process:
                port = process.port()
                wire = Wire.to_port(port)
                driver.connect(wire)
                session = driver.create(wire, streaming=True)
                silent = stall(port, session) if stalled else None
                driver.turn(wire, session)
                before, peak, taken, behind = process.memory()["pss"], 0, [], wire.received
                for _ in range(STALLED_TURNS):
                    taken.append(timed(lambda: driver.turn(wire, session, LONG_PROMPT))[0])
                    peak = max(peak, process.memory()["pss"])
                behind = (wire.received - behind) / 1e6
                turns[stalled], growth[stalled] = percentile(taken, 50), (peak - before) * 1024 / 1e6
                if silent:
                    silent.socket.close()
        yield "long turn, one client", f"{number(turns[False])} ms", ""
        yield "long turn, with a second client that never reads", f"{number(turns[True])} ms", "the same"
        costs = max(0.0, growth[True] - growth[False])
        yield f"memory for the second client, {behind:.0f} MB behind", f"{number(costs)} MB", "bounded"


def busy_turn(wire, session):
    """Starts a turn whose model never answers."""
    wire.call("session.send", {"sessionId": session, "prompt": "[[hold:forever]]"})
    wire.wait_for_event("assistant.turn_start")


def begin_resume(wire, session, continue_turn=False):
    return wire.begin("session.resume", driver.session_params(session) | {"continuePendingWork": continue_turn})


def resume(wire, session, continue_turn=False):
    wire.wait_for(begin_resume(wire, session, continue_turn))


def read(wire, session, cursor, most):
    """Reads a page of events. Returns the cursor after it and the number of events."""
    params = {"sessionId": session, "max": most, "includeEphemeral": False}
    wire.begin("session.eventLog.read", params | ({"cursor": cursor} if cursor else {}))
    frame = wire.next_reply()
    # The events are not parsed: the time that Python needs for that is not to be measured.
    tail = frame[frame.rindex(b'"cursor"') :]
    return json.loads(tail.partition(b":")[2].partition(b",")[0].rstrip(b"}")), frame.count(b'"parentId"')


def reconnect(port, session, cursor):
    """Connects, resumes the session and reads all events since the cursor. Returns their number."""
    wire = Wire.to_port(port)
    driver.connect(wire)
    resume(wire, session)
    total = 0
    while True:
        cursor, count = read(wire, session, cursor, 1000)
        total += count
        if count < 1000:
            wire.socket.close()
            return total


def stall(port, session):
    """Attaches a client to a session that never reads again."""
    wire = Wire.to_port(port)
    driver.connect(wire)
    # As the first client: the last one to attach decides whether answers are streamed.
    wire.call("session.resume", driver.session_params(session, streaming=True))
    return wire


def since(start):
    return (time.perf_counter_ns() - start) / 1e6


def milliseconds(samples):
    return f"{number(percentile(samples, 50))} ms (worst {number(max(samples))})"


def at_most(samples, limit, unit):
    return f"<= {limit} {unit} {part.verdict(percentile(samples, 50) <= limit)}"


if __name__ == "__main__":
    part.run(main)
