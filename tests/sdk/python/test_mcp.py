"""MCP servers of a session: their tools, their permissions, their end. The server is the one that misbehaves on demand."""

from __future__ import annotations

import sys

import adapters
import pytest
from support import REPOSITORY, call, processes_of, tool_results, until

pytestmark = pytest.mark.skipif(not adapters.is_newest(), reason="same behaviour in all SDKs")

SCRIPT = str(REPOSITORY / "crates" / "mcp" / "tests" / "odd_server.py")


def odd(mode: str = "well", **fields) -> dict:
    return {"odd": {"command": sys.executable, "args": [SCRIPT, mode], "tools": ["*"], **fields}}


def servers_of(world) -> list[str]:
    return [command for command in processes_of(world.home).values() if SCRIPT in command]


async def test_tool_is_offered_and_called_with_permission(world, client):
    asked = []
    session = await world.create(client, mcp_servers=odd(), on_permission_request=world.permit(requests=asked))
    assert servers_of(world) == [], "creating a session starts no server"
    watch = world.watch(session)
    await world.ask(session, call("odd-echo", text="hello") + "[[text:Done]]")
    first, last = world.model.requests()[0], world.model.requests()[-1]
    offered = [tool["function"]["name"] for tool in first["tools"]]
    assert "odd-echo" in offered
    assert offered.index("bash") < offered.index("odd-echo")
    assert tool_results(last) == ["hello"]
    assert [(request["kind"], request["serverName"]) for request in asked] == [("mcp", "odd")]
    start = watch.of("tool.execution_start")[0]
    assert (start["mcpServerName"], start["mcpToolName"]) == ("odd", "echo")
    assert [event["status"] for event in watch.of("session.mcp_server_status_changed")] == ["pending", "connected"]


async def test_filter_decides_which_tools_are_offered(world, client):
    session = await world.create(client, mcp_servers=odd(tools=["echo"]))
    await world.ask(session, "[[text:Done]]")
    names = [tool["function"]["name"] for tool in world.model.requests()[0]["tools"]]
    assert [name for name in names if name.startswith("odd-")] == ["odd-echo"]


async def test_server_that_fails_does_not_stop_the_session(world, client):
    session = await world.create(client, mcp_servers=odd("exit"))
    watch = world.watch(session)
    assert await world.ask(session, "[[text:Done]]") == "Done"
    failed = watch.of("session.mcp_server_status_changed")[-1]
    assert failed["status"] == "failed"
    assert "no configuration" in failed["error"]


async def test_crash_fails_the_call_and_the_next_turn_has_the_tool_again(world, client):
    session = await world.create(client, mcp_servers=odd())
    await world.ask(session, call("odd-die") + "[[text:Done]]")
    assert "transport closed" in tool_results(world.model.requests()[-1])[0]
    await world.ask(session, call("odd-echo", text="again") + "[[text:Done]]")
    assert tool_results(world.model.requests()[-1])[-1] == "again"


async def test_servers_end_with_the_session(world):
    client = await world.client()
    session = await world.create(client, mcp_servers=odd("child"))
    await world.ask(session, "[[text:Done]]")
    assert len(servers_of(world)) == 1
    await session.disconnect()
    await until(lambda: servers_of(world) == [], "the end of the MCP server")


async def test_apps_need_a_client_that_shows_them(world, client):
    from copilot.generated.rpc import MCPAppsCallToolRequest, MCPAppsListToolsRequest

    def echo(origin: str) -> MCPAppsCallToolRequest:
        return MCPAppsCallToolRequest(origin, "odd", "echo", arguments={"text": "hi"})

    plain = await world.create(client, mcp_servers=odd())
    await plain.rpc.mcp.list()
    with pytest.raises(Exception, match="mcp-apps"):
        await plain.rpc.mcp.apps.call_tool(echo("odd"))
    session = await world.create(client, mcp_servers=odd(), enable_mcp_apps=True)
    await session.rpc.mcp.list()
    listed = await session.rpc.mcp.apps.list_tools(MCPAppsListToolsRequest("odd", "odd"))
    assert "echo" in [tool["name"] for tool in listed.tools]
    result = await session.rpc.mcp.apps.call_tool(echo("odd"))
    assert result["content"][0]["text"] == "hi"
    with pytest.raises(Exception, match="Cross-server"):
        await session.rpc.mcp.apps.call_tool(echo("other"))
