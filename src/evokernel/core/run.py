"""A run is a folder: `run.toml`, `tasks.jsonl`, `attempts.jsonl`, `incidents.jsonl`, `revoked.jsonl`, `artifacts/<attempt>/`."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from evokernel.core.config import ENVIRONMENT_TABLES, RunConfig, Table, is_environment_table, parse_config, read_toml, write_toml
from evokernel.core.errors import UserError
from evokernel.core.journal import Journal, append_event
from evokernel.core.records import Attempt, GateResult, Outcome, Reply, Task

Environment = Mapping[str, Mapping[str, str]]
REVOKED_DETAIL = "it passed, but was found to cheat, or to come from one that does, and was taken back"


class Run:
    """Reads a run's folder and, for the one process that holds its lock, writes to it."""

    def __init__(self, folder: Path, config: RunConfig, tasks: list[Task], environment: Environment) -> None:
        self.folder, self.config, self.tasks, self.facts = folder, config, tasks, environment
        self.journal = Journal(folder / "attempts.jsonl")
        self.incidents = folder / "incidents.jsonl"
        self.revocations = folder / "revoked.jsonl"
        self._lock: IO[str] | None = None

    @classmethod
    def create(cls, folder: Path, config: RunConfig, tasks: Sequence[Task], facts: Environment) -> Run:
        """A new folder; refuses one that holds a run."""
        if (folder / "run.toml").exists():
            raise UserError(f"{folder} already holds a run: resume it with 'evokernel resume {folder}', or choose another folder")
        run = cls(folder, config, list(tasks), facts)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the run folder {folder}: {error.strerror}; give another with --out") from error
        atomic_write(folder / "tasks.jsonl", "".join(task.model_dump_json() + "\n" for task in tasks))
        run.save_config(config)
        return run

    @classmethod
    def open(cls, folder: Path) -> Run:
        """An existing run, or one line that says what is wrong with the folder."""
        if not (folder / "run.toml").is_file():
            raise UserError(f"{folder} is not a run folder (no run.toml in it); 'evokernel report --list' shows the runs in ./runs")
        table = read_toml(folder / "run.toml")
        facts: dict[str, dict[str, str]] = {
            name: table.pop(name, {}) for name in dict.fromkeys([*ENVIRONMENT_TABLES, *filter(is_environment_table, table)])
        }
        config = parse_config(table)
        try:
            lines = (folder / "tasks.jsonl").read_text().splitlines()
            tasks = [Task.model_validate_json(line) for line in lines]
        except (OSError, ValidationError, UnicodeDecodeError) as error:
            raise UserError(f"{folder / 'tasks.jsonl'} cannot be read ({type(error).__name__}); restore it or start a new run") from error
        return cls(folder, config, tasks, facts)

    def save_config(self, config: RunConfig) -> None:
        """Writes settings and facts; also when a resume changes a setting."""
        self.config = config
        table: Table = config.model_dump(mode="json")
        atomic_write(self.folder / "run.toml", write_toml({**table, **{name: {} for name in ENVIRONMENT_TABLES}, **self.facts}))

    def record_environment(self, facts: Environment) -> None:
        """Adds what a run is gone on with and on, where it never was before."""
        known = self.environments()
        if {name: facts.get(name, {}) for name in ENVIRONMENT_TABLES} not in known:
            self.facts = {**self.facts, **{f"{name}-{len(known) + 1}": facts.get(name, {}) for name in ENVIRONMENT_TABLES}}
            self.save_config(self.config)

    def environments(self) -> list[Environment]:
        """What it was made with and on: when it began, and each time it was gone on with otherwise."""
        ends = ["", *(name.removeprefix(ENVIRONMENT_TABLES[0]) for name in self.facts if name.startswith(f"{ENVIRONMENT_TABLES[0]}-"))]
        return [{name: self.facts.get(name + end, {}) for name in ENVIRONMENT_TABLES} for end in ends]

    def environment_summary(self) -> dict[str, str]:
        """The same in words, by what it is: `3.11.2, then 3.12.1` where it changed."""
        found: dict[str, list[str]] = {}
        for making in self.environments():
            for name, value in (pair for table in making.values() for pair in table.items()):
                found.setdefault(name, []).append(value)
        return {name: ", then ".join(dict.fromkeys(values)) for name, values in found.items()}

    def attempts(self) -> list[Attempt]:
        """The journal as it counts now: kernels that were revoked since have failed."""
        gone = self.revoked_ids()
        return [redact_revoked(attempt) if attempt.id in gone else attempt for attempt in self.journal.read()]

    def is_complete(self, made: Sequence[Attempt]) -> bool:
        """Whether no task gets a further attempt after these."""
        return not any(self.config.remaining_attempts([attempt for attempt in made if attempt.task == task.id]) for task in self.tasks)

    def revoked_ids(self) -> set[str]:
        """Ids of the attempts that were taken back."""
        try:
            lines = self.revocations.read_text().splitlines()
            return {str(json.loads(line)["attempt"]) for line in lines}
        except FileNotFoundError:
            return set()
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UserError(f"{self.revocations} cannot be read ({type(error).__name__}): restore it, or revoke again") from error

    def revoke(self, attempts: Iterable[str]) -> int:
        """Notes that attempts were taken back, beside the journal, which never changes; gives how many are new."""
        new = sorted(set(attempts) - self.revoked_ids())
        for attempt in new:
            append_event(self.revocations, attempt=attempt, at=time.time())
        return len(new)

    def lock(self) -> None:
        """Makes this process the only writer; the lock goes with the process."""
        try:
            self._lock = (self.folder / "lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"{self.folder} is being written by another process; wait for it or stop it first") from error
        except OSError as error:
            raise UserError(f"cannot write to {self.folder}: {error.strerror}") from error
        self.journal.repair()

    def unlock(self) -> None:
        """Lets another process write."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def artifact_folder(self, attempt: str) -> Path:
        return self.folder / "artifacts" / attempt

    def store_reply(self, attempt: str, name: str, reply: Reply) -> None:
        """Stores a reply before anything else is done with it: prompt and text to read, `<name>.json` to resume from."""
        folder = self.artifact_folder(attempt)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write to {folder}: {error.strerror}; free some space and resume") from error
        atomic_write(folder / f"{name}.prompt.md", reply.prompt)
        atomic_write(folder / f"{name}.md", reply.text)
        atomic_write(folder / f"{name}.json", reply.model_copy(update={"prompt": "", "text": ""}).model_dump_json())

    def load_reply(self, attempt: str, name: str) -> Reply | None:
        """What `keep` stored, if it got that far."""
        folder = self.artifact_folder(attempt)
        try:
            bare = Reply.model_validate_json((folder / f"{name}.json").read_text())
            return bare.model_copy(update={"text": (folder / f"{name}.md").read_text()})
        except (OSError, ValidationError):
            return None

    def record_incident(self, task: str, round: int, what: str, at: float) -> None:
        append_event(self.incidents, task=task, round=round, what=what, at=at)


def redact_revoked(attempt: Attempt) -> Attempt:
    """An attempt whose kernel was revoked: not feasible, without times, and without code that could be shown to anyone."""
    found = attempt.outcome
    verdict = (GateResult(gate="audit", passed=False, reason="revoked", detail=REVOKED_DETAIL),) if found.feasible else ()
    outcome = Outcome(
        gates=(*found.gates, *verdict),
        versions=found.versions,
        protocol=found.protocol,
        skipped_checks=found.skipped_checks,
        usage=found.usage,
    )
    candidate = attempt.candidate.model_copy(update={"files": {}, "notes": REVOKED_DETAIL})
    return attempt.model_copy(update={"outcome": outcome, "candidate": candidate})


def new_run_id(parts: Sequence[str]) -> str:
    """A name that sorts by time and does not repeat: `20260102-030405-cpp-sweep-1a2b`."""
    words = [re.sub(r"[^\w.]+", "-", part) for part in parts]  # a part may be called module:Class
    return "-".join([time.strftime("%Y%m%d-%H%M%S"), *words, secrets.token_hex(2)])


def atomic_write(path: Path, text: str) -> None:
    """All of the text or nothing, whenever this process dies."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}; free some space or make the folder writable, then resume"
        ) from error
