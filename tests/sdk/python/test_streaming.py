"""Answers word by word."""

from __future__ import annotations

from support import call, types_of


async def test_the_pieces_make_the_message(world, client):
    session = await world.create(client, streaming=True)
    seen = world.watch(session)
    await session.send("[[text:one two three]]")
    await seen.idle()
    pieces, message = seen.of("assistant.message_delta"), (await seen.first("assistant.message"))
    assert len(pieces) > 1
    assert "".join(piece["deltaContent"] for piece in pieces) == message["content"] == "one two three"
    assert {piece["messageId"] for piece in pieces} == {message["messageId"]}
    assert max(seen.types.index(t) for t in ["assistant.message_delta"]) < seen.types.index("assistant.message")


async def test_a_piece_is_told_before_the_next_one_is_there(world, client):
    session = await world.create(client, streaming=True)
    seen = world.watch(session)
    await session.send("[[text:one ]][[hold:gate]][[text:two]]")
    await seen.first("assistant.message_delta", lambda event: event["deltaContent"] == "one ")
    assert "assistant.message" not in seen.types
    world.model.release("gate")
    assert (await seen.first("assistant.message"))["content"] == "one two"


async def test_pieces_are_not_history(world, client):
    session = await world.create(client, streaming=True)
    await world.ask(session, "[[text:one two three]]")
    types = types_of(await world.history(session))
    assert "assistant.message" in types
    assert not [type for type in types if type.endswith("delta")]


async def test_without_streaming_there_are_no_pieces(world, client):
    session = await world.create(client)
    seen = world.watch(session)
    assert await world.ask(session, "[[text:one two three]]") == "one two three"
    assert "assistant.message_delta" not in seen.types


async def test_thoughts_are_streamed_apart(world, client):
    session = await world.create(client, streaming=True)
    seen = world.watch(session)
    await session.send("[[think:Hm, hm.]][[text:Yes]]")
    await seen.idle()
    assert "".join(piece["deltaContent"] for piece in seen.of("assistant.reasoning_delta")) == "Hm, hm."
    assert seen.said == "Yes"


async def test_every_answer_of_a_turn_has_an_id_of_its_own(world, client):
    session = await world.create(client, streaming=True)
    seen = world.watch(session)
    await session.send("[[text:Let me see. ]]" + call("glob", pattern="*") + "[[text:Nothing there]]")
    await seen.idle()
    ids = [message["messageId"] for message in seen.of("assistant.message")]
    assert len(ids) == len(set(ids)) == 2
    assert [piece["messageId"] for piece in seen.of("assistant.message_delta")][-1] == ids[1]


async def test_a_resumed_session_streams_as_its_new_client_wants(world, client):
    session = await world.create(client)
    await world.ask(session, "[[text:whole]]")
    again = await world.resume(client, session.session_id, streaming=True)
    seen = world.watch(again)
    await world.ask(again, "[[text:one two]]")
    assert "assistant.message_delta" in seen.types
