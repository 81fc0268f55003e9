"""Chaos: three servers under load, and at random kills, pauses, restarts of the database's connections, drained servers.

Afterwards, from the histories in the database and from what clients saw: no gap, every acknowledgement present, every
request answered once, no command run twice, every prompt with one outcome. Prints its seed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from collections import Counter

from servers import Server, World, report, sql
from support import call


# Turns of a session, after which the next one begins. A long session is compacted, and the scripted model would find its
# script again in the summary.
TURNS = 150


class Worker:
    """A client with a session of its own, which it continues wherever it can."""

    def __init__(self, chaos: Chaos, number: int) -> None:
        self.chaos, self.world, self.number = chaos, chaos.world, number
        self.name = f"chaos-{number}"
        self.acknowledged: list[str] = []
        self.answered: dict[str, int] = {}
        self.turns = 0
        self.created = False
        self.chat = None

    @property
    def is_done(self) -> bool:
        return self.chaos.is_over or self.turns >= TURNS

    async def run(self) -> None:
        while not self.is_done:
            try:
                await asyncio.wait_for(self.live(), 40)
            except Exception as error:  # Connections are lost on purpose.
                self.chaos.note(f"{self.name}: {type(error).__name__}: {error}")
                await asyncio.sleep(0.2)

    async def live(self) -> None:
        server = self.chaos.any_server()
        if self.created:
            self.chat = await self.world.resume(server, self.name)
        else:
            try:
                self.chat = await self.world.create(server, self.name)
            except Exception as error:
                if "exist" not in str(error):
                    raise
                self.chat = await self.world.resume(server, self.name)
            self.created = True
        answering = asyncio.create_task(self.answer(self.chat))
        try:
            while not self.is_done and server.is_running:
                await self.turn(self.chat)
        finally:
            answering.cancel()

    async def turn(self, chat) -> None:
        self.turns += 1
        command = self.world.counting_command(f"{self.name}-{self.turns}")
        prompt = call("bash", command=command, description="x") if self.turns % 2 else f"[[text:turn {self.turns}]]"
        before = sum(event["type"] == "session.idle" for event in chat.events)
        self.acknowledged.append(await chat.session.send(prompt))
        async with asyncio.timeout(25):
            while sum(event["type"] == "session.idle" for event in chat.events) <= before:
                await chat.change()

    async def answer(self, chat) -> None:
        """Approves requests, once each per client."""
        seen: set[str] = set()
        # Requests that were opened while this client was not connected.
        earlier = await self.world.sdk.history(chat.session)
        closed = {event["requestId"] for event in earlier if event.type == "permission.completed"}
        missed = [
            {"type": event.type, "data": {"requestId": event["requestId"]}}
            for event in earlier
            if event.type == "permission.requested" and event["requestId"] not in closed
        ]
        while True:
            for event in missed + list(chat.events):
                name = event["data"].get("requestId")
                if event["type"] == "permission.requested" and name not in seen:
                    seen.add(name)
                    try:
                        if await chat.answer(event):
                            self.answered[name] = self.answered.get(name, 0) + 1
                    except Exception as error:
                        seen.discard(name)
                        self.chaos.note(f"{self.name}: answer: {error}")
                        await asyncio.sleep(0.3)
            await chat.change()


class Chaos:
    def __init__(self, seed: int, seconds: float, workers: int) -> None:
        self.random = random.Random(seed)
        self.seed, self.seconds = seed, seconds
        self.world = World(f"chaos_{seed}")
        self.start = time.monotonic()
        self.notes: list[str] = []
        self.faults: dict[str, int] = {}
        self.count, self.workers = workers, []

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.start + self.seconds

    def note(self, text: str) -> None:
        self.notes.append(f"{time.monotonic() - self.start:6.2f} {text}")

    def running(self) -> list[Server]:
        return [server for server in self.world.servers if server.is_running]

    def any_server(self) -> Server:
        return self.random.choice(self.running())

    async def disturb(self) -> None:
        while not self.is_over:
            await asyncio.sleep(self.random.uniform(2, 6))
            fault = self.random.choice([self.kill, self.kill, self.pause, self.cut, self.stop])
            self.faults[fault.__name__] = self.faults.get(fault.__name__, 0) + 1
            self.note(f"fault: {fault.__name__}")
            await fault()

    async def kill(self) -> None:
        self.any_server().kill()
        self.world.server()

    async def stop(self) -> None:
        """A rolling upgrade: a new server comes, an old one stops in good order."""
        old = self.any_server()
        self.world.server()
        old.kill(signal.SIGTERM)
        await asyncio.to_thread(old.process.wait, 30)

    async def pause(self) -> None:
        server = self.any_server()
        server.kill(signal.SIGSTOP)
        await asyncio.sleep(self.random.choice([1, 2.5, 5, 10]))
        server.kill(signal.SIGCONT)

    async def cut(self) -> None:
        statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        await asyncio.to_thread(sql, self.world.url, statement)

    async def run(self) -> None:
        for _ in range(3):
            self.world.server()
        working = [asyncio.create_task(self.work()) for _ in range(self.count)]
        await self.disturb()
        await asyncio.gather(*working)
        await self.settle()
        self.check()

    async def work(self) -> None:
        while not self.is_over:
            worker = Worker(self, len(self.workers))
            self.workers.append(worker)
            await worker.run()

    async def settle(self) -> None:
        """Lets every session come to rest on a server that stays."""
        server = self.running()[0]
        self.workers = [worker for worker in self.workers if worker.created]
        for worker in self.workers:
            chat = await self.world.resume(server, worker.name)
            answering = asyncio.create_task(worker.answer(chat))
            idle = lambda: sql(self.world.url, f"SELECT busy FROM baton_sessions WHERE id = '{worker.name}'") == ["f"]
            deadline = time.monotonic() + 40
            while not await asyncio.to_thread(idle):
                assert time.monotonic() < deadline, f"{worker.name} does not come to rest"
                await asyncio.sleep(0.3)
            answering.cancel()

    def history(self, session: str) -> list[dict]:
        rows = sql(
            self.world.url,
            "SELECT e.seq || ' ' || encode(e.body, 'base64') FROM baton_events e "
            f"JOIN baton_sessions s ON s.key = e.session WHERE s.id = '{session}' ORDER BY e.seq".replace(
                "encode(e.body, 'base64')", "replace(encode(e.body, 'base64'), E'\\n', '')"
            ),
        )
        import base64

        found = [row.split(" ", 1) for row in rows]
        assert [int(seq) for seq, _ in found] == list(range(1, len(found) + 1)), f"{session}: P2: a gap"
        return [json.loads(base64.b64decode(body)) for _, body in found]

    def check(self) -> None:
        self.prompts = self.requests = self.events = 0
        for worker in self.workers:
            events = self.history(worker.name)
            self.events += len(events)
            ids = [event["id"] for event in events]
            assert len(set(ids)) == len(ids), f"{worker.name}: P2: an event twice"
            accepted = [event["data"]["promptId"] for event in events if event["type"] == "baton.prompt_accepted"]
            settled: dict[str, int] = {}
            for event in events:
                if event["type"] == "baton.turn_settled":
                    for prompt in event["data"]["promptIds"]:
                        settled[prompt] = settled.get(prompt, 0) + 1
            missing = [prompt for prompt in worker.acknowledged if prompt not in accepted]
            assert not missing, f"{worker.name}: P1: acknowledged prompts are lost: {missing}"
            wrong = [prompt for prompt in accepted if settled.get(prompt, 0) != 1]
            assert not wrong, f"{worker.name}: P5: not one outcome: {wrong}"
            completed: dict[str, int] = {}
            for event in events:
                if event["type"] == "permission.completed":
                    name = event["data"]["requestId"]
                    completed[name] = completed.get(name, 0) + 1
            assert all(count == 1 for count in completed.values()), f"{worker.name}: P3: answered twice"
            lost = [name for name in worker.answered if name not in completed]
            assert not lost, f"{worker.name}: P1: acknowledged answers are lost: {lost}"
            starts = [event["data"] for event in events if event["type"] == "tool.execution_start"]
            calls = [start["toolCallId"] for start in starts]
            assert len(set(calls)) == len(calls), f"{worker.name}: P4: a call was started twice"
            commands = Counter(start["arguments"]["command"] for start in starts)
            for turn in range(1, worker.turns + 1):
                name = f"{worker.name}-{turn}"
                ran, called = self.world.run_count(name), commands[self.world.counting_command(name)]
                assert ran <= called <= 1, f"{worker.name}: P4: turn {turn} ran {ran} times, called {called} times"
            self.prompts += len(accepted)
            self.requests += len(completed)
        for chats in self.world.witness.seen:
            ids = [event["id"] for event in chats]
            assert len(set(ids)) == len(ids), "P2: a client saw an event twice"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--keep", action="store_true", help="keep homes and logs")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)

    async def run() -> int:
        chaos = Chaos(options.seed, options.seconds, options.workers)
        try:
            await chaos.run()
            servers = len(chaos.world.servers)
            print(f"faults {chaos.faults}, {servers} servers, {len(chaos.workers)} sessions, {chaos.events} events")
            print(f"{chaos.prompts} prompts, {chaos.requests} requests: all promises held")
            return 0
        except BaseException as error:
            report(chaos.world, error)
            print("\n".join(chaos.notes[-60:]), file=sys.stderr)
            print(f"FAILED with seed {options.seed}: {error}")
            return 1
        finally:
            await chaos.world.close()
            if not options.keep:
                chaos.world.remove()

    return asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main())
