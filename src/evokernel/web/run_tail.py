"""Reads a run folder while it grows: parses every attempt once, and reports unreadable files instead of raising."""

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
from evokernel.core.sessions import INCIDENTS_FILE, SESSIONS_FILE, Incident, Session, has_writer, read_incidents, read_sessions
from evokernel.reports.metrics import TaskResult

CHUNK_BYTES = 1 << 24
MAX_LISTED_LINES = 5
MAX_TIMESTAMP = 1e11
"""Upper limit of a plausible timestamp, in seconds since the epoch."""
Stamp = tuple[int, int, int]
T = TypeVar("T")


def file_stamp(path: Path) -> Stamp | None:
    """Inode, size and modification time of a file, to detect changes; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def resolve_inside(folder: Path, relative_path: str) -> Path | None:
    """The file at a relative path below a folder; None if the path or a symbolic link leads out of it."""
    try:
        path = (folder / relative_path).resolve()
        return path if path.is_relative_to(folder.resolve()) else None
    except (OSError, ValueError, RuntimeError):  # a null byte in the path, or a cycle of links
        return None


def is_file_inside(folder: Path, name: str) -> bool:
    """Whether a folder has a regular file of this name that no symbolic link leads out of."""
    path = resolve_inside(folder, name)
    return bool(path and path.is_file())


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause the cyclic garbage collector: records have no cycles, and a long journal then loads in a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def has_valid_numbers(outcome: Outcome) -> bool:
    """Whether all times are finite and not negative: a journal may come from anywhere, and charts divide by them."""
    times = chain(outcome.samples_us, outcome.incumbent_us, *outcome.baseline_us.values(), (gate.seconds for gate in outcome.gates))
    figures = outcome.profile.figures.values() if outcome.profile else ()
    return all(0 <= time < inf for time in times) and all(map(isfinite, figures))


class RunTail:
    """One run as far as it is written: settings, tasks and attempts, with a version that grows with every change."""

    def __init__(self, key: str, folder: Path) -> None:
        self.key, self.folder = key, folder
        self.version = 0
        self.run: Run | None = None
        self.errors: list[str] = []
        self.sessions: list[Session] = []
        self.incidents: list[Incident] = []
        self.is_being_written = False
        self.is_loaded = False
        self._stamps: dict[str, Stamp | None] = {}
        self._run_cache: dict[str, tuple[int, Any]] = {}
        self._task_cache: dict[tuple[str, str], tuple[TaskResult, Any]] = {}
        self._reset()

    def _reset(self) -> None:
        self._attempts: list[Attempt] = []
        self._offset, self._line_number, self._inode = 0, 0, 0
        self._damaged_lines: list[int] = []
        self._attempts_by_task: dict[str, list[Attempt]] = {}
        self._results_by_task: dict[str, TaskResult] = {}
        self._revoked_ids: set[str] = set()
        self._final_results: dict[str, dict[str, FinalResult]] = {}
        self._all_results: list[TaskResult] | None = None

    def release_memory(self) -> None:
        """Forget the attempts; the next `refresh` reads them again."""
        self._reset()
        self._stamps.clear()
        self._run_cache.clear()
        self._task_cache.clear()
        self.is_loaded = False

    @property
    def bytes_read(self) -> int:
        """Bytes of the journal read so far."""
        return self._offset

    def refresh(self) -> bool:
        """Read new data and return whether there was any."""
        has_changed = self._reload_settings()
        if self.run:
            has_changed |= self._reload_decisions()
            has_changed |= self._reload_sessions()
            has_changed |= self._read_new_attempts()
        self.is_loaded = True
        self.version += has_changed
        return has_changed

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts in journal order, with revoked ones redacted."""
        return [redact_revoked(attempt) if attempt.id in self._revoked_ids else attempt for attempt in self._attempts]

    @property
    def attempt_count(self) -> int:
        """Number of attempts read so far."""
        return len(self._attempts)

    def latest_attempts(self, count: int) -> list[Attempt]:
        """The newest attempts, newest first."""
        return [redact_revoked(attempt) if attempt.id in self._revoked_ids else attempt for attempt in self._attempts[-count:][::-1]]

    @property
    def results(self) -> list[TaskResult]:
        """The result of every task. Tasks without new attempts keep the same object."""
        if self._all_results is None:
            tasks = self.run.tasks if self.run else []
            for task in tasks:
                if task.id not in self._results_by_task:
                    attempts = tuple(redact_revoked(a) if a.id in self._revoked_ids else a for a in self._attempts_by_task.get(task.id, ()))
                    self._results_by_task[task.id] = TaskResult(task, attempts, self._final_results.get(task.id, {}))
            self._all_results = [self._results_by_task[task.id] for task in tasks]
        return self._all_results

    def task_result(self, task: str) -> TaskResult | None:
        """The result of one task; None if the run has no such task."""
        return next((result for result in self.results if result.task.id == task), None)

    @property
    def task_numbers(self) -> dict[str, int]:
        """A stable number for each task."""
        return {task.id: number for number, task in enumerate(self.run.tasks)} if self.run else {}

    def compute_once(self, name: str, compute: Callable[[], T]) -> T:
        """Compute a value from the run and cache it until the run changes."""
        if name not in self._run_cache or self._run_cache[name][0] != self.version:
            self._run_cache[name] = (self.version, compute())
        value: T = self._run_cache[name][1]
        return value

    def compute_once_for_task(self, name: str, result: TaskResult, compute: Callable[[TaskResult], T]) -> T:
        """Compute a value from one task and cache it until that task changes."""
        key = (name, result.task.id)
        if key not in self._task_cache or self._task_cache[key][0] is not result:
            self._task_cache[key] = (result, compute(result))
        value: T = self._task_cache[key][1]
        return value

    def attempts_showing(self, item: str, count: int) -> tuple[int, list[Attempt]]:
        """How many attempts were shown an item, and the newest of them."""
        attempts = [attempt for attempt in list(self._attempts) if any(ref.id == item for ref in attempt.shown_items)]
        return len(attempts), attempts[-count:][::-1]

    def read_artifact(self, attempt: str, name: str) -> str | None:
        """The text of an attempt's artifact; None if it does not exist or lies outside the run folder."""
        path = resolve_inside(self.folder / "artifacts", f"{attempt}/{name}")
        if path is None or not path.is_file():
            return None
        try:
            return path.read_text(errors="replace")
        except OSError:
            return None

    def _have_changed(self, *names: str) -> bool:
        """Whether any of these files changed since the last call."""
        stamps = {name: file_stamp(path) if (path := resolve_inside(self.folder, name)) else None for name in names}
        has_changed = any(self._stamps.get(name, (0, 0, 0)) != stamp for name, stamp in stamps.items())
        self._stamps.update(stamps)
        return has_changed

    def _reload_settings(self) -> bool:
        names = ("run.toml", "tasks.jsonl")
        if not self._have_changed(*names):
            return False
        self.run, self.errors = None, []
        if any(resolve_inside(self.folder, name) is None for name in names):
            self.errors = ["The run is not read: its files are symbolic links that lead out of its folder."]
            return True
        try:
            self.run = Run.open(self.folder)
        except UserError as error:
            self.errors = [str(error)]
        self._results_by_task.clear()
        self._all_results = None
        return True

    def _reload_sessions(self) -> bool:
        """Read again how sessions ended, which incidents there were, and whether a process writes to the run."""
        before, self.is_being_written = self.is_being_written, has_writer(self.folder)
        if not self._have_changed(SESSIONS_FILE, INCIDENTS_FILE):
            return self.is_being_written != before
        self.sessions = read_sessions(self.folder) if is_file_inside(self.folder, SESSIONS_FILE) else []
        self.incidents = read_incidents(self.folder) if is_file_inside(self.folder, INCIDENTS_FILE) else []
        return True

    def _reload_decisions(self) -> bool:
        """Read later decisions about attempts again: re-evaluations and revocations."""
        assert self.run
        if not self._have_changed("finals.jsonl", "revoked.jsonl"):
            return False
        self.errors = []
        for name, read in (("finals.jsonl", self._read_final_results), ("revoked.jsonl", self._read_revoked)):
            try:
                if resolve_inside(self.folder, name):
                    read()
            except UserError as error:
                self.errors.append(str(error))
        self._results_by_task.clear()
        self._all_results = None
        return True

    def _read_final_results(self) -> None:
        self._final_results = {}
        for id, final in final_results.read_final_results(self.folder).items():
            if has_valid_numbers(final.outcome):
                self._final_results.setdefault(final.task, {})[id] = final

    def _read_revoked(self) -> None:
        assert self.run
        self._revoked_ids = self.run.revoked_ids()

    def _read_new_attempts(self) -> bool:
        path = resolve_inside(self.folder, "attempts.jsonl")
        stamp = file_stamp(path) if path else None
        if stamp is None or path is None:
            return False
        if (stamp[0] != self._inode and self._inode) or stamp[1] < self._offset:  # the file was replaced: start again
            revoked_ids, final_results = self._revoked_ids, self._final_results
            self._reset()
            self._revoked_ids, self._final_results = revoked_ids, final_results
        self._inode = stamp[0]
        if stamp[1] <= self._offset:
            return False
        lines_before = self._line_number
        with pause_garbage_collection():
            for line in self._complete_lines(path):
                self._line_number += 1
                self._add_line(line)
        return self._line_number > lines_before

    def _complete_lines(self, path: Path) -> Iterator[bytes]:
        """New lines up to the last line end: the text after it is still being written, or was cut off and will be repaired."""
        incomplete = b""
        with path.open("rb") as file:
            file.seek(self._offset)
            while data := file.read(CHUNK_BYTES):
                lines = (incomplete + data).split(b"\n")
                incomplete = lines.pop()
                for line in lines:
                    self._offset += len(line) + 1
                    yield line

    def _add_line(self, line: bytes) -> None:
        try:
            attempt = Attempt.model_validate_json(line)
        except ValidationError:
            self._damaged_lines.append(self._line_number)
            return
        if not (has_valid_numbers(attempt.outcome) and isfinite(attempt.reward) and 0 <= attempt.finished_at < MAX_TIMESTAMP):
            self._damaged_lines.append(self._line_number)
            return
        self._attempts.append(attempt)
        self._attempts_by_task.setdefault(attempt.task, []).append(attempt)
        self._results_by_task.pop(attempt.task, None)
        self._all_results = None

    @property
    def problems(self) -> list[str]:
        """What is wrong with the folder, as sentences."""
        if not self._damaged_lines:
            return self.errors
        numbers = ", ".join(map(str, self._damaged_lines[:MAX_LISTED_LINES])) + (
            ", …" if len(self._damaged_lines) > MAX_LISTED_LINES else ""
        )
        lines = "line" if len(self._damaged_lines) == 1 else "lines"
        return [
            *self.errors,
            f"attempts.jsonl is damaged: {lines} {numbers} cannot be read and {'is' if lines == 'line' else 'are'} skipped",
        ]
