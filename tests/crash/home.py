"""A home directory, and the servers that run in it one after the other until they are killed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from copilot.tools import Tool
from support import TIMEOUT, VISIBLE, Model, processes_of, program, until
from witness import BrokenPromise, ClientSession, EventTimeout, Witness

SESSION = "survivor"

#: In memory if possible: killing a process loses nothing that it wrote, so a disk would only be slower. Power cuts are
#: covered by the tests of the store.
BASE_DIRECTORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclass(frozen=True)
class Kill:
    """How a server is killed: when it passes a crash point for the `hit`-th time, or after a number of seconds."""

    point: str | None = None
    hit: int = 1
    after: float = 0.0

    def __str__(self) -> str:
        return f"{self.point}:{self.hit}" if self.point else f"SIGKILL after {self.after * 1000:.0f} ms"


class Server:
    """The real program. `ended` is done when the process has exited for any reason."""

    def __init__(self, home: Home, kill: Kill | None) -> None:
        env = home.env | ({"BATON_CRASH_AT": str(kill)} if kill and kill.point else {})
        self.log = (home.path / "log").open("ab")
        self.process = subprocess.Popen(
            [program("baton"), "--headless", "--no-auto-update", "--log-level", "info"],
            env=env,
            cwd=home.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        loop = asyncio.get_running_loop()
        self.ended = loop.create_future()
        self._handle = os.pidfd_open(self.process.pid)
        loop.add_reader(self._handle, self._on_exit)
        if kill and not kill.point:
            loop.call_later(kill.after, self.signal, signal.SIGKILL)
        line = self.process.stdout.readline().split()
        self.port = int(line[-1]) if line else None

    def _on_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        status = self.process.wait()
        self.process.stdout.close()
        self.log.close()
        self.ended.set_result(status)

    def signal(self, number: int) -> None:
        if not self.ended.done():
            self.process.send_signal(number)


class Home:
    """A home directory that outlives its servers, and a record of what clients did."""

    def __init__(self, sdk: Any, model: Model) -> None:
        self.sdk, self.model = sdk, model
        self.path = Path(tempfile.mkdtemp(prefix="baton-crash-", dir=BASE_DIRECTORY))
        self.home, self.work, self.runs = (self.path / name for name in ("home", "work", "runs"))
        for directory in (self.home, self.work, self.runs):
            directory.mkdir()
        self.env = VISIBLE | {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "COPILOT_HOME": str(self.home),
            "COPILOT_API_URL": model.url,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        if base := os.environ.get("BATON_CRASH_POSTGRES"):
            name = self.path.name.replace("-", "_")
            create = ["psql", "-qX", f"{base}&dbname=postgres", "-c", f'CREATE DATABASE "{name}"']
            subprocess.run(create, check=True)
            self.env["BATON_STORE"] = f"{base}&dbname={name}"
        #: While this file exists, the stubborn command ends like any other.
        self.well_behaved = self.path / "well_behaved"
        self.witness = Witness()
        self.server: Server | None = None
        self.clients: list[Any] = []
        self._tasks: list[asyncio.Task[None]] = []
        #: The name of this home's hold at the model, which is shared.
        self.hold = self.path.name

    # For scenarios.

    async def client(self) -> Any:
        client = self.sdk.at(self.server.port)
        self.clients.append(client)
        await client.start()
        return client

    async def create(self, client: Any = None, **options: Any) -> ClientSession:
        chat = ClientSession(self.sdk, self.witness)
        client = client or await self.client()
        chat.session = await client.create_session(session_id=SESSION, **self._options(chat, options))
        self.witness.created = True
        return chat

    async def resume(self, client: Any = None, *, continue_work: bool, **options: Any) -> ClientSession:
        chat = ClientSession(self.sdk, self.witness)
        client = client or await self.client()
        options = self._options(chat, options) | {"continue_pending_work": continue_work}
        chat.session = await client.resume_session(SESSION, **options)
        return chat

    def _options(self, chat: ClientSession, options: dict[str, Any]) -> dict[str, Any]:
        """Options of a client that receives every request and answers none by itself: answers are observable."""
        lookup = Tool("lookup", "looks up", parameters={"type": "object"})
        return {
            "on_event": chat.on_event,
            "on_permission_request": lambda *_: self.sdk.decision("nothing"),
            "tools": [lookup],
            "working_directory": str(self.work),
        } | options

    def in_background(self, work: Any) -> None:
        """Runs a coroutine in the background of a scenario."""
        self._tasks.append(asyncio.create_task(work))

    def counting_command(self, name: str) -> str:
        """Returns a command that writes a line each time it runs."""
        return f"echo ran >> {self.runs / name}"

    def run_counts(self) -> dict[str, int]:
        return {path.name: len(path.read_text().splitlines()) for path in self.runs.iterdir()}

    def command(self, *arguments: str, kill: Kill | None = None) -> subprocess.CompletedProcess[str]:
        """Runs one command of the program."""
        env = self.env | ({"BATON_CRASH_AT": str(kill)} if kill else {})
        command = [program("baton"), *arguments]
        return subprocess.run(command, env=env, cwd=self.work, capture_output=True, text=True, timeout=TIMEOUT)

    # For the matrix.

    async def live(self, act: Callable[[Home], Awaitable[None]], kill: Kill | None = None) -> bool:
        """Runs a server while `act` uses it. Returns whether the server was killed."""
        self.server = server = Server(self, kill)
        acting = asyncio.ensure_future(act(self))
        try:
            done, _ = await asyncio.wait({acting, server.ended}, timeout=4 * TIMEOUT, return_when="FIRST_COMPLETED")
            if not done:
                raise BrokenPromise("the scenario hangs while the server runs")
            if server.ended not in done and acting.exception():
                # The error may be the client's first sign that the server was killed.
                await asyncio.wait({server.ended}, timeout=0.5 if kill else 0)
            if not server.ended.done():
                acting.result()
                await self._disconnect()
                server.signal(signal.SIGTERM)
                await asyncio.wait_for(asyncio.shield(server.ended), TIMEOUT)
            await self._drain_clients()
            was_killed = server.ended.result() == -signal.SIGKILL
            if not was_killed and server.ended.result() != 0:
                raise BrokenPromise(f"the server exited with {server.ended.result()}: {self.end_of_log()}")
            if not was_killed:
                acting.result()
            elif acting.done() and is_broken_promise(acting.exception()):
                raise acting.exception()
            return was_killed
        finally:
            await self._end(acting)

    async def _drain_clients(self) -> None:
        """Waits until clients have read everything that the server sent: what was sent is acknowledged."""
        for client in self.clients:
            thread = client._client and client._client._read_thread
            if thread:
                await until(lambda thread=thread: not thread.is_alive(), "the end of a client's connection")
        for _ in range(10):
            await asyncio.sleep(0)

    async def _disconnect(self) -> None:
        for task in self._tasks:
            task.cancel()
        for client in self.clients:
            await client.force_stop()

    async def _end(self, acting: asyncio.Future[None]) -> None:
        acting.cancel()
        tasks = [acting, *self._tasks]
        await self._disconnect()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks, self.clients = [], []
        self.server.signal(signal.SIGKILL)
        await self.server.ended

    def end_of_log(self) -> str:
        lines = (self.path / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-20:])

    def remove(self) -> None:
        for pid in processes_of(self.home):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.path, ignore_errors=True)


def is_broken_promise(error: BaseException | None) -> bool:
    """Whether an error of a scenario counts though its server was killed. A missing event does not."""
    return isinstance(error, BrokenPromise) and not isinstance(error, EventTimeout)
