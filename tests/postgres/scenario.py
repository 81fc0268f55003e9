"""Scenarios with several servers: how one is declared, and what all of them look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from servers import World

Scenario = Callable[[World], Awaitable[None]]
SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


def types(chat) -> list[str]:
    return [event["type"] for event in chat.events]


def process_runs(pid: str) -> bool:
    """Whether a process runs. A zombie does not; nobody may reap it here."""
    try:
        return Path("/proc", pid, "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
