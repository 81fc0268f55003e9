"""Fixtures: a temporary home, a scripted model, and clients of the SDK version that is on the path."""

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
from support import TIMEOUT, VISIBLE, Model, Server, Watch, processes_of, program, until

#: The real programs are large, and installed by a separate test group.
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
    """The private environment of one test: home, working directory, model, clients and servers."""

    sdk: adapters.Sdk
    model: Model
    home: Path
    work: Path

    def __post_init__(self) -> None:
        self.clients: list[Any] = []
        self.servers: list[Server] = []
        self._undecided: list[asyncio.Future[Any]] = []
        self.env = VISIBLE | {
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
        """Starts a client that starts its own server and uses pipes."""
        return await self._started(self.sdk.stdio(program("baton"), env=self.env | env, cwd=str(self.work)))

    async def tcp_client(self) -> Any:
        """Starts a client that starts its own server and uses a port."""
        return await self._started(self.sdk.tcp(program("baton"), env=self.env, cwd=str(self.work)))

    async def client_at(self, port: int, token: str | None = None) -> Any:
        """Starts a client of a running server."""
        return await self._started(self.sdk.at(port, token))

    def server(self, token: str | None = None) -> Server:
        server = Server(self.env, self.work, token)
        self.servers.append(server)
        return server

    def permit(self, meaning: str = "approve", requests: list[Any] | None = None):
        """Returns a permission handler that always makes the same decision, and appends requests to a list."""

        def handler(request: Any, _invocation: Any) -> Any:
            if requests is not None:
                requests.append(request.to_dict())
            return self.sdk.decision(meaning)

        return handler

    def never(self, *_: Any) -> asyncio.Future[Any]:
        """A handler that never decides. The future is stored, because it would be garbage-collected otherwise."""
        self._undecided.append(asyncio.get_running_loop().create_future())
        return self._undecided[-1]

    async def create(self, client: Any, **options: Any) -> Any:
        options.setdefault("on_permission_request", self.permit())
        return await client.create_session(**options)

    async def resume(self, client: Any, session_id: str, **options: Any) -> Any:
        options.setdefault("on_permission_request", self.permit())
        return await client.resume_session(session_id, **options)

    async def ask(self, session: Any, prompt: str, **options: Any) -> str:
        """Sends a prompt, waits for the end of its turn, and returns the assistant's last message."""
        reply = await session.send_and_wait(prompt, timeout=TIMEOUT, **options)
        return self.sdk.event(reply)["content"] if reply else ""

    async def history(self, session: Any) -> list[adapters.Event]:
        return await self.sdk.history(session)

    def watch(self, session: Any) -> Watch:
        return Watch(self.sdk, session)

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    async def drop_client(self, client: Any) -> None:
        """Ends a client as a crash of its program would: without notifying the server."""
        self.clients.remove(client)
        await client.force_stop()

    async def stop(self, client: Any) -> None:
        self.clients.remove(client)
        await client.stop()

    async def close(self) -> None:
        """Shuts down all servers, and checks that they leave no process.

        Servers go first, then their clients: older SDKs wait two seconds for a server that still runs.
        """
        for pid, command in processes_of(self.home).items():
            if command.startswith(program("baton")):
                os.kill(pid, signal.SIGTERM)
        await until(lambda: not processes_of(self.home), "the end of all processes")
        logging.disable()  # Clients log that their servers are gone.
        for client in self.clients:
            await client.force_stop()
        logging.disable(logging.NOTSET)
        for server in self.servers:
            server.process.wait()
            server.process.stdout.close()


#: Errors of the SDK while it handled an event.
SDK_ERRORS = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fails a test if the SDK could not parse an event: the SDK itself drops such an event silently."""
    result = yield
    errors = item.stash.get(SDK_ERRORS, [])
    assert not errors, "\n".join(errors)
    return result


@pytest_asyncio.fixture
async def world(request, sdk, model, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    world = World(sdk, model, tmp_path / "home", tmp_path / "work")
    errors = request.node.stash[SDK_ERRORS] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(
        lambda _, context: errors.append(str(context)) if "session.event" in str(context) else None
    )
    yield world
    try:
        # No process of a test may survive it: no server, and no command of a session.
        await world.close()
    finally:
        for pid in processes_of(world.home):
            os.kill(pid, signal.SIGKILL)


@pytest_asyncio.fixture
async def client(world):
    return await world.client()
