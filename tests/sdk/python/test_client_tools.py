"""Client tools."""

from __future__ import annotations

import asyncio

from copilot.tools import ToolResult
from support import call, calls, tool, tool_names, tool_results


async def test_client_tool_is_called(world, client):
    asked: list[dict] = []

    def secret(arguments):
        asked.append(arguments)
        return "54321" if arguments["value"] == "ALPHA" else "unknown"

    session = await world.create(client, tools=[tool("get_secret_number", secret)])
    said = await world.ask(session, "The secret for ALPHA? " + call("get_secret_number", value="ALPHA") + "[[text:Done]]")
    assert said == "Done"
    assert asked == [{"value": "ALPHA"}]
    first, second = world.model.requests()
    offered = next(t["function"] for t in first["tools"] if t["function"]["name"] == "get_secret_number")
    assert offered["parameters"]["properties"]["value"]["type"] == "string"
    assert tool_results(second) == ["54321"]


async def test_tool_calls_of_one_answer_run_concurrently(world, client):
    both = asyncio.Barrier(2)  # Each call waits for the other one.

    def meet(name):
        async def run(_arguments):
            await both.wait()
            return f"{name} met"

        return tool(name, run)

    session = await world.create(client, tools=[meet("left"), meet("right")])
    await world.ask(session, calls(("left", {}), ("right", {})) + "[[text:Done]]")
    assert tool_results(world.model.requests()[1]) == ["left met", "right met"]


async def test_exception_of_a_client_tool_is_not_sent_to_the_model(world, client):
    def fails(_arguments):
        raise RuntimeError("password=hunter2")

    session = await world.create(client, tools=[tool("get_location", fails)])
    seen = world.watch(session)
    assert await world.ask(session, call("get_location") + "[[text:I do not know]]") == "I do not know"
    complete = await seen.first("tool.execution_complete")
    assert complete["success"] is False
    assert "hunter2" not in str(world.model.requests())
    assert len(tool_results(world.model.requests()[1])) == 1


async def test_client_tool_can_report_failure(world, client):
    def fails(_arguments):
        return ToolResult(text_result_for_llm="The lamp is broken", result_type="failure")

    session = await world.create(client, tools=[tool("lamp", fails)])
    seen = world.watch(session)
    await world.ask(session, call("lamp") + "[[text:Pity]]")
    assert (await seen.first("tool.execution_complete"))["success"] is False
    assert tool_results(world.model.requests()[1]) == ["The lamp is broken"]


async def test_client_tool_replaces_a_built_in_tool(world, client):
    mine = tool("grep", lambda _: "my own grep", overrides_built_in_tool=True)
    session = await world.create(client, tools=[mine])
    await world.ask(session, call("grep", value="x") + "[[text:Done]]")
    first, second = world.model.requests()
    assert tool_names(first).count("grep") == 1
    assert tool_results(second) == ["my own grep"]


async def test_turn_continues_after_a_call_of_an_unknown_tool(world, client):
    session = await world.create(client)
    assert await world.ask(session, call("no_such_tool") + "[[text:I was wrong]]") == "I was wrong"
    assert "no_such_tool" in tool_results(world.model.requests()[1])[0]


async def test_turn_continues_after_malformed_arguments(world, client):
    session = await world.create(client)
    assert await world.ask(session, "[[tool:view {oops]][[text:I was wrong]]") == "I was wrong"
    assert len(tool_results(world.model.requests()[1])) == 1


async def test_client_tool_can_use_its_session(world, client):
    session = None

    async def look(_arguments):
        return f"{len(await world.history(session))} events so far"

    session = await world.create(client, tools=[tool("look", look)])
    await world.ask(session, call("look") + "[[text:Done]]")
    assert "events so far" in tool_results(world.model.requests()[1])[0]
