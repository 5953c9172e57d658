"""Extracts untrusted tar archives without writing outside of the target folder."""

from __future__ import annotations

import tarfile
from pathlib import Path, PurePosixPath


def extract_archive(archive: tarfile.TarFile, into: Path, subfolder: str = ".") -> int:
    """Extract the archive, or one folder of it, without links, devices and paths that lead outside; return the number of members."""
    members = [
        member for member in archive.getmembers() if is_regular_member(member) and PurePosixPath(member.name).is_relative_to(subfolder)
    ]
    archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not available before Python 3.11.4
    archive.extractall(into, members)
    return len(members)


def is_regular_member(member: tarfile.TarInfo) -> bool:
    """Return whether a member is a file or folder inside the target folder."""
    path = PurePosixPath(member.name)
    return (member.isreg() or member.isdir()) and not path.is_absolute() and ".." not in path.parts
