"""The differences between generations of the SDK. Everything else is the same in all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """A session event in its wire format."""

    type: str
    data: dict[str, Any]
    id: str

    def __getitem__(self, name: str) -> Any:
        return self.data.get(name)


class Sdk(ABC):
    """One generation of the SDK."""

    #: Whether `resume_session` takes `continue_pending_work`.
    continues_pending_work = True
    #: Whether clients send a connection token.
    knows_tokens = True
    #: Whether a client stops the TCP server that it has started.
    stops_its_tcp_server = True

    def __init__(self, version: str) -> None:
        self.version = version

    @abstractmethod
    def stdio(self, program: str, *, env: dict[str, str], cwd: str, args: tuple[str, ...] = ()) -> Any:
        """Returns a client that starts its own server and uses pipes."""

    @abstractmethod
    def tcp(self, program: str, *, env: dict[str, str], cwd: str) -> Any:
        """Returns a client that starts its own server and uses a port."""

    @abstractmethod
    def at(self, port: int, token: str | None = None) -> Any:
        """Returns a client of a running server."""

    @abstractmethod
    def port(self, client: Any) -> int:
        """Returns the port of the server that a `tcp` client has started."""

    @abstractmethod
    def decision(self, meaning: str) -> Any:
        """Returns the result of a permission handler for `approve`, `reject`, `unavailable` or `nothing`."""

    @abstractmethod
    async def raw_history(self, session: Any) -> list[Any]:
        """Returns the session's history as objects of the SDK."""

    @abstractmethod
    async def answer_permission(self, session: Any, request: str, *, approve: bool) -> bool:
        """Answers a pending permission request. Returns whether the answer counted."""

    @abstractmethod
    async def answer_tool(self, session: Any, request: str, text: str) -> bool:
        """Answers a pending tool call. Returns whether the answer counted."""

    def event(self, raw: Any) -> Event:
        """Converts an event of the SDK back to its wire format. The round trip is part of the test."""
        wire = raw.to_dict()
        return Event(wire["type"], wire["data"], wire["id"])

    async def history(self, session: Any) -> list[Event]:
        """Returns the session's history."""
        return [self.event(raw) for raw in await self.raw_history(session)]

    def metadata(self, raw: Any) -> dict[str, Any]:
        """Converts session metadata of the SDK back to its wire format."""
        return raw.to_dict()

    def config_directory(self, path: str) -> dict[str, str]:
        """Returns the option for a session's configuration directory."""
        return {"config_dir": path}
