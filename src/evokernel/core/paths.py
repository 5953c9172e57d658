"""Cache folders, atomic writes and file locks."""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from evokernel.core.errors import CandidateError, UserError

log = logging.getLogger(__name__)


@contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """Yield an open file that replaces `path` when the block ends: completely, or not at all if the block fails or this process dies.

    Several threads and processes may replace the same file at once. Raises OSError.
    """
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.chmod(part, 0o644)
        os.replace(part, path)
    finally:
        with suppress(FileNotFoundError):  # none is left after a success
            os.unlink(part)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically; creates missing folders. Raises OSError, which writers of caches may ignore."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Write a file of a run or a report atomically. Raises UserError."""
    try:
        with replace_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        fix = "Free disk space or make the folder writable, then resume."
        raise UserError(f"cannot write {path}: {error.strerror or error}. {fix}") from error


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive file lock; without effect on file systems that do not support locks."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        log.debug("no lock: %s", error)
        yield
        return
    with file:
        yield


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write a candidate's files into a folder. Raises CandidateError for a name that leads outside of it."""
    for name, text in files.items():
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
            raise CandidateError("forbidden", f"{name!r} is not a valid file name. Use a relative path without '..' and backslashes.")
        path = folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def cache_folder() -> Path:
    """Return `$EVOKERNEL_CACHE`, else `$XDG_CACHE_HOME/evokernel`, else `~/.cache/evokernel`. Its contents can be rebuilt."""
    own, xdg = os.environ.get("EVOKERNEL_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own).expanduser()
    return Path(xdg).expanduser() / "evokernel" if xdg else Path("~/.cache/evokernel").expanduser()


def tools_folder() -> Path:
    """Return `$EVOKERNEL_TOOLS`, else `tools` in the cache folder: programs that were downloaded or built for this machine."""
    own = os.environ.get("EVOKERNEL_TOOLS")
    return Path(own).expanduser() if own else cache_folder() / "tools"
