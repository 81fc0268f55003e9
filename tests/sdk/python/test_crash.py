"""Recovery after `kill -9`: acknowledged data is not lost, and no tool runs twice."""

from __future__ import annotations

import pytest
from support import call, processes_of, tool, tool_results, until


async def kill_and_resume(world, server, client, session_id):
    """Kills the server and resumes the session with a new server and a new client."""
    server.kill()
    await world.drop_client(client)
    client = await world.client_at(world.server().port)
    return await world.resume(client, session_id)


async def test_history_survives_a_killed_server(world):
    server = world.server()
    client = await world.client_at(server.port)
    session = await world.create(client)
    seen = world.watch(session)
    for number in range(3):
        await world.ask(session, f"prompt {number} [[text:answer {number}]]")
    before = await world.history(session)
    live = {event.id for event in seen.events}
    again = await kill_and_resume(world, server, client, session.session_id)
    after = await world.history(again)
    assert [event.id for event in after[: len(before)]] == [event.id for event in before]
    durable = {event.id for event in before}
    assert durable - live <= {event.id for event in before[:3]}  # The first events precede the watch.
    assert [e["content"] for e in after if e.type == "assistant.message"] == ["answer 0", "answer 1", "answer 2"]
    assert await world.ask(again, "[[text:and on]]") == "and on"
    assert "answer 2" in str(world.model.requests()[-1]["messages"])


async def test_acknowledged_prompt_is_not_lost(world):
    server = world.server()
    client = await world.client_at(server.port)
    session = await world.create(client)
    await session.send("remember this [[hold:forever]]")
    server.kill()  # Right after the acknowledgement.
    await world.drop_client(client)
    again = await world.resume(await world.client_at(world.server().port), session.session_id)
    seen = world.watch(again)
    await world.ask(again, "[[text:I do]]")
    prompts = [e["content"] for e in await world.history(again) if e.type == "user.message"]
    assert prompts[0].startswith("remember this")
    assert seen.last_message == "I do"
    assert "remember this" in str(world.model.requests()[-1]["messages"])


async def test_running_command_is_interrupted_and_not_repeated(world):
    server = world.server()
    client = await world.client_at(server.port)
    session = await world.create(client)
    seen = world.watch(session)
    mark = world.work / "ran"
    await session.send(call("bash", command=f"echo ran >> {mark}; sleep 100", description="once"))
    await seen.first("tool.execution_start")
    await until(mark.exists, "the command's first effect")
    again = await kill_and_resume(world, server, client, session.session_id)
    # The next server ends the processes of a killed one.
    await until(lambda: "sleep 100" not in processes_of(world.home).values(), "the end of the command")
    assert await world.ask(again, "[[text:go on]]") == "go on"
    assert mark.read_text() == "ran\n"
    assert "interrupted" in tool_results(world.model.requests()[-1])[0]
    completed = [e for e in await world.history(again) if e.type == "tool.execution_complete"]
    assert [event["success"] for event in completed] == [False]


async def test_acknowledged_tool_result_is_used(world):
    """The server is killed after the result of a client tool, while the model works on it."""
    server = world.server()
    client = await world.client_at(server.port)
    ran: list[int] = []
    lookup = tool("lookup", lambda _: ran.append(1) or "THE RESULT")
    session = await world.create(client, tools=[lookup])
    seen = world.watch(session)
    await session.send(call("lookup") + "[[hold:forever]]")
    await seen.first("tool.execution_complete")
    await world.model.wait_for_requests(2)
    again = await kill_and_resume(world, server, client, session.session_id)
    assert await world.ask(again, "[[text:go on]]") == "go on"
    assert tool_results(world.model.requests()[-1]) == ["THE RESULT"]
    assert ran == [1]


@pytest.mark.parametrize("round", range(3))
async def test_session_is_usable_after_a_kill_during_streaming(world, round):
    server = world.server()
    client = await world.client_at(server.port)
    session = await world.create(client, streaming=True)
    seen = world.watch(session)
    await world.ask(session, "before [[text:hello]]")
    await session.send("[[slow:200:2]]")
    await seen.some("assistant.message_delta", 3 + 7 * round)
    again = await kill_and_resume(world, server, client, session.session_id)
    assert await world.ask(again, "after [[text:hello again]]") == "hello again"
    prompts = [e["content"].split()[0] for e in await world.history(again) if e.type == "user.message"]
    assert prompts == ["before", "[[slow:200:2]]", "after"]
