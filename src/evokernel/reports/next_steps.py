"""The commands that a user can type next, for a run, a task or a memory item."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evokernel.core.commands import program_name
from evokernel.core.config import RunConfig
from evokernel.core.records import Attempt
from evokernel.reports.delivery import compare_speed
from evokernel.reports.metrics import TaskResult
from evokernel.reports.run_state import RunState

MODEL_FREE_GENERATOR = "template_search"
ENDED_EARLY = ("interrupted", "stopped", "failed", "killed", "unfinished")
FIXES = {
    "failed": "Fix the error above, then resume",
    "killed": "Resume where it ended",
    "stopped": "Raise the limit, then resume",
    "unfinished": "Start or resume",
}


class NextStep(NamedTuple):
    """A command and its purpose."""

    purpose: str
    command: str


def quote_command(*words: object) -> str:
    """Return a command line that a shell can run."""
    return shlex.join(["evokernel", *map(str, words)])


def run_steps(folder: Path, config: RunConfig, state: RunState, results: Sequence[TaskResult]) -> list[NextStep]:
    """Return the commands for a run: resume it or give it more attempts, export its kernels, print its tables."""
    steps = []
    if state.name in ENDED_EARLY:
        steps.append(NextStep(FIXES.get(state.name, "Resume"), quote_command("resume", folder)))
    if state.name in ("finished", "unsolved"):
        steps.append(NextStep("More attempts", quote_command("resume", folder, "--budget", 2 * config.budget)))
    if solved := [result for result in results if result.is_solved]:
        steps.append(NextStep("Export the best kernels", quote_command("export", folder, *export_options(solved))))
    if any(result.attempts for result in results):
        steps.append(NextStep("Tables and report", quote_command("report", folder)))
        steps.append(NextStep("Pages to share", quote_command("web", "--export", folder, f"{folder.name}-pages")))
    return steps


def task_steps(folder: Path, config: RunConfig, result: TaskResult) -> list[NextStep]:
    """Return the commands for a task: show it, and export its best kernel."""
    task, backend = result.task.id, config.plugin_name("backend")
    steps = [NextStep("Show the task", quote_command("tasks", "show", task, "--backend", backend))]
    if result.is_solved:
        steps.append(NextStep("Export its best kernel", quote_command("export", folder, "--task", task, *export_options([result]))))
    return steps


def export_options(results: Sequence[TaskResult]) -> list[str]:
    """Return `--all` if no kernel is faster than its best baseline: without it, nothing would be exported."""
    return [] if any(compare_speed(result.best_outcome).is_faster for result in results) else ["--all"]


def kernel_steps(config: RunConfig, attempt: Attempt) -> list[NextStep]:
    """Return the commands for a downloaded kernel: verify it, and start a run from it; none if it is not one file."""
    if len(attempt.candidate.files) != 1:
        return []
    (name,), backend = attempt.candidate.files, config.plugin_name("backend")
    return [
        NextStep("Verify the downloaded file", quote_command("verify", name, "--task", attempt.task, "--backend", backend)),
        NextStep("Start a run from it", quote_command("run", "--backend", backend, "--tasks", attempt.task, "--start", name)),
    ]


def item_steps(id: str, bank: object) -> list[NextStep]:
    """Return the commands for a memory item: show it, and revoke it with everything derived from it."""
    return [
        NextStep("Show it in the terminal", quote_command("memory", "show", id, "--memory", bank)),
        NextStep("See what revoking it would remove", quote_command("memory", "revoke", id, "--memory", bank, "--dry-run")),
    ]


def bank_steps(bank: object) -> list[NextStep]:
    """Return the commands for a memory bank: figures, export, consolidation."""
    return [
        NextStep("Main figures", quote_command("memory", "stats", "--memory", bank)),
        NextStep("Export it as a pack", quote_command("memory", "export", "pack.jsonl", "--memory", bank)),
        NextStep("See what consolidating would merge", quote_command("memory", "consolidate", "--memory", bank, "--dry-run")),
    ]


def terminal_steps(folder: Path, generator: str, has_kernels: bool) -> list[NextStep]:
    """Return the commands that a terminal prints after a run, as the user calls this program; without a model, how to use one."""
    program = program_name()
    dashboard = NextStep("look at it", f"{program} web {folder} --open")
    export = NextStep("use the kernels", f"{program} export {folder} --out kernels") if has_kernels else None
    model = (
        NextStep(
            "do better with a model", f"{program} run --generator llm --set generator.model=NAME (an API key, ollama or 'model fetch')"
        )
        if generator == MODEL_FREE_GENERATOR
        else NextStep("give it more attempts", f"{program} resume {folder} --budget N")
    )
    return [step for step in (dashboard, export, model) if step]
