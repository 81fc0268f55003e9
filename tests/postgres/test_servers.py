"""Three servers on one database: any server serves any client, and a dead one's sessions go on elsewhere."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import time
import traceback
import urllib.request
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

from copilot.generated import rpc
from copilot.generated.rpc import PlanUpdateRequest, WorkspacesReadFileRequest
from locked import LockedServer, redirect_of
from servers import Balancer, CrushStream, Feed, Server, Stream, Webhook, World, report, soon, soon_async, sql
from support import call
from workflows import EXTENSION, NODE_SDK, Workflows, extension_is_running, request, settled, workflow

Test = Callable[[World], Awaitable[None]]
TESTS: list[Test] = []


def test(function: Test) -> Test:
    TESTS.append(function)
    return function


def is_running(pid: str) -> bool:
    """Whether a process runs. A zombie does not; nobody may reap it here."""
    try:
        return Path("/proc", pid, "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def types(chat) -> list[str]:
    return [event["type"] for event in chat.events]


@test
async def clients_of_all_servers_share_a_session(world: World) -> None:
    one, two, three = world.server(), world.server(), world.server()
    a = await world.create(one, "shared")
    b = await world.resume(two, "shared")
    stream = Stream(three, "shared")
    await b.send("[[text:hello from two]]")
    for chat in (a, b):
        await chat.event("session.idle")
    await soon(lambda: "assistant.message" in stream.kinds, "the answer on the stream")
    assert types(a).count("assistant.message") == types(b).count("assistant.message") == 1
    servers = world.listed()
    assert [server["state"] for server in servers] == ["alive"] * 3, servers
    assert sum(server["sessions"] for server in servers) == 1, servers
    assert sql(world.url, "SELECT count(DISTINCT epoch) FROM baton_sessions") == ["1"], "the session has not moved"


@test
async def pending_permission_survives_its_server(world: World) -> None:
    """The scenario of the issue."""
    one, two, three = world.server(), world.server(), world.server()
    a = await world.create(one, "survivor")
    b = await world.resume(two, "survivor")
    c = await world.resume(three, "survivor")
    stream = Stream(three, "survivor")
    await a.send(call("bash", command=world.counting_command("once"), description="once"))
    requested = await b.event("permission.requested")
    await c.event("permission.requested")
    one.kill()
    killed = time.monotonic()
    assert await asyncio.wait_for(b.answer(requested), 20), "the answer counts"
    answered = time.monotonic() - killed
    for chat in (b, c):
        await chat.event("session.idle")
    ended = time.monotonic() - killed
    await soon(lambda: "session.idle" in stream.kinds, "the end on the stream")
    assert world.run_count("once") == 1
    for chat in (b, c):
        assert types(chat).count("permission.requested") == 1, types(chat)
        assert types(chat).count("permission.completed") == 1, types(chat)
    assert stream.ids == sorted(set(stream.ids)), stream.ids
    assert stream.ids == list(range(1, len(stream.ids) + 1)), "no gap"
    print(f"    answered {answered:.1f} s after the kill, ended after {ended:.1f} s")
    assert ended < 10, "within 5 s on an idle machine"


@test
async def running_command_is_interrupted_once(world: World) -> None:
    one, two = world.server(), world.server()
    permit = lambda *_: world.sdk.decision("approve")  # noqa: E731
    await world.create(one, "busy", on_permission_request=permit)
    b = await world.resume(two, "busy", on_permission_request=permit)
    pid = world.runs / "pid"
    command = f"echo $$ > {pid}; {world.counting_command('slow')}; exec sleep 600"
    await b.send(call("bash", command=command, description="slow"))
    await soon(lambda: world.run_count("slow") == 1, "the command")
    one.kill()
    await b.event("session.idle")
    assert world.run_count("slow") == 1, "it is never run again"
    assert types(b).count("tool.execution_complete") == 1, types(b)
    # Another home, the same host: the server that took over has ended what the dead one left running.
    assert not is_running(pid.read_text().strip()), "P6: the command is still running"


@test
async def paused_owner_is_fenced(world: World) -> None:
    one, two = world.server(), world.server()
    a = await world.create(one, "paused")
    b = await world.resume(two, "paused")
    await a.send(call("bash", command=world.counting_command("paused"), description="x"))
    requested = await b.event("permission.requested")
    one.kill(signal.SIGSTOP)
    assert await asyncio.wait_for(b.answer(requested), 30)
    await b.event("session.idle")
    one.kill(signal.SIGCONT)
    # The client of the paused server sees the end, too, and can go on.
    await a.event("session.idle")
    await a.send("[[text:after the pause]]")
    await b.event("session.idle", 2)
    assert world.run_count("paused") == 1
    durable = lambda chat: [event["id"] for event in chat.events if not event.get("ephemeral")]  # noqa: E731
    await soon(lambda: set(durable(b)[2:]) <= set(durable(a)), "the events on the client of the paused server")
    assert len(set(durable(a))) == len(durable(a)), "each event once"


@test
async def client_of_the_dead_server_resumes_elsewhere(world: World) -> None:
    one, two = world.server(), world.server()
    a = await world.create(one, "moved")
    await a.send(call("bash", command=world.counting_command("moved"), description="x"))
    requested = await a.event("permission.requested")
    one.kill()
    b = await world.resume(two, "moved")
    assert await b.answer(requested), "the request is pending under its id"
    await b.event("session.idle")
    assert world.run_count("moved") == 1


@test
async def restart_of_the_database_loses_nothing(world: World) -> None:
    one, two = world.server(), world.server()
    a = await world.create(one, "restart")
    b = await world.resume(two, "restart")
    await a.ask("[[text:before]]")
    sql(world.url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    await b.send("[[text:after]]")
    for chat in (a, b):
        await chat.event("session.idle", 2)
    assert sql(world.url, "SELECT count(DISTINCT server) FROM baton_sessions") == ["1"]


@test
async def session_of_another_place_is_relayed_and_not_moved(world: World) -> None:
    here, there = world.server("--place", "here"), world.server("--place", "there")
    a = await world.create(here, "placed")
    await a.ask("[[text:one]]")
    b = await world.resume(there, "placed")
    await b.send("[[text:two]]")
    await a.event("session.idle", 2)
    here.kill()
    await asyncio.sleep(4)
    listed = world.listed()
    assert sorted(server["state"] for server in listed) == ["alive", "dead"], listed
    assert sql(world.url, "SELECT place FROM baton_sessions") == ["here"]


@test
async def clients_of_other_servers_learn_of_sessions_that_come_and_go(world: World) -> None:
    one, two = world.server(), world.server()
    near, far = await world.client(one), await world.client(two)
    heard: dict[str, list[tuple[str, str]]] = {"near": [], "far": []}
    for name, client in (("near", near), ("far", far)):
        client.on_lifecycle(lambda event, name=name: heard[name].append((event.type, event.session_id)))
    await world.create(one, "early")
    await soon(lambda: ("session.created", "early") in heard["far"], "the new session at the other server")
    await near.delete_session("early")
    await soon(lambda: ("session.deleted", "early") in heard["far"], "the deletion at the other server")
    # What happens here is not news from elsewhere.
    await world.create(two, "late")
    await soon(lambda: ("session.created", "late") in heard["near"], "the new session at the first server")
    for events in heard.values():
        assert events.count(("session.created", "early")) == events.count(("session.deleted", "early")) == 1, events
        assert events.count(("session.created", "late")) == 1, events


@test
async def clients_of_other_servers_learn_of_sessions_that_change(world: World) -> None:
    one, two = world.server(), world.server()
    far = await world.client(two)
    heard: list[tuple[str, str, str | None]] = []
    far.on_lifecycle(
        lambda event: heard.append((event.type, event.session_id, event.metadata and event.metadata.summary))
    )
    a = await world.create(one, "changing")
    await soon(lambda: any(kind == "session.created" for kind, _, _ in heard), "the new session at the other server")
    # The other server may not watch this one yet, so the first changes may be missed.
    for number in range(30):
        await a.session.rpc.name.set(rpc.NameSetRequest(name=f"name {number}"))
        await asyncio.sleep(0.5)
        if any(kind == "session.updated" for kind, _, _ in heard):
            break
    await a.session.rpc.name.set(rpc.NameSetRequest(name="the last name"))
    await soon(lambda: ("session.updated", "changing", "the last name") in heard, "the change at the other server")
    kinds = [kind for kind, _, _ in heard]
    assert kinds.count("session.created") == 1 and kinds[0] == "session.created", heard


async def tools_of(chat) -> set[str]:
    return {tool.name for tool in (await chat.session.rpc.tools.get_current_metadata()).tools}


async def exclude(chat, *tools: str) -> None:
    await chat.session.rpc.options.update(rpc.SessionUpdateOptionsParams(excluded_tools=list(tools)))


@test
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


@test
async def files_move_with_their_session(world: World) -> None:
    one, two, three = world.server(), world.server(), world.server()
    a = await world.create(one, "files")
    b = await world.resume(two, "files")
    # Written through an edge, and by a command in the directory of the owner.
    await b.session.rpc.plan.update(PlanUpdateRequest(content="1. move"))
    directory = one.home / "session-state" / "files"
    assert (directory / "plan.md").read_text() == "1. move"
    permit = lambda *_: world.sdk.decision("approve")  # noqa: E731
    c = await world.resume(one, "files", on_permission_request=permit)
    command = f"mkdir -p {directory}/files && echo kept > {directory}/files/note.txt"
    await c.send(call("bash", command=command, description="x"))
    await c.event("session.idle")
    one.kill()
    shutil.rmtree(one.home)
    d = await world.resume(three, "files")
    plan = await d.session.rpc.plan.read()
    assert plan.content == "1. move", plan
    note = await d.session.rpc.workspaces.read_file(WorkspacesReadFileRequest(path="note.txt"))
    assert note.content == "kept\n", note
    held = sql(world.url, "SELECT m.home FROM baton_sessions s JOIN baton_servers m ON m.id = s.server")
    assert held in ([str(two.home)], [str(three.home)]), held
    assert (Path(held[0]) / "session-state/files/plan.md").read_text() == "1. move"


@test
async def client_of_another_server_sees_the_files_of_the_owner(world: World) -> None:
    one, two = world.server(), world.server()
    for server, text in ((one, "of the owner"), (two, "of the other server")):
        (server.home / "copilot-instructions.md").write_text(text)
    a = await world.create(one, "seen", enable_config_discovery=True)
    b = await world.resume(two, "seen", enable_config_discovery=True)
    assert a.session.workspace_path == b.session.workspace_path == one.home / "session-state" / "seen"
    for chat in (a, b):
        found = (await chat.session.rpc.instructions.get_sources()).sources
        assert [source.content for source in found] == ["of the owner"], found


@test
async def stopped_server_finishes_its_turn(world: World) -> None:
    one, two = world.server(), world.server()
    permit = lambda *_: world.sdk.decision("approve")  # noqa: E731
    await world.create(one, "drained", on_permission_request=permit)
    b = await world.resume(two, "drained")
    gate = world.path / "gate"
    command = world.counting_command("drained") + f"; until [ -e {gate} ]; do sleep 0.1; done; echo finished"
    await b.send(call("bash", command=command, description="x"))
    await soon(lambda: world.run_count("drained") == 1, "the command")
    one.kill(signal.SIGTERM)
    await soon(lambda: "draining" in world.baton("servers"), "the drain")
    gate.touch()
    await b.event("session.idle")
    done = next(event for event in b.events if event["type"] == "tool.execution_complete")
    assert done["data"]["success"], done
    assert await asyncio.to_thread(one.process.wait, 20) == 0
    # The session continues at the other server at once: its lease was released.
    await b.ask("[[text:after]]")
    assert world.listed()[0]["sessions"] == 1


@test
async def work_of_a_stopped_server_continues_without_clients(world: World) -> None:
    config = world.path / "continue.toml"
    config.write_text('[recovery]\nunattended = "continue"\n')
    one, two = world.server("--config", str(config)), world.server("--config", str(config))
    world.api(one, "sessions", {"id": "left"})
    asking = call("bash", command=world.counting_command("left"), description="x")
    prompts = [world.api(one, "sessions/left/prompts", {"text": text})["promptId"] for text in (asking, "[[text:queued]]")]

    def pending(server) -> list[str]:
        return [request["requestId"] for request in world.api(server, "requests")["requests"]]

    await soon(lambda: len(pending(one)) == 1, "the request")
    before = pending(one)
    one.kill(signal.SIGTERM)
    assert await asyncio.to_thread(one.process.wait, 20) == 0
    # Nobody is attached, and nobody opens the session: the other server looks for what was left.
    await soon(lambda: [server["sessions"] for server in world.listed()] == [1], "the takeover")
    assert pending(two) == before
    world.api(two, f"sessions/left/requests/{before[0]}", {"kind": "permission", "decision": "approve"})
    for prompt in prompts:
        outcome = await asyncio.to_thread(world.api, two, f"sessions/left/prompts/{prompt}?wait=30")
        assert outcome["state"] == "completed", outcome
    assert world.run_count("left") == 1


@test
async def server_drains_when_an_operator_asks(world: World) -> None:
    one, two = world.server(), world.server()
    await world.create(one, "asked")
    b = await world.resume(two, "asked")
    name = world.listed()[0]["id"]
    world.baton("servers", "--drain", name)
    assert await asyncio.to_thread(one.process.wait, 20) == 0
    await b.ask("[[text:after]]")
    assert len(world.listed()) == 1


@test
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


@test
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


@test
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


@test
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


@test
async def page_of_any_server_shows_the_sessions_of_all(world: World) -> None:
    one, two = world.server(), world.server()
    feed = Feed(two)
    await soon(lambda: feed.ready == 1, "the feed")
    a = await world.create(one, "listed")
    await a.send(call("bash", command=world.counting_command("listed"), description="x"))
    await soon(lambda: feed.requests.get("listed"), "the request on the other server's feed")
    assert feed.sessions["listed"]["busy"], feed.sessions
    (listed,) = (await asyncio.to_thread(world.api, two, "requests"))["requests"]
    shown = feed.requests["listed"][0]["requestId"]
    assert (listed["sessionId"], listed["requestId"]) == ("listed", shown), listed
    answer = {"kind": "permission", "decision": "approve"}
    counted = await asyncio.to_thread(world.api, two, f"sessions/listed/requests/{shown}", answer)
    assert counted["counted"], counted
    await a.event("session.idle")
    await soon(lambda: not feed.sessions["listed"]["busy"], "the end on the other server's feed")
    assert feed.requests["listed"] == [], feed.requests
    assert world.run_count("listed") == 1
    # A server that comes later is watched, too. The page reads its lists again.
    three = world.server()
    await soon(lambda: feed.ready == 2, "the server that came later")
    late = await world.create(three, "late")
    await late.send(call("bash", command=world.counting_command("late"), description="x"))
    await soon(lambda: feed.requests.get("late"), "the request of the server that came later")


@test
async def workspace_of_crush_shows_the_sessions_of_all_servers(world: World) -> None:
    one, two = world.server(), world.server()
    client = str(uuid.uuid4())
    body = {"path": str(world.work), "client_id": client, "version": "1"}
    workspace = await asyncio.to_thread(world.crush, two, "workspaces", body)
    stream = CrushStream(two, workspace["id"], client)
    await soon(lambda: stream.is_open, "the stream")
    a = await world.create(one, "relayed")
    await a.send("[[text:hello from one]]")
    await a.event("session.idle")
    shown = lambda text: any(text in line for line in stream.lines)  # noqa: E731
    await soon(lambda: shown("hello from one"), "the answer on the stream of the other server")
    assert sql(world.url, "SELECT count(DISTINCT epoch) FROM baton_sessions") == ["1"], "the session has not moved"
    await a.send(call("bash", command=world.counting_command("relayed"), description="x"))
    requested = await a.event("permission.requested")
    await soon(lambda: shown("permission_request"), "the request on the stream of the other server")
    assert await a.answer(requested)
    await a.event("session.idle", 2)


def webhook_of(world: World, delay: int) -> Webhook:
    """Starts a receiver of the notifications of servers that are started later."""
    webhook = Webhook()
    world.env["BATON_WEBHOOK_SECRET"] = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0IGNsdXN0ZXI="
    world.configure(
        f"[notifications]\ndelay_seconds = {delay}\nturns = false\n"
        f'[notifications.webhook]\nurl = "{webhook.url}"\nsecret_env = "BATON_WEBHOOK_SECRET"\n'
    )
    return webhook


async def withdrawn_once(webhook: Webhook) -> None:
    """Waits for the withdrawal of a notification, and checks that there was one of each. Stops the receiver."""
    await soon(lambda: any(name.endswith(".withdrawn") for name, _ in webhook.received), "its withdrawal", 30)
    names = [name for name, _ in webhook.received]
    assert len(names) == len(set(names)) == 2, names
    webhook.stop()


@test
async def people_are_notified_of_requests_of_a_dead_server(world: World) -> None:
    webhook = webhook_of(world, 6)
    one, two, three = world.server(), world.server(), world.server()
    await world.create(one, "orphan")
    b = await world.resume(two, "orphan")
    await world.resume(three, "orphan")
    await b.send(call("bash", command=world.counting_command("orphan"), description="x"))
    requested = await b.event("permission.requested")
    one.kill()
    assert not webhook.received, "the server was killed too late"
    await soon(lambda: webhook.received, "the notification", 40)
    assert await b.answer(requested)
    await withdrawn_once(webhook)


@test
async def people_are_notified_once(world: World) -> None:
    """Every server has the channel, and one of them sends."""
    webhook = webhook_of(world, 1)
    servers = [world.server(), world.server(), world.server()]
    chats = [await world.create(servers[0], "notified")]
    chats += [await world.resume(server, "notified") for server in servers[1:]]
    await chats[1].send(call("bash", command=world.counting_command("notified"), description="x"))
    requested = await chats[2].event("permission.requested")
    await soon(lambda: webhook.received, "the notification", 30)
    assert await chats[2].answer(requested)
    await withdrawn_once(webhook)


@test
async def clients_behind_a_balancer_outlive_their_server(world: World) -> None:
    """`docs/scale.md`, with a balancer in front of the ports of SDKs."""
    servers = [world.server(), world.server(), world.server()]
    async with Balancer([server.port for server in servers]) as balancer:
        chats = [await world.create(balancer, "balanced")]
        chats += [await world.resume(balancer, "balanced") for _ in range(2)]
        held = sql(world.url, "SELECT m.home FROM baton_sessions s JOIN baton_servers m ON m.id = s.server")
        owner = next(server for server in servers if str(server.home) == held[0])
        reader = next(server for server in servers if server is not owner)
        stream = Stream(reader, "balanced")
        await chats[1].send(call("bash", command=world.counting_command("balanced"), description="x"))
        for chat in chats:
            requested = await chat.event("permission.requested")
        owner.kill()
        killed = time.monotonic()
        # Whoever was connected to the dead server connects again, to whichever the balancer chooses.
        again = await world.resume(balancer, "balanced")
        assert await asyncio.wait_for(again.answer(requested), 20), "the request is pending under its id"
        await again.event("session.idle")
        ended = time.monotonic() - killed
        await soon(lambda: "session.idle" in stream.kinds, "the end on the stream")
        # Two of the three clients were connected to living servers.
        finished = lambda: sum("session.idle" in types(chat) for chat in chats)  # noqa: E731
        await soon(lambda: finished() == 2, "the end on the connections that have stayed")
        assert stream.ids == list(range(1, len(stream.ids) + 1)), "no gap"
        assert world.run_count("balanced") == 1
        print(f"    ended {ended:.1f} s after the kill")


@test
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


@test
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
    assert not is_running(first), "P6: the extension of the dead server is still running"
    assert is_running(second)
    await soon_async(lambda: extension_is_running(c), "the extension that has joined")
    run = await workflow(c, "run", name="double", args=[4])
    assert (await settled(b, run["runId"]))["result"] == [8]
    assert len(started.read_text().split()) == 2, "once"
    await b.session.disconnect()
    await soon(lambda: not is_running(second), "the end of the extension with the last client that wants it")


@test
async def login_at_an_mcp_server_is_finished_through_another_server(world: World) -> None:
    with LockedServer() as locked:
        locked.configure(world.path / "home-1")
        one, two = world.server(), world.server()
        world.api(one, "sessions", {"id": "login", "questions": True, "allowAllTools": True})
        stream = Stream(two, "login")
        world.api(one, "sessions/login/prompts", {"text": "[[text:hello]]"})
        await soon(lambda: "session.idle" in stream.kinds, "the end of the turn")
        await soon(lambda: world.api(two, "requests")["requests"], "the request, at the other server")
        [asked] = world.api(two, "requests")["requests"]
        assert (asked["kind"], asked["sessionId"]) == ("login", "login"), asked
        link = world.api(two, f"sessions/login/requests/{asked['requestId']}/link", {})["authorizationUrl"]
        returned = redirect_of(link)
        assert returned.startswith(f"{two.url}/oauth/callback?"), returned
        # The browser has no token of ours, and comes from another site.
        with urllib.request.urlopen(returned, timeout=30) as page:
            assert b"You are logged in" in page.read()
        for server in (one, two):
            assert world.api(server, "requests")["requests"] == []
        world.api(two, "sessions/login/prompts", {"text": call("locked-whoami")})
        await soon(lambda: stream.kinds.count("session.idle") >= 2, "the end of the second turn")
        events = world.api(two, "sessions/login/events?limit=1000")["events"]
        [done] = [entry["event"] for entry in events if entry["event"]["type"] == "tool.execution_complete"]
        assert done["data"]["result"]["content"] == "scopes tools", done


async def run(wanted: list[str]) -> int:
    failed = 0
    for number, function in enumerate(TESTS):
        if wanted and function.__name__ not in wanted:
            continue
        world = World(f"servers_{number}")
        start = time.monotonic()
        try:
            await asyncio.wait_for(function(world), 120)
            print(f"ok     {function.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
        except BaseException as error:  # Every failure is reported with the logs of the servers.
            failed += 1
            print(f"FAILED {function.__name__}", flush=True)
            traceback.print_exc()
            report(world, error)
        finally:
            await world.close()
            world.remove()
    print(f"{len(wanted or TESTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(run(sys.argv[1:])))
