"""Streamed answers."""

from __future__ import annotations

from support import call, types_of


async def test_deltas_add_up_to_the_message(world, client):
    session = await world.create(client, streaming=True)
    seen = world.watch(session)
    await session.send("[[text:one two three]]")
    await seen.idle()
    deltas, message = seen.of("assistant.message_delta"), (await seen.first("assistant.message"))
    assert len(deltas) > 1
    assert "".join(delta["deltaContent"] for delta in deltas) == message["content"] == "one two three"
    assert {delta["messageId"] for delta in deltas} == {message["messageId"]}
    last_piece = max(index for index, type in enumerate(seen.types) if type == "assistant.message_delta")
    assert last_piece < seen.types.index("assistant.message")


async def test_delta_is_delivered_before_the_next_arrives(world, client):
    session = await world.create(client, streaming=True)
    seen = world.watch(session)
    await session.send("[[text:one ]][[hold:gate]][[text:two]]")
    await seen.first("assistant.message_delta", lambda event: event["deltaContent"] == "one ")
    assert "assistant.message" not in seen.types
    world.model.release("gate")
    assert (await seen.first("assistant.message"))["content"] == "one two"


async def test_deltas_are_not_in_the_history(world, client):
    session = await world.create(client, streaming=True)
    await world.ask(session, "[[text:one two three]]")
    types = types_of(await world.history(session))
    assert "assistant.message" in types
    assert not [type for type in types if type.endswith("delta")]


async def test_no_deltas_without_streaming(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    assert await world.ask(session, "[[text:one two three]]") == "one two three"
    assert "assistant.message_delta" not in seen.types


async def test_reasoning_is_streamed_separately(world, client):
    session = await world.create(client, streaming=True)
    seen = world.watch(session)
    await session.send("[[think:Hm, hm.]][[text:Yes]]")
    await seen.idle()
    assert "".join(delta["deltaContent"] for delta in seen.of("assistant.reasoning_delta")) == "Hm, hm."
    assert seen.last_message == "Yes"


async def test_each_message_of_a_turn_has_its_own_id(world, client):
    session = await world.create(client, streaming=True)
    seen = world.watch(session)
    await session.send("[[text:Let me see. ]]" + call("glob", pattern="*") + "[[text:Nothing there]]")
    await seen.idle()
    ids = [message["messageId"] for message in seen.of("assistant.message")]
    assert len(ids) == len(set(ids)) == 2
    assert [delta["messageId"] for delta in seen.of("assistant.message_delta")][-1] == ids[1]


async def test_resume_sets_streaming(world, client):
    session = await world.create(client)
    await world.ask(session, "[[text:whole]]")
    again = await world.resume(client, session.session_id, streaming=True)
    seen = world.watch(again)
    await world.ask(again, "[[text:one two]]")
    assert "assistant.message_delta" in seen.types
