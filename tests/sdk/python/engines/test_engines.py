"""The real programs as engines of sessions, used through the official SDK."""

from __future__ import annotations

from pathlib import Path

import pytest
from copilot.generated.rpc import PermissionsConfigureParams
from support import until

from engines.programs import PROGRAMS, configuration, installed


@pytest.fixture(params=sorted(PROGRAMS))
def engine(request, world):
    """The name of an installed program, which is configured as an engine."""
    name = request.param
    if not installed(name).exists():
        pytest.fail(f"{name} is not installed; run `scripts/test engines`")
    directory = world.work.parent / "config" / "baton"
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(configuration(name, world.work.parent, world.model))
    world.env["XDG_CONFIG_HOME"] = str(directory.parent)
    return name


async def test_follow_up_continues_the_conversation(world, engine):
    client = await world.client()
    session = await world.create(client, model=engine)
    assert await world.ask(session, "say hi") == "echo 1: say hi"
    assert await world.ask(session, "and again") == "echo 2: and again"


async def test_engine_is_listed_as_a_model(world, engine):
    client = await world.client()
    assert engine in [model.id for model in await client.list_models()]


async def test_tool_call_runs_only_if_the_client_approves(world, engine):
    client = await world.client()
    asked, meaning = [], "reject"

    def decide(request, _invocation):
        asked.append(request.to_dict())
        return world.sdk.decision(meaning)

    session = await world.create(client, model=engine, on_permission_request=decide)
    made = world.work / "made-by-agent"
    await world.ask(session, "[[shell:touch made-by-agent]] [[text:done]]")
    assert [(request["kind"], request["fullCommandText"]) for request in asked] == [("shell", "touch made-by-agent")]
    assert not made.exists()
    meaning = "approve"
    assert await world.ask(session, "[[shell:touch made-by-agent]] [[text:done]]") == "done"
    assert len(asked) == 2 and made.exists()
    kinds = [event.type for event in await world.history(session)]
    assert kinds.count("tool.execution_start") == kinds.count("tool.execution_complete") == 2


async def test_session_rules_decide_without_a_request(world, engine):
    client = await world.client()
    asked = []

    def decide(request, _invocation):
        asked.append(request)
        return world.sdk.decision("reject")

    session = await world.create(client, model=engine, on_permission_request=decide)
    rule = {"kind": "shell", "argument": "touch"}
    for verdict, is_made in [("denied", False), ("approved", True)]:
        rules = {"approved": [], "denied": []} | {verdict: [rule]}
        await session.rpc.permissions.configure(PermissionsConfigureParams.from_dict({"rules": rules}))
        await world.ask(session, "[[shell:touch made-by-agent]] [[text:done]]")
        assert (world.work / "made-by-agent").exists() == is_made, verdict
    assert asked == []


async def test_abort_ends_a_running_tool(world, engine):
    client = await world.client()
    session = await world.create(client, model=engine)
    await world.ask(session, "first")
    watch = world.watch(session)
    await session.send("[[shell:touch started; sleep 1234]] [[text:done]]")
    await until(lambda: (world.work / "started").exists(), "the command")
    await session.abort()
    await watch.idle()
    assert (await world.ask(session, "after")).endswith("after")


async def test_session_continues_after_a_killed_server(world, engine):
    server = world.server()
    client = await world.client_at(server.port)
    session = await world.create(client, model=engine)
    assert await world.ask(session, "remember this") == "echo 1: remember this"
    world.kill(server.process.pid)
    await world.drop_client(client)
    client = await world.client_at(world.server().port)
    session = await world.resume(client, session.session_id)
    answer = await world.ask(session, "what was it?")
    # A program that was killed before it saved the conversation gets the history in the prompt.
    has_history = any("User: remember this" in str(asked) for asked in world.model.exchanges())
    assert answer == "echo 2: what was it?" or has_history, answer


async def test_provider_error_is_reported(world, engine):
    client = await world.client()
    session = await world.create(client, model=engine)
    watch = world.watch(session)
    await session.send("[[error:400]]")
    error = await watch.first("session.error")
    assert "400" in error["message"]


#: A small MCP server, with a marker file that it writes when it starts.
SERVER = Path(__file__).parents[4] / "crates" / "baton" / "tests" / "it" / "mcp_server.py"


async def test_engine_calls_tools_of_the_session(world, engine):
    if engine in ("pi", "codex"):
        pytest.skip("pi has no MCP; codex offers tools in namespaces, which the scripted model cannot name")
    client = await world.client()
    asked, meaning = [], "reject"

    def decide(request, _invocation):
        asked.append(request.to_dict())
        return world.sdk.decision(meaning)

    marker = world.work.parent / "started"
    server = {"command": "python3", "args": [str(SERVER), str(marker), f"{marker}.txt"], "tools": ["*"]}
    session = await world.create(
        client, model=engine, on_permission_request=decide, mcp_servers={"first": server}
    )
    await world.ask(session, '[[ending:first-echo {"text":"one"}]] [[text:done]]')
    calls = [(request["kind"], request["serverName"], request["toolName"]) for request in asked]
    assert calls == [("mcp", "first", "echo")], "the policy asks, once"
    meaning = "approve"
    assert "echo: two" in await world.ask(session, '[[ending:first-echo {"text":"two"}]]')
    assert len(asked) == 2
    events = await world.history(session)
    started = [event.data for event in events if event.type == "tool.execution_start"]
    assert [call["mcpToolName"] for call in started] == ["echo", "echo"], "each call is recorded once"
    done = [event.data["success"] for event in events if event.type == "tool.execution_complete"]
    assert done == [False, True]
