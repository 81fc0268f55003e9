"""What clients did, and what they were told: whatever is in here must be so after the crash."""

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
from support import PATIENCE

#: Events that ask somebody outside for something, and the events that close them.
REQUESTS = {
    "permission.requested": "permission.completed",
    "external_tool.requested": "external_tool.completed",
    "user_input.requested": "user_input.completed",
    "exit_plan_mode.requested": "exit_plan_mode.completed",
}

Wire = dict[str, Any]


class Broken(Exception):
    """A promise was not kept."""


@dataclass
class Witness:
    """Everything that was acknowledged or seen, over all lives of a home."""

    #: The session's creation was acknowledged; its deletion was asked for; its deletion was acknowledged.
    created: bool = False
    deleting: bool = False
    deleted: bool = False
    #: Prompts, by the id that acknowledged them.
    prompts: dict[str, str] = field(default_factory=dict)
    #: Requests whose answer was acknowledged, and the answer.
    answers: dict[str, str] = field(default_factory=dict)
    #: Prompts that an acknowledged cancel was to end.
    cancelled: set[str] = field(default_factory=set)
    #: What each client saw live, without what is ephemeral.
    seen: list[list[Wire]] = field(default_factory=list)
    #: What one reader has read, page by page, and how far it is.
    read: list[str] = field(default_factory=list)
    cursor: str | None = None


class Talk:
    """A session as one client uses it."""

    def __init__(self, sdk: Any, witness: Witness) -> None:
        self.sdk, self.witness = sdk, witness
        self.session: Any = None
        self.events: list[Wire] = []
        self._durable: list[Wire] = []
        self._waiting: list[asyncio.Future[None]] = []
        witness.seen.append(self._durable)

    def hear(self, raw: Any) -> None:
        event = raw.to_dict()
        self.events.append(event)
        if not event.get("ephemeral"):
            self._durable.append(event)
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def event(self, kind: str, count: int = 1) -> Wire:
        """The so-manieth event of a kind, as soon as it is there."""

        while len(found := [event for event in self.events if event["type"] == kind]) < count:
            await self.news(kind)
        return found[count - 1]

    async def news(self, what: str = "the end of the turn") -> None:
        """Waits for the next event, but not for ever: what is promised to happen does."""
        try:
            await asyncio.wait_for(self.change(), PATIENCE)
        except TimeoutError:
            raise Broken(f"waited in vain for {what}; saw {[event['type'] for event in self.events]}") from None

    def change(self) -> asyncio.Future[None]:
        """The next event, whatever it is. It counts from this very call, not from when whoever waits gets to run."""
        self._waiting.append(asyncio.get_running_loop().create_future())
        return self._waiting[-1]

    async def send(self, prompt: str, **options: Any) -> str:
        accepted = await self.session.send(prompt, **options)
        self.witness.prompts[accepted] = prompt
        return accepted

    async def ask(self, prompt: str) -> None:
        """Sends a prompt, and waits until the session has come to rest."""
        rests = sum(event["type"] == "session.idle" for event in self.events)
        await self.send(prompt)
        await self.event("session.idle", rests + 1)

    async def cancel(self, *ends: str) -> None:
        """Cancels; these prompts are under way or waiting."""
        await self.session.abort()
        self.witness.cancelled.update(ends)

    async def answer(self, request: Wire, result: str = "found") -> bool:
        """Answers whatever is asked, as somebody who likes to say yes. Says whether the answer counted."""
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

    async def read_on(self) -> bool:
        """Reads one page from where the last one ended. Says whether there is more."""
        request = EventLogReadRequest(cursor=self.witness.cursor, max=7, include_ephemeral=False)
        page = await self.session.rpc.event_log.read(request)
        if page.cursor_status.value != "ok":
            raise Broken(f"P2: the cursor {self.witness.cursor} is {page.cursor_status.value} after the crash")
        self.witness.read.extend(str(event.id) for event in page.events)
        self.witness.cursor = page.cursor
        return page.has_more

    async def follow(self) -> None:
        """Reads along, for as long as it lasts."""
        while True:
            await self.change()
            while await self.read_on():
                pass


def open_requests(history: list[Wire]) -> dict[str, Wire]:
    """The requests that nobody has answered yet, by id."""
    opened: dict[str, Wire] = {}
    for event in history:
        name = event["data"].get("requestId")
        if event["type"] in REQUESTS:
            opened[name] = event
        elif event["type"] in REQUESTS.values():
            opened.pop(name, None)
    return opened
