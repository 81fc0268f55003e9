"""Records of what clients sent, saw and got acknowledged. All of it must still hold after a crash."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from copilot.generated.rpc import (
    EventLogReadRequest,
    UIExitPlanModeResponse,
    UIHandlePendingExitPlanModeRequest,
    UIHandlePendingUserInputRequest,
    UIUserInputResponse,
)
from support import TIMEOUT

#: Events that open a request, and the events that close it.
REQUESTS = {
    "permission.requested": "permission.completed",
    "external_tool.requested": "external_tool.completed",
    "user_input.requested": "user_input.completed",
    "exit_plan_mode.requested": "exit_plan_mode.completed",
}

Event = dict[str, Any]


class BrokenPromise(Exception):
    """A promise of docs/guarantees.md was broken."""


class EventTimeout(BrokenPromise):
    """An expected event did not arrive in time."""


@dataclass
class Witness:
    """Everything that clients of all servers of a home saw or got acknowledged."""

    #: Creation was acknowledged; deletion was requested; deletion was acknowledged.
    created: bool = False
    deleting: bool = False
    deleted: bool = False
    #: Prompts, by the id that acknowledged them.
    prompts: dict[str, str] = field(default_factory=dict)
    #: Acknowledged answers, by request.
    answers: dict[str, str] = field(default_factory=dict)
    #: Prompts that were running or queued at an acknowledged cancel.
    cancelled: set[str] = field(default_factory=set)
    #: The durable events that each client received live.
    seen: list[list[Event]] = field(default_factory=list)
    #: The events that a reader has read page by page, and its cursor.
    read: list[str] = field(default_factory=list)
    cursor: str | None = None


class ClientSession:
    """A session of one client, which records everything in the witness."""

    def __init__(self, sdk: Any, witness: Witness) -> None:
        self.sdk, self.witness = sdk, witness
        self.session: Any = None
        self.events: list[Event] = []
        self._durable: list[Event] = []
        self._waiting: list[asyncio.Future[None]] = []
        witness.seen.append(self._durable)

    def on_event(self, raw: Any) -> None:
        event = raw.to_dict()
        self.events.append(event)
        if not event.get("ephemeral"):
            self._durable.append(event)
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def event(self, kind: str, count: int = 1) -> Event:
        """Waits for the `count`-th event of a kind."""
        while len(found := [event for event in self.events if event["type"] == kind]) < count:
            await self.next_event(kind)
        return found[count - 1]

    async def next_event(self, what: str = "the end of the turn") -> None:
        """Waits for the next event, up to a limit."""
        try:
            await asyncio.wait_for(self.change(), TIMEOUT)
        except TimeoutError:
            types = [event["type"] for event in self.events]
            raise EventTimeout(f"timed out waiting for {what}; saw {types}") from None

    def change(self) -> asyncio.Future[None]:
        """Returns a future for the next event after this call, even if the caller awaits it later."""
        self._waiting.append(asyncio.get_running_loop().create_future())
        return self._waiting[-1]

    async def send(self, prompt: str, **options: Any) -> str:
        accepted = await self.session.send(prompt, **options)
        self.witness.prompts[accepted] = prompt
        return accepted

    async def ask(self, prompt: str) -> None:
        """Sends a prompt and waits until the session is idle."""
        idle_count = sum(event["type"] == "session.idle" for event in self.events)
        await self.send(prompt)
        await self.event("session.idle", idle_count + 1)

    async def cancel(self, *prompts: str) -> None:
        """Cancels these prompts, which are running or queued."""
        await self.session.abort()
        self.witness.cancelled.update(prompts)

    async def answer(self, request: Event, result: str = "found") -> bool:
        """Answers a request, with approval where it asks for one. Returns whether the answer counted."""
        name = request["data"]["requestId"]
        match request["type"]:
            case "permission.requested":
                result = "approve"
                counted = await self.sdk.answer_permission(self.session, name, approve=True)
            case "external_tool.requested":
                counted = await self.sdk.answer_tool(self.session, name, result)
            case "exit_plan_mode.requested":
                response = UIExitPlanModeResponse(approved=True, feedback=result)
                answer = UIHandlePendingExitPlanModeRequest(request_id=name, response=response)
                counted = (await self.session.rpc.ui.handle_pending_exit_plan_mode(answer)).success
            case _:
                response = UIUserInputResponse(answer=result, was_freeform=True)
                answer = UIHandlePendingUserInputRequest(request_id=name, response=response)
                counted = (await self.session.rpc.ui.handle_pending_user_input(answer)).success
        if counted:
            self.witness.answers[name] = result
        return counted

    async def read_page(self) -> bool:
        """Reads the next page of events. Returns whether there is more."""
        request = EventLogReadRequest(cursor=self.witness.cursor, max=7, include_ephemeral=False)
        page = await self.session.rpc.event_log.read(request)
        if page.cursor_status.value != "ok":
            raise BrokenPromise(f"P2: the cursor {self.witness.cursor} is {page.cursor_status.value} after the crash")
        self.witness.read.extend(str(event.id) for event in page.events)
        self.witness.cursor = page.cursor
        return page.has_more

    async def follow(self) -> None:
        """Reads new events for as long as the connection lasts."""
        while True:
            await self.change()
            while await self.read_page():
                pass


def open_requests(history: list[Event]) -> dict[str, Event]:
    """Returns the unanswered requests, by id."""
    opened: dict[str, Event] = {}
    for event in history:
        name = event["data"].get("requestId")
        if event["type"] in REQUESTS:
            opened[name] = event
        elif event["type"] in REQUESTS.values():
            opened.pop(name, None)
    return opened
