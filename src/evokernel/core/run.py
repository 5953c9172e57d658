"""The folder of a run: `run.toml`, `tasks.jsonl`, `attempts.jsonl`, `incidents.jsonl`, `sessions.jsonl`, `artifacts/<attempt>/` …"""

from __future__ import annotations

import fcntl
import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from evokernel.core import paths
from evokernel.core.config import ENVIRONMENT_TABLES, RunConfig, Table, format_toml, is_environment_table, parse_config, read_toml
from evokernel.core.errors import UserError
from evokernel.core.journal import Journal, append_event
from evokernel.core.records import Attempt, GateResult, Outcome, Reply, Task
from evokernel.core.sessions import INCIDENTS_FILE, LOCK_FILE

Environment = Mapping[str, Mapping[str, str]]
"""Versions and hardware of a run: table name, then key and value."""
LOCK_RETRY_S = 0.05
PROMPT_SUFFIX = ".prompt.md"
REVOKED_DETAIL = "The kernel passed all gates but was revoked: it cheats, or it was derived from a kernel that cheats."


class Run:
    """A run's folder. Any process can read it; only the process that holds the lock may write."""

    def __init__(self, folder: Path, config: RunConfig, tasks: list[Task], environment: Environment) -> None:
        self.folder, self.config, self.tasks, self.environment = folder, config, tasks, environment
        self.journal = Journal(folder / "attempts.jsonl")
        self.incidents = folder / INCIDENTS_FILE
        self.revocations = folder / "revoked.jsonl"
        self._lock: IO[str] | None = None

    @classmethod
    def create(cls, folder: Path, config: RunConfig, tasks: Sequence[Task], environment: Environment) -> Run:
        """Create the folder of a new run. Raises UserError if the folder already contains a run."""
        cls.check_new_folder(folder)
        run = cls(folder, config, list(tasks), environment)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot create the run folder {folder}: {error.strerror}. Choose another one.") from error
        paths.write_text(folder / "tasks.jsonl", "".join(task.model_dump_json() + "\n" for task in tasks))
        run.save_config(config)
        return run

    @staticmethod
    def check_new_folder(folder: Path) -> None:
        """Raise UserError if the folder already contains a run."""
        if (folder / "run.toml").exists():
            raise UserError(f"{folder} already contains a run. Resume it with 'evokernel resume {folder}', or choose another folder.")

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Open an existing run. Raises UserError with one line if the folder is not a valid run."""
        if not (folder / "run.toml").is_file():
            raise UserError(f"{folder} is not a run folder: it has no run.toml. List the runs in ./runs with 'evokernel report --list'.")
        table = read_toml(folder / "run.toml")
        names = dict.fromkeys([*ENVIRONMENT_TABLES, *filter(is_environment_table, table)])
        environment = {name: parse_environment(folder / "run.toml", name, table.pop(name, {})) for name in names}
        config = parse_config(table)
        try:
            lines = (folder / "tasks.jsonl").read_text().splitlines()
            tasks = [Task.model_validate_json(line) for line in lines]
        except (OSError, ValidationError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read {folder / 'tasks.jsonl'} ({type(error).__name__}). Restore it, or start a new run.") from error
        return cls(folder, config, tasks, environment)

    def save_config(self, config: RunConfig) -> None:
        """Write settings and environment to run.toml; also used when a resume changes a setting."""
        self.config = config
        table: Table = config.model_dump(mode="json")
        paths.write_text(self.folder / "run.toml", format_toml({**table, **{name: {} for name in ENVIRONMENT_TABLES}, **self.environment}))

    def record_environment(self, environment: Environment) -> None:
        """Record the toolchain and hardware of a resumed run if they are new."""
        recorded_before = self.environments()
        if {name: environment.get(name, {}) for name in ENVIRONMENT_TABLES} not in recorded_before:
            number = len(recorded_before) + 1
            self.environment = {**self.environment, **{f"{name}-{number}": environment.get(name, {}) for name in ENVIRONMENT_TABLES}}
            self.save_config(self.config)

    def environments(self) -> list[Environment]:
        """Return the environment at the start of the run, then each different environment of a resume."""
        first_table = ENVIRONMENT_TABLES[0]
        suffixes = ["", *(name.removeprefix(first_table) for name in self.environment if name.startswith(f"{first_table}-"))]
        return [{name: self.environment.get(name + suffix, {}) for name in ENVIRONMENT_TABLES} for suffix in suffixes]

    def environment_summary(self) -> dict[str, str]:
        """Return each component of the environment as text: `3.11.2, then 3.12.1` if it changed."""
        history: dict[str, list[str]] = {}
        for environment in self.environments():
            for name, value in (pair for table in environment.values() for pair in table.items()):
                history.setdefault(name, []).append(value)
        return {name: ", then ".join(dict.fromkeys(values)) for name, values in history.items()}

    def attempts(self) -> list[Attempt]:
        """Read all attempts from the journal; revoked kernels appear as failures."""
        revoked = self.revoked_ids()
        return [redact_revoked(attempt) if attempt.id in revoked else attempt for attempt in self.journal.read()]

    def is_complete(self, attempts: Sequence[Attempt]) -> bool:
        """Return whether no task gets a further attempt after these."""
        return not any(self.config.remaining_attempts([attempt for attempt in attempts if attempt.task == task.id]) for task in self.tasks)

    def revoked_ids(self) -> set[str]:
        """Return the ids of revoked attempts."""
        try:
            lines = self.revocations.read_text().splitlines()
            return {str(json.loads(line)["attempt"]) for line in lines}
        except FileNotFoundError:
            return set()
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UserError(f"cannot read {self.revocations} ({type(error).__name__}). Restore it, or revoke the kernels again.") from error

    def revoke(self, attempt_ids: Iterable[str]) -> int:
        """Record revoked attempts in a separate file, because the journal never changes; return the number of new ones."""
        new = sorted(set(attempt_ids) - self.revoked_ids())
        for attempt in new:
            append_event(self.revocations, attempt=attempt, revoked_at=time.time())
        return len(new)

    def lock(self) -> None:
        """Make this process the only writer; the lock ends with the process."""
        try:
            self._lock = (self.folder / LOCK_FILE).open("w")
            self._take_lock(self._lock)
        except BlockingIOError as error:
            raise UserError(f"another process is writing to {self.folder}. Wait until it ends, or stop it.") from error
        except OSError as error:
            raise UserError(f"cannot write to {self.folder}: {error.strerror}. Make the folder writable.") from error
        self.journal.repair()

    @staticmethod
    def _take_lock(file: IO[str]) -> None:
        """Take the lock; try again once, because a dashboard that looks for a writer holds it for an instant."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_RETRY_S)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(self) -> None:
        """Release the lock, so that another process can write."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def artifact_folder(self, attempt: str) -> Path:
        """Return the folder with prompts and replies of an attempt."""
        return self.folder / "artifacts" / attempt

    def store_reply(self, attempt: str, name: str, reply: Reply) -> None:
        """Store a reply before it is used: prompt and text as Markdown for people, `<name>.json` for a resume."""
        folder = self.artifact_folder(attempt)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write to {folder}: {error.strerror}. Free disk space, then resume.") from error
        paths.write_text(folder / f"{name}{PROMPT_SUFFIX}", reply.prompt)
        paths.write_text(folder / f"{name}.md", reply.text)
        paths.write_text(folder / f"{name}.json", reply.model_copy(update={"prompt": "", "text": ""}).model_dump_json())

    def load_reply(self, attempt: str, name: str) -> Reply | None:
        """Load a reply that `store_reply` stored; None if there is none."""
        folder = self.artifact_folder(attempt)
        try:
            reply = Reply.model_validate_json((folder / f"{name}.json").read_text())
            return reply.model_copy(update={"text": (folder / f"{name}.md").read_text()})
        except (OSError, ValidationError):
            return None

    def has_replies(self, attempt: str) -> bool:
        """Return whether any reply of an attempt is stored: a step, the candidate or the lesson."""
        prompts = self.artifact_folder(attempt).glob(f"*{PROMPT_SUFFIX}")
        return any(self.load_reply(attempt, path.name.removesuffix(PROMPT_SUFFIX)) for path in prompts)

    def record_incident(self, task: str, round: int, message: str, occurred_at: float) -> None:
        """Append an infrastructure failure to incidents.jsonl."""
        append_event(self.incidents, task=task, round=round, message=message, occurred_at=occurred_at)


def parse_environment(file: Path, name: str, table: object) -> dict[str, str]:
    """Return a table of a run's environment. Raises UserError if it is no table of texts: evokernel writes it, but people edit files."""
    if not isinstance(table, dict):
        raise UserError(f"{file}: '{name}' = {table!r} must be a table that describes the run's environment. Remove the line.")
    for key, value in table.items():
        if not isinstance(value, str):
            raise UserError(f"{file}: [{name}] {key} = {value!r} must be a text. Remove the line: the table describes a machine.")
    return table


def redact_revoked(attempt: Attempt) -> Attempt:
    """Return a revoked attempt as a failure, without times and without code, so that no prompt can show it."""
    original = attempt.outcome
    revocation = (GateResult(gate="review", passed=False, reason="revoked", detail=REVOKED_DETAIL),) if original.feasible else ()
    outcome = Outcome(
        gates=(*original.gates, *revocation),
        versions=original.versions,
        protocol=original.protocol,
        skipped_checks=original.skipped_checks,
        usage=original.usage,
    )
    candidate = attempt.candidate.model_copy(update={"files": {}, "notes": REVOKED_DETAIL})
    tool_use = attempt.tool_use.model_copy(update={"trials": ()}) if attempt.tool_use else None
    return attempt.model_copy(update={"outcome": outcome, "candidate": candidate, "tool_use": tool_use})


def new_run_id(parts: Sequence[str]) -> str:
    """Return a unique name that sorts by time: `20260102-030405-cpp-llm-1a2b`."""
    words = [re.sub(r"[^\w.]+", "-", part) for part in parts]  # a plug-in name may be module:Class
    return "-".join([time.strftime("%Y%m%d-%H%M%S"), *words, secrets.token_hex(2)])
