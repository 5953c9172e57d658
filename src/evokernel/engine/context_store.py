"""What an attempt is shown when it is begun more than once: a reply is credited to the memories it was written with, and to no others."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import ValidationError

from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Context, State
from evokernel.core.run import atomic_write

if TYPE_CHECKING:
    from evokernel.engine.loop import Engine

log = logging.getLogger(__name__)
KEPT = "context.json"


def choose(engine: Engine, state: State) -> Context:
    """The kept choice of an attempt whose reply is kept, or a new one."""
    if engine.run.load_reply(state.next_id, "reply"):
        with suppress(OSError, ValidationError):
            return Context.model_validate_json((engine.run.artifact_folder(state.next_id) / KEPT).read_text())
    return engine.policy.choose(state, engine.memory)


def keep(engine: Engine, state: State, context: Context) -> None:
    """Stores a choice that could not be computed again."""
    folder = engine.run.artifact_folder(state.next_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}; free some space and resume") from error
    atomic_write(folder / KEPT, context.model_dump_json())


def missed(engine: Engine, state: State, context: Context, error: InfraError) -> None:
    """Infrastructure trouble took this round from the task. What was written for it is verified in the next, by when memory has changed."""
    log.warning("%s: no attempt in round %d: %s", state.task.id, state.round, error)
    engine.run.record_incident(state.task.id, state.round, str(error), engine.clock())
    if engine.run.load_reply(state.next_id, "reply"):
        keep(engine, state, context)


def forget(engine: Engine, attempt: str) -> None:
    """Once it is in the journal."""
    (engine.run.artifact_folder(attempt) / KEPT).unlink(missing_ok=True)
