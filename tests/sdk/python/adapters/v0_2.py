"""The SDK of March 2026: one flat class for all events, older kinds of decisions."""

from __future__ import annotations

from copilot.generated.rpc import (
    Kind,
    SessionPermissionsHandlePendingPermissionRequestParams,
    SessionPermissionsHandlePendingPermissionRequestParamsResult,
    SessionToolsHandlePendingToolCallParams,
)

from .v0 import Sdk0


class Sdk02(Sdk0):
    kinds = {
        "approve": "approved",
        "reject": "denied-interactively-by-user",
        "unavailable": "denied-no-approval-rule-and-could-not-request-from-user",
        "nothing": "no-result",
    }

    async def answer_permission(self, session, request, *, approve):
        kind = Kind(self.kinds["approve" if approve else "reject"])
        answer = SessionPermissionsHandlePendingPermissionRequestParams(
            request_id=request, result=SessionPermissionsHandlePendingPermissionRequestParamsResult(kind=kind)
        )
        return (await session.rpc.permissions.handle_pending_permission_request(answer)).success

    async def answer_tool(self, session, request, text):
        answer = SessionToolsHandlePendingToolCallParams(request_id=request, result=text)
        return (await session.rpc.tools.handle_pending_tool_call(answer)).success
