"""The SDK of March 2026: as that of April, but with one flat class for all events and older words for decisions."""

from __future__ import annotations

from copilot import CopilotClient
from copilot.client import ExternalServerConfig, SubprocessConfig
from copilot.generated.rpc import (
    Kind,
    SessionPermissionsHandlePendingPermissionRequestParams,
    SessionPermissionsHandlePendingPermissionRequestParamsResult,
    SessionToolsHandlePendingToolCallParams,
)
from copilot.session import PermissionRequestResult

from .base import Sdk


class Sdk02(Sdk):
    continues_pending_work = False
    knows_tokens = False
    stops_its_tcp_server = False

    kinds = {
        "approve": "approved",
        "reject": "denied-interactively-by-user",
        "unavailable": "denied-no-approval-rule-and-could-not-request-from-user",
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

    async def raw_history(self, session):
        return await session.get_messages()

    async def answer_permission(self, session, request, *, approve):
        kind = Kind(self.kinds["approve" if approve else "reject"])
        answer = SessionPermissionsHandlePendingPermissionRequestParams(
            request_id=request, result=SessionPermissionsHandlePendingPermissionRequestParamsResult(kind=kind)
        )
        return (await session.rpc.permissions.handle_pending_permission_request(answer)).success

    async def answer_tool(self, session, request, text):
        answer = SessionToolsHandlePendingToolCallParams(request_id=request, result=text)
        return (await session.rpc.tools.handle_pending_tool_call(answer)).success
