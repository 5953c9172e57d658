"""Where things are kept between runs, and how they are written there."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from evokernel.core.errors import CandidateError

log = logging.getLogger(__name__)


def write_bytes(path: Path, data: bytes) -> None:
    """Whole or not at all, whoever else writes the same; makes the folders on the way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """For one process at a time; for all at once where files cannot be locked."""
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
    """Writes a candidate's files below a folder, each at its place; a name that leads elsewhere is the candidate's fault."""
    for name, text in files.items():
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
            raise CandidateError("forbidden", f"{name!r} is no name for a file of a kernel")
        place = folder.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


def cache_folder() -> Path:
    """`$EVOKERNEL_CACHE`, else `$XDG_CACHE_HOME/evokernel`, else `~/.cache/evokernel`. What is in it can be made again."""
    own, shared = os.environ.get("EVOKERNEL_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own).expanduser()
    return Path(shared).expanduser() / "evokernel" if shared else Path("~/.cache/evokernel").expanduser()


def tools_folder() -> Path:
    """`$EVOKERNEL_TOOLS`, else `tools` in the cache folder: programs that were fetched or built for this machine."""
    own = os.environ.get("EVOKERNEL_TOOLS")
    return Path(own).expanduser() if own else cache_folder() / "tools"
