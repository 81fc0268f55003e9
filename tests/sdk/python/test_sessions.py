"""Sessions: create, prompt, resume, list, look up, delete."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest
from support import Watch, tool_names, types_of


async def test_session_is_created_and_disconnected(world, client):
    session = await world.create(client, model="claude-sonnet-4.5")
    first = (await world.history(session))[0]
    assert first.type == "session.start"
    assert first["sessionId"] == session.session_id
    assert first["selectedModel"] == "claude-sonnet-4.5"
    await session.disconnect()
    with pytest.raises(Exception, match="Session not found"):
        await world.history(session)


async def test_model_gets_the_conversation_so_far(world, client):
    session = await world.create(client)
    assert await world.ask(session, "What is 1+1? [[text:It is 2]]") == "It is 2"
    assert await world.ask(session, "And twice that? [[text:That is 4]]") == "That is 4"
    second = [m for m in world.model.requests()[1]["messages"] if m["role"] != "system"]
    assert [m["role"] for m in second] == ["user", "assistant", "user"]
    assert "What is 1+1?" in second[0]["content"]
    assert second[1]["content"] == "It is 2"
    assert "And twice that?" in second[2]["content"]


async def test_concurrent_sessions_are_independent(world, client):
    sessions = await asyncio.gather(*(world.create(client) for _ in range(3)))
    assert len({session.session_id for session in sessions}) == 3
    said = await asyncio.gather(*(world.ask(s, f"[[text:I am {n}]]") for n, s in enumerate(sessions)))
    assert said == ["I am 0", "I am 1", "I am 2"]
    for number, session in enumerate(sessions):
        prompts = [event["content"] for event in await world.history(session) if event.type == "user.message"]
        assert prompts == [f"[[text:I am {number}]]"]
    await asyncio.gather(*(session.disconnect() for session in sessions))
    for session in sessions:
        with pytest.raises(Exception, match="Session not found"):
            await world.history(session)


async def test_same_client_resumes_a_session(world, client):
    session = await world.create(client)
    await world.ask(session, "What is 1+1? [[text:It is 2]]")
    again = await world.resume(client, session.session_id)
    assert again.session_id == session.session_id
    assert [e["content"] for e in await world.history(again) if e.type == "assistant.message"] == ["It is 2"]
    assert await world.ask(again, "And twice that? [[text:That is 4]]") == "That is 4"
    assert "What is 1+1?" in str(world.model.requests()[1]["messages"])


@pytest.mark.parametrize("first_server", ["running", "stopped"])
async def test_new_process_resumes_a_session(world, client, first_server):
    session = await world.create(client)
    await world.ask(session, "What is 1+1? [[text:It is 2]]")
    before = await world.history(session)
    if first_server == "stopped":
        await world.drop_client(client)
    again = await world.resume(await world.client(), session.session_id)
    after = await world.history(again)
    assert [event.id for event in after[: len(before)]] == [event.id for event in before]
    assert "session.resume" in types_of(after[len(before) :])
    assert await world.ask(again, "And twice that? [[text:That is 4]]") == "That is 4"
    assert "It is 2" in str(world.model.requests()[1]["messages"])


async def test_unknown_session_cannot_be_resumed(world, client):
    with pytest.raises(Exception, match="Session not found"):
        await world.resume(client, "non-existent-session-id")
    await world.ask(await world.create(client), "[[text:the client is still usable]]")


async def test_sessions_are_listed(world, client):
    sessions = [await world.create(client) for _ in range(2)]
    for session in sessions:
        await world.ask(session, "Say hello [[text:hello]]")
    listed = {entry["sessionId"]: entry for entry in map(world.sdk.metadata, await client.list_sessions())}
    assert listed.keys() == {session.session_id for session in sessions}
    for entry in listed.values():
        started, modified = (datetime.fromisoformat(entry[name]) for name in ("startTime", "modifiedTime"))
        assert started <= modified
        assert entry["isRemote"] is False
        assert entry["context"]["cwd"] == str(world.work)


async def test_deleted_session_cannot_be_found(world, client):
    remaining, deleted = await world.create(client), await world.create(client)
    for session in (remaining, deleted):
        await world.ask(session, "Hello [[text:hello]]")
    await client.delete_session(deleted.session_id)
    assert [world.sdk.metadata(s)["sessionId"] for s in await client.list_sessions()] == [remaining.session_id]
    assert await client.get_session_metadata(deleted.session_id) is None
    with pytest.raises(Exception, match="Session not found"):
        await world.resume(client, deleted.session_id)
    with pytest.raises(Exception, match="Failed to delete session"):
        await client.delete_session(deleted.session_id)


async def test_session_metadata_is_returned(world, client):
    session = await world.create(client)
    await world.ask(session, "Say hello [[text:hello]]")
    found = world.sdk.metadata(await client.get_session_metadata(session.session_id))
    assert found["sessionId"] == session.session_id
    assert found["context"]["cwd"] == str(world.work)
    assert await client.get_session_metadata("non-existent-session-id") is None


async def test_last_session_is_the_most_recently_used(world, client):
    first, second = await world.create(client), await world.create(client)
    for session in (first, second, first):
        await world.ask(session, "Say hello [[text:hello]]")
    assert await client.get_last_session_id() == first.session_id


async def test_events_during_creation_are_delivered(world, client):
    early = Watch(world.sdk)
    session = await world.create(client, on_event=early.on_event)
    assert "session.start" in early.types
    assert early.of("session.start")[0]["sessionId"] == session.session_id


async def test_events_of_a_turn_are_in_order(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    await session.send("What is 100+200? [[text:It is 300]]")
    await seen.idle()
    expected = ["user.message", "assistant.turn_start", "assistant.message", "assistant.turn_end", "session.idle"]
    assert [type for type in seen.types if type in expected] == expected
    assert seen.last_message == "It is 300"
    durable = types_of(await world.history(session))
    assert "session.idle" not in durable
    assert [type for type in durable if type in expected] == expected[:-1]


async def test_session_uses_its_configuration_directory(world, client):
    directory = world.home / "custom-config"
    session = await world.create(client, **world.sdk.config_directory(str(directory)))
    assert await world.ask(session, "What is 1+1? [[text:It is 2]]") == "It is 2"
    assert (directory / "session-state" / session.session_id).is_dir()


async def test_log_messages_have_their_level(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    await session.log("Info message")
    await session.log("Warning message", level="warning")
    await session.log("Error message", level="error")
    await session.log("Ephemeral message", ephemeral=True)
    last = await seen.first("session.info", lambda event: event["message"] == "Ephemeral message")
    assert last["infoType"] == "notification"
    logged = seen.of("session.info", "session.warning", "session.error")
    assert [(event.type, event["message"]) for event in logged] == [
        ("session.info", "Info message"),
        ("session.warning", "Warning message"),
        ("session.error", "Error message"),
        ("session.info", "Ephemeral message"),
    ]
    assert (logged[1]["warningType"], logged[2]["errorType"]) == ("notification", "notification")
    stored = [e["message"] for e in await world.history(session) if e.type in {"session.info", "session.error"}]
    assert stored == ["Info message", "Error message"]


async def test_set_model_changes_model_and_effort(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    await session.set_model("gpt-4.1", reasoning_effort="high")
    change = await seen.first("session.model_change")
    assert (change["newModel"], change["reasoningEffort"]) == ("gpt-4.1", "high")
    await world.ask(session, "[[text:hello]]")
    request = world.model.requests()[0]
    assert (request["model"], request["reasoning_effort"]) == ("gpt-4.1", "high")


async def test_prompts_are_queued(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    await session.send("first [[hold:gate]][[text:one]]")
    await world.model.wait_for_requests(1)
    await session.send("second [[text:two]]")
    world.model.release("gate")
    await seen.first("assistant.message", lambda event: event["content"] == "two")
    messages = [(e.type, e["content"]) for e in seen.of("user.message", "assistant.message")]
    assert [(type, content.split()[0]) for type, content in messages] == [
        ("user.message", "first"),
        ("assistant.message", "one"),
        ("user.message", "second"),
        ("assistant.message", "two"),
    ]


async def test_available_tools_limits_the_tools(world, client):
    session = await world.create(client, available_tools=["view", "edit"])
    await world.ask(session, "What is 1+1? [[text:2]]")
    assert sorted(tool_names(world.model.requests()[0])) == ["edit", "view"]


async def test_excluded_tools_are_not_offered(world, client):
    session = await world.create(client, excluded_tools=["view"])
    await world.ask(session, "What is 1+1? [[text:2]]")
    names = tool_names(world.model.requests()[0])
    assert {"edit", "grep", "bash"} <= set(names)
    assert "view" not in names
