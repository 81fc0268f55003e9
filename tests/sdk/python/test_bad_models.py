"""Models that fail: a clear error, and a session that can still be used."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("failure", ["error:503*1", "drop*1", "reset*1", "error:429*1:retry=0"])
async def test_a_passing_failure_is_got_over(world, client, failure):
    session = await world.create(client)
    assert await world.ask(session, f"[[{failure}]][[text:at last]]") == "at last"
    assert len(world.model.requests()) == 2


@pytest.mark.parametrize("failure", ["error:401", "error:404", "error:400", "truncate", "garbage", "badjson", "html"])
async def test_a_lasting_failure_is_told(world, client, failure):
    session = await world.create(client)
    seen = world.watch(session)
    await session.send(f"[[{failure}]]")
    error = await seen.first("session.error")
    assert error["message"].strip()
    await seen.idle()
    assert await world.ask(session, "[[text:never mind]]") == "never mind"
