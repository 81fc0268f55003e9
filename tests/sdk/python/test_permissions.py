"""Permission requests: no action is executed before it is approved."""

from __future__ import annotations

import asyncio

import pytest
from support import TIMEOUT, call, tool, tool_results


def write(world, name: str = "hello.txt") -> str:
    return call("create", path=str(world.work / name), file_text="hello")


async def test_approved_action_is_executed(world, client):
    requests: list[dict] = []
    session = await world.create(client, on_permission_request=world.permit("approve", requests))
    seen = world.watch(session)
    await world.ask(session, write(world) + "[[text:Done]]")
    assert (world.work / "hello.txt").read_text() == "hello"
    expected = [("write", str(world.work / "hello.txt"))]
    assert [(request["kind"], request["fileName"]) for request in requests] == expected
    assert (await seen.first("permission.completed"))["result"]["kind"] == "approved"
    assert seen.types.index("permission.requested") < seen.types.index("permission.completed")
    assert seen.types.index("permission.completed") < seen.types.index("tool.execution_complete")


async def test_rejected_action_is_not_executed_and_ends_the_turn(world, client):
    session = await world.create(client, on_permission_request=world.permit("reject"))
    seen = world.watch(session)
    await session.send(write(world) + "[[text:I go on regardless]]")
    await seen.idle()
    assert not (world.work / "hello.txt").exists()
    assert (await seen.first("permission.completed"))["result"]["kind"] == "denied-interactively-by-user"
    complete = await seen.first("tool.execution_complete")
    assert (complete["success"], complete["error"]["code"]) == (False, "rejected")
    assert len(world.model.requests()) == 1
    assert await world.ask(session, "[[text:And yet it moves]]") == "And yet it moves"


@pytest.mark.parametrize("handler", ["returns unavailable", "fails"])
async def test_model_learns_that_no_user_is_available(world, client, handler):
    def fails(_request, _invocation):
        raise RuntimeError("no user")

    answer = fails if handler == "fails" else world.permit("unavailable")
    session = await world.create(client, on_permission_request=answer)
    seen = world.watch(session)
    assert await world.ask(session, write(world) + "[[text:I may not]]") == "I may not"
    assert not (world.work / "hello.txt").exists()
    kind = (await seen.first("permission.completed"))["result"]["kind"]
    assert kind == "denied-no-approval-rule-and-could-not-request-from-user"
    assert len(tool_results(world.model.requests()[1])) == 1


async def test_request_stays_open_if_the_handler_returns_no_decision(world, client):
    session = await world.create(client, on_permission_request=world.permit("nothing"))
    seen = world.watch(session)
    await session.send(write(world) + "[[text:Done]]")
    request = await seen.first("permission.requested")
    assert not (world.work / "hello.txt").exists()
    assert await world.sdk.answer_permission(session, request["requestId"], approve=True)
    await seen.idle()
    assert (world.work / "hello.txt").read_text() == "hello"
    # The first answer counted. A second one is refused.
    assert not await world.sdk.answer_permission(session, request["requestId"], approve=False)


async def test_tool_waits_for_a_slow_handler(world, client):
    asked, decided = asyncio.Event(), asyncio.Event()

    async def slow(_request, _invocation):
        asked.set()
        await decided.wait()
        return world.sdk.decision("approve")

    session = await world.create(client, on_permission_request=slow)
    seen = world.watch(session)
    await session.send(write(world) + "[[text:Done]]")
    await asyncio.wait_for(asked.wait(), TIMEOUT)
    assert "tool.execution_complete" not in seen.types
    decided.set()
    await seen.idle()
    assert (world.work / "hello.txt").exists()


async def test_each_kind_of_request_has_its_details(world, client):
    requests: list[dict] = []
    mine = tool("mine", lambda _: "fine")
    session = await world.create(client, on_permission_request=world.permit("unavailable", requests), tools=[mine])
    shell = call("bash", command="rm -rf x", description="Tidy up")
    fetch = call("web_fetch", url="http://127.0.0.1:9/page")
    await world.ask(session, shell + fetch + call("mine", value="x") + "[[text:I may not]]")
    assert [request["kind"] for request in requests] == ["shell", "url", "custom-tool"]
    assert (requests[0]["fullCommandText"], requests[0]["intention"]) == ("rm -rf x", "Tidy up")
    assert requests[1]["url"] == "http://127.0.0.1:9/page"
    assert (requests[2]["toolName"], requests[2]["args"]) == ("mine", {"value": "x"})


async def test_tool_with_skip_permission_runs_without_a_request(world, client):
    requests: list[dict] = []
    free = tool("free", lambda _: "as the wind", skip_permission=True)
    session = await world.create(client, on_permission_request=world.permit("unavailable", requests), tools=[free])
    await world.ask(session, call("free") + "[[text:Done]]")
    assert requests == []
    assert tool_results(world.model.requests()[1]) == ["as the wind"]
