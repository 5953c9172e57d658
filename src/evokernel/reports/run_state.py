"""The state of a run in one word, with the reason why it is not finished, and the incidents behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evokernel.core.run import Run
from evokernel.core.sessions import Incident, Session, SessionEnd, has_writer, read_sessions
from evokernel.reports import metrics
from evokernel.reports.metrics import TaskResult

NO_RECORDED_END = "The process ended without recording why: it was killed, it ran out of memory, or the machine stopped."
NOTHING_CORRECT = "All attempts are made, and no task has a correct kernel."
INTERRUPTED_BY_USER = "The user interrupted the run."


class RunState(NamedTuple):
    """The state of a run."""

    name: str
    """`finished`, `unsolved`, `running`, `interrupted`, `stopped`, `failed`, `killed`, `unfinished` or `damaged`."""
    label: str
    """The state in at most three words."""
    explanation: str = ""
    """Why the run is in this state, in the words of the error that ended it; empty if the label says everything."""
    since: float | None = None
    """When the last session ended, or the time of its last entry; in seconds since the epoch."""


class IncidentGroup(NamedTuple):
    """Incidents with the same message."""

    message: str
    occurrences: int
    tasks: tuple[str, ...]
    last_at: float


def describe_state(results: Sequence[TaskResult], is_complete: bool, sessions: Sequence[Session], is_being_written: bool) -> RunState:
    """Return the state of a run from its attempts, its sessions, and whether a process writes to it."""
    last = sessions[-1] if sessions else None
    if is_being_written and (last is None or last.end is None):
        return RunState("running", "running")
    last_entry = max([attempt.finished_at for result in results for attempt in result.attempts] + [last.started_at if last else 0.0])
    since = (last.ended_at if last else None) or last_entry or None
    if is_complete and results:
        if not metrics.count_correct(results):
            return RunState("unsolved", "nothing correct", NOTHING_CORRECT, since)
        return RunState("finished", "finished", describe_end(last), since)
    if last is None or last.end is SessionEnd.FINISHED:
        return RunState("unfinished", "unfinished", "", since)
    return RunState(last.end.value, last.end.value, describe_end(last), since) if last.end else killed_state(since)


def describe_end(session: Session | None) -> str:
    """Return why a session ended early; an empty text if it finished."""
    if session is None or session.end is SessionEnd.FINISHED:
        return ""
    if session.end is SessionEnd.INTERRUPTED:
        return INTERRUPTED_BY_USER
    return session.message if session.end else NO_RECORDED_END


def killed_state(since: float | None) -> RunState:
    """Return the state of a run whose process ended without a word."""
    return RunState("killed", "ended abruptly", NO_RECORDED_END, since)


def run_state(run: Run, results: Sequence[TaskResult]) -> RunState:
    """Return the state of a run in a folder."""
    is_complete = not any(run.config.remaining_attempts(result.attempts) for result in results)
    return describe_state(results, is_complete, read_sessions(run.folder), has_writer(run.folder))


def group_incidents(incidents: Sequence[Incident]) -> list[IncidentGroup]:
    """Return the incidents by message, the latest first."""
    groups: dict[str, list[Incident]] = {}
    for incident in incidents:
        groups.setdefault(incident.message, []).append(incident)
    merged = [
        IncidentGroup(message, len(ones), tuple(dict.fromkeys(one.task for one in ones)), max(one.occurred_at for one in ones))
        for message, ones in groups.items()
    ]
    return sorted(merged, key=lambda group: -group.last_at)
