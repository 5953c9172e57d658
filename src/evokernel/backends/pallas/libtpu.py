"""The compiler's library: where it is, and the one place in it that an emulator may stumble over."""

from __future__ import annotations

import mmap
import platform
import struct
import sys
from functools import lru_cache
from importlib import metadata, util
from pathlib import Path

from evokernel.core import paths

VERSION = "0.0.51"
"""The dumps that are read are internals of this version; jax and jaxlib are pinned along with it."""
INSTALL = "python -m evokernel.backends.pallas.install"
ACCESS = bytes.fromhex("b80d010000 48c7c79cffffff 4889ce 4531d2 0f05")
"""The system call 269, with the instructions that lead to it; `driver.c` says why it matters."""


def is_native() -> bool:
    """Whether libtpu runs here as it is: it exists for x86-64 Linux only."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")


def private() -> Path:
    """Where a copy is kept on machines whose package index has none for them."""
    return paths.tools_folder() / f"libtpu-{VERSION}" / "libtpu.so"


def find() -> Path | None:
    """The library, of the pinned version; the package if there is one that fits this machine, else the private copy."""
    if is_native() and (spec := util.find_spec("libtpu")) and spec.submodule_search_locations:
        found = Path(spec.submodule_search_locations[0]) / "libtpu.so"
        if found.is_file() and metadata.version("libtpu") == VERSION:
            return found
    return private() if private().is_file() else None


def missing() -> str | None:
    """Words that name the fix when it is not there."""
    if find():
        return None
    if is_native():
        return f"libtpu {VERSION} is not installed: pip install 'evokernel[pallas]'"
    return f"libtpu {VERSION} is not installed: {INSTALL}"


@lru_cache
def access_address(library: Path) -> int | None:
    """Where in the loaded library `ACCESS` is, counted from its start; None unless it occurs exactly once."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(ACCESS)
        if at < 0 or data.find(ACCESS, at + 1) >= 0:
            return None
        (table,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for i in range(count):
            kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, table + i * size)
            if kind == 1 and offset <= at < offset + length:
                return int(at - offset + address)
    return None
