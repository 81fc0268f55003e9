"""One home, and the lives of servers in it: each is started, used, and killed as its death says."""

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
from support import PATIENCE, Model, processes_of, program
from witness import Broken, Talk, Witness

SESSION = "survivor"

#: In memory where there is any: the death of a process loses nothing that it wrote, so nothing is shown by waiting for
#: a disk. What survives a power cut is the store's own test.
PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclass(frozen=True)
class Death:
    """How a server dies: at a named point when that is passed for the so-manieth time, or after so many seconds."""

    point: str | None = None
    hit: int = 1
    after: float = 0.0

    def __str__(self) -> str:
        return f"{self.point}:{self.hit}" if self.point else f"SIGKILL after {self.after * 1000:.0f} ms"


class Server:
    """The real program. `ended` is done when it has ended, however that came about."""

    def __init__(self, home: Home, death: Death | None) -> None:
        env = home.env | ({"BATON_CRASH_AT": str(death)} if death and death.point else {})
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
        loop.add_reader(self._handle, self._note_end)
        if death and not death.point:
            loop.call_later(death.after, self.signal, signal.SIGKILL)
        line = self.process.stdout.readline().split()
        self.port = int(line[-1]) if line else None

    def _note_end(self) -> None:
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
    """A place that outlives its servers, and what happened in it."""

    def __init__(self, sdk: Any, model: Model) -> None:
        self.sdk, self.model = sdk, model
        self.path = Path(tempfile.mkdtemp(prefix="baton-crash-", dir=PLACE))
        self.home, self.work, self.runs = (self.path / name for name in ("home", "work", "runs"))
        for directory in (self.home, self.work, self.runs):
            directory.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "COPILOT_HOME": str(self.home),
            "COPILOT_API_URL": model.url,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        #: When this exists, commands are in no mood for tricks any more.
        self.calm = self.path / "calm"
        self.witness = Witness()
        self.server: Server | None = None
        self.clients: list[Any] = []
        self._tasks: list[asyncio.Task[None]] = []
        #: Distinguishes this home at the model, which is shared.
        self.hold = self.path.name

    # What scenarios use.

    async def client(self) -> Any:
        client = self.sdk.at(self.server.port)
        self.clients.append(client)
        await client.start()
        return client

    async def create(self, client: Any = None, **options: Any) -> Talk:
        talk = Talk(self.sdk, self.witness)
        client = client or await self.client()
        talk.session = await client.create_session(session_id=SESSION, **self._options(talk, options))
        self.witness.created = True
        return talk

    async def resume(self, client: Any = None, *, go_on: bool, **options: Any) -> Talk:
        talk = Talk(self.sdk, self.witness)
        client = client or await self.client()
        options = self._options(talk, options) | {"continue_pending_work": go_on}
        talk.session = await client.resume_session(SESSION, **options)
        return talk

    def _options(self, talk: Talk, options: dict[str, Any]) -> dict[str, Any]:
        """A client that is shown every request and answers none by itself, so that it hears what becomes of answers."""
        lookup = Tool("lookup", "looks up", parameters={"type": "object"})
        return {
            "on_event": talk.hear,
            "on_permission_request": lambda *_: self.sdk.decision("nothing"),
            "tools": [lookup],
            "working_directory": str(self.work),
        } | options

    def beside(self, work: Any) -> None:
        """Something that goes on while a scenario does other things."""
        self._tasks.append(asyncio.create_task(work))

    def counting(self, name: str) -> str:
        """A command that leaves a mark each time it is run."""
        return f"echo ran >> {self.runs / name}"

    def run_counts(self) -> dict[str, int]:
        return {path.name: len(path.read_text().splitlines()) for path in self.runs.iterdir()}

    def command(self, *arguments: str, death: Death | None = None) -> subprocess.CompletedProcess[str]:
        """Runs the program for one command."""
        env = self.env | ({"BATON_CRASH_AT": str(death)} if death else {})
        command = [program("baton"), *arguments]
        return subprocess.run(command, env=env, cwd=self.work, capture_output=True, text=True, timeout=PATIENCE)

    # What drives them.

    async def live(self, act: Callable[[Home], Awaitable[None]], death: Death | None = None) -> bool:
        """One life of a server, in which clients do what `act` says. Says whether the server died of its death."""
        self.server = server = Server(self, death)
        acting = asyncio.ensure_future(act(self))
        try:
            done, _ = await asyncio.wait({acting, server.ended}, timeout=4 * PATIENCE, return_when="FIRST_COMPLETED")
            if not done:
                raise Broken("the scenario hangs, and the server lives")
            if server.ended not in done and acting.exception():
                # What the client noticed first is perhaps that the server is gone.
                await asyncio.wait({server.ended}, timeout=0.5 if death else 0)
            if not server.ended.done():
                acting.result()
                await self._leave()
                server.signal(signal.SIGTERM)
                await asyncio.wait_for(asyncio.shield(server.ended), PATIENCE)
            await self._hear_out()
            died = server.ended.result() == -signal.SIGKILL
            if not died and server.ended.result() != 0:
                raise Broken(f"the server ended with {server.ended.result()}: {self.last_words()}")
            if not died:
                acting.result()
            elif acting.done() and isinstance(acting.exception(), Broken) and "in vain" not in str(acting.exception()):
                raise acting.exception()
            return died
        finally:
            await self._end(acting)

    async def _hear_out(self) -> None:
        """Lets clients take in what the server said before it died: it is acknowledged if it was sent."""
        for client in self.clients:
            thread = client._client and client._client._read_thread
            while thread and thread.is_alive():
                await asyncio.sleep(0.001)
        for _ in range(10):
            await asyncio.sleep(0)

    async def _leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        for client in self.clients:
            await client.force_stop()

    async def _end(self, acting: asyncio.Future[None]) -> None:
        acting.cancel()
        tasks = [acting, *self._tasks]
        await self._leave()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks, self.clients = [], []
        self.server.signal(signal.SIGKILL)
        await self.server.ended

    def last_words(self) -> str:
        lines = (self.path / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-20:])

    def remove(self) -> None:
        for pid in processes_of(self.home):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.path, ignore_errors=True)
