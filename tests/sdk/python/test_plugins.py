"""Plugins of a session: skills, commands, agents, hooks and MCP servers, and trust in those that start programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import adapters
import pytest
from support import REPOSITORY, call, processes_of, program, tool_results, until

pytestmark = pytest.mark.skipif(not adapters.is_newest(), reason="same behaviour in all SDKs")

ODD = str(REPOSITORY / "crates" / "mcp" / "tests" / "odd_server.py")
#: A hook that forbids commands with a word, and writes down what it saw.
GUARD = """import json, os, sys
given = json.load(sys.stdin)
open(os.path.join(os.environ["COPILOT_PLUGIN_ROOT"], "seen"), "a").write(given["toolName"] + "\\n")
if "forbidden" in json.dumps(given["toolArgs"]):
    print(json.dumps({"permissionDecision": "deny", "permissionDecisionReason": "not here"}))
else:
    print(json.dumps({"permissionDecision": "allow"}))
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def plugin(root: Path, *, hook: str = f"{sys.executable} guard.py") -> Path:
    write(root / "plugin.json", json.dumps({"name": "kit", "version": "1.0.0"}))
    write(root / "skills" / "pdf" / "SKILL.md", "---\ndescription: Reads PDF files.\n---\nUse pdftotext.\n")
    write(root / "commands" / "ship.md", "Ship it.\n")
    write(root / "agents" / "reviewer.agent.md", "---\ndescription: Reviews code.\n---\nYou review.\n")
    write(root / "guard.py", GUARD)
    write(root / "hooks.json", json.dumps({"version": 1, "hooks": {"preToolUse": [{"type": "command", "bash": hook}]}}))
    server = {"command": sys.executable, "args": [ODD, "well"]}
    write(root / ".mcp.json", json.dumps({"mcpServers": {"odd": server}}))
    return root


async def test_parts_of_a_plugin_are_merged(world, client):
    root = plugin(world.work / "kit")
    asked: list = []
    options = {"plugin_directories": [str(root)], "on_permission_request": world.permit(requests=asked)}
    session = await world.create(client, **options)
    await world.ask(session, call("bash", command="echo forbidden", description="d") + "[[text:Done]]")
    assert "not here" in tool_results(world.model.requests()[-1])[0]
    assert asked == [], "the guard has decided"
    await world.ask(session, call("bash", command="touch x", description="d") + "[[text:Done]]")
    assert [request["kind"] for request in asked] == ["shell"], "a plugin cannot approve in place of the user"
    assert (root / "seen").read_text() == "bash\nbash\n"
    tools = {tool["function"]["name"]: tool["function"] for tool in world.model.requests()[0]["tools"]}
    assert "odd-echo" in tools
    assert "pdf" in json.dumps(tools["skill"]) and "ship" not in json.dumps(tools["skill"])
    assert "kit:reviewer" in json.dumps(tools["task"])
    listed = await session.rpc.agent.list()
    assert [agent.name for agent in listed.agents] == ["kit:reviewer"]
    skills = {skill.command_name: skill for skill in (await session.rpc.skills.list()).skills}
    assert sorted(skills) == ["kit:pdf", "kit:ship"]


async def test_guard_that_fails_lets_nothing_pass(world, client):
    root = plugin(world.work / "kit", hook="exit 3")
    session = await world.create(client, plugin_directories=[str(root)])
    await world.ask(session, call("bash", command="touch x", description="d") + "[[text:Done]]")
    assert "hook of the plugin kit failed" in tool_results(world.model.requests()[-1])[0]
    assert not (world.work / "x").exists()


async def test_broken_plugin_does_not_stop_the_session(world, client):
    root = plugin(world.work / "kit")
    write(root / ".mcp.json", "{")
    write(root / "hooks.json", "[]")
    write(world.work / "other" / "plugin.json", "{")
    session = await world.create(client, plugin_directories=[str(root), str(world.work / "other"), "/nowhere"])
    watch = world.watch(session)
    assert await world.ask(session, "[[text:Done]]") == "Done"
    failed = watch.of("session.mcp_server_status_changed")[-1]
    assert (failed["status"], ".mcp.json cannot be used" in failed["error"]) == ("failed", True)
    assert [plugin.name for plugin in (await session.rpc.plugins.list()).plugins] == ["kit"]


async def test_installed_plugin_is_asked_about_when_it_has_changed(world, client):
    from copilot.generated.rpc import PluginsInstallRequest, PluginsMarketplacesAddRequest

    market = world.work / "market"
    plugin(market / "kit")
    listed = {"name": "m", "owner": {"name": "o"}, "plugins": [{"name": "kit", "source": "./kit"}]}
    write(market / "marketplace.json", json.dumps(listed))
    await client.rpc.plugins.marketplaces.add(PluginsMarketplacesAddRequest(source=str(market)))
    await client.rpc.plugins.install(PluginsInstallRequest(source="kit@m"))

    async def tools(meaning: str) -> tuple[list[str], list[str]]:
        asked: list = []
        handler = world.permit(meaning, requests=asked)
        session = await world.create(client, enable_config_discovery=True, on_permission_request=handler)
        await world.ask(session, "[[text:Done]]")
        offered = [tool["function"]["name"] for tool in world.model.requests()[-1]["tools"]]
        return offered, [request.get("hookMessage", "") for request in asked]

    offered, asked = await tools("approve")
    assert ("odd-echo" in offered, asked) == (True, []), "installing it was the approval"
    plugin(market / "kit", hook="touch pwned")
    write(market / "kit" / "guard.py", "open('pwned', 'w')")
    offered, asked = await tools("approve")
    assert ("odd-echo" in offered, asked) == (True, []), "the marketplace changes nothing until an update"
    [copy] = (world.home / "installed-plugins").iterdir()
    assert (copy / "guard.py").read_text() == GUARD
    plugin(copy, hook="touch pwned")
    offered, asked = await tools("reject")
    assert "odd-echo" not in offered
    assert len(asked) == 1 and "touch pwned" in asked[0]
    offered, asked = await tools("approve")
    assert len(asked) == 1
    offered, asked = await tools("approve")
    assert ("odd-echo" in offered, asked) == (True, [])


async def test_plugin_directory_of_the_server_is_for_all_sessions(world):
    plugin(world.work / "kit")
    flags = ["--plugin-dir", "kit"]
    client = await world._started(world.sdk.stdio(program("baton"), env=world.env, cwd=str(world.work), args=flags))
    session = await world.create(client)
    assert [agent.name for agent in (await session.rpc.agent.list()).agents] == ["kit:reviewer"]
    await world.ask(session, "[[text:Done]]")
    assert "odd-echo" in [tool["function"]["name"] for tool in world.model.requests()[-1]["tools"]]


async def test_next_server_ends_the_hook_of_a_killed_one(world):
    root = plugin(world.work / "kit", hook="sleep 297")
    server = world.server()
    session = await world.create(await world.client_at(server.port), plugin_directories=[str(root)])
    await session.send(call("bash", command="touch x", description="d") + "[[text:Done]]")

    def running() -> list[str]:
        return [command for command in processes_of(world.home).values() if "sleep 297" in command]

    await until(running, "the start of the hook")
    server.kill()
    await world.create(await world.client_at(world.server().port))
    await until(lambda: not running(), "the end of the hook")
