"""Pending work of a client that has left: the next client continues or discards it."""

from __future__ import annotations

import pytest
from support import call, calls, tool, tool_results, types_of


@pytest.fixture(autouse=True)
def skip_unsupported_sdks(sdk):
    if not sdk.continues_pending_work:
        pytest.skip("not supported by this SDK")


async def resume_pending(world, session_id, port, *, continues=True, **options):
    """Resumes a session with a new client. Returns the session, a watch and the event `session.resume`."""
    client = await world.client_at(port)
    session = await world.resume(client, session_id, continue_pending_work=continues, **options)
    resumed = [event for event in await world.history(session) if event.type == "session.resume"]
    return session, world.watch(session), resumed[-1]


async def test_permission_request_stays_open_for_the_next_client(world):
    server = world.server()
    first = await world.client_at(server.port)
    ran: list[str] = []
    original = await world.create(
        first, on_permission_request=world.never, tools=[tool("lookup", lambda _: ran.append("first") or "ORIGINAL")]
    )
    before = world.watch(original)
    await original.send(call("lookup", value="alpha") + "[[text:Done]]")
    request = await before.first("permission.requested")
    await world.drop_client(first)

    resumed = tool("lookup", lambda a: ran.append("second") or f"RESUMED_{a['value'].upper()}")
    asked: list[dict] = []
    session, seen, _ = await resume_pending(
        world,
        original.session_id,
        server.port,
        on_permission_request=world.permit("unavailable", asked),
        tools=[resumed],
    )
    assert await world.sdk.answer_permission(session, request["requestId"], approve=True)
    await seen.idle()
    assert seen.last_message == "Done"
    assert ran == ["second"]
    assert asked == []  # The request is not delivered a second time.
    assert tool_results(world.model.requests()[-1]) == ["RESUMED_ALPHA"]


async def test_tool_call_stays_open_for_the_next_client(world):
    server = world.server()
    first = await world.client_at(server.port)
    original = await world.create(first, tools=[tool("lookup", world.never)])
    before = world.watch(original)
    await original.send(call("lookup", value="beta") + "[[text:Done]]")
    request = await before.first("external_tool.requested")
    await world.drop_client(first)

    session, seen, _ = await resume_pending(world, original.session_id, server.port)
    assert await world.sdk.answer_tool(session, request["requestId"], "EXTERNAL_RESUMED_BETA")
    await seen.idle()
    assert seen.last_message == "Done"
    assert tool_results(world.model.requests()[-1]) == ["EXTERNAL_RESUMED_BETA"]
    assert not await world.sdk.answer_tool(session, request["requestId"], "too late")


async def test_parallel_tool_calls_stay_open_for_the_next_client(world):
    server = world.server()
    first = await world.client_at(server.port)
    original = await world.create(first, tools=[tool("lookup_a", world.never), tool("lookup_b", world.never)])
    before = world.watch(original)
    await original.send(calls(("lookup_a", {"value": "a"}), ("lookup_b", {"value": "b"})) + "[[text:Done]]")
    requests = {e["toolName"]: e["requestId"] for e in await before.some("external_tool.requested", 2)}
    await world.drop_client(first)

    session, seen, _ = await resume_pending(world, original.session_id, server.port)
    assert await world.sdk.answer_tool(session, requests["lookup_b"], "PARALLEL_B")
    assert await world.sdk.answer_tool(session, requests["lookup_a"], "PARALLEL_A")
    await seen.idle()
    assert tool_results(world.model.requests()[-1]) == ["PARALLEL_A", "PARALLEL_B"]


@pytest.mark.parametrize("continues", [True, False])
async def test_resume_without_pending_work(world, continues):
    server = world.server()
    first = await world.client_at(server.port)
    original = await world.create(first)
    await world.ask(original, "[[text:one]]")
    await world.drop_client(first)
    session, _, resumed = await resume_pending(world, original.session_id, server.port, continues=continues)
    assert resumed["continuePendingWork"] is continues
    assert resumed["sessionWasActive"] is False
    assert await world.ask(session, "[[text:two]]") == "two"


async def test_tool_call_stays_open_while_its_client_is_connected(world):
    server = world.server()
    first = await world.client_at(server.port)
    asked: list[dict] = []

    def slow(arguments):
        asked.append(arguments)
        return world.never()

    original = await world.create(first, tools=[tool("lookup", slow)])
    before = world.watch(original)
    await original.send(call("lookup", value="beta") + "[[text:Done]]")
    request = await before.first("external_tool.requested")
    session, seen, resumed = await resume_pending(world, original.session_id, server.port, continues=False)
    assert resumed["sessionWasActive"] is True
    assert await world.sdk.answer_tool(session, request["requestId"], "WARM_BETA")
    await seen.idle()
    assert seen.last_message == "Done"
    assert len(asked) == 1


async def test_tool_call_stays_open_for_a_client_without_the_tool(world):
    """Only a client with the same tool discards the call. A client without it may still answer."""
    server = world.server()
    first = await world.client_at(server.port)
    original = await world.create(first, tools=[tool("lookup", world.never)])
    before = world.watch(original)
    await original.send(call("lookup", value="beta") + "[[text:Done]]")
    request = await before.first("external_tool.requested")
    await world.drop_client(first)

    session, seen, resumed = await resume_pending(world, original.session_id, server.port, continues=False)
    assert (resumed["continuePendingWork"], resumed["sessionWasActive"]) == (False, True)
    assert await world.sdk.answer_tool(session, request["requestId"], "WARM_BETA")
    await seen.idle()
    assert seen.last_message == "Done"
    assert tool_results(world.model.requests()[-1]) == ["WARM_BETA"]


async def test_discarded_tool_call_is_interrupted(world):
    server = world.server()
    first = await world.client_at(server.port)
    original = await world.create(first, tools=[tool("lookup", world.never)])
    before = world.watch(original)
    await original.send(call("lookup", value="beta") + "[[text:never said]]")
    request = await before.first("external_tool.requested")
    await world.drop_client(first)

    mine = [tool("lookup", lambda _: "not called")]
    session, _, resumed = await resume_pending(world, original.session_id, server.port, continues=False, tools=mine)
    assert resumed["sessionWasActive"] is False
    assert not await world.sdk.answer_tool(session, request["requestId"], "too late")
    assert len(world.model.requests()) == 1  # The model is not asked before the next prompt.
    assert await world.ask(session, "[[text:a new turn]]") == "a new turn"
    assert "interrupted" in tool_results(world.model.requests()[-1])[0]
    assert types_of(await world.history(session)).count("user.message") == 2


async def test_permission_request_survives_a_killed_server(world):
    server = world.server()
    first = await world.client_at(server.port)
    original = await world.create(first, on_permission_request=world.never)
    before = world.watch(original)
    await original.send(call("create", path=str(world.work / "x"), file_text="x") + "[[text:Done]]")
    request = await before.first("permission.requested")
    server.kill()
    await world.drop_client(first)

    session, seen, _ = await resume_pending(world, original.session_id, world.server().port)
    assert await world.sdk.answer_permission(session, request["requestId"], approve=True)
    await seen.idle()
    assert seen.last_message == "Done"
    assert (world.work / "x").read_text() == "x"


@pytest.mark.parametrize("waits_for", ["permission", "result"])
async def test_tool_call_survives_a_killed_server(world, waits_for):
    server = world.server()
    first = await world.client_at(server.port)
    handler = world.never if waits_for == "permission" else world.permit()
    original = await world.create(first, on_permission_request=handler, tools=[tool("lookup", world.never)])
    before = world.watch(original)
    await original.send(call("lookup", value="x") + "[[text:Done]]")
    request = await before.first("permission.requested" if waits_for == "permission" else "external_tool.requested")
    server.kill()
    await world.drop_client(first)

    mine = [tool("lookup", lambda _: "FROM THE NEW CLIENT")] if waits_for == "permission" else []
    session, seen, _ = await resume_pending(world, original.session_id, world.server().port, tools=mine)
    if waits_for == "permission":
        assert await world.sdk.answer_permission(session, request["requestId"], approve=True)
    else:
        assert await world.sdk.answer_tool(session, request["requestId"], "FROM THE NEW CLIENT")
    await seen.idle()
    assert seen.last_message == "Done"
    assert tool_results(world.model.requests()[-1]) == ["FROM THE NEW CLIENT"]
