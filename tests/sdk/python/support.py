"""Helpers of the tests: the programs under test, and functions that wait for events instead of sleeping."""

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

#: How long to wait for an event. Only failing tests wait that long.
TIMEOUT = float(os.environ.get("BATON_PATIENCE", "15"))


def program(name: str) -> str:
    """Returns a program that `scripts/test` has built."""
    directory = os.environ.get("BATON_BIN_DIR", str(REPOSITORY / "target" / "debug"))
    path = Path(directory) / name
    assert path.exists(), f"{path} is missing: run scripts/test, or build it and set BATON_BIN_DIR"
    return str(path)


class Model:
    """A scripted model in a separate process. Prompts contain its answers: `[[text:hello]]`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([program("baton-scripted-model")], stdout=subprocess.PIPE, text=True)
        self.url = "http://" + self.process.stdout.readline().split()[1]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def _http(self, method: str, path: str) -> Any:
        request = urllib.request.Request(self.url + path, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.load(response)

    def release(self, hold: str) -> None:
        """Continues answers that wait at `[[hold:NAME]]`."""
        self._http("POST", f"/_release/{hold}")

    def exchanges(self) -> list[dict[str, Any]]:
        """Returns all model requests so far, with path and headers."""
        wires = ("/chat/completions", "/responses", "/messages")
        return [r for r in self._http("GET", "/_requests") if r["path"].split("?")[0].endswith(wires)]

    def requests(self) -> list[dict[str, Any]]:
        """Returns the bodies of all model requests so far."""
        return [exchange["body"] for exchange in self.exchanges()]

    async def wait_for_requests(self, count: int) -> None:
        """Waits until there were `count` requests. Polls, because the model is another process."""
        await until(lambda: len(self.requests()) >= count, f"{count} requests to the model")


class Server:
    """A server on a port, which several clients can share and a test can kill."""

    def __init__(self, env: dict[str, str], cwd: Path, token: str | None = None) -> None:
        env = env | ({"COPILOT_CONNECTION_TOKEN": token} if token else {})
        arguments = [program("baton"), "--headless", "--no-auto-update", "--log-level", "info"]
        self.process = subprocess.Popen(
            arguments, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self.process.stdout.readline().split()[-1])

    def kill(self) -> None:
        """Kills the server without a chance to clean up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Watch:
    """Records all events of a session that one client receives."""

    def __init__(self, sdk: Sdk, session: Any = None) -> None:
        self.sdk = sdk
        self.events: list[Event] = []
        self._changed = asyncio.Event()
        if session is not None:
            session.on(self.on_event)

    def on_event(self, raw: Any) -> None:
        self.events.append(self.sdk.event(raw))
        self._changed.set()

    def of(self, *types: str) -> list[Event]:
        return [event for event in self.events if event.type in types]

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    async def first(self, type: str, where: Callable[[Event], bool] = lambda _: True) -> Event:
        """Waits for the first event of a type."""
        return (await self.some(type, 1, where))[0]

    async def some(self, type: str, count: int, where: Callable[[Event], bool] = lambda _: True) -> list[Event]:
        """Waits until there are `count` events of a type, and returns them."""

        async def wait() -> list[Event]:
            while len(found := [event for event in self.of(type) if where(event)]) < count:
                self._changed.clear()
                await self._changed.wait()
            return found

        try:
            return await asyncio.wait_for(wait(), TIMEOUT)
        except TimeoutError:
            raise AssertionError(f"timed out waiting for {count} of {type}; saw {self.types}") from None

    async def idle(self, times: int = 1) -> None:
        """Waits until the session was idle `times` times."""
        await self.some("session.idle", times)

    @property
    def last_message(self) -> str:
        """The assistant's last message that has text."""
        messages = [event["content"] for event in self.of("assistant.message") if event["content"]]
        return messages[-1] if messages else ""


async def until(condition: Callable[[], Any], what: str) -> None:
    """Polls a condition for which there is no event."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        await asyncio.sleep(0.01)


def tool(name: str, handler: Callable[[dict[str, Any]], Any], **options: Any) -> Tool:
    """Creates a client tool with one optional argument. Its handler takes the arguments and returns a text."""

    async def run(invocation: Any) -> ToolResult:
        result = handler(invocation.arguments or {})
        result = await result if asyncio.iscoroutine(result) or asyncio.isfuture(result) else result
        return result if isinstance(result, ToolResult) else ToolResult(text_result_for_llm=result)

    parameters = {"type": "object", "properties": {"value": {"type": "string", "description": "Any text"}}}
    return Tool(name=name, description=f"The tool {name}", parameters=parameters, handler=run, **options)


def call(name: str, **arguments: Any) -> str:
    """Returns the directive that makes the model call a tool."""
    return f"[[tool:{name} {json.dumps(arguments)}]]"


def calls(*named: tuple[str, dict[str, Any]]) -> str:
    """Returns the directive that makes the model call several tools at once."""
    return "[[tools:" + ";;".join(f"{name} {json.dumps(arguments)}" for name, arguments in named) + "]]"


def text_of(message: dict[str, Any]) -> str:
    """Returns the text of a message to the model, which is a string or a list of parts."""
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


#: For the environment of servers: shows theirs to `processes_of` if this is not root, who sees all.
VISIBLE = {} if os.geteuid() == 0 else {"BATON_DUMPABLE": "1"}


def processes_of(home: Path) -> dict[int, str]:
    """Returns the running processes, direct or indirect, started with this home and VISIBLE: ids and command lines."""
    mark = f"COPILOT_HOME={home}".encode()
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (directory / "environ").read_bytes().split(b"\0"):
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                found[int(directory.name)] = command
        except OSError:
            continue  # It has exited in the meantime, or belongs to another user.
    return {pid: command for pid, command in found.items() if command}  # A zombie has no command line.
