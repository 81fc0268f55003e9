"""The queue: commands among prompts, and their execution by runners, client handlers and the server."""

from __future__ import annotations

import adapters
import pytest

pytestmark = pytest.mark.skipif(not adapters.is_newest(), reason="not supported by older SDKs")


def rpc():
    from copilot.generated import rpc

    return rpc


async def enqueue(session, command: str) -> None:
    assert (await session.rpc.commands.enqueue(rpc().EnqueueCommandParams(command=command))).queued


async def queued_items(session) -> list[tuple[str, str]]:
    pending = await session.rpc.queue.pending_items()
    return [(item.kind.value, item.display_text) for item in pending.items]


async def test_runner_executes_queued_commands_in_order(world):
    session = await world.create(await world.client())
    seen = world.watch(session)
    await session.rpc.event_log.register_interest(rpc().RegisterEventInterestParams(event_type="command.queued"))
    await enqueue(session, "/first")
    await enqueue(session, "/second")
    await session.send("[[text:after the commands]]")
    await seen.some("command.queued", 1)
    assert await queued_items(session) == [("command", "/second"), ("message", "[[text:after the commands]]")]
    for number, handled in enumerate([rpc().QueuedCommandHandled(), rpc().QueuedCommandNotHandled()]):
        await seen.some("command.queued", number + 1)
        request = seen.of("command.queued")[number]["requestId"]
        answer = rpc().CommandsRespondToQueuedCommandRequest(request_id=request, result=handled)
        assert (await session.rpc.commands.respond_to_queued_command(answer)).success
        assert not (await session.rpc.commands.respond_to_queued_command(answer)).success
    await seen.idle()
    assert [event["content"] for event in seen.of("assistant.message")] == ["after the commands"]
    assert await queued_items(session) == []


async def test_client_command_is_executed_by_its_handler(world):
    from copilot.session import CommandDefinition

    ran = []
    deploy = CommandDefinition(name="deploy", description="Ships it", handler=lambda context: ran.append(context.args))
    session = await world.create(await world.client(), commands=[deploy])
    seen = world.watch(session)
    await enqueue(session, "/deploy to production")
    await seen.idle()
    assert ran == ["to production"]


async def test_server_command_is_executed_by_the_server(world):
    session = await world.create(await world.client())
    seen = world.watch(session)
    await enqueue(session, "/rename from the queue")
    await seen.idle()
    assert (await session.rpc.name.get()).name == "from the queue"
