"""Two npm packages: one carries the program for a platform, the other selects it and exports its path."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from .job import LICENSES, ROOT, SUMMARY, Job, check, check_installed, clean_directory, need, run

NAME = "@baton-dev/baton"
SOURCES = ROOT / "packaging/npm"
PLATFORMS = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"]


def build(job: Job) -> list[Path]:
    npm = need("npm", "install Node.js 18 or newer with npm")
    return [pack(npm, job, platform_package(job)), pack(npm, job, main_package(job))]


def common(job: Job, name: str) -> dict[str, object]:
    return {
        "name": name,
        "version": job.version,
        "description": SUMMARY,
        "license": "MIT OR Apache-2.0",
        "repository": {"type": "git", "url": f"git+{job.repository}.git"},
        "engines": {"node": ">=18"},
    }


def platform_package(job: Job) -> dict[str, object]:
    system, processor = job.executable.npm
    libc = {"libc": ["glibc"]} if job.executable.glibc else {}
    constraints = {"os": [system], "cpu": [processor], **libc}
    return common(job, f"{NAME}-{system}-{processor}") | constraints | {"files": ["bin"]}


def main_package(job: Job) -> dict[str, object]:
    return common(job, NAME) | {
        "type": "module",
        "bin": {"baton": "baton.js"},
        "exports": {".": {"types": "./index.d.ts", "default": "./index.js"}},
        "files": ["baton.js", "index.js", "index.d.ts"],
        "optionalDependencies": {f"{NAME}-{platform}": job.version for platform in PLATFORMS},
    }


def pack(npm: str, job: Job, manifest: dict[str, object]) -> Path:
    with clean_directory() as directory:
        (directory / "package.json").write_text(json.dumps(manifest, indent=2) + "\n")
        for name in LICENSES:
            shutil.copyfile(ROOT / name, directory / name)
        if "bin" in manifest:
            for source in SOURCES.iterdir():
                shutil.copyfile(source, directory / source.name)
        else:
            (directory / "bin").mkdir()
            shutil.copyfile(job.program, directory / "bin/baton")
            (directory / "bin/baton").chmod(0o755)
        run([npm, "pack", "--silent", "--pack-destination", job.out.absolute()], inside=directory)
    name = str(manifest["name"]).removeprefix("@").replace("/", "-")
    return job.out / f"{name}-{job.version}.tgz"


def test(job: Job, files: list[Path]) -> None:
    """Installs both packages into an empty project, without a registry, and runs the program with npx."""
    with clean_directory() as project:
        (project / "package.json").write_text('{"private": true}')
        options = ["--omit=optional", "--offline", "--no-audit", "--no-fund", "--no-package-lock"]
        run(["npm", "install", *options, *files], inside=project)
        modules = project / "node_modules"
        check_installed(["npx", "--no-install", "--prefix", project, "baton"], job)
        carried = modules / f"{NAME}-{'-'.join(job.executable.npm)}/bin/baton"
        code = f'import("{NAME}").then((baton) => console.log(baton.path))'
        path = run(["node", "-e", code], inside=project).strip()
        check(path == str(carried.resolve()), f"the exported path is {path}")
