"""The one thing a run appends to: attempts, one JSON line each."""

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
    """An append-only file of attempts. A line cut short by a crash is dropped when the journal is opened for writing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, attempt: Attempt) -> None:
        """Safe from the death of this process when it returns; from a power cut after the next `sync`."""
        append_line(self.path, attempt.model_dump_json())

    def sync(self) -> None:
        """Waits until the disk holds all of it."""
        if self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def read(self) -> Iterator[Attempt]:
        """All whole attempts. A half-written last line is left out; damage anywhere else is an error that names the line."""
        if not self.path.exists():
            return
        lines = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(lines[:-1], start=1):
            try:
                yield Attempt.model_validate_json(line)
            except ValidationError as error:
                raise UserError(
                    f"{self.path}, line {number} is damaged ({error.errors()[0]['msg']}): restore the file from a copy, "
                    f"or keep only its first {number - 1} lines (head -n {number - 1}) and resume from there"
                ) from error

    def repair(self) -> None:
        """Cuts off a last line that a crash left unfinished."""
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            os.truncate(self.path, whole)


def append_line(path: Path, line: str) -> None:
    """One line in one write; a write that fails half-way is undone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        before = os.fstat(descriptor).st_size
        data = line.encode() + b"\n"
        try:
            if os.write(descriptor, data) != len(data):
                raise OSError("disk full")
        except OSError as error:
            with suppress(OSError):  # `repair` cuts the line off later if it cannot be undone now
                os.ftruncate(descriptor, before)
            raise UserError(f"cannot write to {path}: {error.strerror or error}; free some space and resume") from error
    finally:
        os.close(descriptor)


def append_event(path: Path, **fields: str | int | float) -> None:
    """One line of a side log, such as incidents.jsonl."""
    append_line(path, json.dumps(fields))
