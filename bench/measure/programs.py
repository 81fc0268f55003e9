"""Where the programs under test come from: Baton is built, the official runtime is installed with npm."""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from .process import Runtime

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "bench"
PEER_VERSION = "1.0.81"


class Unavailable(Exception):
    """A program is not there, and why."""


def build(*arguments):
    """Builds something of this workspace for release."""
    if subprocess.run(["cargo", "build", "--release", "--quiet", *arguments], cwd=ROOT).returncode:
        raise Unavailable("cargo build failed; see above. `--no-build` measures what is there already.")


def target():
    """Where cargo puts what it builds for release."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


def baton(program=None):
    """Baton as it was built, or another build of it."""
    program = Path(program or target() / "baton").resolve()
    if not program.exists():
        raise Unavailable(f"{program} is not there; run without --no-build.")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()[-1]
    return Runtime("baton", version, program, program.stat().st_size, CACHE / "baton-cache")


def scripted_model():
    """The scripted model server of baton-testkit."""
    return target() / "baton-scripted-model"


def official(version=PEER_VERSION, program=None):
    """The official runtime's native binary, installed into .cache/bench unless one is given."""
    program = Path(program).resolve() if program else install(version)
    if not os.access(program, os.X_OK):
        raise Unavailable(f"{program} is not an executable file.")
    package = json.loads((program.parent / "package.json").read_text())
    cache = CACHE / f"official-{package['version']}-cache"
    return Runtime("official", package["version"], program, disk_bytes(program.parent), cache)


def install(version):
    """Installs this platform's package with npm. The native binary is in it, and needs no Node to run."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    name = f"@github/copilot-linux-{machine}"
    prefix = CACHE / f"official-{version}"
    program = prefix / "node_modules" / name / "copilot"
    if program.exists():
        return program
    if not shutil.which("npm"):
        raise Unavailable("npm is not on the PATH.")
    prefix.mkdir(parents=True, exist_ok=True)
    options = ["--no-audit", "--no-fund", "--no-save", "--loglevel=error", "--prefix", prefix]
    done = subprocess.run(["npm", "install", *options, f"{name}@{version}"], capture_output=True, text=True)
    if done.returncode or not program.exists():
        shutil.rmtree(prefix, ignore_errors=True)
        reason = (done.stderr.strip().splitlines() or ["the package has no native binary"])[0]
        raise Unavailable(f"npm could not install {name}@{version}: {reason}")
    return program


def disk_bytes(directory):
    """What a directory holds, in bytes."""
    files = (path for path in Path(directory).rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)


@contextlib.contextmanager
def scratch():
    """A directory for homes, on the disk of this repository: in memory, durability would cost nothing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=CACHE))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
