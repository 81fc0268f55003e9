"""Stopping what runs, and going on."""

from __future__ import annotations

from support import call, processes_of, tool_results, types_of, until


async def test_a_command_is_aborted_and_the_session_goes_on(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    # A process of a process, so that killing only the shell would leave one behind.
    await session.send("Sleep. " + call("bash", command="sleep 100 & sleep 101; wait", description="sleep"))
    await seen.first("tool.execution_start")
    await until(lambda: sleepers(world) == {"sleep 100", "sleep 101"}, "the command's processes")
    await session.abort()
    await seen.idle()
    await until(lambda: not sleepers(world), "the end of the command's processes")
    assert types_of(await world.history(session)).count("abort") == 1
    assert await world.ask(session, "What is 2+2? [[text:It is 4]]") == "It is 4"
    assert tool_results(world.model.requests()[-1]) == [
        "The execution of this tool, or a previous tool was interrupted."
    ]


def sleepers(world) -> set[str]:
    return {command for command in processes_of(world.home).values() if command.startswith("sleep ")}


async def test_an_answer_is_aborted_in_the_middle(world, client):
    session = await world.create(client, streaming=True)
    seen = world.watch(session)
    await session.send("[[text:half an ]][[hold:for ever]][[text:answer]]")
    await seen.first("assistant.message_delta")
    await session.abort()
    await seen.idle()
    await until(lambda: world.model.exchanges()[0]["end"] == "client_left", "the end of the request")
    assert await world.ask(session, "[[text:whole]]") == "whole"


async def test_what_waits_is_aborted_as_well(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    await session.send("first [[hold:for ever]]")
    await world.model.asked(1)
    await session.send("second [[text:never said]]")
    await session.abort()
    await seen.idle()
    assert await world.ask(session, "third [[text:whole]]") == "whole"
    history = await world.history(session)
    assert [e["content"].split()[0] for e in history if e.type == "user.message"] == ["first", "second", "third"]
    assert [e["content"] for e in history if e.type == "assistant.message"] == ["whole"]


async def test_a_permission_request_is_aborted(world, client):
    session = await world.create(client, on_permission_request=world.permit("nothing"))
    seen = world.watch(session)
    await session.send(call("create", path=str(world.work / "x"), file_text="x"))
    request = await seen.first("permission.requested")
    await session.abort()
    await seen.idle()
    assert not await world.sdk.answer_permission(session, request["requestId"], approve=True)
    assert not (world.work / "x").exists()


async def test_an_idle_session_is_not_harmed(world, client):
    session = await world.create(client)
    await session.abort()
    await session.abort()
    assert await world.ask(session, "[[text:still here]]") == "still here"
