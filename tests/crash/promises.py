"""Checks of the promises P1 to P7 of docs/guarantees.md, after a server was killed and started again."""

from __future__ import annotations

import json
import re
from collections import Counter

from home import SESSION, Home
from scenarios import run_import
from support import processes_of, until
from witness import REQUESTS, BrokenPromise, ClientSession, Event, open_requests

#: Pairs of events that start and end something, and the field that identifies it.
PAIRS = [
    ("tool.execution_start", "tool.execution_complete", "toolCallId"),
    *((begin, end, "requestId") for begin, end in REQUESTS.items()),
    ("assistant.turn_start", "assistant.turn_end", "turnId"),
    # Internal events, which are not in the history of SDK clients.
    ("baton.request_opened", "baton.request_closed", "requestId"),
]

#: Events that close a request.
CLOSING = {*REQUESTS.values(), "baton.request_closed"}

LAST_PROMPT = "[[text:still here]]"


def check(condition: object, message: str) -> None:
    if not condition:
        raise BrokenPromise(message)


async def check_recovery(home: Home, continue_work: bool) -> None:
    """Checks a new server: a client resumes the session, compares it with the witness and finishes all work."""
    await check_processes(home)
    home.model.release(home.hold)
    home.well_behaved.touch()
    client = await home.client()
    if SESSION not in {metadata.session_id for metadata in await client.list_sessions()}:
        return await check_missing_session(home, client)
    check(not home.witness.deleted, "P1: the deletion was acknowledged, but the session still exists")
    home.witness.created = True
    handlers = {"on_user_input_request": answer_input, "on_exit_plan_mode_request": approve_plan}
    chat = await home.resume(client, continue_work=continue_work, **handlers)
    # The queue is read first: prompts move only from the queue to the history.
    queue = await chat.session.rpc.queue.pending_items()
    seen = [list(events) for events in home.witness.seen]
    history = [event.to_dict() for event in await chat.session.get_events()]
    queued = {item.id for item in queue.items}
    # Steering prompts are listed by their text.
    queued |= {name for name, text in home.witness.prompts.items() if text in queue.steering_messages}
    check_order(seen, history)
    check_acknowledged(home, history, queued)
    await check_pending_requests(chat, history, continue_work)
    await finish(chat)
    while await chat.read_page():
        pass
    history = [event.to_dict() for event in await chat.session.get_events()]
    check_order(home.witness.seen, history)
    ids = [event["id"] for event in history]
    # The reader may be a page behind, but must have read a prefix of the history, each event once.
    check(home.witness.read == ids[: len(home.witness.read)], "P2: the reader with the cursor read different events")
    check(len(home.witness.read) >= len(ids) - 2, f"P2: the reader has {len(home.witness.read)} of {len(ids)} events")


async def answer_input(*_: object) -> dict[str, object]:
    return {"answer": "found after the crash", "wasFreeform": True}


async def approve_plan(*_: object) -> dict[str, object]:
    return {"approved": True, "feedback": "found after the crash"}


async def check_missing_session(home: Home, client: object) -> None:
    """The session does not exist, which is correct only if its creation was not acknowledged. Creates it again."""
    may_be_missing = not home.witness.created or home.witness.deleting
    check(may_be_missing, "P1: the creation was acknowledged, but the session is missing")
    home.witness.__init__()
    chat = await home.create(client)
    await chat.ask(LAST_PROMPT)


async def check_processes(home: Home) -> None:
    """P6: once a server runs again, no process of the killed one is left."""
    others = lambda: {  # noqa: E731
        pid: command for pid, command in processes_of(home.home).items() if pid != home.server.process.pid
    }
    try:
        await until(lambda: not others(), "the end of left-over processes")
    except AssertionError:
        raise BrokenPromise(f"P6: still running: {others()}") from None


def check_order(seen_by_clients: list[list[Event]], history: list[Event]) -> None:
    """P2: the history is one chain of events, and every client saw a part of it in order and without gaps."""
    parent = None
    for event in history:
        check(event.get("parentId") == parent, f"P2: {event['type']} {event['id']} does not follow {parent}")
        parent = event["id"]
    position = {event["id"]: number for number, event in enumerate(history)}
    check(len(position) == len(history), "P2: an event occurs twice")
    for seen in seen_by_clients:
        unknown = [event["type"] for event in seen if event["id"] not in position]
        check(not unknown, f"P2: a client saw {unknown}, which are not in the history")
        positions = [position[event["id"]] for event in seen]
        expected = list(range(positions[0], positions[0] + len(positions))) if positions else []
        check(positions == expected, f"P2: a client saw events {positions} of the history")


def check_acknowledged(home: Home, history: list[Event], queued: set[str]) -> None:
    """P1: acknowledged prompts, answers and cancels are not lost."""
    witness = home.witness
    started = {event["data"].get("messageId") for event in history}
    lost = [prompt for name, prompt in witness.prompts.items() if name not in started | queued]
    check(not lost, f"P1: lost acknowledged prompts: {lost}")
    lost = set(witness.answers) & set(open_requests(history))
    check(not lost, f"P1: lost acknowledged answers to {lost}")
    if witness.cancelled:
        check(any(event["type"] == "abort" for event in history), "P1: lost an acknowledged cancel")
        check(not witness.cancelled & queued, "P1: a cancelled prompt is still queued")


async def check_pending_requests(chat: ClientSession, history: list[Event], continue_work: bool) -> None:
    """P3: every request is closed, or can be answered under its old id."""
    still_open = open_requests(history)
    check(continue_work or not still_open, f"P3: pending, though discarded: {list(still_open.values())}")
    for request in still_open.values():
        check(await chat.answer(request, "found after the crash"), f"P3: cannot be answered: {request}")
    for event in history:
        if event["type"] in REQUESTS and event["data"]["requestId"] not in still_open:
            answers = dict(chat.witness.answers)
            check(not await chat.answer(event), f"P3: a second answer counted: {event}")
            chat.witness.answers = answers


async def finish(chat: ClientSession) -> None:
    """Sends a last prompt and answers all requests until its turn has ended."""
    last = await chat.send(LAST_PROMPT)
    answered: set[str] = set()
    while not is_finished(chat.events, last):
        asked = (event for event in chat.events if event["type"] in REQUESTS)
        new = [event for event in asked if event["data"]["requestId"] not in answered | set(chat.witness.answers)]
        for event in new:
            answered.add(event["data"]["requestId"])
            await chat.answer(event, "found after the crash")
        if not new:
            await chat.next_event()


def is_finished(events: list[Event], prompt: str) -> bool:
    """Whether the session became idle after this prompt entered the history."""
    kinds = [(event["type"], event["data"].get("messageId")) for event in events]
    entered = next((index for index, kind in enumerate(kinds) if kind == ("user.message", prompt)), None)
    return entered is not None and any(kind == "session.idle" for kind, _ in kinds[entered:])


def check_after_shutdown(home: Home) -> None:
    """Checks the data on disk after the last server has shut down."""
    check(not processes_of(home.home), f"P6: still running: {processes_of(home.home)}")
    exported = home.command("sessions", "export", SESSION)
    check(exported.returncode == 0, f"P7: cannot export the history: {exported.stderr}")
    events = [json.loads(line) for line in exported.stdout.splitlines()]
    check_outcomes(home, events)
    check_answers(home, events)
    check_pairs(events)
    check_single_execution(home, events)
    mirror = home.home / "session-state" / SESSION / "events.jsonl"
    public = [event["id"] for event in events if not event["type"].startswith("baton.")]
    mirrored = [json.loads(line)["id"] for line in mirror.read_text().splitlines()]
    check(mirrored == public, f"events.jsonl has {len(mirrored)} events, the history has {len(public)}")


def check_outcomes(home: Home, events: list[Event]) -> None:
    """P5: every accepted prompt has one outcome. P1: cancelled prompts are cancelled."""
    accepted = [event["data"]["promptId"] for event in events if event["type"] == "baton.prompt_accepted"]
    outcomes = [
        (prompt, event["data"]["outcome"], event["data"]["reason"])
        for event in events
        if event["type"] == "baton.turn_settled"
        for prompt in event["data"]["promptIds"]
    ]
    counts = Counter(prompt for prompt, _, _ in outcomes)
    check(len(set(accepted)) == len(accepted), "P5: a prompt was accepted twice")
    check(counts == Counter(accepted), f"P5: accepted prompts {accepted} have the outcomes {outcomes}")
    check(all(reason for _, _, reason in outcomes), f"P5: an outcome without a reason: {outcomes}")
    check(set(home.witness.prompts) <= set(accepted), "P1: an acknowledged prompt is not in the history")
    wrong = [each for each in outcomes if each[0] in home.witness.cancelled and each[1] != "cancelled"]
    check(not wrong, f"P1: cancelled prompts with other outcomes: {wrong}")


def check_answers(home: Home, events: list[Event]) -> None:
    """P1: the history contains exactly the acknowledged answers."""
    closing = {event["data"]["requestId"]: event for event in events if event["type"] in CLOSING}
    results = {event["data"]["toolCallId"]: event for event in events if event["type"] == "tool.execution_complete"}
    for name, answer in home.witness.answers.items():
        check(name in closing, f"P1: lost the acknowledged answer {answer} to {name}")
        recorded = json.dumps(closing[name]["data"])
        if closing[name]["type"] == "external_tool.completed":
            recorded = json.dumps(results[closing[name]["data"].get("toolCallId") or call_of(events, name)]["data"])
        check(answer in recorded, f"P1: {name} was answered with {answer}, but the history has {recorded}")


def call_of(events: list[Event], request: str) -> str:
    """Returns the tool call of a request."""
    return next(
        event["data"]["toolCallId"]
        for event in events
        if event["type"] in REQUESTS and event["data"]["requestId"] == request
    )


def check_pairs(events: list[Event]) -> None:
    """P3, P4, P5: everything that started has ended exactly once."""
    for start, end, field in PAIRS:
        started = Counter(event["data"].get(field) for event in events if event["type"] == start)
        ended = Counter(event["data"].get(field) for event in events if event["type"] == end)
        check(started == ended, f"{start} and {end} do not match: {started} and {ended}")


def check_single_execution(home: Home, events: list[Event]) -> None:
    """P4: no command ran twice, and every command that is recorded as successful ran."""
    runs = home.run_counts()
    check(all(count == 1 for count in runs.values()), f"P4: run more than once: {runs}")
    succeeded = {event["data"]["toolCallId"] for event in events if has_succeeded(event)}
    for event in events:
        if event["type"] != "tool.execution_start" or event["data"]["toolCallId"] not in succeeded:
            continue
        command = (event["data"].get("arguments") or {}).get("command", "")
        for name in re.findall(r"echo ran >> \S*/([\w-]+)", command):
            check(runs.get(name) == 1, f"P4: recorded as successful, but did not run: {name}")


def has_succeeded(event: Event) -> bool:
    return event["type"] == "tool.execution_complete" and event["data"]["success"]


def imported(home: Home) -> None:
    """An import that was killed can be repeated, and is complete then."""
    if not home.witness.created:
        check(not run_import(home, None) and home.witness.created, "a killed import cannot be repeated")
    exported = home.command("sessions", "export", SESSION)
    given = (home.path / "events.jsonl").read_text().splitlines()
    check(len(exported.stdout.splitlines()) == len(given), "P1: events are missing after an import")
