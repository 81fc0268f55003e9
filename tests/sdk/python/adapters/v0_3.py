"""The SDK of April 2026: configuration objects, `get_messages`, decisions by kind."""

from __future__ import annotations

from typing import Any

from copilot import CopilotClient
from copilot.client import ExternalServerConfig, SubprocessConfig
from copilot.generated.rpc import (
    PermissionDecision,
    PermissionDecisionKind,
    PermissionDecisionRequest,
    ToolsHandlePendingToolCallRequest,
)
from copilot.session import PermissionRequestResult

from .base import Sdk


class Sdk03(Sdk):
    continues_pending_work = False
    knows_tokens = False
    stops_its_tcp_server = False

    kinds = {
        "approve": "approve-once",
        "reject": "reject",
        "unavailable": "user-not-available",
        "nothing": "no-result",
    }

    def stdio(self, program, *, env, cwd, args=()):
        return CopilotClient(SubprocessConfig(program, list(args), cwd=cwd, env=env))

    def tcp(self, program, *, env, cwd):
        return CopilotClient(SubprocessConfig(program, cwd=cwd, env=env, use_stdio=False))

    def at(self, port, token=None):
        assert token is None, "this SDK knows no tokens"
        return CopilotClient(ExternalServerConfig(url=f"localhost:{port}"))

    def port(self, client):
        return client.actual_port

    def decision(self, meaning):
        return PermissionRequestResult(kind=self.kinds[meaning])

    async def raw_history(self, session: Any):
        return await session.get_messages()

    async def answer_permission(self, session, request, *, approve):
        kind = PermissionDecisionKind(self.kinds["approve" if approve else "reject"])
        answer = PermissionDecisionRequest(request_id=request, result=PermissionDecision(kind=kind))
        return (await session.rpc.permissions.handle_pending_permission_request(answer)).success

    async def answer_tool(self, session, request, text):
        answer = ToolsHandlePendingToolCallRequest(request_id=request, result=text)
        return (await session.rpc.tools.handle_pending_tool_call(answer)).success
