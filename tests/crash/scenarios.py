"""Scenarios of clients, during which the server is killed. Each declares the crash points that it must reach."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from copilot.generated.rpc import EnqueueCommandParams
from copilot.tools import Tool, ToolResult
from home import SESSION, Kill, Home
from support import REPOSITORY, call, calls, until
from witness import REQUESTS, ClientSession

Act = Callable[[Home], Awaitable[None]]

#: Crash points of every prompt.
TURN = {"before_append", "after_append", "after_publish", "before_start", "after_start", "work_returned"}
ACKNOWLEDGED = {"before_reply", "after_reply"}
CREATED = {"before_migration", "during_migration", "after_migration", "before_create", "after_create"}
RELEASED = {"before_release", "after_release"}


@dataclass(frozen=True)
class Scenario:
    """A sequence of client actions, in a new home or after earlier actions."""

    name: str
    act: Act
    reaches: frozenset[str]
    #: Earlier actions in this home, after which the server was killed.
    past: Act | None = None
    #: Whether a command of the program is killed instead of a server.
    is_command: bool = False


ALL: dict[str, Scenario] = {}


def scenario(*reaches: set[str], past: Act | None = None, is_command: bool = False) -> Callable[[Act], Act]:
    def register(act: Act) -> Act:
        name = act.__name__.replace("_", " ")
        ALL[name] = Scenario(name, act, frozenset().union(*reaches), past, is_command)
        return act

    return register


async def answer_requests(chat: ClientSession, idle_count: int = 1, reverse: bool = False, batch: int = 1) -> None:
    """Answers all requests, in batches, until the session was idle `idle_count` times."""
    answered: set[str] = set()
    while sum(event["type"] == "session.idle" for event in chat.events) < idle_count:
        asked = [event for event in chat.events if event["type"] in REQUESTS]
        new = [event for event in asked if event["data"]["requestId"] not in answered]
        if len(new) < batch:
            await chat.next_event()
            continue
        for event in reversed(new) if reverse else new:
            answered.add(event["data"]["requestId"])
            await chat.answer(event)


@scenario(CREATED, TURN, ACKNOWLEDGED, RELEASED)
async def two_plain_turns(home: Home) -> None:
    chat = await home.create()
    home.in_background(chat.follow())
    await chat.ask("[[text:hello]]")
    await chat.ask("[[think:hm]][[text:hello again]]")
    await chat.session.disconnect()


@scenario(TURN, ACKNOWLEDGED)
async def a_streamed_turn(home: Home) -> None:
    chat = await home.create(streaming=True)
    home.in_background(chat.follow())
    await chat.ask("[[slow:12:1]]")


@scenario(TURN, ACKNOWLEDGED)
async def a_command_with_permission(home: Home) -> None:
    chat = await home.create()
    home.in_background(chat.follow())
    await chat.send(call("bash", command=home.counting_command("permitted"), description="once"))
    await answer_requests(chat)


@scenario(TURN, ACKNOWLEDGED)
async def a_client_tool(home: Home) -> None:
    chat = await home.create()
    home.in_background(chat.follow())
    await chat.send(call("lookup", n=1))
    await answer_requests(chat)


@scenario(TURN)
async def automatic_answers_of_the_sdk(home: Home) -> None:
    async def look_up(_: object) -> ToolResult:
        return ToolResult(text_result_for_llm="found by itself")

    lookup = Tool("lookup", "looks up", handler=look_up, parameters={"type": "object"})
    permit = lambda *_: home.sdk.decision("approve")  # noqa: E731
    chat = await home.create(tools=[lookup], on_permission_request=permit)
    await chat.ask(calls(("lookup", {"n": 1}), ("bash", {"command": home.counting_command("by-itself")})))


@scenario(TURN, ACKNOWLEDGED)
async def concurrent_requests(home: Home) -> None:
    chat = await home.create()
    home.in_background(chat.follow())
    command = home.counting_command("one-of-three")
    await chat.send(calls(("lookup", {"n": 1}), ("bash", {"command": command}), ("lookup", {"n": 2})))
    await chat.event("permission.requested", 3)
    await answer_requests(chat, reverse=True)


@scenario(TURN, ACKNOWLEDGED)
async def a_question(home: Home) -> None:
    chat = await home.create(on_user_input_request=unanswered)
    await chat.send(call("ask_user", question="which?"))
    await answer_requests(chat)


@scenario(TURN, ACKNOWLEDGED)
async def a_plan(home: Home) -> None:
    chat = await home.create(on_exit_plan_mode_request=unanswered)
    await chat.send(call("exit_plan_mode", summary="do it"), agent_mode="plan")
    await answer_requests(chat)


async def unanswered(*_: object) -> None:
    """A handler that never answers."""
    await asyncio.Event().wait()


@scenario(TURN, ACKNOWLEDGED, {"before_stop", "after_stop"})
async def queued_prompts_and_a_cancel(home: Home) -> None:
    chat = await home.create()
    home.in_background(chat.follow())
    prompts = [await chat.send(f"[[hold:{home.hold}]] first")]
    prompts += [await chat.send("[[text:second]]"), await chat.send("[[text:third]]")]
    await chat.event("assistant.turn_start")
    await chat.cancel(*prompts)
    await chat.event("session.idle")
    await chat.ask("[[text:after the cancel]]")


@scenario(TURN, ACKNOWLEDGED)
async def a_queued_command(home: Home) -> None:
    chat = await home.create()
    home.in_background(chat.follow())
    await chat.send("[[text:first]]")
    await chat.session.rpc.commands.enqueue(EnqueueCommandParams(command="/rename in the queue"))
    await chat.ask("[[text:second]]")


@scenario(TURN, ACKNOWLEDGED)
async def a_tracked_file(home: Home) -> None:
    chat = await home.create(enable_file_change_tracking=True)
    home.in_background(chat.follow())
    await chat.send(call("create", path=str(home.path / "tracked"), file_text="new"))
    await answer_requests(chat)


@scenario(TURN, ACKNOWLEDGED)
async def steering(home: Home) -> None:
    chat = await home.create()
    home.in_background(chat.follow())
    await chat.send(call("bash", command=home.counting_command("steered")))
    asked = await chat.event("permission.requested")
    await chat.send("rather like this", mode="immediate")
    await chat.answer(asked)
    await chat.event("session.idle")


@scenario(TURN, {"before_stop", "after_stop"})
async def a_command_that_ignores_signals(home: Home) -> None:
    chat = await home.create()
    command = (
        f"[ -e {home.well_behaved} ] || {{ trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM HUP; sleep 600' &); "
        f"sh -c 'trap \"\" TERM; sleep 600' & }}; {home.counting_command('stubborn')}; wait"
    )
    sent = await chat.send(call("bash", command=command, initial_wait=600))
    await chat.answer(await chat.event("permission.requested"))
    await until(lambda: home.run_counts().get("stubborn"), "the command")
    await chat.cancel(sent)
    await chat.event("session.idle")


@scenario(TURN, ACKNOWLEDGED)
async def two_clients(home: Home) -> None:
    first = await home.create(tools=[])
    client = await home.client()
    second = await home.resume(client, continue_work=True)
    home.in_background(second.follow())
    await first.send(call("lookup", n=1))
    await first.answer(await first.event("permission.requested"))
    await home.clients[0].force_stop()
    await second.answer(await second.event("external_tool.requested"))
    await second.event("session.idle")


def use_server(home: Home, config: dict[str, object]) -> None:
    """Gives all sessions of the home an MCP server."""
    (home.home / "mcp-config.json").write_text(json.dumps({"mcpServers": {"odd": config}}))


def odd_server(*arguments: str) -> dict[str, object]:
    script = REPOSITORY / "crates" / "mcp" / "tests" / "odd_server.py"
    return {"command": sys.executable, "args": [str(script), *arguments]}


@scenario(TURN, ACKNOWLEDGED)
async def a_call_of_an_mcp_server(home: Home) -> None:
    use_server(home, odd_server("child"))
    chat = await home.create()
    home.in_background(chat.follow())
    await chat.send(call("odd-count", path=str(home.runs / "mcp")))
    await answer_requests(chat)


@scenario(TURN, ACKNOWLEDGED)
async def a_form_of_an_mcp_server(home: Home) -> None:
    use_server(home, odd_server())

    async def fill_in(*_: object) -> dict[str, object]:
        return {"action": "accept", "content": {"name": "Ada"}}

    chat = await home.create(on_elicitation_request=fill_in)
    home.in_background(chat.follow())
    await chat.send(call("odd-ask"))
    await answer_requests(chat)


class Locked(BaseHTTPRequestHandler):
    """A server that nobody may use."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


@scenario(TURN, ACKNOWLEDGED)
async def a_login_at_an_mcp_server(home: Home) -> None:
    locked = ThreadingHTTPServer(("127.0.0.1", 0), Locked)
    locked.daemon_threads = True
    threading.Thread(target=locked.serve_forever, daemon=True).start()
    use_server(home, {"type": "http", "url": f"http://127.0.0.1:{locked.server_port}/mcp"})
    chat = await home.create()
    home.in_background(chat.follow())
    await chat.ask("[[text:without the server]]")
    await chat.ask("[[text:and again]]")


@scenario({"before_delete", "after_delete"})
async def a_deletion(home: Home) -> None:
    client = await home.client()
    chat = await home.create(client)
    await chat.ask("[[text:soon gone]]")
    home.witness.deleting = True
    await client.delete_session(SESSION)
    home.witness.deleted = True


async def leave_pending_work(home: Home) -> None:
    chat = await home.create()
    await chat.send(calls(("bash", {"command": home.counting_command("resumed")}), ("lookup", {"n": 1})))
    await chat.send("[[text:waited for its turn]]")
    await chat.event("permission.requested", 2)
    while await chat.read_page():
        pass


@scenario(TURN, ACKNOWLEDGED, {"after_acquire"}, past=leave_pending_work)
async def continue_pending_work(home: Home) -> None:
    chat = await home.resume(continue_work=True)
    home.in_background(chat.follow())
    history = [event.to_dict() for event in await chat.session.get_events()]
    for event in history:
        if event["type"] in REQUESTS:
            await chat.answer(event)
    await answer_requests(chat)


@scenario(TURN, ACKNOWLEDGED, {"after_acquire"}, past=leave_pending_work)
async def discard_pending_work(home: Home) -> None:
    chat = await home.resume(continue_work=False)
    home.in_background(chat.follow())
    await chat.ask("[[text:a new beginning]]")


@scenario({"during_import"}, is_command=True)
async def an_import(home: Home) -> None:
    """Writes three pages of events to import."""
    stamp = "2026-11-15T20:30:53.223Z"
    file = home.path / "events.jsonl"
    start = {"sessionId": SESSION, "version": 1, "producer": "x", "copilotVersion": "1", "startTime": stamp}
    lines = [{"type": "session.start", "data": start}]
    lines += [{"type": "user.message", "data": {"content": f"message {n}"}} for n in range(2500)]
    parent = None
    for number, line in enumerate(lines):
        line |= {"id": f"0190c2f0-0000-7000-8000-{number:012}", "timestamp": stamp, "parentId": parent}
        parent = line["id"]
    file.write_text("\n".join(json.dumps(line) for line in lines))


def run_import(home: Home, kill: Kill | None) -> bool:
    """Imports the file of `an_import`. Returns whether the program was killed."""
    done = home.command("sessions", "import", str(home.path / "events.jsonl"), kill=kill)
    home.witness.created |= done.returncode == 0
    return done.returncode == -9
