"""What people and clients that only watch see of all servers: lists, the page, notifications, logins."""

from __future__ import annotations

import asyncio
import urllib.request
import uuid

from copilot.generated import rpc
from locked import LockedServer, redirect_of
from scenario import scenario
from servers import CrushStream, Feed, Stream, Webhook, World, soon, sql
from support import call


@scenario
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


@scenario
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


@scenario
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


@scenario
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


@scenario
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


@scenario
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


@scenario
async def login_at_an_mcp_server_is_finished_through_another_server(world: World) -> None:
    with LockedServer() as locked:
        locked.configure(world.path / "home-1")
        one, two = world.server(), world.server()
        world.api(one, "sessions", {"id": "login", "questions": True, "allowAllTools": True})
        stream = Stream(two, "login")
        world.api(one, "sessions/login/prompts", {"text": "[[text:hello]]"})
        # Durable: the turn may end before the other server relays the session, and `session.idle` is not stored.
        await soon(lambda: "baton.turn_settled" in stream.kinds, "the end of the turn")
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
        await soon(lambda: stream.kinds.count("baton.turn_settled") >= 2, "the end of the second turn")
        events = world.api(two, "sessions/login/events?limit=1000")["events"]
        [done] = [entry["event"] for entry in events if entry["event"]["type"] == "tool.execution_complete"]
        assert done["data"]["result"]["content"] == "scopes tools", done
