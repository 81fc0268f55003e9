"""A Debian package, built and tested with dpkg."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

from .job import LICENSES, ROOT, SUMMARY, Job, check, check_installed, clean_directory, need, run, with_root
from .tarball import check_tree

DESCRIPTION = """ One binary runs AI agent sessions that any number of programs and people can
 watch, steer, approve and take over. Nothing is lost when a client, an agent or
 the server dies. The official Copilot SDKs work with it unchanged."""


def build(job: Job) -> list[Path]:
    if job.executable.system != "linux":
        return []
    packer = need("dpkg-deb", "install dpkg")
    file = job.out / f"baton_{job.version}-1_{job.executable.debian}.deb"
    with clean_directory() as scratch:
        tree = scratch / "tree"
        job.install_tree(tree / "usr")
        (tree / "DEBIAN").mkdir()
        tidy(tree)
        (tree / "DEBIAN/control").write_text(control(job, tree))
        for path in [tree, *tree.rglob("*")]:
            path.chmod(0o755 if path.is_dir() or path.name == "baton" and path.parent.name == "bin" else 0o644)
        compression = ["-Zgzip", "-z1"] if job.fast else ["-Zxz"]
        run([packer, "--root-owner-group", *compression, "--build", tree, file], SOURCE_DATE_EPOCH=str(job.date))
    return [file]


def tidy(tree: Path) -> None:
    """Follows Debian's rules: compressed pages and changelog, completions of zsh in its vendor directory, a copyright."""
    share = tree / "usr/share"
    documents = share / "doc/baton"
    (documents / "CHANGELOG.md").rename(documents / "changelog")
    for page in [*(share / "man/man1").iterdir(), documents / "changelog"]:
        page.with_name(page.name + ".gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    (share / "zsh/site-functions").rename(share / "zsh/vendor-completions")
    texts = "\n\n".join((ROOT / name).read_text() for name in LICENSES)
    (documents / "copyright").write_text(f"Licensed under either of the following licenses, at your option.\n\n{texts}")
    for name in LICENSES:
        (documents / name).unlink()


def control(job: Job, tree: Path) -> str:
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
    glibc = job.executable.glibc
    depends = f"Depends: libc6 (>= {glibc[0]}.{glibc[1]})\n" if glibc else ""
    return (
        f"Package: baton\nVersion: {job.version}-1\nArchitecture: {job.executable.debian}\nSection: devel\n"
        f"Priority: optional\nMaintainer: The Baton authors <noreply@example.org>\nHomepage: {job.repository}\n"
        f"Installed-Size: {size}\n{depends}Recommends: bash, bubblewrap, ca-certificates, git\n"
        f"Description: {SUMMARY.partition(':')[0].lower()}\n{DESCRIPTION}\n"
    )


def test(job: Job, files: list[Path]) -> None:
    """Installs into an empty root, uses the program, removes it again. libc6 is not in the empty root."""
    with clean_directory() as root:
        for directory in ("info", "updates", "triggers"):
            (root / "var/lib/dpkg" / directory).mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        force = "--force-depends,not-root,script-chrootless,bad-path"
        dpkg = [*with_root(), "dpkg", f"--root={root}", f"--log={os.devnull}", force]
        run([*dpkg, "--install", files[0]])
        check("ok installed" in run([*dpkg, "--status", "baton"]), "dpkg does not report the package as installed")
        check_installed([root / "usr/bin/baton"], job)
        zsh = root / "usr/share/zsh"
        shutil.copytree(zsh / "vendor-completions", zsh / "site-functions")
        check_tree(root / "usr")
        shutil.rmtree(zsh / "site-functions")
        run([*dpkg, "--purge", "baton"])
        check(not (root / "usr/bin/baton").exists(), "the program is still there after the package was removed")
