"""A container image. Its base is an argument; the test bootstraps one, because no registry may be reachable."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from .job import ROOT, Job, Skip, check, clean_directory, need, run

IMAGE = "localhost/baton"
SUITE = "bookworm"


def build(job: Job) -> list[Path]:
    """Writes the build context, with the Dockerfile, as a tarball: `docker build - < FILE`."""
    if job.executable.system != "linux":
        return []
    with clean_directory() as context:
        job.install_tree(context / "baton")
        shutil.copyfile(ROOT / "packaging/Dockerfile", context / "Dockerfile")
        shutil.copy(ROOT / "packaging/healthcheck", context / "baton/bin/baton-healthcheck")
        file = job.out / f"baton-image-{job.version}-{job.executable.machine}.tar.gz"
        return [job.archive(context, file, under=".")]


def test(job: Job, files: list[Path]) -> None:
    """Builds the image on a bootstrapped Debian, starts it as its own user, and asks for its health."""
    need("buildah", "install buildah to test the image")
    need("debootstrap", "install debootstrap to test the image")
    if os.geteuid() != 0:
        raise Skip("debootstrap needs root")
    storage = Buildah(job.cache / "containers")
    with clean_directory() as scratch:
        run(["tar", "-xzf", files[0], "-C", scratch])
        base = storage.base(job.cache / f"{SUITE}.tar")
        storage("build", "--format", "docker", "--isolation", "chroot", "--build-arg", f"BASE={base}", "-t", IMAGE, scratch)
    container = storage("from", "--pull-never", IMAGE).strip()
    try:
        check_container(storage, container, job)
    finally:
        storage("rm", container)


def check_container(storage: Buildah, container: str, job: Job) -> None:
    inside = ["run", "--isolation", "chroot", container, "--"]
    check(storage(*inside, "baton", "--version").strip() == f"baton {job.version}", "another version in the image")
    check(storage(*inside, "id", "-u").strip() == "10001", "the image does not run as its own user")
    port = "18080"
    server = storage.start(*inside, "baton", "serve", "--demo", "--http", f"127.0.0.1:{port}")
    healthy = ["run", "--isolation", "chroot", "--env", f"BATON_HEALTH_PORT={port}", container, "--", "baton-healthcheck"]
    try:
        end = time.monotonic() + 60
        while not storage.succeeds(*healthy):
            check(server.poll() is None, "the server in the container ended")
            check(time.monotonic() < end, "the container is not healthy after a minute")
            time.sleep(0.5)
        mode = storage(*inside, "stat", "-c", "%a %U", "/data/token").strip()
        check(mode == "600 baton", f"the token in the container has mode and owner {mode}")
    finally:
        server.terminate()
        server.wait(30)
    check(not storage.succeeds(*healthy), "the health check succeeds without a server")


class Buildah:
    """Runs buildah with a storage of its own, in directories that need no overlay file system."""

    def __init__(self, directory: Path) -> None:
        self.words = ["buildah", "--storage-driver", "vfs", "--root", f"{directory}/root", "--runroot", f"{directory}/run"]

    def __call__(self, command: str, *arguments: object) -> str:
        return run([*self.words, command, *arguments])

    def succeeds(self, *arguments: str) -> bool:
        return subprocess.run([*self.words, *arguments], capture_output=True).returncode == 0

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self.words, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def base(self, archive: Path) -> str:
        """Returns an image of a minimal Debian. Bootstraps it once, and keeps the archive."""
        image = "localhost/baton-test-base"
        if not archive.exists():
            archive.parent.mkdir(parents=True, exist_ok=True)
            part = archive.with_suffix(".part")
            run(["debootstrap", "--variant=minbase", SUITE, f"{archive}.root", *mirror()])
            run(["tar", "-cf", part, "-C", f"{archive}.root", "--exclude=./dev/*", "."])
            shutil.rmtree(f"{archive}.root")
            part.rename(archive)
        if not self.succeeds("inspect", "--type", "image", image):
            container = self("from", "scratch").strip()
            self("add", container, archive, "/")
            self("commit", "--rm", container, image)
        return image


def mirror() -> list[str]:
    """The mirror that this machine's apt uses for the suite."""
    sources = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages"])
    found = (line.split() for line in sources.splitlines())
    return next(([words[0]] for words in found if words[1:] == [SUITE]), [])
