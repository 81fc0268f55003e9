"""What a program needs from the system that runs it, read from the file itself.

Names and tags of packages follow from this, so that no package can promise to run where it does not.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

ELF, MACH_O_64 = b"\x7fELF", b"\xcf\xfa\xed\xfe"
ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
MACH_O_MACHINES = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
STRING_TABLE, ALLOCATED = 3, 2
#: The first glibc that reads packed relocations; the linker names what it provides `GLIBC_ABI_DT_RELR`.
PACKED_RELOCATIONS = (2, 36)


@dataclass(frozen=True)
class Executable:
    """The platform of a program."""

    system: str  #: "linux" or "macos"
    machine: str  #: "x86_64" or "aarch64"
    glibc: tuple[int, int] | None  #: oldest glibc that it runs on; None if it needs none

    @staticmethod
    def read(path: Path) -> Executable:
        data = path.read_bytes()
        if data[:4] == ELF and data[4] == 2 and (machine := ELF_MACHINES.get(struct.unpack_from("<H", data, 18)[0])):
            return Executable("linux", machine, newest_glibc(data))
        if data[:4] == MACH_O_64 and (machine := MACH_O_MACHINES.get(struct.unpack_from("<I", data, 4)[0])):
            return Executable("macos", machine, None)
        raise SystemExit(f"package: {path} is not a program for x86-64 or arm64, Linux or macOS")

    @property
    def static(self) -> bool:
        return self.system == "linux" and self.glibc is None

    @property
    def triple(self) -> str:
        """Rust's name of the platform."""
        if self.system == "macos":
            return f"{self.machine}-apple-darwin"
        return f"{self.machine}-unknown-linux-{'musl' if self.static else 'gnu'}"

    @property
    def wheel_tags(self) -> list[str]:
        """Platform tags of a wheel."""
        if self.system == "macos":
            return ["macosx_11_0_arm64" if self.machine == "aarch64" else "macosx_10_12_x86_64"]
        if self.static:
            return [f"manylinux_2_17_{self.machine}", f"musllinux_1_1_{self.machine}"]
        return [f"manylinux_{self.glibc[0]}_{max(self.glibc[1], 17)}_{self.machine}"]

    @property
    def npm(self) -> tuple[str, str]:
        """npm's names of system and processor."""
        return {"linux": "linux", "macos": "darwin"}[self.system], {"x86_64": "x64", "aarch64": "arm64"}[self.machine]

    @property
    def debian(self) -> str:
        """Debian's name of the processor."""
        return {"x86_64": "amd64", "aarch64": "arm64"}[self.machine]

    def __str__(self) -> str:
        if self.glibc:
            return f"{self.triple}, glibc {self.glibc[0]}.{self.glibc[1]} or newer"
        return f"{self.triple}{', static' if self.static else ''}"


def newest_glibc(data: bytes) -> tuple[int, int] | None:
    """Finds the newest version of glibc that an ELF file needs: for the symbols it imports, and for packed relocations.

    Versions are named in the one string table that is loaded at run time.
    """
    offset, size, count = struct.unpack_from("<Q10xHH", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    found = []
    for number in range(count):
        kind, flags, _, start, length = struct.unpack_from("<IQQQQ", data, offset + number * size + 4)
        if kind == STRING_TABLE and flags & ALLOCATED:
            names = data[start : start + length]
            found += re.findall(rb"\0GLIBC_(\d+)\.(\d+)", names)
            found += [PACKED_RELOCATIONS] if b"\0GLIBC_ABI_DT_RELR\0" in names else []
    return max(((int(major), int(minor)) for major, minor in found), default=None)
