"""Finds the runs in a folder and lists their main figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evokernel.core.errors import UserError
from evokernel.core.run import Run
from evokernel.reports import metrics
from evokernel.reports.run_state import run_state


def latest_run(runs: Path) -> Path:
    """The run folder whose settings changed last."""
    folders = list_run_folders(runs)
    if not folders:
        raise UserError(f"no runs in ./{runs}. Name a run folder, or start a run with 'evokernel run'.")
    return max(folders, key=lambda folder: (folder / "run.toml").stat().st_mtime)


def list_run_folders(runs: Path) -> list[Path]:
    """Every run folder directly inside a folder, sorted by name."""
    if not runs.is_dir():
        return []
    return sorted(folder for folder in runs.iterdir() if (folder / "run.toml").is_file())


def run_row(folder: Path) -> dict[str, Any]:
    """The main figures of a run; a run that cannot be read is listed with the reason."""
    unknown: dict[str, Any] = dict.fromkeys(("tasks", "attempts", "correct", "backend", "generator", "policy"))
    try:
        run = Run.open(folder)
        attempts = run.attempts()
    except UserError as error:
        return {"folder": str(folder), **unknown, "state": f"damaged: {error}", "reason": None}
    results = metrics.collect_results(run, attempts)
    state = run_state(run, results)
    parts = {part: run.config.plugin_name(part) for part in ("backend", "generator", "policy")}
    figures = {"tasks": len(run.tasks), "attempts": len(attempts), "correct": metrics.count_correct(results)}
    return {"folder": str(folder), **unknown, **figures, **parts, "state": state.label, "reason": state.explanation or None}
