"""A client and its server: greeting, status, start, stop, and the door on a port with its token."""

from __future__ import annotations

import asyncio
import time

import pytest
from support import processes_of, program, until

TOKEN = "a token that both sides know"


async def test_the_greeting(world, client):
    pong = await client.ping("hello")
    assert pong.message == "pong: hello"
    status = await client.get_status()
    assert status.version
    assert not (await client.get_auth_status()).isAuthenticated


async def test_the_models_of_the_endpoint_are_listed(world, client):
    assert [entry.id for entry in await client.list_models()] == ["scripted"]


async def test_a_stopped_client_leaves_nothing_running_and_can_start_again(world, client):
    session = await world.create(client)
    await world.ask(session, "[[text:hello]]")
    await client.stop()
    assert processes_of(world.home) == {}
    await client.start()
    again = await world.resume(client, session.session_id)
    assert await world.ask(again, "[[text:here again]]") == "here again"


async def test_a_client_may_be_stopped_by_force(world, client):
    await world.ask(await world.create(client), "[[text:hello]]")
    await client.force_stop()
    await until(lambda: processes_of(world.home) == {}, "the end of the server")


async def test_a_flag_that_is_not_known_is_named(world):
    client = world.sdk.stdio(program("baton"), env=world.env, cwd=str(world.work), args=("--nonexistent-flag",))
    with pytest.raises(Exception, match="nonexistent-flag"):
        await client.start()
    await client.force_stop()


async def test_a_server_that_dies_is_noticed(world, client):
    session = await world.create(client)
    await session.send("[[hold:for ever]]")
    await world.model.asked(1)
    for pid in processes_of(world.home):
        world.kill(pid)
    with pytest.raises(Exception):
        await asyncio.wait_for(world.history(session), 5)


async def test_a_client_starts_a_server_on_a_port(world):
    client = await world.tcp_client()
    assert world.sdk.port(client) > 0
    assert await world.ask(await world.create(client), "[[text:hello]]") == "hello"


async def test_without_a_token_everybody_on_this_machine_may_come(world):
    client = await world.client_at(world.server().port)
    assert await world.ask(await world.create(client), "[[text:hello]]") == "hello"


async def test_a_call_through_a_port_does_not_wait_for_an_acknowledgement(world):
    """A kernel that delays acknowledgements makes every call take 40 ms or more, once a connection has warmed up."""
    client = await world.client_at(world.server().port)
    times = []
    for _ in range(40):
        start = time.perf_counter()
        await client.ping("x")
        times.append(time.perf_counter() - start)
    assert min(times[-10:]) < 0.03  # The quickest of them, so that a busy machine changes nothing.


@pytest.mark.parametrize("token", ["wrong", None])
async def test_without_the_right_token_nobody_comes_in(world, token):
    if token and not world.sdk.knows_tokens:
        pytest.skip("this SDK sends no token")
    client = world.sdk.at(world.server(TOKEN).port, token)
    with pytest.raises(Exception, match="AUTHENTICATION_(FAILED|REQUIRED)"):
        await client.start()
    await client.force_stop()


async def test_with_the_right_token_one_comes_in(world):
    if not world.sdk.knows_tokens:
        pytest.skip("this SDK sends no token")
    client = await world.client_at(world.server(TOKEN).port, TOKEN)
    assert await world.ask(await world.create(client), "[[text:hello]]") == "hello"


async def test_a_server_on_a_port_outlives_its_clients(world):
    server = world.server()
    first = await world.client_at(server.port)
    session = await world.create(first)
    await world.ask(session, "[[text:hello]]")
    await world.stop(first)
    again = await world.resume(await world.client_at(server.port), session.session_id)
    assert await world.ask(again, "[[text:still here]]") == "still here"
