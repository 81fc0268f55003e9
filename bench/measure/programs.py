"""Provides the programs to measure: builds Baton, installs the official runtime with npm."""

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
    """The reason why a program is not available."""


def build(*arguments):
    """Builds a part of this workspace for release."""
    if subprocess.run(["cargo", "build", "--release", "--quiet", *arguments], cwd=ROOT).returncode:
        raise Unavailable("cargo build failed; see above. `--no-build` uses the existing build.")


def bench(*arguments):
    """Runs benchmarks of crates, which print their figures."""
    if subprocess.run(["cargo", "bench", "--quiet", *arguments], cwd=ROOT).returncode:
        raise Unavailable("cargo bench failed; see above.")


def target():
    """Returns cargo's directory of release builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


def baton(program=None):
    """Returns the built Baton, or the given program."""
    program = Path(program or target() / "baton").resolve()
    if not program.exists():
        raise Unavailable(f"{program} does not exist; run without --no-build.")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()[-1]
    return Runtime("baton", version, program, program.stat().st_size, CACHE / "baton-cache")


def scripted_model():
    """Returns the scripted model server of baton-testkit."""
    return target() / "baton-scripted-model"


def official(version=PEER_VERSION, program=None):
    """Returns the official runtime's native binary, installed into .cache/bench unless one is given."""
    program = Path(program).resolve() if program else install(version)
    if not os.access(program, os.X_OK):
        raise Unavailable(f"{program} is not an executable file.")
    package = json.loads((program.parent / "package.json").read_text())
    cache = CACHE / f"official-{package['version']}-cache"
    return Runtime("official", package["version"], program, disk_bytes(program.parent), cache)


def install(version):
    """Installs the package of this platform with npm. It contains the native binary, which runs without Node."""
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
    """Returns the size of the files in a directory, in bytes."""
    files = (path for path in Path(directory).rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)


@contextlib.contextmanager
def scratch():
    """Creates a directory for homes on the disk of this repository: in memory, durability would cost nothing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=CACHE))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
