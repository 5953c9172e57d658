"""A run's folder, read as it grows: every attempt is parsed once, and what cannot be read is told, not raised."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from math import inf, isfinite
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from evokernel.core import final_results
from evokernel.core.errors import UserError
from evokernel.core.final_results import FinalResult
from evokernel.core.records import Attempt, Outcome
from evokernel.core.run import Run, redact_revoked
from evokernel.reports.metrics import Tried

CHUNK = 1 << 24
MOST_DAMAGED = 5
LATEST = 1e11
"""Seconds since the epoch that no run will see."""
Stamp = tuple[int, int, int]
T = TypeVar("T")


def stamp(path: Path) -> Stamp | None:
    """Tells whether a file is still the one that was read; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def inside(folder: Path, name: str) -> Path | None:
    """A file below a folder by its name; None where the name, or a link, leads out of it."""
    try:
        place = (folder / name).resolve()
        return place if place.is_relative_to(folder.resolve()) else None
    except (OSError, ValueError, RuntimeError):  # a name with a nought in it, or links in a ring
        return None


@contextmanager
def many_objects() -> Iterator[None]:
    """Without looking for rings among them, of which records have none: reading a long journal takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def is_sane(outcome: Outcome) -> bool:
    """Whether times are times: a journal may come from anywhere, and what is divided and drawn must be numbers."""
    times = chain(outcome.samples_us, outcome.incumbent_us, *outcome.baseline_us.values(), (gate.seconds for gate in outcome.gates))
    figures = outcome.profile.figures.values() if outcome.profile else ()
    return all(0 <= time < inf for time in times) and all(map(isfinite, figures))


class Followed:
    """One run: settings, tasks and attempts as far as they are written, with a version that grows with every change."""

    def __init__(self, key: str, folder: Path) -> None:
        self.key, self.folder = key, folder
        self.version = 0
        self.run: Run | None = None
        self.trouble: list[str] = []
        self.loaded = False
        self._stamps: dict[str, Stamp | None] = {}
        self._kept: dict[str, tuple[int, Any]] = {}
        self._kept_of: dict[tuple[str, str], tuple[Tried, Any]] = {}
        self._forget()

    def _forget(self) -> None:
        self._raw: list[Attempt] = []
        self._offset, self._lines, self._inode = 0, 0, 0
        self._damaged: list[int] = []
        self._by_task: dict[str, list[Attempt]] = {}
        self._tried: dict[str, Tried] = {}
        self._gone: set[str] = set()
        self._finals: dict[str, dict[str, FinalResult]] = {}
        self._found: list[Tried] | None = None

    def drop(self) -> None:
        """Gives the memory back; the next `refresh` reads all of it again."""
        self._forget()
        self._stamps.clear()
        self._kept.clear()
        self._kept_of.clear()
        self.loaded = False

    @property
    def size(self) -> int:
        """Bytes of the journal that were read."""
        return self._offset

    def refresh(self) -> bool:
        """Reads what is new; says whether anything is."""
        changed = self._reopen()
        if self.run:
            changed |= self._again()
            changed |= self._tail()
        self.loaded = True
        self.version += changed
        return changed

    @property
    def attempts(self) -> list[Attempt]:
        """As they count now, in the order of the journal."""
        return [redact_revoked(attempt) if attempt.id in self._gone else attempt for attempt in self._raw]

    @property
    def count(self) -> int:
        return len(self._raw)

    def latest(self, most: int) -> list[Attempt]:
        """The newest ones, newest first."""
        return [redact_revoked(attempt) if attempt.id in self._gone else attempt for attempt in self._raw[-most:][::-1]]

    @property
    def found(self) -> list[Tried]:
        """Attempts by task; those of tasks that did not change are the same objects as before."""
        if self._found is None:
            tasks = self.run.tasks if self.run else []
            for task in tasks:
                if task.id not in self._tried:
                    made = tuple(redact_revoked(a) if a.id in self._gone else a for a in self._by_task.get(task.id, ()))
                    self._tried[task.id] = Tried(task, made, self._finals.get(task.id, {}))
            self._found = [self._tried[task.id] for task in tasks]
        return self._found

    def tried(self, task: str) -> Tried | None:
        """One task."""
        return next((tried for tried in self.found if tried.task.id == task), None)

    @property
    def places(self) -> dict[str, int]:
        """A number for each task, the same as long as the run is."""
        return {task.id: place for place, task in enumerate(self.run.tasks)} if self.run else {}

    def incidents(self) -> int:
        """How often infrastructure failed."""
        path = inside(self.folder, "incidents.jsonl")
        try:
            return path.read_bytes().count(b"\n") if path and path.is_file() else 0
        except OSError:
            return 0

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What was made from the whole run, made again only after a change."""
        if name not in self._kept or self._kept[name][0] != self.version:
            self._kept[name] = (self.version, make())
        found: T = self._kept[name][1]
        return found

    def once_of(self, name: str, tried: Tried, make: Callable[[Tried], T]) -> T:
        """What was made from one task, made again only after a change of that."""
        key = (name, tried.task.id)
        if key not in self._kept_of or self._kept_of[key][0] is not tried:
            self._kept_of[key] = (tried, make(tried))
        found: T = self._kept_of[key][1]
        return found

    def shown(self, item: str, most: int) -> tuple[int, list[Attempt]]:
        """How many attempts were shown an item, and the latest of them."""
        found = [attempt for attempt in list(self._raw) if any(ref.id == item for ref in attempt.shown_items)]
        return len(found), found[-most:][::-1]

    def text(self, attempt: str, name: str) -> str | None:
        """An artifact of an attempt; None where there is none, or where it lies outside the run's folder."""
        path = inside(self.folder / "artifacts", f"{attempt}/{name}")
        if path is None or not path.is_file():
            return None
        try:
            return path.read_text(errors="replace")
        except OSError:
            return None

    def _moved(self, *names: str) -> bool:
        """Whether any of these files is another than when it was last asked."""
        now = {name: stamp(path) if (path := inside(self.folder, name)) else None for name in names}
        moved = any(self._stamps.get(name, (0, 0, 0)) != found for name, found in now.items())
        self._stamps.update(now)
        return moved

    def _reopen(self) -> bool:
        names = ("run.toml", "tasks.jsonl")
        if not self._moved(*names):
            return False
        self.run, self.trouble = None, []
        if any(inside(self.folder, name) is None for name in names):
            self.trouble = ["it is not read: its files are links that lead out of its folder"]
            return True
        try:
            self.run = Run.open(self.folder)
        except UserError as error:
            self.trouble = [str(error)]
        self._tried.clear()
        self._found = None
        return True

    def _again(self) -> bool:
        """What was said about attempts after they were made: second judgements, revocations."""
        assert self.run
        if not self._moved("finals.jsonl", "revoked.jsonl"):
            return False
        self.trouble = []
        for name, read in (("finals.jsonl", self._read_finals), ("revoked.jsonl", self._read_revoked)):
            try:
                if inside(self.folder, name):
                    read()
            except UserError as error:
                self.trouble.append(str(error))
        self._tried.clear()
        self._found = None
        return True

    def _read_finals(self) -> None:
        self._finals = {}
        for id, final in final_results.read_final_results(self.folder).items():
            if is_sane(final.outcome):
                self._finals.setdefault(final.task, {})[id] = final

    def _read_revoked(self) -> None:
        assert self.run
        self._gone = self.run.revoked_ids()

    def _tail(self) -> bool:
        path = inside(self.folder, "attempts.jsonl")
        found = stamp(path) if path else None
        if found is None or path is None:
            return False
        if (found[0] != self._inode and self._inode) or found[1] < self._offset:  # another file: nothing that was read counts
            gone, judged = self._gone, self._finals
            self._forget()
            self._gone, self._finals = gone, judged
        self._inode = found[0]
        if found[1] <= self._offset:
            return False
        before = self._lines
        with many_objects():
            for line in self._whole_lines(path):
                self._lines += 1
                self._take(line)
        return self._lines > before

    def _whole_lines(self, path: Path) -> Iterator[bytes]:
        """New lines up to the last end of line: what follows it is being written, or was cut off and will be repaired."""
        rest = b""
        with path.open("rb") as file:
            file.seek(self._offset)
            while data := file.read(CHUNK):
                lines = (rest + data).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    self._offset += len(line) + 1
                    yield line

    def _take(self, line: bytes) -> None:
        try:
            attempt = Attempt.model_validate_json(line)
        except ValidationError:
            self._damaged.append(self._lines)
            return
        if not (is_sane(attempt.outcome) and isfinite(attempt.reward) and 0 <= attempt.finished_at < LATEST):
            self._damaged.append(self._lines)
            return
        self._raw.append(attempt)
        self._by_task.setdefault(attempt.task, []).append(attempt)
        self._tried.pop(attempt.task, None)
        self._found = None

    @property
    def notes(self) -> list[str]:
        """What is wrong with the folder, in words."""
        if not self._damaged:
            return self.trouble
        some = ", ".join(map(str, self._damaged[:MOST_DAMAGED])) + (", …" if len(self._damaged) > MOST_DAMAGED else "")
        lines = "line" if len(self._damaged) == 1 else "lines"
        return [
            *self.trouble,
            f"attempts.jsonl is damaged: {lines} {some} cannot be read and {'is' if lines == 'line' else 'are'} left out",
        ]
