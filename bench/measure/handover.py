"""What handing a session on costs: coming back after `kill -9`, catching up, watching together, and one who does not
read. Prints a table. Started by `bench/run handover`.
"""

import json
import signal
import time

from . import driver, part, programs
from .micro import attach, bring_in, stream
from .process import Process
from .services import serving
from .table import number, percentile
from .wire import Wire, timed

SESSIONS, BUSY = 1000, 100
MISSED = 10_000
CLIENTS = 100
RESTARTS, CATCH_UPS, FAN_OUTS = 7, 15, 3
STALLED_TURNS = 20
# Large, so that a client which does not read is soon far behind.
LONG_PROMPT = "Say it. [[text:" + "word " * 40_000 + "]]"


def main():
    """Measures, and prints."""
    options = part.arguments("handover", __doc__).parse_args()
    others = part.ready(options, "--bins")
    with programs.scratch() as scratch, serving(programs.scripted_model()) as endpoints:
        bench = Handover(programs.baton(options.baton), endpoints, scratch)
        rows = [*bench.restart(), *bench.catch_up(), *bench.fan_out(), *bench.stalled()]
    part.print_rows(rows, others)


class Handover:
    """The measurements."""

    def __init__(self, runtime, endpoints, scratch):
        self.runtime, self.endpoints, self.scratch = runtime, endpoints, scratch

    def process(self, **options):
        return Process(self.runtime, self.endpoints, self.scratch, **options)

    def restart(self):
        """A server with many sessions is killed; the next one is asked for one that was in the middle of a turn."""
        part.say(f"restart: {SESSIONS} sessions, {BUSY} of them in the middle of a turn, {RESTARTS} times")
        home = self.scratch / "restart"
        home.mkdir()
        with self.process(home=home) as process:
            driver.connect(process.wire)
            sessions = [driver.create(process.wire) for _ in range(SESSIONS)]
            for session in sessions[:BUSY]:
                busy_turn(process.wire, session)
            process.child.send_signal(signal.SIGKILL)
        connects, readies, alls = [], [], []
        for _ in range(RESTARTS):
            with self.process(home=home) as process:
                began = process.spawned
                driver.connect(process.wire)
                connects.append(since(began))
                process.wire.call("session.list", {})
                resume(process.wire, sessions[0], go_on=True)
                readies.append(since(began))
                for session in sessions[1:BUSY]:
                    begin_resume(process.wire, session, go_on=True)
                for _ in sessions[1:BUSY]:
                    process.wire.next_reply()
                alls.append(since(began))
                process.child.send_signal(signal.SIGKILL)
        where = f"{SESSIONS:,} sessions, {BUSY} mid-turn, `kill -9`"
        yield f"{where}: start to `connect` reply", milliseconds(connects), ""
        yield f"{where}: and all listed, and one resumed mid-turn", milliseconds(readies), at_most(readies, 200, "ms")
        yield f"{where}: and all {BUSY} resumed mid-turn", milliseconds(alls), ""

    def catch_up(self):
        """A client comes back with the cursor that it had, and reads what it missed."""
        part.say(f"catch-up: {MISSED:,} missed events, {CATCH_UPS} times")
        home = self.scratch / "catch-up"
        home.mkdir()
        session = bring_in(self.runtime, self.endpoints, home, MISSED + 1, quiet=True)
        taken = []
        with self.process(home=home, tcp=True) as process:
            port = process.port()
            first = Wire.to_port(port)
            driver.connect(first)
            resume(first, session)
            page, _ = read(first, session, None, 1)
            for _ in range(CATCH_UPS):
                once, count = timed(lambda: come_back(port, session, page))
                if count < MISSED:
                    raise RuntimeError(f"only {count} of {MISSED} events came")
                taken.append(once)
        yield f"attach anew and read {MISSED:,} missed events", milliseconds(taken), at_most(taken, 100, "ms")

    def fan_out(self):
        """What it costs to deliver an event of a streamed answer to one client, when others watch as well."""
        part.say(f"fan-out: 1 and {CLIENTS} clients, {FAN_OUTS} times")
        costs = {1: [], CLIENTS: []}
        for _ in range(FAN_OUTS):
            for clients, samples in costs.items():
                with self.process(tcp=True) as process:
                    cpu, delivered = stream(process, *attach(process.port(), clients))
                samples.append(cpu / delivered * 1e6)
        one, many = (percentile(samples, 50) for samples in costs.values())
        yield "processor time for each delivered event, 1 client", f"{number(one)} µs", ""
        yield f"processor time for each delivered event, {CLIENTS} clients", f"{number(many)} µs", f"<= 1 client {part.verdict(many <= one)}"

    def stalled(self):
        """A client that attaches and never reads, beside one that does."""
        part.say(f"a stalled client: {STALLED_TURNS} long turns, with and without")
        turns, growth = {}, {}
        for stalled in (False, True):
            with self.process(tcp=True) as process:
                port = process.port()
                wire = Wire.to_port(port)
                driver.connect(wire)
                session = driver.create(wire, streaming=True)
                mute = stall(port, session) if stalled else None
                driver.turn(wire, session)
                before, peak, taken, behind = process.memory()["pss"], 0, [], wire.received
                for _ in range(STALLED_TURNS):
                    taken.append(timed(lambda: driver.turn(wire, session, LONG_PROMPT))[0])
                    peak = max(peak, process.memory()["pss"])
                behind = (wire.received - behind) / 1e6
                turns[stalled], growth[stalled] = percentile(taken, 50), (peak - before) * 1024 / 1e6
                if mute:
                    mute.socket.close()
        yield "a long turn, watched by one client", f"{number(turns[False])} ms", ""
        yield "the same beside a client that never reads", f"{number(turns[True])} ms", "the same"
        costs = max(0.0, growth[True] - growth[False])
        yield f"memory for that client, {behind:.0f} MB behind", f"{number(costs)} MB", "bounded"


def busy_turn(wire, session):
    """A turn that waits for its model, for ever."""
    wire.call("session.send", {"sessionId": session, "prompt": "[[hold:for ever]]"})
    wire.wait_for_event("assistant.turn_start")


def begin_resume(wire, session, go_on=False):
    return wire.begin("session.resume", driver.session_params(session) | {"continuePendingWork": go_on})


def resume(wire, session, go_on=False):
    wire.wait_for(begin_resume(wire, session, go_on))


def read(wire, session, cursor, most):
    """A page of a session's events: the cursor after it, and how many there were."""
    params = {"sessionId": session, "max": most, "includeEphemeral": False}
    wire.begin("session.eventLog.read", params | ({"cursor": cursor} if cursor else {}))
    frame = wire.next_reply()
    # Ten thousand events are not parsed here: what Python takes for that is not what is measured.
    tail = frame[frame.rindex(b'"cursor"') :]
    return json.loads(tail.partition(b":")[2].partition(b",")[0].rstrip(b"}")), frame.count(b'"parentId"')


def come_back(port, session, cursor):
    """A new connection, a resume, and everything since the cursor."""
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
    """A client that is attached to a session and reads nothing from then on."""
    wire = Wire.to_port(port)
    driver.connect(wire)
    # As the other client has it: who comes last decides whether answers are streamed.
    wire.call("session.resume", driver.session_params(session, streaming=True))
    return wire


def since(began):
    return (time.perf_counter_ns() - began) / 1e6


def milliseconds(samples):
    return f"{number(percentile(samples, 50))} ms (worst {number(max(samples))})"


def at_most(samples, limit, unit):
    return f"<= {limit} {unit} {part.verdict(percentile(samples, 50) <= limit)}"


if __name__ == "__main__":
    part.run(main)
