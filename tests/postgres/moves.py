"""Sessions outlive their servers: what is shared, taken over, fenced, relayed and drained."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from pathlib import Path

from copilot.generated.rpc import PlanUpdateRequest, WorkspacesReadFileRequest
from scenario import process_runs, scenario, types
from servers import Balancer, Stream, World, soon, sql
from support import call


@scenario
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


@scenario
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


@scenario
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
    assert not process_runs(pid.read_text().strip()), "P6: the command is still running"


@scenario
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


@scenario
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


@scenario
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


@scenario
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


@scenario
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


@scenario
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


@scenario
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


@scenario
async def work_of_a_stopped_server_continues_without_clients(world: World) -> None:
    config = world.path / "continue.toml"
    config.write_text('[recovery]\nunattended = "continue"\n')
    one, two = world.server("--config", str(config)), world.server("--config", str(config))
    # The command counts its runs in a file outside of the working directory.
    world.api(one, "sessions", {"id": "left", "sandbox": "off"})
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


@scenario
async def server_drains_when_an_operator_asks(world: World) -> None:
    one, two = world.server(), world.server()
    await world.create(one, "asked")
    b = await world.resume(two, "asked")
    name = world.listed()[0]["id"]
    world.baton("servers", "--drain", name)
    assert await asyncio.to_thread(one.process.wait, 20) == 0
    await b.ask("[[text:after]]")
    assert len(world.listed()) == 1


@scenario
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
