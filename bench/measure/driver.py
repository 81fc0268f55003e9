"""The calls of an SDK to a runtime: connect, create a session, run a turn."""

import uuid

from .wire import timed

# Forty words: a short answer that is still streamed in many deltas.
ANSWER = " ".join(f"word{n}" for n in range(40))
PROMPT = f"Say it. [[text:{ANSWER}]]"


def connect(wire):
    """Performs the handshake of all SDKs."""
    reply = wire.call("connect", {})
    if reply.get("protocolVersion") != 3:
        raise RuntimeError(f"not a runtime that speaks protocol 3: {reply}")


def session_params(session, streaming=False):
    """Returns the parameters that the Python SDK sends for a session without settings."""
    return {
        "sessionId": session,
        "toolFilterPrecedence": "excluded",
        "requestPermission": True,
        "requestElicitation": False,
        "requestExitPlanMode": False,
        "requestAutoModeSwitch": False,
        "includeSubAgentStreamingEvents": True,
        "envValueMode": "direct",
        "streaming": streaming,
    }


def create(wire, streaming=False, **settings):
    """Creates a session. Returns its id."""
    session = str(uuid.uuid4())
    wire.call("session.create", session_params(session, streaming) | settings)
    return session


def timed_create(wire, **settings):
    """Creates a session. Returns how long that took, in milliseconds, without encoding the request."""
    encoded = wire.encoded("session.create", session_params(str(uuid.uuid4()), False) | settings)
    return timed(lambda: wire.wait_for(wire.send(encoded)))[0]


def turn(wire, session, prompt=PROMPT):
    """Sends a prompt and waits until the session is idle."""
    wire.call("session.send", {"sessionId": session, "prompt": prompt})
    wire.wait_for_event("session.idle")


def checked_turn(wire, session):
    """Runs a turn and checks the answer: an error would be fast as well."""
    wire.call("session.send", {"sessionId": session, "prompt": PROMPT})
    answer = wire.wait_for_event("assistant.message")["data"]["content"]
    if answer != ANSWER:
        raise RuntimeError(f"expected the model's forty words, got {answer!r}")
    wire.wait_for_event("session.idle")
