"""A client and its server: handshake, status, start, stop, TCP and tokens."""

from __future__ import annotations

import asyncio
import time

import pytest
from support import TIMEOUT, processes_of, program, until

TOKEN = "shared token"


async def test_ping_and_status(world, client):
    pong = await client.ping("hello")
    assert pong.message == "pong: hello"
    status = await client.get_status()
    assert status.version
    assert not (await client.get_auth_status()).isAuthenticated


async def test_models_of_the_endpoint_are_listed(world, client):
    assert [entry.id for entry in await client.list_models()] == ["scripted"]


async def test_stopped_client_leaves_no_process_and_can_start_again(world, client):
    session = await world.create(client)
    await world.ask(session, "[[text:hello]]")
    await client.stop()
    assert processes_of(world.home) == {}
    await client.start()
    again = await world.resume(client, session.session_id)
    assert await world.ask(again, "[[text:here again]]") == "here again"


async def test_force_stop_ends_the_server(world, client):
    await world.ask(await world.create(client), "[[text:hello]]")
    await client.force_stop()
    await until(lambda: processes_of(world.home) == {}, "the end of the server")


async def test_unknown_flag_fails_the_start(world):
    # SDKs read standard error in a thread of its own, and wait neither for it nor for the exit code when the output ends: whether
    # their message has the flag's name or the code depends on which thread is first. Both are tested in Rust.
    client = world.sdk.stdio(program("baton"), env=world.env, cwd=str(world.work), args=("--nonexistent-flag",))
    with pytest.raises(Exception, match="nonexistent-flag|process exited"):
        await client.start()
    await client.force_stop()


async def test_call_fails_when_the_server_dies(world, client):
    session = await world.create(client)
    await session.send("[[hold:forever]]")
    await world.model.wait_for_requests(1)
    for pid in processes_of(world.home):
        world.kill(pid)
    with pytest.raises(Exception) as failure:
        await asyncio.wait_for(world.history(session), TIMEOUT)
    assert not isinstance(failure.value, TimeoutError), "the call hangs"


async def test_client_starts_a_server_on_a_port(world):
    client = await world.tcp_client()
    assert world.sdk.port(client) > 0
    assert await world.ask(await world.create(client), "[[text:hello]]") == "hello"


async def test_server_without_token_accepts_local_clients(world):
    client = await world.client_at(world.server().port)
    assert await world.ask(await world.create(client), "[[text:hello]]") == "hello"


async def test_tcp_call_is_not_delayed_by_nagle(world):
    """With Nagle's algorithm and delayed acknowledgements, every call on a warm connection takes 40 ms or more."""
    client = await world.client_at(world.server().port)
    times = []
    for _ in range(40):
        start = time.perf_counter()
        await client.ping("x")
        times.append(time.perf_counter() - start)
    assert min(times[-10:]) < 0.03  # The fastest one, so that a busy machine does not matter.


@pytest.mark.parametrize("token", ["wrong", None])
async def test_wrong_or_missing_token_is_refused(world, token):
    if token and not world.sdk.knows_tokens:
        pytest.skip("not supported by this SDK")
    client = world.sdk.at(world.server(TOKEN).port, token)
    with pytest.raises(Exception, match="AUTHENTICATION_(FAILED|REQUIRED)"):
        await client.start()
    await client.force_stop()


async def test_correct_token_is_accepted(world):
    if not world.sdk.knows_tokens:
        pytest.skip("not supported by this SDK")
    client = await world.client_at(world.server(TOKEN).port, TOKEN)
    assert await world.ask(await world.create(client), "[[text:hello]]") == "hello"


async def test_tcp_server_outlives_its_clients(world):
    server = world.server()
    first = await world.client_at(server.port)
    session = await world.create(first)
    await world.ask(session, "[[text:hello]]")
    await world.stop(first)
    again = await world.resume(await world.client_at(server.port), session.session_id)
    assert await world.ask(again, "[[text:still here]]") == "still here"
