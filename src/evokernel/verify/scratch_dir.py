"""The folder a child may write into: watched while it works, looked through before anything in it is used, emptied afterwards."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from evokernel.core.errors import CandidateError

ENTRIES = 1000
"""Files and folders that may be there; a traced program leaves a dozen."""


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """All there is below, without following links and however deep: a candidate may have made it."""
    pending = [str(folder)]
    while pending:
        with os.scandir(pending.pop()) as found:
            for entry in found:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)


def refuse_too_much(folder: Path, limit_bytes: int) -> None:
    """Many small files fill a disk as well as a large one does."""
    used = 0
    try:
        for count, entry in enumerate(entries(folder)):
            with suppress(FileNotFoundError):
                used += entry.stat(follow_symlinks=False).st_blocks * 512
            if count >= ENTRIES or used > limit_bytes:
                raise CandidateError("disk", f"the kernel's process writes more than {limit_bytes >> 20} MiB or {ENTRIES} files")
    except FileNotFoundError:
        return  # removed while it was looked at
    except OSError as error:  # paths too long to be opened
        raise CandidateError("disk", f"the kernel's process leaves folders that cannot be read: {error.strerror}") from error


def refuse_what_is_no_file(folder: Path) -> None:
    """The judge opens what is there: plain files and folders only, and none that has another name elsewhere."""
    for entry in entries(folder):
        status = entry.stat(follow_symlinks=False)
        if not (stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)):
            raise CandidateError("forbidden", "the kernel leaves links or devices where the judge reads")


def remove(folder: Path) -> None:
    """Removes a folder of any depth: every folder in it is first moved to the top, where its path is short."""
    pending, moved = [folder], 0
    with suppress(OSError):
        while pending:
            place = pending.pop()
            with suppress(PermissionError):
                place.chmod(0o700)
            for entry in list(os.scandir(place)):
                if entry.is_dir(follow_symlinks=False):
                    moved += 1
                    pending.append(folder.with_name(f"{folder.name}.{moved}"))
                    os.rename(entry.path, pending[-1])
                else:
                    os.unlink(entry.path)
            place.rmdir()
