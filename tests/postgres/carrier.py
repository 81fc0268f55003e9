"""A client that carries model requests, as an application behind a firewall would."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from copilot import CopilotClient, RuntimeConnection
from copilot.copilot_request_handler import CopilotRequestContext, CopilotRequestHandler


class Carrier(CopilotRequestHandler):
    """Sends requests to the model, wherever the server meant to send them. Keeps those of sessions."""

    def __init__(self, model: str) -> None:
        self.model = httpx.URL(model)
        self.carried: list[CopilotRequestContext] = []
        #: While it is not set, requests of sessions wait.
        self.gate = asyncio.Event()
        self.gate.set()
        #: The failure of the next requests of sessions.
        self.failure: Exception | None = None

    async def send_request(self, request: httpx.Request, ctx: CopilotRequestContext) -> httpx.Response:
        if ctx.session_id:
            self.carried.append(ctx)
            await self.gate.wait()
            if self.failure:
                raise self.failure
        request.url = request.url.copy_with(scheme="http", host=self.model.host, port=self.model.port)
        request.headers["host"] = self.model.netloc.decode()
        return await super().send_request(request, ctx)

    def client(self, port: int, token: str) -> Any:
        connection = RuntimeConnection.for_uri(f"localhost:{port}", connection_token=token)
        return CopilotClient(connection=connection, request_handler=self)
