"""The SDK since May 2026: `RuntimeConnection`, `get_events`, a class for each permission decision."""

from __future__ import annotations

from copilot import CopilotClient, RuntimeConnection
from copilot.generated.rpc import (
    HandlePendingToolCallRequest,
    PermissionDecisionApproveOnce,
    PermissionDecisionReject,
    PermissionDecisionRequest,
    PermissionDecisionUserNotAvailable,
)
from copilot.session import PermissionNoResult

from .base import Sdk


class Sdk1(Sdk):
    decisions = {
        "approve": PermissionDecisionApproveOnce,
        "reject": PermissionDecisionReject,
        "unavailable": PermissionDecisionUserNotAvailable,
        "nothing": PermissionNoResult,
    }

    def stdio(self, program, *, env, cwd, args=()):
        connection = RuntimeConnection.for_stdio(path=program, args=args)
        return CopilotClient(connection=connection, env=env, working_directory=cwd)

    def tcp(self, program, *, env, cwd):
        return CopilotClient(connection=RuntimeConnection.for_tcp(path=program), env=env, working_directory=cwd)

    def at(self, port, token=None):
        return CopilotClient(connection=RuntimeConnection.for_uri(f"localhost:{port}", connection_token=token))

    def port(self, client):
        return client.runtime_port

    def decision(self, meaning):
        return self.decisions[meaning]()

    async def raw_history(self, session):
        return await session.get_events()

    async def answer_permission(self, session, request, *, approve):
        decision = self.decision("approve" if approve else "reject")
        answer = PermissionDecisionRequest(request_id=request, result=decision)
        return (await session.rpc.permissions.handle_pending_permission_request(answer)).success

    async def answer_tool(self, session, request, text):
        answer = HandlePendingToolCallRequest(request_id=request, result=text)
        return (await session.rpc.tools.handle_pending_tool_call(answer)).success

    def config_directory(self, path):
        # Renamed between the last betas and the first stable version.
        return {"config_dir" if "b" in self.version else "config_directory": path}
