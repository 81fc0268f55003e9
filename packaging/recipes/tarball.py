"""A tarball with the program, completions and manual pages, to unpack into any prefix."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

from .job import Job, check, check_installed, clean_directory, need, run


def build(job: Job) -> list[Path]:
    name = f"baton-{job.version}-{job.executable.triple}"
    with clean_directory() as scratch:
        job.install_tree(scratch / "tree")
        return [job.archive(scratch / "tree", job.out / f"{name}.tar.gz", under=name)]


def test(job: Job, files: list[Path]) -> None:
    with clean_directory() as prefix:
        run(["tar", "-xzf", files[0], "-C", prefix, "--strip-components=1"])
        check_installed([prefix / "bin/baton"], job)
        check_platform(prefix / "bin/baton", job)
        check_tree(prefix)
    with tarfile.open(files[0]) as tar:
        times = {member.mtime for member in tar}
    check(times == {job.date}, f"files in the tarball have other times than the commit: {times}")


def check_platform(program: Path, job: Job) -> None:
    """Compares what we read from the program with what binutils reads."""
    if job.executable.system != "linux":
        return
    reader = need("readelf", "install binutils to test the tarball")
    needed = run([reader, "--version-info", program], LC_ALL="C").replace("GLIBC_ABI_DT_RELR", "GLIBC_2.36")
    versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", needed)
    newest = max(((int(major), int(minor)) for major, minor in versions), default=None)
    check(newest == job.executable.glibc, f"readelf finds glibc {newest}, not {job.executable.glibc}")


def check_tree(prefix: Path) -> None:
    """Checks completions and manual pages below a prefix."""
    share = prefix / "share"
    script = share / "bash-completion/completions/baton"
    completed = run(["bash", "-c", f'source "{script}"; complete -p baton'])
    check("baton" in completed, f"completions of bash: {completed}")
    check("#compdef baton" in (share / "zsh/site-functions/_baton").read_text(), "completions of zsh")
    check("complete -c baton" in (share / "fish/vendor_completions.d/baton.fish").read_text(), "completions of fish")
    pages = {page.name.removesuffix(".gz").removesuffix(".1") for page in (share / "man/man1").iterdir()}
    check({"baton", "baton-run", "baton-serve"} <= pages, f"manual pages: {pages}")
