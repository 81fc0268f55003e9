"""Sub-agents: a task that the model hands on is worked on in a conversation of its own, and ends with its turn."""

from __future__ import annotations

import json

import pytest
from support import call, processes_of, system_message, text_of, tool, tool_names, tool_results, until


def hand_on(agent: str, script: str, **more: str) -> str:
    """The directive that makes the model hand a task on; `script` is what the agent's own model then does."""
    arguments = {"agent_type": agent, "name": "the-task", "description": "A task", "prompt": script} | more
    # The brackets of the inner script are hidden from the outer one.
    hidden = json.dumps(arguments).replace("[[", "\\u005b\\u005b").replace("]]", "\\u005d\\u005d")
    return f"[[tool:task {hidden}]]"


def inner_requests(world, mark: str) -> list[dict]:
    """What the model of an agent was asked: the conversations that begin with its task."""
    first = [next((m for m in r["messages"] if m["role"] == "user"), None) for r in world.model.requests()]
    return [r for r, m in zip(world.model.requests(), first, strict=True) if m and text_of(m).startswith(mark)]


async def test_a_task_is_worked_on_in_a_conversation_of_its_own(world, client):
    (world.work / "note.txt").write_text("the secret is green\n")
    session = await world.create(client)
    seen = world.watch(session)
    script = "TASK " + call("view", path=str(world.work / "note.txt")) + "[[text:It is green.]]"
    assert await world.ask(session, hand_on("explore", script) + "[[text:Done]]") == "Done"
    inner = inner_requests(world, "TASK")
    assert len(inner) == 2
    assert "the secret is green" in tool_results(inner[1])[0]
    assert "task" not in tool_names(inner[0]) and "edit" not in tool_names(inner[0])
    outer = world.model.requests()[-1]
    assert tool_results(outer) == ["It is green."]
    assert "the secret is green" not in json.dumps(outer), "what the agent read stays with it"
    assert "task" in tool_names(outer)
    started, ended = seen.of("subagent.started", "subagent.completed")
    assert (started["agentName"], ended["agentDisplayName"]) == ("explore", "the-task")
    viewed = next(e for e in seen.of("tool.execution_start") if e["toolName"] == "view")
    assert viewed["parentToolCallId"] == started["toolCallId"]


async def test_an_agent_asks_for_the_same_permissions(world, client):
    asked: list[dict] = []
    session = await world.create(client, on_permission_request=world.permit("reject", asked))
    script = "TASK " + call("bash", command="echo hi > made", description="make") + "[[text:I was not allowed.]]"
    await world.ask(session, hand_on("task", script) + "[[text:Done]]")
    assert [request["kind"] for request in asked] == ["shell"]
    assert not (world.work / "made").exists()
    assert tool_results(world.model.requests()[-1]) == ["I was not allowed."]


async def test_an_agent_in_the_background_is_heard_of_when_it_is_done(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    task = hand_on("task", "TASK [[hold:agent]][[text:found it]]", mode="background")
    await session.send(task + "[[text:I wait for it]]")
    await seen.first("assistant.message", lambda e: e["content"] == "I wait for it")
    assert "session.idle" not in seen.types
    world.model.release("agent")
    await seen.idle()
    note = seen.of("system.notification")[0]["content"]
    assert "the-task" in note and "completed successfully" in note
    assert "completed successfully" in json.dumps(world.model.requests()[-1]["messages"])


async def test_a_cancel_ends_an_agent_and_its_command(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    mark = world.work / "began"
    script = "TASK " + call("bash", command=f"touch {mark}; sleep 100", description="wait")
    await session.send(hand_on("task", script))
    await until(mark.exists, "the agent's command")
    await session.abort()
    await seen.idle()
    await until(lambda: "sleep 100" not in processes_of(world.home).values(), "the end of the command")
    assert len(seen.of("subagent.completed")) == 1  # Only newer SDKs know the word for how.
    assert await world.ask(session, "[[text:go on]]") == "go on"


async def test_an_agent_does_not_survive_the_server_and_is_not_run_again(world):
    server = world.server()
    client = await world.client_at(server.port)
    session = await world.create(client)
    mark = world.work / "began"
    script = "TASK " + call("bash", command=f"echo once >> {mark}; sleep 100", description="wait")
    await session.send(hand_on("task", script))
    await until(mark.exists, "the agent's command")
    server.kill()
    await world.leave(client)
    again = await world.resume(await world.client_at(world.server().port), session.session_id)
    assert await world.ask(again, "[[text:go on]]") == "go on"
    assert mark.read_text() == "once\n"
    assert "interrupted" in tool_results(world.model.requests()[-1])[0]
    failed = [e for e in await world.history(again) if e.type == "subagent.failed"]
    assert len(failed) == 1 and failed[0]["error"]


async def test_a_custom_agent_works_with_its_own_prompt_and_tools(world, client):
    asked: list[dict] = []
    lookup = tool("lookup", lambda arguments: asked.append(arguments) or "42")
    agent = {"name": "finder", "description": "Finds things", "prompt": "You are FINDER.", "tools": ["lookup"]}
    hidden = {"name": "hidden", "prompt": "You are HIDDEN.", "infer": False}
    session = await world.create(client, tools=[lookup], custom_agents=[agent, hidden])
    script = "TASK " + call("lookup", key="x") + "[[text:It is 42.]]"
    await world.ask(session, hand_on("finder", script) + "[[text:Done]]")
    inner = inner_requests(world, "TASK")
    assert tool_names(inner[0]) == ["lookup"] and len(asked) == 1
    assert system_message(inner[0]).startswith("You are FINDER.")
    outer = world.model.requests()[-1]
    assert tool_results(outer) == ["It is 42."]
    task = next(t["function"] for t in outer["tools"] if t["function"]["name"] == "task")
    kinds = task["parameters"]["properties"]["agent_type"]["enum"]
    assert "finder" in kinds and "hidden" not in kinds


async def test_a_client_starts_an_agent_itself(world, client):
    rpc = pytest.importorskip("copilot.rpc", reason="this SDK cannot start agents")
    if not hasattr(rpc, "TasksStartAgentRequest"):
        pytest.skip("this SDK cannot start agents")

    session = await world.create(client)
    seen = world.watch(session)
    wish = rpc.TasksStartAgentRequest(agent_type="explore", name="look", prompt="TASK [[text:seen]]")
    agent = (await session.rpc.tasks.start_agent(wish)).agent_id
    await seen.idle()
    task = next(task for task in (await session.rpc.tasks.list()).tasks if task.id == agent)
    assert (task.status.value, task.latest_response, task.prompt) == ("completed", "seen", wish.prompt)
    assert "completed successfully" in json.dumps(world.model.requests()[-1]["messages"])
    assert (await session.rpc.tasks.remove(rpc.TasksRemoveRequest(id=agent))).removed
    assert not (await session.rpc.tasks.list()).tasks


async def test_who_does_not_want_to_hear_agents_speak_is_spared(world, client):
    script = "TASK [[slow:5:1]]"
    for wanted in (True, False):
        try:
            session = await world.create(client, streaming=True, include_sub_agent_streaming_events=wanted)
        except TypeError:
            pytest.skip("this SDK cannot say so")
        seen = world.watch(session)
        await world.ask(session, hand_on("explore", script) + "[[text:Done]]")
        pieces = [event["deltaContent"] for event in seen.of("assistant.message_delta")]
        assert (len(pieces) > 1) == wanted, pieces
