"""Real servers that share a database, and real SDK clients of them."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import adapters
from carrier import Carrier
from copilot.tools import Tool
from support import Model, processes_of, program
from witness import ClientSession, Witness

TOKEN = "token-of-the-test-cluster"


def database(name: str) -> str:
    """Creates a database in the cluster of `with-cluster`, and returns its URL."""
    base = os.environ["BATON_TEST_POSTGRES"]
    name = f"{name}_{os.getpid()}"
    subprocess.run(["psql", "-qX", f"{base}&dbname=postgres", "-c", f"CREATE DATABASE {name}"], check=True)
    return f"{base}&dbname={name}"


def sql(url: str, statement: str) -> list[str]:
    found = subprocess.run(["psql", "-XAt", url, "-c", statement], check=True, capture_output=True, text=True)
    return found.stdout.splitlines()


class Server:
    """One server, with a home of its own."""

    def __init__(self, world: World, number: int, *arguments: str) -> None:
        self.world, self.number = world, number
        self.home = world.path / f"home-{number}"
        env = world.env | {"BATON_HOME": str(self.home)}
        self.log = (world.path / f"log-{number}").open("ab")
        command = [program("baton"), "serve", "--port", "0", "--http", "127.0.0.1:0", "--log-level", "info"]
        self.process = subprocess.Popen(
            [*command, *arguments],
            env=env,
            cwd=world.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        lines = [self.process.stdout.readline() for _ in range(2)]
        if not lines[1]:
            raise RuntimeError(f"server {number} did not start:\n{self.tail()}")
        self.port = int(lines[0].split()[-1])
        self.url = lines[1].split()[-1]

    def tail(self, lines: int = 30) -> str:
        text = (self.world.path / f"log-{self.number}").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()
        while number == signal.SIGSTOP and not self.is_stopped:
            # Until then its threads may still answer.
            time.sleep(0.01)

    @property
    def is_stopped(self) -> bool:
        stats = [path.read_text() for path in Path(f"/proc/{self.process.pid}/task").glob("*/stat")]
        return all(stat.rsplit(")", 1)[1].split()[0] == "T" for stat in stats)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None


class Stream(threading.Thread):
    """A reader of a session's event stream, as curl would be."""

    def __init__(self, server: Server, session: str) -> None:
        super().__init__(daemon=True)
        self.server, self.session = server, session
        self.ids: list[int] = []
        self.kinds: list[str] = []
        self.start()

    def run(self) -> None:
        url = f"{self.server.url}/api/sessions/{self.session}/events"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}", "Accept": "text/event-stream"})
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                for line in response:
                    if line.startswith(b"id: "):
                        self.ids.append(int(line[4:]))
                    if line.startswith(b"event: "):
                        self.kinds.append(line[7:].strip().decode())
        except OSError:
            pass


class Feed(threading.Thread):
    """A reader of the changes of all sessions, as a page is."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.ready = 0
        #: What was read last of each session, and its pending requests.
        self.sessions: dict[str, dict[str, Any]] = {}
        self.requests: dict[str, list[dict[str, Any]]] = {}
        self.start()

    def run(self) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/event-stream"}
        request = urllib.request.Request(f"{self.server.url}/api/events", headers=headers)
        kind = ""
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                for line in response:
                    if line.startswith(b"event: "):
                        kind = line[7:].strip().decode()
                        self.ready += kind == "ready"
                    if line.startswith(b"data: ") and kind == "session":
                        self.take(json.loads(line[6:]))
        except OSError:
            pass

    def take(self, session: dict[str, Any]) -> None:
        self.sessions[session["id"]] = session
        if "requests" in session:
            self.requests[session["id"]] = session["requests"]


class CrushStream(threading.Thread):
    """A reader of a workspace's events, as crush's client is."""

    def __init__(self, server: Server, workspace: str, client: str) -> None:
        super().__init__(daemon=True)
        self.url = f"{server.url}/v1/workspaces/{workspace}/events?client_id={client}"
        self.is_open = False
        self.lines: list[str] = []
        self.start()

    def run(self) -> None:
        request = urllib.request.Request(self.url, headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                self.is_open = True
                for line in response:
                    self.lines.append(line.decode())
        except OSError:
            pass


class Webhook:
    """A receiver of notifications."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []
        received = self.received

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received.append((self.headers["webhook-id"], json.loads(body)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.listener.server_port}/"

    def stop(self) -> None:
        self.listener.shutdown()
        self.listener.server_close()


class Balancer:
    """A plain TCP balancer: connections go to the living servers in turn."""

    def __init__(self, ports: list[int]) -> None:
        self.ports, self.turn = ports, 0
        self.copying: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Balancer:
        self.listener = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.listener.close()
        copying = list(self.copying)
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self.ports:
            self.turn += 1
            try:
                upstream = await asyncio.open_connection("127.0.0.1", self.ports[self.turn % len(self.ports)])
                break
            except OSError:
                continue
        else:
            return writer.close()
        for source, target in ((reader, upstream[1]), (upstream[0], writer)):
            task = asyncio.create_task(self.copy(source, target))
            self.copying.add(task)
            task.add_done_callback(self.copying.discard)

    async def copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()


class World:
    """A database, a model, servers and clients."""

    def __init__(self, name: str) -> None:
        self.sdk = adapters.load()
        self.model = Model()
        self.path = Path(tempfile.mkdtemp(prefix=f"baton-{name}-"))
        self.work, self.runs = self.path / "work", self.path / "runs"
        self.work.mkdir(), self.runs.mkdir()
        self.url = database(name)
        self.witness = Witness()
        self.servers: list[Server] = []
        self.clients: list[Any] = []
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "COPILOT_API_URL": self.model.url,
            "COPILOT_CONNECTION_TOKEN": TOKEN,
            "NO_PROXY": "127.0.0.1,localhost",
            "BATON_STORE": self.url,
            "BATON_PEER_SECRET": "secret-of-the-test-cluster",
        }

    def carrier(self) -> Carrier:
        """Returns the only way to the model: servers that are started later do not reach it."""
        self.env["COPILOT_API_URL"] = "http://127.0.0.1:9"
        return Carrier(self.model.url)

    def configure(self, text: str) -> None:
        """Writes the configuration of servers that are started later."""
        directory = self.path / ".config/baton"
        directory.mkdir(parents=True)
        (directory / "config.toml").write_text(text)

    def server(self, *arguments: str) -> Server:
        server = Server(self, len(self.servers) + 1, *arguments)
        self.servers.append(server)
        return server

    def api(self, server: Server, path: str, body: Any = None) -> Any:
        """Calls the HTTP API of a server."""
        return self.request(f"{server.url}/api/{path}", body)

    def crush(self, server: Server, path: str, body: Any = None) -> Any:
        """Calls the API of crush's client."""
        return self.request(f"{server.url}/v1/{path}", body)

    def request(self, url: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    async def client(self, server: Server, carrier: Carrier | None = None) -> Any:
        client = carrier.client(server.port, TOKEN) if carrier else self.sdk.at(server.port, TOKEN)
        self.clients.append(client)
        await client.start()
        return client

    async def create(
        self, server: Server, session: str, *, carrier: Carrier | None = None, **options: Any
    ) -> ClientSession:
        chat = ClientSession(self.sdk, self.witness)
        client = await self.client(server, carrier)
        chat.session = await client.create_session(session_id=session, **self.options(chat, options))
        return chat

    async def resume(
        self, server: Server, session: str, *, carrier: Carrier | None = None, **options: Any
    ) -> ClientSession:
        chat = ClientSession(self.sdk, self.witness)
        options = {"continue_pending_work": True} | options
        client = await self.client(server, carrier)
        chat.session = await client.resume_session(session, **self.options(chat, options))
        return chat

    def options(self, chat: ClientSession, options: dict[str, Any]) -> dict[str, Any]:
        lookup = Tool("lookup", "looks up", parameters={"type": "object"})
        return {
            "on_event": chat.on_event,
            "on_permission_request": lambda *_: self.sdk.decision("nothing"),
            "tools": [lookup],
            "working_directory": str(self.work),
        } | options

    def counting_command(self, name: str) -> str:
        return f"echo ran >> {self.runs / name}"

    def run_count(self, name: str) -> int:
        path = self.runs / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def baton(self, *arguments: str) -> str:
        done = subprocess.run(
            [program("baton"), *arguments], env=self.env, cwd=self.work, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def listed(self) -> list[dict[str, Any]]:
        """The servers of the database."""
        return json.loads(self.baton("servers", "--json"))["servers"]

    async def close(self) -> None:
        for client in self.clients:
            try:
                await asyncio.wait_for(client.force_stop(), 5)
            except Exception:
                pass
        for server in self.servers:
            if server.is_running:
                server.kill(signal.SIGCONT)
                server.kill(signal.SIGKILL)
            server.process.stdout.close()
        for server in self.servers:
            for pid in processes_of(server.home):
                os.kill(pid, signal.SIGKILL)
        self.model.stop()

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


async def soon(condition: Callable[[], Any], what: str, seconds: float = 15) -> float:
    """Waits for a condition. Returns how long it took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() < start + seconds, f"timed out waiting for {what}"
        await asyncio.sleep(0.02)
    return time.monotonic() - start


async def soon_async(condition: Callable[[], Awaitable[Any]], what: str, seconds: float = 15) -> None:
    """Waits for a condition that asks a server."""
    start = time.monotonic()
    while not await condition():
        assert time.monotonic() < start + seconds, f"timed out waiting for {what}"
        await asyncio.sleep(0.05)


def report(world: World, error: BaseException) -> None:
    print(f"FAILED: {error!r}", file=sys.stderr)
    statement = (
        "SELECT s.id || ' ' || e.seq || ' ' || convert_from(e.kind, 'UTF8') || ' ' || left(convert_from(e.body, 'UTF8'), 300) "
        "FROM baton_events e JOIN baton_sessions s ON s.key = e.session ORDER BY s.id, e.seq DESC LIMIT 400"
    )
    try:
        print("\n".join(sql(world.url, statement)), file=sys.stderr)
    except subprocess.CalledProcessError as unreadable:  # The logs of the servers are wanted all the more.
        print(f"cannot read the database: {unreadable.stderr}", file=sys.stderr)
    for server in world.servers:
        print(f"--- log of server {server.number}\n{server.tail()}", file=sys.stderr)
