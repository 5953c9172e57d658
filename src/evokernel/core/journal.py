"""The journal of a run: an append-only file of attempts, one JSON line each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from evokernel.core.errors import UserError
from evokernel.core.records import Attempt


class Journal:
    """An append-only file of attempts. `repair` drops a last line that a crash left incomplete."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, attempt: Attempt) -> None:
        """Append an attempt. It survives a crash of this process at once, and a power failure after the next `sync`."""
        append_line(self.path, attempt.model_dump_json())

    def sync(self) -> None:
        """Wait until the file is on disk."""
        if self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def read(self) -> Iterator[Attempt]:
        """Yield all complete attempts. An incomplete last line is skipped; damage elsewhere raises UserError with the line number."""
        if not self.path.exists():
            return
        lines = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(lines[:-1], start=1):
            try:
                yield Attempt.model_validate_json(line)
            except ValidationError as error:
                raise UserError(
                    f"{self.path}, line {number} is damaged ({error.errors()[0]['msg']}). Restore the file from a copy, "
                    f"or keep only its first {number - 1} lines (head -n {number - 1}) and resume."
                ) from error

    def repair(self) -> None:
        """Remove a last line that a crash left incomplete."""
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete != len(content):
            os.truncate(self.path, complete)


def append_line(path: Path, line: str) -> None:
    """Append one line in a single write; undo a partial write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        before = os.fstat(descriptor).st_size
        data = line.encode() + b"\n"
        try:
            if os.write(descriptor, data) != len(data):
                raise OSError("disk full")
        except OSError as error:
            with suppress(OSError):  # otherwise `repair` removes the line later
                os.ftruncate(descriptor, before)
            raise UserError(f"cannot write to {path}: {error.strerror or error}. Free disk space, then resume.") from error
    finally:
        os.close(descriptor)


def append_event(path: Path, **fields: str | int | float) -> None:
    """Append one JSON line to a log such as incidents.jsonl."""
    append_line(path, json.dumps(fields))
