"""A wheel for PyPI that carries the program. `pip install` puts it on the path; a module tells where it is."""

from __future__ import annotations

import base64
import hashlib
import sys
import time
import zipfile
from pathlib import Path

from .job import LICENSES, ROOT, SUMMARY, Job, check, check_installed, clean_directory, run

NAME, MODULE = "baton-server", "baton_server"
SOURCES = ROOT / "packaging/python"


def build(job: Job) -> list[Path]:
    tags = [f"py3-none-{tag}" for tag in job.executable.wheel_tags]
    platforms = ".".join(job.executable.wheel_tags)
    file = job.out / f"{MODULE}-{job.version}-py3-none-{platforms}.whl"
    info = f"{MODULE}-{job.version}.dist-info"
    members: list[tuple[str, bytes]] = [
        (f"{MODULE}/__init__.py", (SOURCES / "__init__.py").read_bytes()),
        (f"{MODULE}/py.typed", b""),
        (f"{MODULE}-{job.version}.data/scripts/baton", job.program.read_bytes()),
        *((f"{info}/licenses/{name}", (ROOT / name).read_bytes()) for name in LICENSES),
        (f"{info}/METADATA", metadata(job).encode()),
        (f"{info}/WHEEL", wheel_file(tags).encode()),
    ]
    record = [f"{name},sha256={digest(data)},{len(data)}" for name, data in members]
    members.append((f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]).encode()))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            member = zipfile.ZipInfo(name, time.gmtime(max(job.date, 315532800))[:6])
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (0o100755 if name.endswith("/scripts/baton") else 0o100644) << 16
            archive.writestr(member, data, compresslevel=job.level)
    return [file]


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def wheel_file(tags: list[str]) -> str:
    return "Wheel-Version: 1.0\nGenerator: baton\nRoot-Is-Purelib: false\n" + "".join(f"Tag: {tag}\n" for tag in tags)


def metadata(job: Job) -> str:
    licenses = "".join(f"License-File: {name}\n" for name in LICENSES)
    return (
        f"Metadata-Version: 2.4\nName: {NAME}\nVersion: {job.version}\nSummary: {SUMMARY}\n"
        f"License-Expression: MIT OR Apache-2.0\n{licenses}Requires-Python: >=3.9\n"
        f"Project-URL: Repository, {job.repository}\nDescription-Content-Type: text/markdown\n\n"
        f"{(SOURCES / 'README.md').read_text()}"
    )


def test(job: Job, files: list[Path]) -> None:
    """Installs the wheel into a new virtual environment, without an index."""
    with clean_directory() as directory:
        run([sys.executable, "-m", "venv", directory / "venv"])
        python = directory / "venv/bin/python"
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", files[0]])
        check_installed([directory / "venv/bin/baton"], job)
        path = run([python, "-c", f"import {MODULE}; print({MODULE}.path())"]).strip()
        check(path == str(directory / "venv/bin/baton"), f"{MODULE}.path() is {path}")
        run([python, "-m", "pip", "uninstall", "--quiet", "--disable-pip-version-check", "--yes", NAME])
        check(not (directory / "venv/bin/baton").exists(), "the program is still there after the wheel was removed")
