"""The machine of the measurements, and its load by other programs."""

import os
import platform
import time
from pathlib import Path

IDLE_LOAD = 0.5


def describe():
    """Describes the machine."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "unknown")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "date": time.strftime("%Y-%m-%d"),
    }


def wait_until_idle(minutes, say):
    """Waits until other programs are idle, up to a limit."""
    deadline = time.monotonic() + 60 * minutes
    while (load := os.getloadavg()[0]) > IDLE_LOAD:
        if time.monotonic() > deadline:
            say(f"the machine is busy (load {load:.1f}); the figures will be inaccurate.")
            return
        time.sleep(5)


class BackgroundLoad:
    """Processor time of programs that were not started by the benchmark."""

    def __init__(self):
        self.start = time.monotonic(), all_seconds(), own_seconds()

    def share(self):
        """Returns the share of all processors that other programs have used. Call it after all children have exited."""
        start, everything, own = self.start
        theirs = (all_seconds() - everything) - (own_seconds() - own)
        return max(0.0, theirs / ((time.monotonic() - start) * (os.cpu_count() or 1)))


def all_seconds():
    """Returns the processor time of all programs on this machine."""
    user, nice, system, _idle, _waiting, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """Returns the processor time of this process and of its children that have exited."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
