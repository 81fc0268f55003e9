"""A session from its first to its last day: create, talk, resume, list, look up, delete."""

from __future__ import annotations

import asyncio

import pytest
from support import types_of


async def test_a_session_is_created_and_disconnected(world, client):
    session = await world.create(client, model="claude-sonnet-4.5")
    first = (await world.history(session))[0]
    assert first.type == "session.start"
    assert first["sessionId"] == session.session_id
    assert first["selectedModel"] == "claude-sonnet-4.5"
    await session.disconnect()
    with pytest.raises(Exception, match="Session not found"):
        await world.history(session)


async def test_a_conversation_has_a_memory(world, client):
    session = await world.create(client)
    assert await world.ask(session, "What is 1+1? [[text:It is 2]]") == "It is 2"
    assert await world.ask(session, "And twice that?") == "echo 2: And twice that?"
    second = [(m["role"], m["content"]) for m in world.model.requests()[1]["messages"] if m["role"] != "system"]
    assert [role for role, _ in second] == ["user", "assistant", "user"]
    assert "What is 1+1?" in second[0][1]
    assert second[1][1] == "It is 2"
