"""A runtime as a process: started as SDKs start it, in a temporary home, and observed through /proc."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .wire import Wire

# The flags with which all SDKs start a runtime.
SDK_FLAGS = ["--headless", "--no-auto-update", "--log-level", "info"]
TOKEN_FLAGS = ["--auth-token-env", "COPILOT_SDK_AUTH_TOKEN", "--no-auto-login"]

# No server listens there: requests to other machines fail at once.
DEAD_PROXY = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Runtime:
    """A program to measure."""

    name: str
    version: str
    program: Path
    disk_bytes: int
    # Where the program unpacks itself. Shared by all its processes, so that only the first start unpacks.
    cache: Path


@dataclass(frozen=True)
class Endpoints:
    """Addresses of the model and of the GitHub API."""

    model: str
    github: str


class Process:
    """A running runtime. As a context manager, it stops the process and removes its home at the end."""

    def __init__(self, runtime, endpoints, scratch, home=None, tcp=False):
        self.own_home = home is None
        self.home = home or Path(tempfile.mkdtemp(prefix=f"{runtime.name}-", dir=scratch))
        # Outside of this repository: programs look for a repository, at different cost.
        self.work = tempfile.mkdtemp(prefix="bench-work-")
        self.stderr = open(self.home / "stderr.log", "ab")
        self.spawned = time.perf_counter_ns()
        self.child = subprocess.Popen(
            [runtime.program, *SDK_FLAGS, *TOKEN_FLAGS, *(["--port", "0"] if tcp else ["--stdio"])],
            stdin=subprocess.DEVNULL if tcp else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            cwd=self.work,
            env=environment(self.home, runtime.cache, endpoints),
            bufsize=0,
            start_new_session=True,
        )
        self.pid = self.child.pid
        self.wire = None if tcp else Wire(self.child.stdout.fileno(), self.child.stdin.fileno())

    def port(self):
        """Returns the port of a runtime that was started with `tcp`."""
        line = self.child.stdout.readline().decode()
        found = re.search(r"listening on port (\d+)", line)
        if not found:
            raise RuntimeError(f"no port in {line!r}; see {self.home}/stderr.log")
        return int(found[1])

    def stop(self):
        """Stops the process by closing its stdin, or by force, and removes its directories."""
        if self.child.stdin:
            self.child.stdin.close()
        else:
            self.child.terminate()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self.child.wait()
        self.child.stdout.close()
        self.stderr.close()
        shutil.rmtree(self.work, ignore_errors=True)
        if self.own_home:
            shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.stop()

    def memory(self, descendants=True):
        """Returns PSS and RSS of the process and its descendants, in kilobytes."""
        pss = rss = 0
        for pid in tree(self.pid) if descendants else [self.pid]:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
                pss += int(re.search(r"^Pss:\s+(\d+)", text, re.M)[1])
                rss += int(re.search(r"^Rss:\s+(\d+)", text, re.M)[1])
        return {"pss": pss, "rss": rss}

    def cpu_seconds(self):
        """Returns the processor time of all threads, from the scheduler: in nanoseconds instead of ticks."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def environment(home, cache, endpoints):
    """Returns the variables of the official SDKs' test harness. Nothing is inherited except PATH."""
    return {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "COPILOT_HOME": str(home / "state"),
        "GH_CONFIG_DIR": str(home / "state"),
        "XDG_CACHE_HOME": str(cache),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "xdg-state"),
        "COPILOT_API_URL": endpoints.model,
        "COPILOT_DEBUG_GITHUB_API_URL": endpoints.github,
        "COPILOT_SDK_AUTH_TOKEN": "a-fake-token-for-measuring",
        "HTTP_PROXY": DEAD_PROXY,
        "HTTPS_PROXY": DEAD_PROXY,
        "NO_PROXY": "127.0.0.1,localhost,::1",
    }


def tree(pid):
    """Returns a process and its descendants."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, children.read_text().split())
    return found
