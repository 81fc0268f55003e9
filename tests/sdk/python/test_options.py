"""Options of sessions: every one that the SDK can send has a known effect."""

from __future__ import annotations

import inspect
import re
from pathlib import Path


LISTED = {
    line
    for line in (Path(__file__).parents[1] / "session-options.txt").read_text().splitlines()
    if line and not line.startswith("#")
}

#: Fields of traces, which are no options.
TRACES = {"traceparent", "tracestate"}


def sent_options() -> set[str]:
    """Returns the names of all options that the installed version can send."""
    from copilot.client import CopilotClient

    calls = (CopilotClient.create_session, CopilotClient.resume_session)
    found = {name for call in calls for name in re.findall(r'payload\["(\w+)"\]', inspect.getsource(call))}
    from copilot.generated import rpc

    for name in ("SessionOpenOptions", "SessionUpdateOptionsParams"):
        options = getattr(rpc, name, None)
        if options is not None:
            found |= set(re.findall(r'result\["(\w+)"\]', inspect.getsource(options)))
    return found - TRACES


def test_every_option_of_the_sdk_is_listed():
    sent = sent_options()
    assert "model" in sent, "the SDK builds its payload in another way: adapt this test"
    unknown = sorted(sent - LISTED)
    assert not unknown, f"add them to tests/sdk/session-options.txt and to ignored_options/table.rs: {unknown}"


async def test_sandbox_is_there_or_its_absence_is_said(world):
    client = await world.client()
    # The SDK's own request has no such parameter in older versions.
    request = client._client.request
    await request("session.create", {"sessionId": "boxed", "sandboxConfig": {"enabled": True}})
    support = await request("sandbox.getHostSupport", {})
    events = await request("session.getMessages", {"sessionId": "boxed"})
    warnings = [event["data"]["message"] for event in events["events"] if event["type"] == "session.warning"]
    said = any("There is no sandbox" in warning for warning in warnings)
    assert said != support["supported"], (support, warnings)
