"""The fixtures: a private place, a scripted model, and clients of whichever SDK version is on the path."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adapters
import pytest
import pytest_asyncio
from support import PATIENCE, Model, Server, Watch, processes_of, program, until


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

    async def leave(self, client: Any) -> None:
        """Ends a client as a crash of its program would: without a word to the server."""
        self.clients.remove(client)
        await client.force_stop()

    async def stop(self, client: Any) -> None:
        self.clients.remove(client)
        await client.stop()

    async def close(self) -> None:
        try:
            for client in self.clients:
                await asyncio.wait_for(client.stop(), PATIENCE)
        finally:
            for server in self.servers:
                server.stop()
            abandoned = self._abandoned_servers()
            for pid in abandoned:
                os.kill(pid, signal.SIGTERM)
        await until(lambda: not processes_of(self.home), "the end of all processes")

    def _abandoned_servers(self) -> list[int]:
        """Older SDKs forget the TCP server that they have started. That is theirs, not ours; it is ended here."""
        if self.sdk.stops_its_tcp_server:
            return []
        return [pid for pid, command in processes_of(self.home).items() if command.endswith("--log-level info")]


@pytest_asyncio.fixture
async def world(sdk, model, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    world = World(sdk, model, tmp_path / "home", tmp_path / "work")
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
