"""Stores the context of an unfinished attempt, so that a resumed run credits a stored reply to the memory items that its prompt showed."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import ValidationError

from evokernel.core import paths
from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Context, State

if TYPE_CHECKING:
    from evokernel.engine.loop import Engine

log = logging.getLogger(__name__)
CONTEXT_FILE = "context.json"


def choose_or_restore(engine: Engine, state: State) -> Context:
    """Return the stored context of an attempt that has a stored reply, or let the policy choose a new one."""
    if engine.run.load_reply(state.next_id, "reply"):
        with suppress(OSError, ValidationError):
            return Context.model_validate_json((engine.run.artifact_folder(state.next_id) / CONTEXT_FILE).read_text())
    return engine.policy.choose(state, engine.memory)


def store_context(engine: Engine, state: State, context: Context) -> None:
    """Store a context that the policy could not reproduce later, because memory changes meanwhile."""
    folder = engine.run.artifact_folder(state.next_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}. Free disk space, then resume.") from error
    paths.write_text(folder / CONTEXT_FILE, context.model_dump_json())


def record_missed_round(engine: Engine, state: State, context: Context, error: InfraError) -> None:
    """Record that an infrastructure failure cost the task this round; a stored reply is verified in the next round with this context."""
    log.warning("%s: no attempt in round %d: %s", state.task.id, state.round + 1, error)
    engine.run.record_incident(state.task.id, state.round, str(error), engine.clock())
    if engine.run.load_reply(state.next_id, "reply"):
        store_context(engine, state, context)


def delete_context(engine: Engine, attempt_id: str) -> None:
    """Delete the stored context of an attempt that is in the journal."""
    (engine.run.artifact_folder(attempt_id) / CONTEXT_FILE).unlink(missing_ok=True)
