"""What clients do while the server may die at any moment. Each scenario says which crash points it must come by."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from copilot.generated.rpc import EnqueueCommandParams
from copilot.tools import Tool, ToolResult
from home import SESSION, Death, Home
from support import call, calls, until
from witness import REQUESTS, Talk

Act = Callable[[Home], Awaitable[None]]

#: Every prompt comes by these, and so does every scenario that has one.
TURN = {"before_append", "after_append", "after_publish", "before_start", "after_start", "work_returned"}
ACKNOWLEDGED = {"before_reply", "after_reply"}
CREATED = {"before_migration", "during_migration", "after_migration", "before_create", "after_create"}
RELEASED = {"before_release", "after_release"}


@dataclass(frozen=True)
class Scenario:
    """Something that clients do, in a home that may have a past."""

    name: str
    act: Act
    reaches: frozenset[str]
    #: What happened in this home before; ended by a kill.
    past: Act | None = None
    #: Whether a command of the program dies, rather than a server.
    is_command: bool = False


ALL: dict[str, Scenario] = {}


def scenario(*reaches: set[str], past: Act | None = None, is_command: bool = False) -> Callable[[Act], Act]:
    def register(act: Act) -> Act:
        name = act.__name__.replace("_", " ")
        ALL[name] = Scenario(name, act, frozenset().union(*reaches), past, is_command)
        return act

    return register


async def oblige(talk: Talk, rests: int = 1, reverse: bool = False, batch: int = 1) -> None:
    """Answers whatever is asked, some at a time, until the session has come to rest so many times."""
    answered: set[str] = set()
    while sum(event["type"] == "session.idle" for event in talk.events) < rests:
        asked = [event for event in talk.events if event["type"] in REQUESTS]
        new = [event for event in asked if event["data"]["requestId"] not in answered]
        if len(new) < batch:
            await talk.news()
            continue
        for event in reversed(new) if reverse else new:
            answered.add(event["data"]["requestId"])
            await talk.answer(event)


@scenario(CREATED, TURN, ACKNOWLEDGED, RELEASED)
async def two_plain_turns(home: Home) -> None:
    talk = await home.create()
    home.beside(talk.follow())
    await talk.ask("[[text:hello]]")
    await talk.ask("[[think:hm]][[text:hello again]]")
    await talk.session.disconnect()


@scenario(TURN, ACKNOWLEDGED)
async def a_streamed_turn(home: Home) -> None:
    talk = await home.create(streaming=True)
    home.beside(talk.follow())
    await talk.ask("[[slow:12:1]]")


@scenario(TURN, ACKNOWLEDGED)
async def a_command_with_permission(home: Home) -> None:
    talk = await home.create()
    home.beside(talk.follow())
    await talk.send(call("bash", command=home.counting("permitted"), description="once"))
    await oblige(talk)


@scenario(TURN, ACKNOWLEDGED)
async def a_tool_of_the_client(home: Home) -> None:
    talk = await home.create()
    home.beside(talk.follow())
    await talk.send(call("lookup", n=1))
    await oblige(talk)


@scenario(TURN)
async def an_sdk_that_answers_by_itself(home: Home) -> None:
    async def look(_: object) -> ToolResult:
        return ToolResult(text_result_for_llm="found by itself")

    lookup = Tool("lookup", "looks up", handler=look, parameters={"type": "object"})
    permit = lambda *_: home.sdk.decision("approve")  # noqa: E731
    talk = await home.create(tools=[lookup], on_permission_request=permit)
    await talk.ask(calls(("lookup", {"n": 1}), ("bash", {"command": home.counting("by-itself")})))


@scenario(TURN, ACKNOWLEDGED)
async def requests_side_by_side(home: Home) -> None:
    talk = await home.create()
    home.beside(talk.follow())
    command = home.counting("one-of-three")
    await talk.send(calls(("lookup", {"n": 1}), ("bash", {"command": command}), ("lookup", {"n": 2})))
    await talk.event("permission.requested", 3)
    await oblige(talk, reverse=True)


@scenario(TURN, ACKNOWLEDGED)
async def a_question(home: Home) -> None:
    talk = await home.create(on_user_input_request=unanswered)
    await talk.send(call("ask_user", question="which?"))
    await oblige(talk)


@scenario(TURN, ACKNOWLEDGED)
async def a_plan(home: Home) -> None:
    talk = await home.create(on_exit_plan_mode_request=unanswered)
    await talk.send(call("exit_plan_mode", summary="do it"), agent_mode="plan")
    await oblige(talk)


async def unanswered(*_: object) -> None:
    """A person who never looks."""
    await asyncio.Event().wait()


@scenario(TURN, ACKNOWLEDGED, {"before_stop", "after_stop"})
async def queued_prompts_and_a_cancel(home: Home) -> None:
    talk = await home.create()
    home.beside(talk.follow())
    waiting = [await talk.send(f"[[hold:{home.hold}]] first")]
    waiting += [await talk.send("[[text:second]]"), await talk.send("[[text:third]]")]
    await talk.event("assistant.turn_start")
    await talk.cancel(*waiting)
    await talk.event("session.idle")
    await talk.ask("[[text:after the cancel]]")


@scenario(TURN, ACKNOWLEDGED)
async def a_command_among_prompts(home: Home) -> None:
    talk = await home.create()
    home.beside(talk.follow())
    await talk.send("[[text:first]]")
    await talk.session.rpc.commands.enqueue(EnqueueCommandParams(command="/rename in the queue"))
    await talk.ask("[[text:second]]")


@scenario(TURN, ACKNOWLEDGED)
async def a_file_that_is_tracked(home: Home) -> None:
    talk = await home.create(enable_file_change_tracking=True)
    home.beside(talk.follow())
    await talk.send(call("create", path=str(home.path / "tracked"), file_text="new"))
    await oblige(talk)


@scenario(TURN, ACKNOWLEDGED)
async def steering(home: Home) -> None:
    talk = await home.create()
    home.beside(talk.follow())
    await talk.send(call("bash", command=home.counting("steered")))
    asked = await talk.event("permission.requested")
    await talk.send("rather like this", mode="immediate")
    await talk.answer(asked)
    await talk.event("session.idle")


@scenario(TURN, {"before_stop", "after_stop"})
async def a_command_that_will_not_end(home: Home) -> None:
    talk = await home.create()
    command = (
        f"[ -e {home.calm} ] || {{ trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM HUP; sleep 600' &); "
        f"sh -c 'trap \"\" TERM; sleep 600' & }}; {home.counting('stubborn')}; wait"
    )
    sent = await talk.send(call("bash", command=command, initial_wait=600))
    await talk.answer(await talk.event("permission.requested"))
    await until(lambda: home.run_counts().get("stubborn"), "the command")
    await talk.cancel(sent)
    await talk.event("session.idle")


@scenario(TURN, ACKNOWLEDGED)
async def two_clients(home: Home) -> None:
    first = await home.create(tools=[])
    client = await home.client()
    second = await home.resume(client, go_on=True)
    home.beside(second.follow())
    await first.send(call("lookup", n=1))
    await first.answer(await first.event("permission.requested"))
    await home.clients[0].force_stop()
    await second.answer(await second.event("external_tool.requested"))
    await second.event("session.idle")


@scenario({"before_delete", "after_delete"})
async def a_deletion(home: Home) -> None:
    client = await home.client()
    talk = await home.create(client)
    await talk.ask("[[text:soon gone]]")
    home.witness.deleting = True
    await client.delete_session(SESSION)
    home.witness.deleted = True


async def left_in_the_middle(home: Home) -> None:
    talk = await home.create()
    await talk.send(calls(("bash", {"command": home.counting("resumed")}), ("lookup", {"n": 1})))
    await talk.send("[[text:waited for its turn]]")
    await talk.event("permission.requested", 2)
    while await talk.read_on():
        pass


@scenario(TURN, ACKNOWLEDGED, {"after_acquire"}, past=left_in_the_middle)
async def a_session_that_is_continued(home: Home) -> None:
    talk = await home.resume(go_on=True)
    home.beside(talk.follow())
    history = [event.to_dict() for event in await talk.session.get_events()]
    for event in history:
        if event["type"] in REQUESTS:
            await talk.answer(event)
    await oblige(talk)


@scenario(TURN, ACKNOWLEDGED, {"after_acquire"}, past=left_in_the_middle)
async def a_session_that_starts_over(home: Home) -> None:
    talk = await home.resume(go_on=False)
    home.beside(talk.follow())
    await talk.ask("[[text:a new beginning]]")


@scenario({"during_import"}, is_command=True)
async def an_import(home: Home) -> None:
    """Three pages of events of another program."""
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


def import_again(home: Home, death: Death | None) -> bool:
    """Imports what `an_import` has written. Says whether the program died of its death."""
    done = home.command("sessions", "import", str(home.path / "events.jsonl"), death=death)
    home.witness.created |= done.returncode == 0
    return done.returncode == -9
