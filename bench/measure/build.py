"""Measures a cold build with each profile: time, processor time, and the size of the program.

Cold means an empty target directory. Sources of dependencies are downloaded beforehand, so that the network does not count.
On a machine with other load only the processor time is meaningful. Started by `bench/run build`.
"""

import argparse
import os
import resource
import struct
import subprocess
import time

from . import part, programs
from .part import verdict

# The targets: seconds of the build, megabytes of the program.
TARGETS = {"demo": 180, "quick": None, "release": None}


def main():
    """Builds with each profile and prints the figures."""
    parser = argparse.ArgumentParser(prog="bench/run build", description=__doc__)
    parser.add_argument("profiles", nargs="*", metavar="PROFILE", default=list(TARGETS), help="(demo quick release)")
    parser.add_argument("--wait", metavar="MINUTES", type=float, default=0, help="wait this long for an idle machine")
    options = parser.parse_args()
    cargo("fetch")
    load = part.watch_machine(options)
    rows = []
    for profile in options.profiles:
        part.say(f"building with the profile {profile}")
        rows += cold_build(profile)
    part.print_rows(rows, load)


def cold_build(profile):
    """Builds in an empty directory. Returns the rows of the profile."""
    with programs.scratch() as directory:
        began, before = time.monotonic(), processor_seconds()
        cargo("build", "--profile", profile, "-p", "baton", target=directory)
        wall, processor = time.monotonic() - began, processor_seconds() - before
        program = directory / profile / "baton"
        megabytes, code = program.stat().st_size / 1e6, section_bytes(program, b".text") / 1e6
    return [
        (f"`{profile}`: cold build", f"{wall:.0f} s", target(wall, TARGETS.get(profile), "s")),
        (f"`{profile}`: processor time of the build", f"{processor:.0f} s", ""),
        (f"`{profile}`: program", f"{megabytes:.1f} MB ({code:.1f} MB of code)", ""),
    ]


def target(value, limit, unit):
    """Returns a target with its verdict, or nothing without one."""
    return f"<= {limit} {unit} {verdict(value <= limit)}" if limit else ""


def cargo(*arguments, target=None):
    """Runs cargo in this workspace, with a target directory of its own."""
    environment = os.environ | ({"CARGO_TARGET_DIR": str(target)} if target else {})
    command = ["cargo", *arguments, "--locked", "--quiet"]
    if subprocess.run(command, cwd=programs.ROOT, env=environment).returncode:
        raise programs.Unavailable(f"{' '.join(command)} failed; see above.")


def processor_seconds():
    """Returns the processor time of all children that have exited."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def section_bytes(program, name):
    """Returns the size of a section of a 64-bit little-endian ELF file."""
    data = program.read_bytes()
    table, size, count, names = struct.unpack_from("<Q", data, 40) + struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, table + size * index) for index in range(count)]
    for section in sections:
        start = sections[names][4] + section[0]
        if data[start : data.index(b"\0", start)] == name:
            return section[5]
    return 0


if __name__ == "__main__":
    part.run(main)
