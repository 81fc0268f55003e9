"""Abort, and use of the session afterwards."""

from __future__ import annotations

from support import call, processes_of, tool_results, types_of, until


async def test_abort_ends_a_command_and_the_session_continues(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    # With a child process, which would survive if only the shell were killed.
    await session.send("Sleep. " + call("bash", command="sleep 100 & sleep 101; wait", description="sleep"))
    await seen.first("tool.execution_start")
    await until(lambda: sleep_processes(world) == {"sleep 100", "sleep 101"}, "the command's processes")
    await session.abort()
    await seen.idle()
    await until(lambda: not sleep_processes(world), "the end of the command's processes")
    assert types_of(await world.history(session)).count("abort") == 1
    assert await world.ask(session, "What is 2+2? [[text:It is 4]]") == "It is 4"
    assert tool_results(world.model.requests()[-1]) == [
        "The execution of this tool, or a previous tool was interrupted."
    ]


def sleep_processes(world) -> set[str]:
    return {command for command in processes_of(world.home).values() if command.startswith("sleep ")}


async def test_abort_ends_a_streaming_answer(world, client):
    session = await world.create(client, streaming=True)
    seen = world.watch(session)
    await session.send("[[text:half an ]][[hold:forever]][[text:answer]]")
    await seen.first("assistant.message_delta")
    await session.abort()
    await seen.idle()
    await until(lambda: world.model.exchanges()[0]["end"] == "client_left", "the end of the request")
    assert await world.ask(session, "[[text:whole]]") == "whole"


async def test_abort_cancels_queued_prompts(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    await session.send("first [[hold:forever]]")
    await world.model.wait_for_requests(1)
    await session.send("second [[text:never said]]")
    await session.abort()
    await seen.idle()
    assert await world.ask(session, "third [[text:whole]]") == "whole"
    history = await world.history(session)
    assert [e["content"].split()[0] for e in history if e.type == "user.message"] == ["first", "second", "third"]
    assert [e["content"] for e in history if e.type == "assistant.message"] == ["whole"]


async def test_abort_closes_a_permission_request(world, client):
    session = await world.create(client, on_permission_request=world.permit("nothing"))
    seen = world.watch(session)
    await session.send(call("create", path=str(world.work / "x"), file_text="x"))
    request = await seen.first("permission.requested")
    await session.abort()
    await seen.idle()
    assert not await world.sdk.answer_permission(session, request["requestId"], approve=True)
    assert not (world.work / "x").exists()


async def test_abort_of_an_idle_session_has_no_effect(world, client):
    session = await world.create(client)
    await session.abort()
    await session.abort()
    assert await world.ask(session, "[[text:still here]]") == "still here"
