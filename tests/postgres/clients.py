"""What clients bring to a session works for clients of all servers, and outlives the session's server."""

from __future__ import annotations

import asyncio

from copilot.generated import rpc
from scenario import process_runs, scenario, types
from servers import World, soon, soon_async, sql
from support import call
from workflows import EXTENSION, NODE_SDK, Workflows, extension_is_running, request, settled, workflow


async def tools_of(chat) -> set[str]:
    return {tool.name for tool in (await chat.session.rpc.tools.get_current_metadata()).tools}


async def exclude(chat, *tools: str) -> None:
    await chat.session.rpc.options.update(rpc.SessionUpdateOptionsParams(excluded_tools=list(tools)))


@scenario
async def changes_of_clients_survive_the_server_of_their_session(world: World) -> None:
    one, two, three = world.server(), world.server(), world.server()
    reviewer = {"name": "reviewer", "prompt": "review", "tools": ["bash", "view", "grep"]}
    await world.create(one, "changed", model="first")
    servers = {"off": {"type": "local", "command": "false", "args": [], "tools": ["*"]}}
    b = await world.resume(two, "changed", custom_agents=[reviewer], excluded_tools=["view"], mcp_servers=servers)
    c = await world.resume(three, "changed")
    # What counts is what was set last, on whichever server.
    await exclude(b, "bash")
    await b.ask("[[text:before]]")
    await exclude(c, "grep")
    await b.session.rpc.agent.select(rpc.AgentSelectRequest(name="reviewer"))
    await b.session.set_model("second")
    await b.session.rpc.mcp.disable(rpc.MCPDisableRequest(server_name="off"))
    interest = rpc.RegisterEventInterestParams(event_type="command.queued")
    await b.session.rpc.event_log.register_interest(interest)
    await b.session.rpc.commands.enqueue(rpc.EnqueueCommandParams(command="/first"))
    asked = await b.event("command.queued")
    expected = await tools_of(c)
    assert {"bash", "view"} <= expected and "grep" not in expected, expected
    one.kill()
    # Either server takes the session over. What a client changed is back when its own server has answered it.
    for chat in (b, c):
        await tools_of(chat)
    assert await tools_of(b) == await tools_of(c) == expected
    current = (await c.session.rpc.agent.get_current()).agent
    assert current and current.name == "reviewer", current
    assert (await b.session.rpc.model.get_current()).model_id == "second"
    (server,) = (await c.session.rpc.mcp.list()).servers
    assert (server.name, server.status.value) == ("off", "disabled"), server
    # The runner is not asked again what it may be doing, and still runs what follows.
    answer = rpc.CommandsRespondToQueuedCommandRequest(
        request_id=asked["data"]["requestId"], result=rpc.QueuedCommandHandled()
    )
    assert (await b.session.rpc.commands.respond_to_queued_command(answer)).success
    await c.session.rpc.commands.enqueue(rpc.EnqueueCommandParams(command="/second"))
    following = await b.event("command.queued", 2)
    assert following["data"]["command"] == "/second", following
    assert sql(world.url, "SELECT count(*) FROM baton_sessions WHERE epoch > 1") == ["1"], "the session has moved"


@scenario
async def turn_waits_for_the_provider_of_its_client(world: World) -> None:
    one, two = world.server(), world.server()
    provider = {"type": "openai", "base_url": f"{world.model.url}/v1", "api_key": "key-of-the-client"}
    a = await world.create(one, "provided", provider=provider, model="scripted")
    b = await world.resume(two, "provided")
    await a.send(call("bash", command=world.counting_command("provided"), description="x"))
    requested = await b.event("permission.requested")
    one.kill()
    assert await asyncio.wait_for(b.answer(requested), 30)
    # The command runs; the next call of the model lacks the key.
    warning = await b.event("session.warning")
    assert "provider" in warning["data"]["message"], warning
    assert "session.idle" not in types(b), types(b)
    c = await world.resume(two, "provided", provider=provider, model="scripted")
    await c.event("session.idle")
    assert sql(world.url, "SELECT count(*) FROM baton_events WHERE encode(body, 'escape') LIKE '%key-of-the-client%'") == ["0"]


@scenario
async def client_carries_model_requests_of_a_session_at_another_server(world: World) -> None:
    carrier = world.carrier()
    one, two = world.server(), world.server()
    a = await world.create(one, "carried", streaming=True)
    b = await world.resume(two, "carried", carrier=carrier, streaming=True)
    await a.send("[[text:through the client]]")
    for chat in (a, b):
        await chat.event("session.idle")
        answers = [event["data"]["content"] for event in chat.events if event["type"] == "assistant.message"]
        assert answers == ["through the client"], answers
        assert "assistant.message_delta" in types(chat), types(chat)
    assert [request.session_id for request in carrier.carried] == ["carried"]
    # A cancelled turn cancels its request at the client.
    carrier.gate.clear()
    await a.send("[[text:cancelled]]")
    await soon(lambda: len(carrier.carried) == 2, "the request")
    await a.session.abort()
    await asyncio.wait_for(carrier.carried[1].cancel_event.wait(), 15)
    await b.event("session.idle", 2)
    carrier.gate.set()
    # A failure of the client is one of the turn.
    carrier.failure = RuntimeError("the proxy is closed")
    await a.send("[[text:failed]]")
    failed = await b.event("model.call_failure")
    assert failed["data"]["statusCode"] == 502, failed
    await a.session.abort()
    await b.event("session.idle", 3)
    assert sql(world.url, "SELECT count(DISTINCT epoch) FROM baton_sessions") == ["1"], "the session has not moved"


@scenario
async def client_is_asked_again_when_the_server_that_asked_it_dies(world: World) -> None:
    carrier = world.carrier()
    # The client's server has other directories, so another one continues the session.
    one, two = world.server("--place", "here"), world.server("--place", "here")
    three = world.server("--place", "there")
    await world.create(one, "again")
    b = await world.resume(two, "again")
    c = await world.resume(three, "again", carrier=carrier)
    carrier.gate.clear()
    await c.send("[[text:asked twice]]")
    await soon(lambda: len(carrier.carried) == 1, "the request")
    one.kill()
    await asyncio.wait_for(carrier.carried[0].cancel_event.wait(), 15)
    await soon(lambda: len(carrier.carried) == 2, "the request of the next server", 30)
    carrier.gate.set()
    for chat in (b, c):
        await chat.event("session.idle")
        assert types(chat).count("assistant.message") == 1, types(chat)
    held = sql(world.url, "SELECT m.home FROM baton_sessions s JOIN baton_servers m ON m.id = s.server")
    assert held == [str(two.home)], held


@scenario
async def turn_waits_for_a_client_that_carries_its_requests(world: World) -> None:
    carrier = world.carrier()
    one, two = world.server(), world.server()
    await world.create(one, "lost", carrier=carrier)
    b = await world.resume(two, "lost")
    carrier.gate.clear()
    await b.send("[[text:in the end]]")
    await soon(lambda: len(carrier.carried) == 1, "the request")
    one.kill()
    warning = await b.event("session.warning")
    assert "carries the model requests" in warning["data"]["message"], warning
    assert "session.idle" not in types(b), types(b)
    carrier.gate.set()
    await world.resume(two, "lost", carrier=carrier)
    await b.event("session.idle")
    assert types(b).count("assistant.message") == 1, types(b)


@scenario
async def workflow_of_a_client_runs_for_clients_of_all_servers(world: World) -> None:
    one, two, three = world.server(), world.server(), world.server()
    a = await world.create(one, "flow")
    b = await world.resume(two, "flow")
    c = await world.resume(three, "flow")
    workflows = Workflows(b)
    await workflows.declare("double", "endless")
    run = await workflow(c, "run", name="double", args=[1, 2])
    for chat in (a, b, c):
        assert (await settled(chat, run["runId"]))["result"] == [2, 4]

    endless = await workflow(a, "run", name="endless")
    await soon(lambda: workflows.endless == [endless["runId"]], "the call at the client of server two")
    assert (await workflow(c, "cancel", runId=endless["runId"]))["status"] == "cancelled"
    await soon(lambda: workflows.aborted == [endless["runId"]], "the abort at the client of server two")

    # A takeover does to a run what a restart does: it was interrupted, and can be resumed with its journal.
    lost = await workflow(c, "run", name="endless")
    await soon(lambda: lost["runId"] in workflows.endless, "the call at the client of server two")
    one.kill()
    await soon(lambda: lost["runId"] in workflows.aborted, "the abort by the next owner")
    for chat in (b, c):
        halted = await settled(chat, lost["runId"])
        assert (halted["status"], halted["reason"]) == ("halted", "it was interrupted"), halted
        await soon(lambda chat=chat: "workflow.run_settled" in types(chat), "the event of the end")
    workflows.patient = False
    resumed = await workflow(c, "resume", runId=lost["runId"])
    assert resumed["workflowName"] == "endless", resumed
    for chat in (b, c):
        assert (await settled(chat, lost["runId"]))["result"] == "step of the first attempt"


@scenario
async def extension_of_a_session_is_started_once_by_its_owner(world: World) -> None:
    one, two, three = world.server(), world.server(), world.server()
    directory = world.work / ".github/extensions/helper"
    directory.mkdir(parents=True)
    (directory / "extension.mjs").write_text(EXTENSION)
    started = directory / "started"
    permit = lambda *_: world.sdk.decision("approve")  # noqa: E731
    options = {"request_extensions": True, "extension_sdk_path": str(NODE_SDK), "on_permission_request": permit}
    await world.create(one, "extended", **options)
    b = await world.resume(two, "extended", **options)
    c = await world.resume(three, "extended")
    assert len(started.read_text().split()) == 1, "one process for clients of two servers"
    [extension] = (await request(c, "session.extensions.list"))["extensions"]
    assert (extension["status"], str(extension["pid"])) == ("running", started.read_text().strip()), extension
    run = await workflow(c, "run", name="double", args=[3])
    assert (await settled(b, run["runId"]))["result"] == [6]

    one.kill()
    await soon(lambda: len(started.read_text().split()) == 2, "the extension at the next owner", 30)
    first, second = started.read_text().split()
    assert not process_runs(first), "P6: the extension of the dead server is still running"
    assert process_runs(second)
    await soon_async(lambda: extension_is_running(c), "the extension that has joined")
    run = await workflow(c, "run", name="double", args=[4])
    assert (await settled(b, run["runId"]))["result"] == [8]
    assert len(started.read_text().split()) == 2, "once"
    await b.session.disconnect()
    await soon(lambda: not process_runs(second), "the end of the extension with the last client that wants it")
