"""The scratch folder of a candidate process: enforces its quota, rejects links and devices, and removes it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from evokernel.core.errors import CandidateError

MAX_ENTRIES = 1000
"""The maximum number of files and folders; a traced program leaves about a dozen."""
WRITE_RULE = "a kernel may write its output tensors and nothing else"


def iterate_entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield every entry below a folder at any depth, without following links: a candidate may have created it."""
    pending = [str(folder)]
    while pending:
        with os.scandir(pending.pop()) as listing:
            for entry in listing:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)


def check_disk_quota(folder: Path, limit_bytes: int) -> None:
    """Raise CandidateError if a folder exceeds its quota of bytes or entries."""
    used_bytes = 0
    try:
        for count, entry in enumerate(iterate_entries(folder)):
            with suppress(FileNotFoundError):
                used_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
            if count >= MAX_ENTRIES or used_bytes > limit_bytes:
                raise CandidateError(
                    "disk",
                    f"the candidate process wrote more than {limit_bytes >> 20} MiB or {MAX_ENTRIES} files: {WRITE_RULE}",
                )
    except FileNotFoundError:
        return  # removed during the check
    except OSError as error:  # for example a path that is too long to open
        raise CandidateError(
            "disk",
            f"the candidate process left folders that cannot be read ({error.strerror}): {WRITE_RULE}",
        ) from error


def check_regular_files(folder: Path) -> None:
    """Raise CandidateError unless a folder holds only folders and regular files without further hard links: the verifier opens them."""
    for entry in iterate_entries(folder):
        status = entry.stat(follow_symlinks=False)
        if not (stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)):
            raise CandidateError(
                "forbidden",
                f"the kernel left links or device files in a folder that the verifier reads: {WRITE_RULE}",
            )


def remove_folder(folder: Path) -> None:
    """Remove a folder of any depth: each inner folder is first moved to the top, where its path is short."""
    pending, move_count = [folder], 0
    with suppress(OSError):
        while pending:
            current = pending.pop()
            with suppress(PermissionError):
                current.chmod(0o700)
            for entry in list(os.scandir(current)):
                if entry.is_dir(follow_symlinks=False):
                    move_count += 1
                    pending.append(folder.with_name(f"{folder.name}.{move_count}"))
                    os.rename(entry.path, pending[-1])
                else:
                    os.unlink(entry.path)
            current.rmdir()
