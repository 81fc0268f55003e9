"""Workflows of a Python client, and an extension that declares some."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from servers import soon_async
from witness import ClientSession

NODE_SDK = Path(
    os.environ.get("BATON_NODE_SDKS", Path(__file__).parents[2] / ".cache/node/node_modules"), "sdk-newest/dist"
)

#: Adds its process id to a file whenever it is started.
EXTENSION = """
    import { appendFileSync } from "node:fs";
    import { defineFactory, joinSession } from "@github/copilot-sdk/extension";
    appendFileSync(new URL("started", import.meta.url), process.pid + "\\n");
    const run = async ({ args }) => args.map((number) => 2 * number);
    await joinSession({
        factories: [defineFactory({ meta: { name: "double", description: "Doubles", phases: [{ title: "work" }] }, run })],
    });
"""


async def request(chat: ClientSession, method: str, **params: Any) -> Any:
    """Calls a method of the session. The SDK has no interface for clients that declare workflows."""
    return await chat.session._client.request(method, {"sessionId": chat.session.session_id, **params})


async def workflow(chat: ClientSession, method: str, **params: Any) -> Any:
    return await request(chat, f"session.workflow.{method}", **params)


async def settled(chat: ClientSession, run: str) -> Any:
    """Waits until a run has ended, and returns how."""
    found: dict[str, Any] = {}

    async def is_settled() -> bool:
        found.update(await workflow(chat, "getRun", runId=run))
        return found["status"] != "running"

    await soon_async(is_settled, "the end of the run", 30)
    return found


async def extension_is_running(chat: ClientSession) -> bool:
    listed = (await request(chat, "session.extensions.list"))["extensions"]
    return [extension["status"] for extension in listed] == ["running"]


class Workflows:
    """Code of workflows in a client."""

    def __init__(self, chat: ClientSession) -> None:
        self.chat = chat
        #: Runs that were executed, and those that were aborted.
        self.endless: list[str] = []
        self.aborted: list[str] = []
        #: Whether `endless` waits until it is aborted.
        self.patient = True
        client = chat.session._client
        client.set_request_handler("workflow.execute", self.execute)
        client.set_request_handler("workflow.abort", self.abort)

    async def declare(self, *names: str) -> None:
        declared = [{"name": name, "description": name, "phases": []} for name in names]
        await request(self.chat, "session.resume", workflows=declared, disableResume=True, continuePendingWork=True)

    async def execute(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["name"] == "double":
            return {"result": [2 * number for number in params["args"]]}
        step = {"runId": params["runId"], "executionToken": params["executionToken"], "key": "step"}
        known = await workflow(self.chat, "journal.get", **step)
        if not known["hit"]:
            await workflow(self.chat, "journal.put", **step, resultJson="step of the first attempt")
        self.endless.append(params["runId"])
        while self.patient and params["runId"] not in self.aborted:
            await asyncio.sleep(0.02)
        return {"result": known.get("resultJson")}

    async def abort(self, params: dict[str, Any]) -> dict[str, Any]:
        self.aborted.append(params["runId"])
        return {}
