"""Figures of several servers on one database; `bench/run scale` runs this with syncs enabled.

Prompts accepted a second beside pgbench writing the same rows, the time from `kill -9` to the next event at another server,
what 10,000 idle sessions cost, and what the peer link adds to a streamed piece. Prints one line of JSON for each figure.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.parse

import load
from servers import TOKEN, Server, World, soon, sql
from support import call

PGBENCH = """
BEGIN;
UPDATE bench_sessions SET head = head + 1 WHERE id = :client_id;
INSERT INTO bench_events VALUES (:client_id, (SELECT head FROM bench_sessions WHERE id = :client_id), 'kind', repeat('x', 420)::bytea);
COMMIT;
"""


# Connections that create idle sessions.
CREATORS = 8


def connect(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urllib.parse.urlparse(url).netloc, timeout=30)


def post(connection: http.client.HTTPConnection, path: str, body: dict) -> dict:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    text = response.read()
    assert response.status < 300, (response.status, text)
    return json.loads(text)


async def prompts(world: World, servers: list[Server], sessions: int, seconds: float, round: int) -> float:
    """Prompts that join the queue of sessions whose turn waits for an answer: one durable write each."""
    names = [f"prompts-{round}-{len(servers)}-{number}" for number in range(sessions)]
    for number, name in enumerate(names):
        connection = connect(servers[number % len(servers)].url)
        post(connection, "/api/sessions", {"id": name, "cwd": str(world.work)})
        post(connection, f"/api/sessions/{name}/prompts", {"text": call("bash", command="true", description="x")})
    urls = [servers[number % len(servers)].url for number in range(sessions)]
    return await asyncio.to_thread(load.flood, [(url, name) for url, name in zip(urls, names)], seconds)


def prepare_pgbench(world: World, clients: int) -> None:
    sql(world.url, "CREATE TABLE bench_sessions (id bigint PRIMARY KEY, head bigint NOT NULL) WITH (fillfactor = 80)")
    sql(world.url, "CREATE TABLE bench_events (session bigint, seq bigint, kind text, body bytea, PRIMARY KEY (session, seq))")
    sql(world.url, f"INSERT INTO bench_sessions SELECT n, 0 FROM generate_series(0, {clients}) n")
    (world.path / "pgbench.sql").write_text(PGBENCH)


def pgbench(world: World, clients: int, seconds: int) -> float:
    command = ["pgbench", "-n", "-c", str(clients), "-j", "2", "-T", str(seconds), "-f", str(world.path / "pgbench.sql")]
    done = subprocess.run([*command, world.url], capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("tps"))
    return float(line.split()[2])


def unlimited(world: World) -> str:
    """Writes a configuration without a limit of requests: all load comes from one address."""
    path = world.path / "unlimited.toml"
    path.write_text("[http]\nrequests_per_second = 1000000\n")
    return str(path)


async def throughput(world: World, sessions: int, seconds: int, rounds: int) -> None:
    """Alternates pgbench with 1, 2 and 3 servers, so that all see the same machine."""
    prepare_pgbench(world, sessions)
    servers = [world.server("--config", unlimited(world)) for _ in range(3)]
    rates: dict[int, list[float]] = {count: [] for count in range(4)}
    for round in range(rounds):
        rates[0].append(await asyncio.to_thread(pgbench, world, sessions, seconds))
        for count in (1, 2, 3):
            rates[count].append(await prompts(world, servers[:count], sessions, seconds, round))
    [server.kill() for server in servers]
    figure("pgbench", rate=statistics.median(rates[0]))
    for count in (1, 2, 3):
        ratio = statistics.median(rate / reference for rate, reference in zip(rates[count], rates[0]))
        figure("prompts", servers=count, rate=statistics.median(rates[count]), ratio=ratio)


def figure(part: str, **values: float) -> None:
    print(json.dumps({"part": part} | values), flush=True)


async def kills(world: World, count: int) -> list[float]:
    """From `kill -9` of the owner to the next event on a client of another server, which answers a pending request."""
    times = []
    for number in range(count):
        one, two = world.server(), world.server()
        name = f"kill-{number}"
        a = await world.create(one, name)
        b = await world.resume(two, name)
        await a.send(call("bash", command="true", description="x"))
        requested = await b.event("permission.requested")
        # Verdicts about others need three seconds of heartbeats.
        await asyncio.sleep(3.2)
        one.kill()
        killed = time.monotonic()
        answering = asyncio.create_task(b.answer(requested))
        await b.event("permission.completed")
        times.append(time.monotonic() - killed)
        await answering
        two.kill()
    return times


def cpu(server: Server) -> float:
    fields = open(f"/proc/{server.process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(server: Server) -> int:
    return int(open(f"/proc/{server.process.pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def idle(world: World, count: int, seconds: float) -> dict[str, float]:
    server = world.server("--config", unlimited(world))

    def create(first: int) -> None:
        connection = connect(server.url)
        for number in range(first, count, CREATORS):
            post(connection, "/api/sessions", {"id": f"idle-{number}", "cwd": str(world.work)})

    await asyncio.gather(*[asyncio.to_thread(create, first) for first in range(CREATORS)])
    # Sessions without clients leave the memory after a minute, and texts are indexed every 30 s.
    left = "SELECT count(*) FROM baton_sessions WHERE id LIKE 'idle-%' AND (server IS NOT NULL OR indexed < head)"
    await soon(lambda: sql(world.url, left) == ["0"], "the sessions to be unloaded", 300)
    written = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE relname LIKE 'baton_%'"
    writes = lambda: int(sql(world.url, written)[0])  # noqa: E731
    # A connection that has become idle reports its counts after 10 s.
    await asyncio.sleep(12)
    before, used, began = writes(), cpu(server), time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    found = {
        "writes": (writes() - before) / took,
        "cpu_percent": 100 * (cpu(server) - used) / took,
        "mb": resident(server) / 1e6,
    }
    server.kill()
    return found


async def link(world: World, turns: int) -> list[float]:
    """How much later a streamed piece arrives on a stream of another server than on one of the owner."""
    one, two = world.server(), world.server()
    connection = connect(one.url)
    post(connection, "/api/sessions", {"id": "link", "cwd": str(world.work)})
    pieces = load.Pieces([(one.url, "link"), (two.url, "link")])
    late = []
    for _ in range(turns):
        post(connection, "/api/sessions/link/prompts", {"text": "[[slow:100:10]]"})
        near, far = await asyncio.to_thread(pieces.of_turn)
        assert len(near) == len(far) > 0, (len(near), len(far))
        late += [there - here for here, there in zip(near, far)]
    one.kill(), two.kill()
    return late


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5, help="length of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--idle", type=int, default=10_000)
    options = parser.parse_args()
    world = World("figures")
    try:
        if options.rounds:
            await throughput(world, options.sessions, options.seconds, options.rounds)
        late = sorted(await link(world, 10))
        figure("link", p50_ms=1000 * statistics.median(late), p99_ms=1000 * late[int(len(late) * 0.99)], pieces=len(late))
        if options.kills:
            times = sorted(await kills(world, options.kills))
            figure("kills", p50_s=statistics.median(times), p99_s=times[-1], kills=len(times))
        if options.idle:
            figure("idle", sessions=options.idle, **await idle(world, options.idle, 20))
        return 0
    finally:
        await world.close()
        world.remove()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
