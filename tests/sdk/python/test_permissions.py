"""Nothing happens that somebody could have refused."""

from __future__ import annotations

import asyncio

import pytest
from support import call, tool, tool_results


def write(world, name: str = "hello.txt") -> str:
    return call("create", path=str(world.work / name), file_text="hello")


async def test_what_is_approved_happens(world, client):
    noted: list[dict] = []
    session = await world.create(client, on_permission_request=world.permit("approve", noted))
    seen = world.watch(session)
    await world.ask(session, write(world) + "[[text:Done]]")
    assert (world.work / "hello.txt").read_text() == "hello"
    assert [(request["kind"], request["fileName"]) for request in noted] == [("write", str(world.work / "hello.txt"))]
    assert (await seen.first("permission.completed"))["result"]["kind"] == "approved"
    assert seen.types.index("permission.requested") < seen.types.index("permission.completed")
    assert seen.types.index("permission.completed") < seen.types.index("tool.execution_complete")


async def test_what_is_rejected_does_not_happen_and_ends_the_turn(world, client):
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


@pytest.mark.parametrize("handler", ["says so", "fails"])
async def test_when_nobody_can_be_asked_the_model_is_told(world, client, handler):
    def fails(_request, _invocation):
        raise RuntimeError("nobody home")

    answer = fails if handler == "fails" else world.permit("unavailable")
    session = await world.create(client, on_permission_request=answer)
    seen = world.watch(session)
    assert await world.ask(session, write(world) + "[[text:I may not]]") == "I may not"
    assert not (world.work / "hello.txt").exists()
    kind = (await seen.first("permission.completed"))["result"]["kind"]
    assert kind == "denied-no-approval-rule-and-could-not-request-from-user"
    assert len(tool_results(world.model.requests()[1])) == 1


async def test_a_handler_may_leave_the_answer_to_somebody_else(world, client):
    session = await world.create(client, on_permission_request=world.permit("nothing"))
    seen = world.watch(session)
    await session.send(write(world) + "[[text:Done]]")
    request = await seen.first("permission.requested")
    assert not (world.work / "hello.txt").exists()
    assert await world.sdk.answer_permission(session, request["requestId"], approve=True)
    await seen.idle()
    assert (world.work / "hello.txt").read_text() == "hello"
    # The first answer counted. A second one is too late, and is told so.
    assert not await world.sdk.answer_permission(session, request["requestId"], approve=False)


async def test_a_handler_may_take_its_time(world, client):
    asked, decided = asyncio.Event(), asyncio.Event()

    async def slow(_request, _invocation):
        asked.set()
        await decided.wait()
        return world.sdk.decision("approve")

    session = await world.create(client, on_permission_request=slow)
    seen = world.watch(session)
    await session.send(write(world) + "[[text:Done]]")
    await asyncio.wait_for(asked.wait(), 10)
    assert "tool.execution_complete" not in seen.types
    decided.set()
    await seen.idle()
    assert (world.work / "hello.txt").exists()


async def test_each_kind_of_request_says_what_it_is_about(world, client):
    noted: list[dict] = []
    mine = tool("mine", lambda _: "fine")
    session = await world.create(client, on_permission_request=world.permit("unavailable", noted), tools=[mine])
    shell = call("bash", command="rm -rf x", description="Tidy up")
    fetch = call("web_fetch", url="http://127.0.0.1:9/page")
    await world.ask(session, shell + fetch + call("mine", value="x") + "[[text:I may not]]")
    assert [request["kind"] for request in noted] == ["shell", "url", "custom-tool"]
    assert (noted[0]["fullCommandText"], noted[0]["intention"]) == ("rm -rf x", "Tidy up")
    assert noted[1]["url"] == "http://127.0.0.1:9/page"
    assert (noted[2]["toolName"], noted[2]["args"]) == ("mine", {"value": "x"})


async def test_a_tool_may_need_no_permission(world, client):
    noted: list[dict] = []
    free = tool("free", lambda _: "as the wind", skip_permission=True)
    session = await world.create(client, on_permission_request=world.permit("unavailable", noted), tools=[free])
    await world.ask(session, call("free") + "[[text:Done]]")
    assert noted == []
    assert tool_results(world.model.requests()[1]) == ["as the wind"]
