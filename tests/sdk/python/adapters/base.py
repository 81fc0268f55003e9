"""What tests may ask of any generation of the SDK. What is not here is the same in all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """A session event, in the words of the wire."""

    type: str
    data: dict[str, Any]
    id: str

    def __getitem__(self, name: str) -> Any:
        return self.data.get(name)


class Sdk(ABC):
    """One generation of the SDK."""

    #: Whether `resume_session` takes `continue_pending_work`.
    continues_pending_work = True
    #: Whether clients bring a connection token.
    knows_tokens = True
    #: Whether a client stops the TCP server that it has started.
    stops_its_tcp_server = True

    def __init__(self, version: str) -> None:
        self.version = version

    @abstractmethod
    def stdio(self, program: str, *, env: dict[str, str], cwd: str, args: tuple[str, ...] = ()) -> Any:
        """A client that starts a server of its own, and talks to it through pipes."""

    @abstractmethod
    def tcp(self, program: str, *, env: dict[str, str], cwd: str) -> Any:
        """A client that starts a server of its own, and talks to it through a port."""

    @abstractmethod
    def at(self, port: int, token: str | None = None) -> Any:
        """A client of a server that somebody else has started."""

    @abstractmethod
    def port(self, client: Any) -> int:
        """The port of the server that a `tcp` client has started."""

    @abstractmethod
    def decision(self, meaning: str) -> Any:
        """What a permission handler returns: `approve`, `reject`, `unavailable` or `nothing`."""

    @abstractmethod
    async def raw_history(self, session: Any) -> list[Any]:
        """The session's history, in the SDK's own classes."""

    @abstractmethod
    async def answer_permission(self, session: Any, request: str, *, approve: bool) -> bool:
        """Answers a pending permission request by its id. Says whether the answer counted."""

    @abstractmethod
    async def answer_tool(self, session: Any, request: str, text: str) -> bool:
        """Answers a pending tool call by its id. Says whether the answer counted."""

    def event(self, raw: Any) -> Event:
        """An event as the SDK gives it, back in the words of the wire. That it survives both ways is part of the test."""
        wire = raw.to_dict()
        return Event(wire["type"], wire["data"], wire["id"])

    async def history(self, session: Any) -> list[Event]:
        """What has happened in a session."""
        return [self.event(raw) for raw in await self.raw_history(session)]

    def metadata(self, raw: Any) -> dict[str, Any]:
        """What a client is told about a stored session, in the words of the wire."""
        return raw.to_dict()

    def config_directory(self, path: str) -> dict[str, str]:
        """The option that sets a session's configuration directory."""
        return {"config_dir": path}
