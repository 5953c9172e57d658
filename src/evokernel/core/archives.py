"""Archives that others have written, unpacked so that nothing lands beside the folder meant for it."""

from __future__ import annotations

import tarfile
from pathlib import Path, PurePosixPath


def extract_archive(archive: tarfile.TarFile, into: Path, below: str = ".") -> int:
    """Files and folders of the archive, or of a folder in it, as they are; links, devices and names that lead out are left behind."""
    members = [member for member in archive.getmembers() if is_regular_member(member) and PurePosixPath(member.name).is_relative_to(below)]
    archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Pythons before 3.11.4 have none
    archive.extractall(into, members)
    return len(members)


def is_regular_member(member: tarfile.TarInfo) -> bool:
    """Whether it is a file or a folder, below where it is unpacked."""
    path = PurePosixPath(member.name)
    return (member.isreg() or member.isdir()) and not path.is_absolute() and ".." not in path.parts
