"""The machine under all figures: what it is, and what else it was doing meanwhile."""

import os
import platform
import time
from pathlib import Path

QUIET_LOAD = 0.5


def describe():
    """What it was measured on."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "unknown")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "date": time.strftime("%Y-%m-%d"),
    }


def wait_until_quiet(minutes, say):
    """Waits for other programs, the worst enemies of every figure here; but not for ever."""
    deadline = time.monotonic() + 60 * minutes
    while (load := os.getloadavg()[0]) > QUIET_LOAD:
        if time.monotonic() > deadline:
            say(f"the machine is busy (load {load:.1f}); the figures will be off.")
            return
        time.sleep(5)


class Others:
    """How much processor time everything takes that was not started from here."""

    def __init__(self):
        self.start = time.monotonic(), all_seconds(), own_seconds()

    def share(self):
        """The part of all processors that others had so far. Ask when all own children have ended."""
        began, everything, own = self.start
        theirs = (all_seconds() - everything) - (own_seconds() - own)
        return max(0.0, theirs / ((time.monotonic() - began) * (os.cpu_count() or 1)))


def all_seconds():
    """Processor time of everything on this machine."""
    user, nice, system, _idle, _waiting, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """Processor time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
