"""What recipes share: the program to package, where to put packages, and helpers to run and to check things."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .executable import Executable

ROOT = Path(__file__).resolve().parent.parent.parent
SUMMARY = "Agent session server: watch, steer, approve and take over AI agent sessions"
LICENSES = ("LICENSE-APACHE", "LICENSE-MIT")


class Skip(Exception):
    """A package that cannot be built or tested here. The message says why."""


@dataclass
class Job:
    """One program that is packaged."""

    program: Path
    out: Path
    cache: Path
    fast: bool = False  #: whether to compress quickly rather than well

    @cached_property
    def executable(self) -> Executable:
        return Executable.read(self.program)

    @cached_property
    def manifest(self) -> dict[str, object]:
        return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]

    @property
    def version(self) -> str:
        return str(self.manifest["version"])

    @property
    def level(self) -> int:
        """Level of compression."""
        return 1 if self.fast else 9

    @property
    def repository(self) -> str:
        return str(self.manifest["repository"])

    @cached_property
    def date(self) -> int:
        """The time of the files in packages: of the commit, so that the same sources give the same bytes."""
        if given := os.environ.get("SOURCE_DATE_EPOCH"):
            return int(given)
        shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
        return int(shown.stdout.strip() or 0)

    def check_program(self) -> None:
        """Checks that the program runs here and has the version of the sources."""
        printed = run([self.program, "--version"]).strip()
        if printed != f"baton {self.version}":
            sys.exit(f"package: {self.program} is “{printed}”, but the sources are version {self.version}")

    def install_tree(self, prefix: Path) -> None:
        """Writes the program, its completions and manual pages as they are below /usr/local."""
        share = prefix / "share"
        for directory in ("bin", "share/man/man1", "share/doc/baton"):
            (prefix / directory).mkdir(parents=True)
        shutil.copyfile(self.program, prefix / "bin/baton")
        (prefix / "bin/baton").chmod(0o755)
        run([self.program, "man", share / "man/man1"])
        completions = {
            "bash": "bash-completion/completions/baton",
            "zsh": "zsh/site-functions/_baton",
            "fish": "fish/vendor_completions.d/baton.fish",
        }
        for shell, file in completions.items():
            (share / file).parent.mkdir(parents=True)
            (share / file).write_text(run([self.program, "completions", shell]))
        for name in (*LICENSES, "CHANGELOG.md"):
            shutil.copyfile(ROOT / name, share / "doc/baton" / name)

    def archive(self, tree: Path, file: Path, *, under: str) -> Path:
        """Packs what is in a directory, under a name or ".", with fixed owners, times and order."""

        def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            member.mtime = self.date
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        packer = subprocess.Popen(["gzip", f"-{self.level}n"], stdin=subprocess.PIPE, stdout=file.open("wb"))
        with tarfile.open(fileobj=packer.stdin, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for path in [tree, *sorted(tree.rglob("*"))]:
                tar.add(path, Path(under, path.relative_to(tree)), recursive=False, filter=plain)
        packer.stdin.close()
        if packer.wait() != 0:
            sys.exit(f"package: gzip failed to write {file}")
        return file


def run(command: list[object], *, inside: Path | None = None, **environment: str) -> str:
    """Runs a command and returns its standard output. Ends the program with the command's output if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=inside, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"package: `{' '.join(words)}` failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout


def need(program: str, reason: str) -> str:
    """Finds a program, or skips the package."""
    if found := shutil.which(program):
        return found
    raise Skip(f"{program} is not installed; {reason}")


def with_root() -> list[str]:
    """Words before a command that gives files to root: a user namespace or fakeroot, if this is another user."""
    if os.geteuid() == 0:
        return []
    for words in (["unshare", "--map-root-user"], ["fakeroot"]):
        if shutil.which(words[0]) and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            return words
    raise Skip("installing the package needs root, user namespaces or fakeroot")


def check(condition: bool, message: str) -> None:
    if not condition:
        raise SystemExit(f"package: {message}")


def check_installed(program: list[object], job: Job, **environment: str) -> None:
    """Uses an installed program as its user would: its version, and a turn of the demo model that runs a command."""
    with clean_directory() as home:
        used = {"HOME": str(home), "BATON_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home)} | environment
        version = run([*program, "--version"], inside=home, **used).strip()
        check(version == f"baton {job.version}", f"{program[0]} prints “{version}”")
        answer = run([*program, "run", "--demo", "--yes", "run echo installed and working"], inside=home, **used)
        check("installed and working" in answer.split("returned:")[-1], f"{program[0]} answered: {answer}")


@contextmanager
def clean_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="baton-package-") as directory:
        yield Path(directory)


class Progress:
    """Prints what happens, one line for each step, with its time."""

    @contextmanager
    def step(self, kind: str, what: str) -> Iterator[None]:
        start = time.monotonic()
        print(f"{kind:<8} {what} …", flush=True)
        try:
            yield
        except Skip as reason:
            print(f"{kind:<8} SKIPPED: {reason}", flush=True)
            raise
        print(f"{kind:<8} {what}: {time.monotonic() - start:.1f} s", flush=True)
