"""The SDK of April 2026: a class for each event, current kinds of decisions."""

from __future__ import annotations

from copilot.generated.rpc import (
    PermissionDecision,
    PermissionDecisionKind,
    PermissionDecisionRequest,
    ToolsHandlePendingToolCallRequest,
)

from .v0 import Sdk0


class Sdk03(Sdk0):
    kinds = {
        "approve": "approve-once",
        "reject": "reject",
        "unavailable": "user-not-available",
        "nothing": "no-result",
    }

    async def answer_permission(self, session, request, *, approve):
        kind = PermissionDecisionKind(self.kinds["approve" if approve else "reject"])
        answer = PermissionDecisionRequest(request_id=request, result=PermissionDecision(kind=kind))
        return (await session.rpc.permissions.handle_pending_permission_request(answer)).success

    async def answer_tool(self, session, request, text):
        answer = ToolsHandlePendingToolCallRequest(request_id=request, result=text)
        return (await session.rpc.tools.handle_pending_tool_call(answer)).success
