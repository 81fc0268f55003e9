"""The fixtures: a private place, a scripted model, and clients of whichever SDK version is on the path."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adapters
import pytest
import pytest_asyncio
from support import PATIENCE, Model, Server, Watch, processes_of, program, until

#: The real programs are large, and installed by a group of tests of their own.
collect_ignore = [] if "BATON_ENGINES" in os.environ else ["engines"]


@pytest.fixture(scope="session")
def sdk() -> adapters.Sdk:
    return adapters.load()


def pytest_report_header() -> str:
    return f"github-copilot-sdk {adapters.load().version}"


@pytest.fixture
def model():
    model = Model()
    yield model
    model.stop()


@dataclass
class World:
    """Everything that one test has to itself."""

    sdk: adapters.Sdk
    model: Model
    home: Path
    work: Path

    def __post_init__(self) -> None:
        self.clients: list[Any] = []
        self.servers: list[Server] = []
        self._undecided: list[asyncio.Future[Any]] = []
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.work.parent),
            "COPILOT_HOME": str(self.home),
            "COPILOT_API_URL": self.model.url,
            "NO_PROXY": "127.0.0.1,localhost",
        }

    async def _started(self, client: Any) -> Any:
        self.clients.append(client)
        await client.start()
        return client

    async def client(self, **env: str) -> Any:
        """A client with a server of its own, through pipes."""
        return await self._started(self.sdk.stdio(program("baton"), env=self.env | env, cwd=str(self.work)))

    async def tcp_client(self) -> Any:
        """A client with a server of its own, through a port."""
        return await self._started(self.sdk.tcp(program("baton"), env=self.env, cwd=str(self.work)))

    async def client_at(self, port: int, token: str | None = None) -> Any:
        """A client of a server that runs already."""
        return await self._started(self.sdk.at(port, token))

    def server(self, token: str | None = None) -> Server:
        server = Server(self.env, self.work, token)
        self.servers.append(server)
        return server

    def permit(self, meaning: str = "approve", noted: list[Any] | None = None):
        """A permission handler that always answers the same, and notes what it was asked."""

        def handler(request: Any, _invocation: Any) -> Any:
            if noted is not None:
                noted.append(request.to_dict())
            return self.sdk.decision(meaning)

        return handler

    def never(self, *_: Any) -> asyncio.Future[Any]:
        """A handler that never decides. Somebody has to hold on to its future, or it is collected."""
        self._undecided.append(asyncio.get_running_loop().create_future())
        return self._undecided[-1]

    async def create(self, client: Any, **options: Any) -> Any:
        options.setdefault("on_permission_request", self.permit())
        return await client.create_session(**options)

    async def resume(self, client: Any, session_id: str, **options: Any) -> Any:
        options.setdefault("on_permission_request", self.permit())
        return await client.resume_session(session_id, **options)

    async def ask(self, session: Any, prompt: str, **options: Any) -> str:
        """Sends a prompt, waits for the end of its turn, and returns what the assistant said last."""
        reply = await session.send_and_wait(prompt, timeout=PATIENCE, **options)
        return self.sdk.event(reply)["content"] if reply else ""

    async def history(self, session: Any) -> list[adapters.Event]:
        return await self.sdk.history(session)

    def watch(self, session: Any) -> Watch:
        return Watch(self.sdk, session)

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    async def leave(self, client: Any) -> None:
        """Ends a client as a crash of its program would: without a word to the server."""
        self.clients.remove(client)
        await client.force_stop()

    async def stop(self, client: Any) -> None:
        self.clients.remove(client)
        await client.stop()

    async def close(self) -> None:
        """Ends all servers politely, and sees that they leave nothing behind.

        The servers first, then their clients: older SDKs wait two seconds for a server that still runs.
        """
        for pid, command in processes_of(self.home).items():
            if command.startswith(program("baton")):
                os.kill(pid, signal.SIGTERM)
        await until(lambda: not processes_of(self.home), "the end of all processes")
        logging.disable()  # Clients complain that their servers are gone.
        for client in self.clients:
            await client.force_stop()
        logging.disable(logging.NOTSET)
        for server in self.servers:
            server.process.wait()
            server.process.stdout.close()


#: What went wrong inside of an SDK while it took in an event.
LOST = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """An event that an SDK cannot parse is lost without a word to whoever waits for it. Here it fails the test."""
    result = yield
    lost = item.stash.get(LOST, [])
    assert not lost, "\n".join(lost)
    return result


@pytest_asyncio.fixture
async def world(request, sdk, model, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    world = World(sdk, model, tmp_path / "home", tmp_path / "work")
    lost = request.node.stash[LOST] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: lost.append(str(context)) if "session.event" in str(context) else None)
    yield world
    try:
        # Nothing that a test started survives it: no server, and no command of a session.
        await world.close()
    finally:
        for pid in processes_of(world.home):
            os.kill(pid, signal.SIGKILL)


@pytest_asyncio.fixture
async def client(world):
    return await world.client()
