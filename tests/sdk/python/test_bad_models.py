"""Failures of the model: temporary ones are retried, permanent ones are reported and leave a usable session."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("failure", ["error:503*1", "drop*1", "reset*1", "error:429*1:retry=0"])
async def test_temporary_failure_is_retried(world, client, failure):
    session = await world.create(client)
    assert await world.ask(session, f"[[{failure}]][[text:at last]]") == "at last"
    assert len(world.model.requests()) == 2


@pytest.mark.parametrize("failure", ["error:401", "error:404", "error:400", "truncate", "garbage", "badjson", "html"])
async def test_permanent_failure_is_reported(world, client, failure):
    session = await world.create(client)
    seen = world.watch(session)
    await session.send(f"[[{failure}]]")
    error = await seen.first("session.error")
    assert error["message"].strip()
    await seen.idle()
    assert await world.ask(session, "[[text:never mind]]") == "never mind"
