"""Starts and resumes runs for the command line and for Python callers: settings, the backend that works here, notes for the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evokernel.app.factory import apply_generator_defaults, choose_working_backend, create_engine, describe_limitations, resume_engine
from evokernel.core.bank_uri import resolve_path
from evokernel.core.config import RunConfig, resolve_config
from evokernel.core.run import Run
from evokernel.engine.loop import Engine
from evokernel.reports.formatting import explain_tags


def configure_run(file: Path | None = None, overrides: Sequence[str] = (), **flags: Any) -> RunConfig:
    """Return the settings of a new run: defaults, a TOML file, flags that are not None, then overrides `part.key=value`.

    The path of the memory bank becomes absolute, so that the run finds its bank when it is resumed from another folder.
    """
    settings = resolve_config(file, overrides, **flags)
    return apply_generator_defaults(settings.model_copy(update={"memory": resolve_path(settings.memory)}))


def start_run(settings: RunConfig, folder: Path | None, on_fallback: Callable[[str], None]) -> Engine:
    """Create a run; `on_fallback` gets a sentence if another backend than the default one is used because that cannot work here."""
    settings, reason = choose_working_backend(settings)
    if reason:
        on_fallback(f"{reason}. Using backend '{settings.plugin_name('backend')}' instead.")
    return create_engine(settings, folder)


def continue_run(folder: Path, overrides: Sequence[str] = (), *, budget: int | None = None, **flags: Any) -> Engine:
    """Resume a run. A new budget is spent completely, also on tasks that ended earlier because a further attempt promised no gain."""
    stop_when = "budget" if budget and Run.open(folder).config.stop_when == "gain" else None
    return resume_engine(folder, overrides, **{"budget": budget, "stop_when": stop_when} | flags)


def list_run_notes(engine: Engine) -> list[str]:
    """Return what limits the results of a run: of its backend on this machine, and of its tasks."""
    limitations = describe_limitations(engine.run.config)
    return [
        *([limitations] if limitations else []),
        *(f"{task.id}: {text}" for task in engine.run.tasks for text in explain_tags(task.tags)),
    ]
