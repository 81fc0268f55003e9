"""What must hold when a server comes up again, whatever the last one died of. P1 to P7 are in docs/guarantees.md."""

from __future__ import annotations

import json
import re
from collections import Counter

from home import SESSION, Home
from scenarios import import_again
from support import processes_of, until
from witness import REQUESTS, Broken, Talk, Wire, open_requests

#: What begins has to end: pairs of events, and the field that pairs them.
PAIRS = [
    ("tool.execution_start", "tool.execution_complete", "toolCallId"),
    *((begin, end, "requestId") for begin, end in REQUESTS.items()),
    ("assistant.turn_start", "assistant.turn_end", "turnId"),
    # Questions, of which SDK clients are told, but which their histories do not have.
    ("baton.request_opened", "baton.request_closed", "requestId"),
]

#: What says how a request was answered.
CLOSING = {*REQUESTS.values(), "baton.request_closed"}

LAST_PROMPT = "[[text:still here]]"


def hold(true: object, message: str) -> None:
    if not true:
        raise Broken(message)


async def come_back(home: Home, go_on: bool) -> None:
    """A new server is up. Clients come back to what they left, and bring everything to its end."""
    await nothing_left_running(home)
    home.model.release(home.hold)
    home.calm.touch()
    client = await home.client()
    if SESSION not in {metadata.session_id for metadata in await client.list_sessions()}:
        return await begin_anew(home, client)
    hold(not home.witness.deleted, "P1: the deletion was acknowledged, and the session is there")
    home.witness.created = True
    handlers = {"on_user_input_request": decided, "on_exit_plan_mode_request": approved}
    talk = await home.resume(client, go_on=go_on, **handlers)
    # The queue first: prompts only ever move from there to the history.
    queue = await talk.session.rpc.queue.pending_items()
    seen = [list(events) for events in home.witness.seen]
    history = [event.to_dict() for event in await talk.session.get_events()]
    waiting = {item.id for item in queue.items}
    # Prompts that steer are listed by their text.
    waiting |= {name for name, text in home.witness.prompts.items() if text in queue.steering_messages}
    one_order(seen, history)
    acknowledged_is_there(home, history, waiting)
    await pending_or_finished(talk, history, go_on)
    await finish(talk)
    while await talk.read_on():
        pass
    history = [event.to_dict() for event in await talk.session.get_events()]
    one_order(home.witness.seen, history)
    ids = [event["id"] for event in history]
    # The reader may be a page behind; what it has is the beginning of all there is, each event once.
    hold(home.witness.read == ids[: len(home.witness.read)], "P2: the reader with the cursor read something else")
    hold(len(home.witness.read) >= len(ids) - 2, f"P2: the reader has {len(home.witness.read)} of {len(ids)} events")


async def decided(*_: object) -> dict[str, object]:
    return {"answer": "found after the crash", "wasFreeform": True}


async def approved(*_: object) -> dict[str, object]:
    return {"approved": True, "feedback": "found after the crash"}


async def begin_anew(home: Home, client: object) -> None:
    """There is no session. That is right only if nobody was told that there is one."""
    hold(not home.witness.created or home.witness.deleting, "P1: the session was acknowledged, and is gone")
    home.witness.__init__()
    talk = await home.create(client)
    await talk.ask(LAST_PROMPT)


async def nothing_left_running(home: Home) -> None:
    """P6, as soon as a server runs again."""
    others = lambda: {  # noqa: E731
        pid: command for pid, command in processes_of(home.home).items() if pid != home.server.process.pid
    }
    try:
        await until(lambda: not others(), "the end of what was left behind")
    except AssertionError:
        raise Broken(f"P6: still running: {others()}") from None


def one_order(seen_by_clients: list[list[Wire]], history: list[Wire]) -> None:
    """P2: one chain of events; whatever any client saw of it, it saw in that order and without a gap."""
    parent = None
    for event in history:
        hold(event.get("parentId") == parent, f"P2: {event['type']} {event['id']} does not follow {parent}")
        parent = event["id"]
    place = {event["id"]: number for number, event in enumerate(history)}
    hold(len(place) == len(history), "P2: an event is there twice")
    for seen in seen_by_clients:
        unknown = [event["type"] for event in seen if event["id"] not in place]
        hold(not unknown, f"P2: a client saw {unknown}, and that is not in the history")
        places = [place[event["id"]] for event in seen]
        whole = list(range(places[0], places[0] + len(places))) if places else []
        hold(places == whole, f"P2: a client saw the events {places} of the history")


def acknowledged_is_there(home: Home, history: list[Wire], waiting: set[str]) -> None:
    """P1: prompts, answers and cancels."""
    witness = home.witness
    heard = {event["data"].get("messageId") for event in history}
    lost = [prompt for name, prompt in witness.prompts.items() if name not in heard | waiting]
    hold(not lost, f"P1: the prompts {lost} were acknowledged, and are lost")
    lost = set(witness.answers) & set(open_requests(history))
    hold(not lost, f"P1: the answers to {lost} were acknowledged, and are lost")
    if witness.cancelled:
        hold(any(event["type"] == "abort" for event in history), "P1: the cancel was acknowledged, and is lost")
        hold(not witness.cancelled & waiting, "P1: a cancelled prompt still waits")


async def pending_or_finished(talk: Talk, history: list[Wire], go_on: bool) -> None:
    """P3: what was asked is closed, or can be answered under the name that it had."""
    still_open = open_requests(history)
    hold(go_on or not still_open, f"P3: pending, though nobody wanted to go on: {list(still_open.values())}")
    for request in still_open.values():
        hold(await talk.answer(request, "found after the crash"), f"P3: cannot be answered: {request}")
    for event in history:
        if event["type"] in REQUESTS and event["data"]["requestId"] not in still_open:
            answers = dict(talk.witness.answers)
            hold(not await talk.answer(event), f"P3: a second answer counted: {event}")
            talk.witness.answers = answers


async def finish(talk: Talk) -> None:
    """Sends a last prompt, and answers whatever is asked until its turn is over."""
    last = await talk.send(LAST_PROMPT)
    answered: set[str] = set()
    while not is_over(talk.events, last):
        asked = (event for event in talk.events if event["type"] in REQUESTS)
        new = [event for event in asked if event["data"]["requestId"] not in answered | set(talk.witness.answers)]
        for event in new:
            answered.add(event["data"]["requestId"])
            await talk.answer(event, "found after the crash")
        if not new:
            await talk.news()


def is_over(events: list[Wire], prompt: str) -> bool:
    """Whether the session has come to rest after this prompt entered the history."""
    kinds = [(event["type"], event["data"].get("messageId")) for event in events]
    entered = next((place for place, kind in enumerate(kinds) if kind == ("user.message", prompt)), None)
    return entered is not None and any(kind == "session.idle" for kind, _ in kinds[entered:])


def at_rest(home: Home) -> None:
    """The last server has ended in order. What it leaves on the disk is whole."""
    hold(not processes_of(home.home), f"P6: still running: {processes_of(home.home)}")
    exported = home.command("sessions", "export", SESSION)
    hold(exported.returncode == 0, f"P7: the history does not open: {exported.stderr}")
    events = [json.loads(line) for line in exported.stdout.splitlines()]
    one_outcome_each(home, events)
    every_answer_counted(home, events)
    every_beginning_has_an_end(events)
    nothing_ran_twice(home, events)
    mirror = home.home / "session-state" / SESSION / "events.jsonl"
    public = [event["id"] for event in events if not event["type"].startswith("baton.")]
    mirrored = [json.loads(line)["id"] for line in mirror.read_text().splitlines()]
    hold(mirrored == public, f"events.jsonl has {len(mirrored)} events, the history has {len(public)}")


def one_outcome_each(home: Home, events: list[Wire]) -> None:
    """P5, and P1 for what was cancelled."""
    accepted = [event["data"]["promptId"] for event in events if event["type"] == "baton.prompt_accepted"]
    outcomes = [
        (prompt, event["data"]["outcome"], event["data"]["reason"])
        for event in events
        if event["type"] == "baton.turn_settled"
        for prompt in event["data"]["promptIds"]
    ]
    counts = Counter(prompt for prompt, _, _ in outcomes)
    hold(len(set(accepted)) == len(accepted), "P5: a prompt was accepted twice")
    hold(counts == Counter(accepted), f"P5: {accepted} were accepted, and these ended: {outcomes}")
    hold(all(reason for _, _, reason in outcomes), f"P5: an outcome without a reason: {outcomes}")
    hold(set(home.witness.prompts) <= set(accepted), "P1: an acknowledged prompt is not in the history")
    wrong = [each for each in outcomes if each[0] in home.witness.cancelled and each[1] != "cancelled"]
    hold(not wrong, f"P1: cancelled, and yet {wrong}")


def every_answer_counted(home: Home, events: list[Wire]) -> None:
    """P1: what was answered is what the history says, and nothing else."""
    closing = {event["data"]["requestId"]: event for event in events if event["type"] in CLOSING}
    results = {event["data"]["toolCallId"]: event for event in events if event["type"] == "tool.execution_complete"}
    for name, answer in home.witness.answers.items():
        hold(name in closing, f"P1: the answer {answer} to {name} was acknowledged, and is lost")
        said = json.dumps(closing[name]["data"])
        if closing[name]["type"] == "external_tool.completed":
            said = json.dumps(results[closing[name]["data"].get("toolCallId") or call_of(events, name)]["data"])
        hold(answer in said, f"P1: {name} was answered with {answer}, and the history says {said}")


def call_of(events: list[Wire], request: str) -> str:
    """The tool call that a request is about."""
    return next(
        event["data"]["toolCallId"]
        for event in events
        if event["type"] in REQUESTS and event["data"]["requestId"] == request
    )


def every_beginning_has_an_end(events: list[Wire]) -> None:
    """P3, P4, P5: whatever began has ended, once."""
    for begin, end, field in PAIRS:
        begun = Counter(event["data"].get(field) for event in events if event["type"] == begin)
        ended = Counter(event["data"].get(field) for event in events if event["type"] == end)
        hold(begun == ended, f"{begin} and {end} do not match: {begun} and {ended}")


def nothing_ran_twice(home: Home, events: list[Wire]) -> None:
    """P4: no command was run twice, and what is said to have succeeded was run."""
    runs = home.run_counts()
    hold(all(count == 1 for count in runs.values()), f"P4: run more than once: {runs}")
    succeeded = {event["data"]["toolCallId"] for event in events if completed_well(event)}
    for event in events:
        if event["type"] != "tool.execution_start" or event["data"]["toolCallId"] not in succeeded:
            continue
        command = (event["data"].get("arguments") or {}).get("command", "")
        for name in re.findall(r"echo ran >> \S*/([\w-]+)", command):
            hold(runs.get(name) == 1, f"P4: said to have succeeded, and was not run: {name}")


def completed_well(event: Wire) -> bool:
    return event["type"] == "tool.execution_complete" and event["data"]["success"]


def imported(home: Home) -> None:
    """An import that died can be made again, and is whole then."""
    if not home.witness.created:
        hold(not import_again(home, None) and home.witness.created, "an import cannot be made again after it died")
    exported = home.command("sessions", "export", SESSION)
    given = (home.path / "events.jsonl").read_text().splitlines()
    hold(len(exported.stdout.splitlines()) == len(given), "P1: events are missing after an import")
