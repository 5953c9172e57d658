"""libtpu, the library with the TPU compiler: its path, and the one system call in it that an older emulator does not support."""

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
"""The dump format is an internal of this version; jax and jaxlib are pinned to match."""
INSTALL_COMMAND = "python -m evokernel.backends.pallas.install"
FACCESSAT_CODE = bytes.fromhex("b80d010000 48c7c79cffffff 4889ce 4531d2 0f05")
"""Machine code of the system call 269 (faccessat) in libtpu; `compiler_process.c` explains why it is replaced."""


def is_native() -> bool:
    """Whether libtpu runs on this machine without an emulator: it exists for x86-64 Linux only."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")


def downloaded_path() -> Path:
    """Path of the downloaded copy, for machines for which no package exists."""
    return paths.tools_folder() / f"libtpu-{VERSION}" / "libtpu.so"


def find_library() -> Path | None:
    """Path of the library in its pinned version: the installed package if it runs on this machine, else the downloaded copy."""
    if is_native() and (spec := util.find_spec("libtpu")) and spec.submodule_search_locations:
        path = Path(spec.submodule_search_locations[0]) / "libtpu.so"
        if path.is_file() and metadata.version("libtpu") == VERSION:
            return path
    return downloaded_path() if downloaded_path().is_file() else None


def unavailable_reason() -> str | None:
    """The command that installs libtpu, if it is not installed."""
    if find_library():
        return None
    if is_native():
        return f"libtpu {VERSION} is not installed: pip install 'evokernel[pallas]'"
    return f"libtpu {VERSION} is not installed: {INSTALL_COMMAND}"


@lru_cache
def faccessat_offset(library: Path) -> int | None:
    """Offset of `FACCESSAT_CODE` from the base of the loaded library; None unless the code occurs exactly once."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(FACCESSAT_CODE)
        if at < 0 or data.find(FACCESSAT_CODE, at + 1) >= 0:
            return None
        (table,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for i in range(count):
            kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, table + i * size)
            if kind == 1 and offset <= at < offset + length:
                return int(at - offset + address)
    return None
