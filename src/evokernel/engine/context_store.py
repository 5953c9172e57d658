"""Stores the context of an unfinished attempt, so that a resumed run credits a stored reply to the memory items that its prompt showed."""

from __future__ import annotations

from contextlib import suppress

from pydantic import ValidationError

from evokernel.core import paths
from evokernel.core.errors import UserError
from evokernel.core.records import Context
from evokernel.core.run import Run
from evokernel.core.state import State

CONTEXT_FILE = "context.json"


def load_context(run: Run, state: State) -> Context | None:
    """Return the stored context of an attempt that has a stored reply or step; None if there is none."""
    if run.has_replies(state.next_id):
        with suppress(OSError, ValidationError):
            return Context.model_validate_json((run.artifact_folder(state.next_id) / CONTEXT_FILE).read_text())
    return None


def store_context(run: Run, state: State, context: Context) -> None:
    """Store a context that the policy could not reproduce later, because memory changes meanwhile."""
    folder = run.artifact_folder(state.next_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}. Free disk space, then resume.") from error
    paths.write_text(folder / CONTEXT_FILE, context.model_dump_json())


def delete_context(run: Run, attempt_id: str) -> None:
    """Delete the stored context of an attempt that is in the journal."""
    (run.artifact_folder(attempt_id) / CONTEXT_FILE).unlink(missing_ok=True)
