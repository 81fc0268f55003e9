"""Sub-agents: a handoff runs in a separate conversation inside the turn."""

from __future__ import annotations

import json
import sys

import adapters
import pytest
from support import REPOSITORY, call, processes_of, system_message, text_of, tool, tool_names, tool_results, until


def handoff(agent: str, script: str, **more: str) -> str:
    """Returns the directive for a handoff. `script` has the directives for the sub-agent's model."""
    arguments = {"agent_type": agent, "name": "the-task", "description": "A task", "prompt": script} | more
    # The brackets are escaped, so that the outer model does not execute the inner directives.
    escaped = json.dumps(arguments).replace("[[", "\\u005b\\u005b").replace("]]", "\\u005d\\u005d")
    return f"[[tool:task {escaped}]]"


def inner_requests(world, mark: str) -> list[dict]:
    """Returns the model requests of a sub-agent: those whose conversation begins with its task."""
    first = [next((m for m in r["messages"] if m["role"] == "user"), None) for r in world.model.requests()]
    return [r for r, m in zip(world.model.requests(), first, strict=True) if m and text_of(m).startswith(mark)]


async def test_handoff_runs_in_a_separate_conversation(world, client):
    (world.work / "note.txt").write_text("the secret is green\n")
    session = await world.create(client)
    seen = world.watch(session)
    script = "TASK " + call("view", path=str(world.work / "note.txt")) + "[[text:It is green.]]"
    assert await world.ask(session, handoff("explore", script) + "[[text:Done]]") == "Done"
    inner = inner_requests(world, "TASK")
    assert len(inner) == 2
    assert "the secret is green" in tool_results(inner[1])[0]
    assert "task" not in tool_names(inner[0]) and "edit" not in tool_names(inner[0])
    outer = world.model.requests()[-1]
    assert tool_results(outer) == ["It is green."]
    assert "the secret is green" not in json.dumps(outer), "tool results of a sub-agent must stay with it"
    assert "task" in tool_names(outer)
    started, ended = seen.of("subagent.started", "subagent.completed")
    assert (started["agentName"], ended["agentDisplayName"]) == ("explore", "the-task")
    viewed = next(e for e in seen.of("tool.execution_start") if e["toolName"] == "view")
    assert viewed["parentToolCallId"] == started["toolCallId"]


async def test_sub_agent_requests_permissions(world, client):
    asked: list[dict] = []
    session = await world.create(client, on_permission_request=world.permit("reject", asked))
    script = "TASK " + call("bash", command="echo hi > made", description="make") + "[[text:I was not allowed.]]"
    await world.ask(session, handoff("task", script) + "[[text:Done]]")
    assert [request["kind"] for request in asked] == ["shell"]
    assert not (world.work / "made").exists()
    assert tool_results(world.model.requests()[-1]) == ["I was not allowed."]


async def test_background_agent_notifies_at_its_end(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    task = handoff("task", "TASK [[hold:agent]][[text:found it]]", mode="background")
    await session.send(task + "[[text:I wait for it]]")
    await seen.first("assistant.message", lambda e: e["content"] == "I wait for it")
    assert "session.idle" not in seen.types
    world.model.release("agent")
    await seen.idle()
    note = seen.of("system.notification")[0]["content"]
    assert "the-task" in note and "completed successfully" in note
    assert "completed successfully" in json.dumps(world.model.requests()[-1]["messages"])


async def test_abort_ends_a_sub_agent_and_its_command(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    mark = world.work / "began"
    script = "TASK " + call("bash", command=f"touch {mark}; sleep 100", description="wait")
    await session.send(handoff("task", script))
    await until(mark.exists, "the agent's command")
    await session.abort()
    await seen.idle()
    await until(lambda: "sleep 100" not in processes_of(world.home).values(), "the end of the command")
    assert len(seen.of("subagent.completed")) == 1  # Only newer SDKs have a field for the reason.
    assert await world.ask(session, "[[text:go on]]") == "go on"


async def test_sub_agent_is_interrupted_by_a_killed_server(world):
    server = world.server()
    client = await world.client_at(server.port)
    session = await world.create(client)
    mark = world.work / "began"
    script = "TASK " + call("bash", command=f"echo once >> {mark}; sleep 100", description="wait")
    await session.send(handoff("task", script))
    await until(mark.exists, "the agent's command")
    server.kill()
    await world.drop_client(client)
    again = await world.resume(await world.client_at(world.server().port), session.session_id)
    assert await world.ask(again, "[[text:go on]]") == "go on"
    assert mark.read_text() == "once\n"
    assert "interrupted" in tool_results(world.model.requests()[-1])[0]
    failed = [e for e in await world.history(again) if e.type == "subagent.failed"]
    assert len(failed) == 1 and failed[0]["error"]


async def test_custom_agent_has_its_prompt_and_tools(world, client):
    asked: list[dict] = []
    lookup = tool("lookup", lambda arguments: asked.append(arguments) or "42")
    agent = {"name": "finder", "description": "Finds things", "prompt": "You are FINDER.", "tools": ["lookup"]}
    hidden = {"name": "hidden", "prompt": "You are HIDDEN.", "infer": False}
    session = await world.create(client, tools=[lookup], custom_agents=[agent, hidden])
    script = "TASK " + call("lookup", key="x") + "[[text:It is 42.]]"
    await world.ask(session, handoff("finder", script) + "[[text:Done]]")
    inner = inner_requests(world, "TASK")
    assert tool_names(inner[0]) == ["lookup"] and len(asked) == 1
    assert system_message(inner[0]).startswith("You are FINDER.")
    outer = world.model.requests()[-1]
    assert tool_results(outer) == ["It is 42."]
    task = next(t["function"] for t in outer["tools"] if t["function"]["name"] == "task")
    kinds = task["parameters"]["properties"]["agent_type"]["enum"]
    assert "finder" in kinds and "hidden" not in kinds


async def test_client_starts_a_sub_agent(world, client):
    rpc = pytest.importorskip("copilot.rpc", reason="not supported by this SDK")
    if not hasattr(rpc, "TasksStartAgentRequest"):
        pytest.skip("not supported by this SDK")

    session = await world.create(client)
    seen = world.watch(session)
    request = rpc.TasksStartAgentRequest(agent_type="explore", name="look", prompt="TASK [[text:seen]]")
    agent = (await session.rpc.tasks.start_agent(request)).agent_id
    await seen.idle()
    task = next(task for task in (await session.rpc.tasks.list()).tasks if task.id == agent)
    assert (task.status.value, task.latest_response, task.prompt) == ("completed", "seen", request.prompt)
    assert "completed successfully" in json.dumps(world.model.requests()[-1]["messages"])
    assert (await session.rpc.tasks.remove(rpc.TasksRemoveRequest(id=agent))).removed
    assert not (await session.rpc.tasks.list()).tasks


async def test_streaming_of_sub_agents_can_be_turned_off(world, client):
    script = "TASK [[slow:5:1]]"
    for wanted in (True, False):
        try:
            session = await world.create(client, streaming=True, include_sub_agent_streaming_events=wanted)
        except TypeError:
            pytest.skip("not supported by this SDK")
        seen = world.watch(session)
        await world.ask(session, handoff("explore", script) + "[[text:Done]]")
        deltas = [event["deltaContent"] for event in seen.of("assistant.message_delta")]
        assert (len(deltas) > 1) == wanted, deltas


@pytest.mark.skipif(not adapters.is_newest(), reason="same behaviour in all SDKs")
async def test_mcp_servers_of_a_sub_agent_are_its_own(world, client):
    script = str(REPOSITORY / "crates" / "mcp" / "tests" / "odd_server.py")
    server = {"command": sys.executable, "args": [script, "well"], "tools": ["*"]}
    agent = {"name": "helper", "prompt": "You help.", "tools": ["odd/*"], "mcp_servers": {"odd": server}}
    session = await world.create(client, custom_agents=[agent])
    task = "TASK " + call("odd-echo", text="echoed") + "[[text:Helped]]"
    assert await world.ask(session, handoff("helper", task) + "[[text:Done]]") == "Done"
    inner = inner_requests(world, "TASK")
    assert tool_results(inner[1]) == ["echoed"]
    assert all(name.startswith("odd-") for name in tool_names(inner[0]))
    assert "odd-echo" not in tool_names(world.model.requests()[-1]), "the session itself does not have it"
    assert (await session.rpc.mcp.list()).servers == []
    await session.disconnect()
    ended = lambda: not any(script in command for command in processes_of(world.home).values())  # noqa: E731
    await until(ended, "the end of the MCP server")
