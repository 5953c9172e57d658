"""Exports the best kernels of a run as self-contained folders: kernel, reference, PyTorch wrapper, test and provenance."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core import paths
from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean, find_plugin
from evokernel.core.records import Attempt, Candidate, Outcome, Settings, Task
from evokernel.core.run import Run
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import TaskResult

TEMPLATES = Path(__file__).parent / "templates"
PYTEST_INI = "[pytest]\naddopts = --import-mode=importlib\n"
Wrap = Callable[[Task, Candidate, Settings], dict[str, str]]
"""Function of a backend's `export` package that returns the wrapper files of a kernel."""


class ExportedKernel(NamedTuple):
    """One exported kernel and its folder."""

    task: str
    attempt: str
    folder: Path
    latency_us: float | None
    speedup: float | None


class ExportResult(NamedTuple):
    """The kernels that an export wrote and the tasks without a correct kernel."""

    folder: Path
    kernels: list[ExportedKernel]
    unsolved: list[str]
    has_wrapper: bool
    """Whether the backend provides a PyTorch wrapper."""
    clocks: list[str]
    baselines: list[str]


def export_kernels(run: Run, attempts: Sequence[Attempt], out: Path, only: str = "") -> ExportResult:
    """Write the fastest correct kernel of each task, or only of the tasks that match `only` (an id, a name or a pattern)."""
    results = select_tasks(metrics.collect_results(run, attempts), only)
    wrap = find_wrapper(run.config.plugin_name("backend"))
    kernels = []
    for result in results:
        if result.best and (outcome := result.best_outcome):
            folder = out / result.task.id.replace("/", "-")
            write_files(folder, {**kernel_files(run, result.task, result.best, outcome, wrap)})
            kernels.append(ExportedKernel(result.task.id, result.best.id, folder, outcome.latency_us, outcome.speedup))
    clocks = sorted(metrics.clock_names(result.best for result in results if result.best))
    unsolved = [result.task.id for result in results if not result.best]
    export = ExportResult(out, kernels, unsolved, wrap is not None, clocks, sorted(metrics.baseline_names(results)))
    if not kernels:
        raise UserError(f"nothing to export: no kernel of {run.folder} passed all gates. Continue the run with 'evokernel resume'.")
    write_files(out, {"README.md": render_readme(run, results, export), **({"pytest.ini": PYTEST_INI} if wrap else {})})
    return export


def select_tasks(results: list[TaskResult], only: str) -> list[TaskResult]:
    """Return the results of the tasks that match the pattern `only`; all of them if it is empty."""
    if not only:
        return results
    names = [result.task.id for result in results]
    matches = [one for one in results if any(fnmatchcase(name, only) for name in (one.task.id, one.task.id.rpartition("/")[2]))]
    if not matches:
        raise UserError(f"this run has no task '{only}'{did_you_mean(only, names)}. It has: {', '.join(names)}.")
    return matches


def find_wrapper(backend: str) -> Wrap | None:
    """Return the `files` function of the backend's `export` package; None if the backend has no such package."""
    package = find_plugin("backend", backend).__module__.rpartition(".")[0]
    if not package or importlib.util.find_spec(f"{package}.export") is None:
        return None
    wrap: Wrap | None = getattr(importlib.import_module(f"{package}.export"), "files", None)
    return wrap


def kernel_files(run: Run, task: Task, best: Attempt, outcome: Outcome, wrap: Wrap | None) -> dict[str, str]:
    """Return the texts of all files in one kernel's folder, by file name."""
    files = {**best.candidate.files, "reference.py": task.source}
    if wrap:
        files |= wrap(task, best.candidate, run.config.plugin_settings("backend"))
        files["test_kernel.py"] = render_template("test_kernel.py.j2", task=task)
    return {**files, "provenance.json": json.dumps(build_provenance(run, task, best, outcome), indent=2) + "\n"}


def build_provenance(run: Run, task: Task, best: Attempt, outcome: Outcome) -> dict[str, Any]:
    """Return the origin of a kernel and its outcomes; `outcome` is the re-evaluation where the kernel has one."""
    prompt = run.artifact_folder(best.id) / "reply.prompt.md"
    text = prompt.read_bytes() if prompt.is_file() else b""
    return {
        "run": run.config.id,
        "attempt": best.id,
        "task": task.id,
        "candidate": best.candidate.id,
        "backend": run.config.backend,
        "generator": run.config.generator,
        "policy": run.config.policy,
        "model": best.usage.model or None,
        "prompt_sha256": hashlib.sha256(text).hexdigest() if text else None,
        "stage": best.stage.value,
        "start_point": best.start_point,
        "shown_items": [ref.model_dump(mode="json") for ref in best.shown_items],
        "latency_us": outcome.latency_us,
        "noise": outcome.noise,
        "speedup": outcome.speedup,
        "outcome": best.outcome.model_dump(mode="json"),
        "reevaluation": None if outcome is best.outcome else outcome.model_dump(mode="json"),
        "versions": dict(run.environment.get("versions", {})),
        "hardware": dict(run.environment.get("hardware", {})),
        "finished_at": best.finished_at or None,
    }


def render_readme(run: Run, results: Sequence[TaskResult], export: ExportResult) -> str:
    """Return the README of an export: a table of its kernels and how to use them."""
    rows = [
        {
            "folder": result.task.id.replace("/", "-"),
            "task": result.task.id,
            "latency": formatting.format_latency(result.best_outcome.latency_us),
            "baseline": formatting.format_latency(result.baseline_us),
            "speedup": formatting.format_ratio(result.speedup),
        }
        for result in results
        if result.best_outcome
    ]
    return render_template(
        "export.md.j2",
        config=run.config,
        rows=rows,
        unsolved=export.unsolved,
        has_wrapper=export.has_wrapper,
        clock=formatting.clock_label(export.clocks),
        baseline=formatting.baseline_label(export.baselines),
        environment=run.environment_summary(),
    )


def render_template(name: str, **values: Any) -> str:
    """Render a plain-text template; its values are not escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.get_template(name).render(**values)


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write files into a folder and create the folder if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {folder}: {error.strerror}. Choose another folder with --out.") from error
    for name, text in files.items():
        paths.write_text(folder / Path(name).name, text)
