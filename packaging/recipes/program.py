"""Builds the program: for old glibc with zig as the linker, or for musl where Rust has that target."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

from .executable import Executable
from .job import ROOT, Skip, run

#: The oldest glibc that Rust supports: CentOS 7, Debian 8, Ubuntu 14.04.
OLDEST_GLIBC = "2.17"

#: Versions of the tools that link for it, from PyPI.
TOOLS = ["cargo-zigbuild==0.24.0", "ziglang==0.17.0"]


def host_machine() -> str:
    return {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())


def build_default(cache: Path, profile: str) -> Path:
    """Builds for this machine. On Linux, the program runs with any glibc since 2.17."""
    if sys.platform == "darwin":
        return cargo(["cargo", "build"], profile, f"{host_machine()}-apple-darwin")
    program = zigbuild(cache, profile, f"{host_machine()}-unknown-linux-gnu", f".{OLDEST_GLIBC}")
    needs = Executable.read(program).glibc or (0, 0)
    if needs > tuple(int(part) for part in OLDEST_GLIBC.split(".")):
        sys.exit(f"package: {program} needs glibc {needs[0]}.{needs[1]}, but was built for {OLDEST_GLIBC}")
    return program


def build_static(cache: Path, profile: str) -> Path:
    """Builds a program that needs no libc."""
    if sys.platform == "darwin":
        raise Skip("static programs are for Linux")
    target = f"{host_machine()}-unknown-linux-musl"
    if not has_target(target):
        raise Skip(f"this Rust toolchain has no {target}; install it with `rustup target add {target}`")
    return zigbuild(cache, profile, target)


def has_target(target: str) -> bool:
    directory = run(["rustc", "--print", "target-libdir", "--target", target]).strip()
    return any(Path(directory).glob("libstd-*"))


def zigbuild(cache: Path, profile: str, target: str, glibc: str = "") -> Path:
    """Builds with `zig cc` as C compiler and linker."""
    tools = install_tools(cache)
    path = f"{tools}:{os.environ['PATH']}"
    return cargo([str(tools / "cargo-zigbuild"), "zigbuild"], profile, target, glibc, PATH=path)


def install_tools(cache: Path) -> Path:
    """Installs the tools once, into a virtual environment. Returns the directory of its programs."""
    directory = cache / "zig"
    stamp = directory / "installed"
    if not stamp.exists() or stamp.read_text().split() != TOOLS:
        print(f"         installing {' and '.join(TOOLS)} into {directory}", flush=True)
        run([sys.executable, "-m", "venv", "--clear", directory])
        run([directory / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS])
        stamp.write_text("\n".join(TOOLS))
    return directory / "bin"


def cargo(command: list[str], profile: str, target: str, suffix: str = "", **environment: str) -> Path:
    """Runs cargo, which shows its own progress, and returns the program."""
    arguments = [*command, "--profile", profile, "--locked", "--package", "baton", "--target", target + suffix]
    if subprocess.run(arguments, cwd=ROOT, env={**os.environ, **environment}).returncode != 0:
        sys.exit(f"package: `{' '.join(arguments)}` failed")
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / target / profile / "baton"
