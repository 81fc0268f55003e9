"""What the tests share: the programs they start, and ways to wait for events instead of sleeping."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from adapters import Event, Sdk
from copilot.tools import Tool, ToolResult

REPOSITORY = Path(__file__).resolve().parents[3]

#: How long anything may take that should happen at once. Only failing tests ever wait that long.
PATIENCE = float(os.environ.get("BATON_PATIENCE", "15"))


def program(name: str) -> str:
    """A program of this repository, as `scripts/test` has built it."""
    directory = os.environ.get("BATON_BIN_DIR", str(REPOSITORY / "target" / "debug"))
    path = Path(directory) / name
    assert path.exists(), f"{path} is missing: run scripts/test, or build it and set BATON_BIN_DIR"
    return str(path)


class Model:
    """A scripted model in a process of its own. What it says is written in the prompts: `[[text:hello]]`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([program("baton-scripted-model")], stdout=subprocess.PIPE, text=True)
        self.url = "http://" + self.process.stdout.readline().split()[1]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def _http(self, method: str, path: str) -> Any:
        request = urllib.request.Request(self.url + path, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return json.load(response)

    def release(self, hold: str) -> None:
        """Lets go on what waits at `[[hold:NAME]]`."""
        self._http("POST", f"/_release/{hold}")

    def exchanges(self) -> list[dict[str, Any]]:
        """All questions so far, with path and headers."""
        wires = ("/chat/completions", "/responses", "/messages")
        return [r for r in self._http("GET", "/_requests") if r["path"].split("?")[0].endswith(wires)]

    def requests(self) -> list[dict[str, Any]]:
        """The bodies of all questions so far."""
        return [exchange["body"] for exchange in self.exchanges()]

    async def asked(self, count: int) -> None:
        """Waits until there have been so many questions. Another process cannot tell us, so this polls."""
        await until(lambda: len(self.requests()) >= count, f"{count} requests to the model")


class Server:
    """A server of our own, on a port, that several clients can share and that a test can kill."""

    def __init__(self, env: dict[str, str], cwd: Path, token: str | None = None) -> None:
        env = env | ({"COPILOT_CONNECTION_TOKEN": token} if token else {})
        arguments = [program("baton"), "--headless", "--no-auto-update", "--log-level", "info"]
        self.process = subprocess.Popen(
            arguments, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self.process.stdout.readline().split()[-1])

    def kill(self) -> None:
        """As a power cut would end it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Watch:
    """Everything that a session tells one client from now on."""

    def __init__(self, sdk: Sdk, session: Any = None) -> None:
        self.sdk = sdk
        self.events: list[Event] = []
        self._changed = asyncio.Event()
        if session is not None:
            session.on(self.note)

    def note(self, raw: Any) -> None:
        self.events.append(self.sdk.event(raw))
        self._changed.set()

    def of(self, *types: str) -> list[Event]:
        return [event for event in self.events if event.type in types]

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    async def first(self, type: str, where: Callable[[Event], bool] = lambda _: True) -> Event:
        """The first event of a type, as soon as it is there."""
        return (await self.some(type, 1, where))[0]

    async def some(self, type: str, count: int, where: Callable[[Event], bool] = lambda _: True) -> list[Event]:
        """The events of a type, as soon as there are so many."""

        async def wait() -> list[Event]:
            while len(found := [event for event in self.of(type) if where(event)]) < count:
                self._changed.clear()
                await self._changed.wait()
            return found

        try:
            return await asyncio.wait_for(wait(), PATIENCE)
        except TimeoutError:
            raise AssertionError(f"waited in vain for {count} of {type}; saw {self.types}") from None

    async def idle(self, times: int = 1) -> None:
        """Waits until the session has come to rest so many times."""
        await self.some("session.idle", times)

    @property
    def said(self) -> str:
        """The last thing that the assistant said."""
        messages = [event["content"] for event in self.of("assistant.message") if event["content"]]
        return messages[-1] if messages else ""


async def until(is_so: Callable[[], Any], what: str) -> None:
    """Polls for something that nobody announces."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.01)


def tool(name: str, handler: Callable[[dict[str, Any]], Any], **options: Any) -> Tool:
    """A tool of the client, with one optional argument, whose handler takes arguments and gives a text."""

    async def run(invocation: Any) -> ToolResult:
        result = handler(invocation.arguments or {})
        result = await result if asyncio.iscoroutine(result) or asyncio.isfuture(result) else result
        return result if isinstance(result, ToolResult) else ToolResult(text_result_for_llm=result)

    parameters = {"type": "object", "properties": {"value": {"type": "string", "description": "Any text"}}}
    return Tool(name=name, description=f"The tool {name}", parameters=parameters, handler=run, **options)


def call(name: str, **arguments: Any) -> str:
    """The directive that makes the model call a tool."""
    return f"[[tool:{name} {json.dumps(arguments)}]]"


def calls(*named: tuple[str, dict[str, Any]]) -> str:
    """The directive that makes the model call several tools at once."""
    return "[[tools:" + ";;".join(f"{name} {json.dumps(arguments)}" for name, arguments in named) + "]]"


def text_of(message: dict[str, Any]) -> str:
    """The text of a message to the model, in whichever form it was sent."""
    content = message["content"] or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def system_message(request: dict[str, Any]) -> str:
    return next(text_of(message) for message in request["messages"] if message["role"] == "system")


def tool_results(request: dict[str, Any]) -> list[str]:
    return [text_of(message) for message in request["messages"] if message["role"] == "tool"]


def tool_names(request: dict[str, Any]) -> list[str]:
    return [offered["function"]["name"] for offered in request.get("tools", [])]


def types_of(events: Iterable[Event]) -> list[str]:
    return [event.type for event in events]


def processes_of(home: Path) -> dict[int, str]:
    """The running processes that were started, at any remove, with this home: process id and command line."""
    mark = f"COPILOT_HOME={home}".encode()
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (directory / "environ").read_bytes().split(b"\0"):
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                found[int(directory.name)] = command
        except OSError:
            continue  # It ended while we looked, or it is not ours to look at.
    return {pid: command for pid, command in found.items() if command}  # A zombie has no command line.
