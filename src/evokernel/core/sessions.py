"""How each session of a run began and ended: `sessions.jsonl`, one line for its start and one for its end.

A session is the time in which one process writes to a run. A killed process leaves a start without an end.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.journal import Journal, append_event

SESSIONS_FILE, INCIDENTS_FILE, LOCK_FILE = "sessions.jsonl", "incidents.jsonl", "lock"


class SessionEnd(StrEnum):
    """How a session ended."""

    FINISHED = "finished"
    """All attempts and re-evaluations are done."""
    INTERRUPTED = "interrupted"
    """The user interrupted it."""
    STOPPED = "stopped"
    """It reached a limit that the user set, such as money or tokens."""
    FAILED = "failed"
    """An error ended it; the message is the error's."""


class Session(NamedTuple):
    """One session of a run."""

    started_at: float
    """Seconds since the epoch."""
    ended_at: float | None = None
    end: SessionEnd | None = None
    """None while the session runs, and if its process was killed."""
    message: str = ""


class Incident(NamedTuple):
    """An infrastructure failure that cost no budget."""

    task: str
    message: str
    occurred_at: float
    """Seconds since the epoch."""


def record_session_start(folder: Path, started_at: float) -> None:
    """Record that a process begins to write to a run."""
    Journal(folder / SESSIONS_FILE).repair()
    append_event(folder / SESSIONS_FILE, event="start", at=started_at)


def record_session_end(folder: Path, ended_at: float, end: SessionEnd, message: str = "") -> None:
    """Record how the latest session ended."""
    append_event(folder / SESSIONS_FILE, event="end", at=ended_at, end=end.value, message=message)


def read_sessions(folder: Path) -> list[Session]:
    """Return the sessions of a run, oldest first; lines that cannot be read are skipped."""
    sessions: list[Session] = []
    for event in read_events(folder / SESSIONS_FILE):
        at = parse_time(event.get("at"))
        if event.get("event") == "start" and at is not None:
            sessions.append(Session(at))
        elif event.get("event") == "end" and sessions and event.get("end") in set(SessionEnd):
            sessions[-1] = sessions[-1]._replace(ended_at=at, end=SessionEnd(event["end"]), message=str(event.get("message", "")))
    return sessions


def read_incidents(folder: Path) -> list[Incident]:
    """Return the infrastructure failures of a run, oldest first; lines that cannot be read are skipped."""
    events = read_events(folder / INCIDENTS_FILE)
    return [Incident(str(e.get("task", "")), str(e.get("message", "")), parse_time(e.get("occurred_at")) or 0.0) for e in events]


def has_writer(folder: Path) -> bool:
    """Return whether a process writes to the run now: it holds the lock of the run folder."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:  # no process ever wrote to it, or the file cannot be read
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(descriptor)
    return False


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a log."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError:
        return
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def parse_time(value: object) -> float | None:
    """Return a time in seconds since the epoch; None if the value is not one."""
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e11 else None
