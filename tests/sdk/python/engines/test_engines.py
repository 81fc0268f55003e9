"""Other agents' programs, the real ones, driven through Baton by the official SDK."""

from __future__ import annotations

import pytest
from copilot.generated.rpc import PermissionsConfigureParams
from support import until

from engines.programs import PROGRAMS, configuration, installed


@pytest.fixture(params=sorted(PROGRAMS))
def engine(request, world):
    """The name of a program that is installed and set up."""
    name = request.param
    if not installed(name).exists():
        pytest.skip(f"{name} is NOT INSTALLED: none of its tests is run")
    directory = world.work.parent / "config" / "baton"
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(configuration(name, world.work.parent, world.model))
    world.env["XDG_CONFIG_HOME"] = str(directory.parent)
    return name


async def test_a_prompt_is_answered_and_a_follow_up_remembers(world, engine):
    client = await world.client()
    session = await world.create(client, model=engine)
    assert await world.ask(session, "say hi") == "echo 1: say hi"
    assert await world.ask(session, "and again") == "echo 2: and again"


async def test_it_is_a_model_that_can_be_chosen(world, engine):
    client = await world.client()
    assert engine in [model.id for model in await client.list_models()]


async def test_a_tool_call_that_a_client_denies_is_not_run_and_one_that_it_approves_is(world, engine):
    client = await world.client()
    asked, meaning = [], "deny"

    def decide(request, _invocation):
        asked.append(request.to_dict())
        return world.sdk.decision(meaning)

    session = await world.create(client, model=engine, on_permission_request=decide)
    made = world.work / "made-by-agent"
    await world.ask(session, "[[shell:touch made-by-agent]] [[text:done]]")
    assert [(wish["kind"], wish["fullCommandText"]) for wish in asked] == [("shell", "touch made-by-agent")]
    assert not made.exists()
    meaning = "approve"
    assert await world.ask(session, "[[shell:touch made-by-agent]] [[text:done]]") == "done"
    assert len(asked) == 2 and made.exists()
    kinds = [event.type for event in await world.history(session)]
    assert kinds.count("tool.execution_start") == kinds.count("tool.execution_complete") == 2


async def test_rules_of_the_session_decide_without_asking(world, engine):
    client = await world.client()
    asked = []

    def decide(request, _invocation):
        asked.append(request)
        return world.sdk.decision("deny")

    session = await world.create(client, model=engine, on_permission_request=decide)
    rule = {"kind": "shell", "argument": "touch"}
    for verdict, is_made in [("denied", False), ("approved", True)]:
        rules = {"approved": [], "denied": []} | {verdict: [rule]}
        await session.rpc.permissions.configure(PermissionsConfigureParams.from_dict({"rules": rules}))
        await world.ask(session, "[[shell:touch made-by-agent]] [[text:done]]")
        assert (world.work / "made-by-agent").exists() == is_made, verdict
    assert asked == []


async def test_a_cancel_in_the_middle_of_a_tool_ends_it(world, engine):
    client = await world.client()
    session = await world.create(client, model=engine)
    await world.ask(session, "first")
    watch = world.watch(session)
    await session.send("[[shell:touch begun; sleep 1234]] [[text:done]]")
    await until(lambda: (world.work / "begun").exists(), "the command")
    await session.abort()
    await watch.idle()
    assert (await world.ask(session, "after")).endswith("after")


async def test_a_session_goes_on_after_the_server_was_killed(world, engine):
    server = world.server()
    client = await world.client_at(server.port)
    session = await world.create(client, model=engine)
    assert await world.ask(session, "remember this") == "echo 1: remember this"
    world.kill(server.process.pid)
    await world.leave(client)
    client = await world.client_at(world.server().port)
    session = await world.resume(client, session.session_id)
    answer = await world.ask(session, "what was it?")
    # A program that was killed before it had written the conversation down is told anew what was said.
    told_anew = any("User: remember this" in str(asked) for asked in world.model.exchanges())
    assert answer == "echo 2: what was it?" or told_anew, answer


async def test_an_error_of_the_provider_reaches_the_client(world, engine):
    client = await world.client()
    session = await world.create(client, model=engine)
    watch = world.watch(session)
    await session.send("[[error:400]]")
    error = await watch.first("session.error")
    assert "400" in error["message"]
