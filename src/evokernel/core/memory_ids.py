"""Ids of memory items that come from attempts: `run:task/n` is the trace of an attempt, `run:task/n/note` the note about it; and the ids
of what has values without being in memory: the choices to show nothing, and the value model."""

from __future__ import annotations

NOTE_SUFFIX = "/note"
NO_CARD, NO_KERNEL = "no-card", "no-kernel"
"""Names of the choices to show no card, or no kernel, in a place of a context. They have values like items, but are not in memory."""

VALUE_MODEL = "value-model"
"""Name under which the observations of the policy `contextual` are in the ledger."""


def make_trace_id(run: str, attempt: str) -> str:
    """Return the id of an attempt's trace."""
    return f"{run}:{attempt}"


def make_note_id(trace: str) -> str:
    """Return the id of the note about a trace."""
    return trace + NOTE_SUFFIX


def is_note_id(id: str) -> bool:
    """Return whether an id is that of a note."""
    return id.endswith(NOTE_SUFFIX)


def make_nothing_id(backend: str, name: str) -> str:
    """Return the id under which the choice to show nothing has its values: `backend/no-card`."""
    return f"{backend}/{name}"


def is_nothing_id(id: str, backend: str = "") -> bool:
    """Return whether an id is that of a choice to show nothing, for this backend if one is given."""
    prefix, _, name = id.rpartition("/")
    return name in (NO_CARD, NO_KERNEL) and backend in ("", prefix)


def make_model_id(backend: str) -> str:
    """Return the id under which a backend's value model has its observations: `backend/value-model`."""
    return f"{backend}/{VALUE_MODEL}"


def is_model_id(id: str, backend: str = "") -> bool:
    """Return whether an id is that of a value model, of this backend if one is given."""
    prefix, _, name = id.rpartition("/")
    return name == VALUE_MODEL and backend in ("", prefix)


def to_trace_id(id: str) -> str:
    """Return the id of the trace that an item is, or that it is a note about."""
    return id.removesuffix(NOTE_SUFFIX)


def split_trace_id(id: str) -> tuple[str, str]:
    """Return run and attempt of a trace or note; the attempt is empty for an item that comes from no attempt."""
    run, _, attempt = to_trace_id(id).partition(":")
    return run, attempt


def task_of_attempt(attempt: str) -> str:
    """Return the task of an attempt: its id is `task/n`."""
    return attempt.rpartition("/")[0]
