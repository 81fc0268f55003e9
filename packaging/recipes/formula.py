"""A Homebrew formula for the tarballs in the output directory."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from .job import SUMMARY, Job, Skip, check, run

#: Blocks of the formula, and the platform that each is for.
BLOCKS = {
    "on_macos": {"on_arm": "aarch64-apple-darwin", "on_intel": "x86_64-apple-darwin"},
    "on_linux": {"on_arm": "aarch64-unknown-linux-gnu", "on_intel": "x86_64-unknown-linux-gnu"},
}

INSTALL = """\
  def install
    bin.install "bin/baton"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/baton"
    zsh_completion.install "share/zsh/site-functions/_baton"
    fish_completion.install "share/fish/vendor_completions.d/baton.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/baton --version")
    ENV["BATON_HOME"] = testpath/"state"
    assert_match "it works", shell_output("#{bin}/baton run --demo --yes 'run echo it works'")
  end
end
"""


def build(job: Job) -> list[Path]:
    tarballs = {path.name: path for path in job.out.glob(f"baton-{job.version}-*.tar.gz")}
    text = head(job)
    known = 0
    for system, processors in BLOCKS.items():
        lines = ""
        for processor, triple in processors.items():
            if tarball := tarballs.get(f"baton-{job.version}-{triple}.tar.gz"):
                lines += block(job, processor, tarball)
                known += 1
        text += f"  {system} do\n{lines}  end\n\n" if lines else ""
    if not known:
        raise Skip(f"{job.out} has no tarball; build that first")
    file = job.out / "baton.rb"
    file.write_text(text + INSTALL)
    return [file]


def head(job: Job) -> str:
    return (
        f'class Baton < Formula\n  desc "{SUMMARY.partition(":")[0]} for AI agents"\n'
        f'  homepage "{job.repository}"\n  version "{job.version}"\n  license any_of: ["MIT", "Apache-2.0"]\n\n'
    )


def block(job: Job, processor: str, tarball: Path) -> str:
    url = f"{job.repository}/releases/download/v{job.version}/{tarball.name}"
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    return f'    {processor} do\n      url "{url}"\n      sha256 "{digest}"\n    end\n'


def test(job: Job, files: list[Path]) -> None:
    """Checks that each checksum is that of the named tarball, and the syntax where Ruby is installed."""
    text = files[0].read_text()
    found = re.findall(r'url ".*/([^/"]+)"\n\s*sha256 "([0-9a-f]{64})"', text)
    check(bool(found), "the formula names no tarball")
    for name, digest in found:
        check(hashlib.sha256((job.out / name).read_bytes()).hexdigest() == digest, f"another checksum for {name}")
    try:
        run(["ruby", "-c", files[0]])
    except FileNotFoundError:
        raise Skip("checksums are right; ruby is not installed, so its syntax was not checked") from None
