"""The best kernels of a run as folders that stand on their own: kernel, reference, wrapper, test, provenance."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean, find_plugin
from evokernel.core.records import Attempt, Candidate, Outcome, Settings, Task
from evokernel.core.run import Run, atomic_write
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import Tried

TEMPLATES = Path(__file__).parent / "templates"
PYTEST = "[pytest]\naddopts = --import-mode=importlib\n"
Wrap = Callable[[Task, Candidate, Settings], dict[str, str]]


class Exported(NamedTuple):
    """One kernel and where it went."""

    task: str
    attempt: str
    folder: Path
    latency_us: float | None
    speedup: float | None


class Export(NamedTuple):
    """What an export wrote, and what it could not."""

    folder: Path
    kernels: list[Exported]
    unsolved: list[str]
    wrapped: bool
    """Whether the backend brings a PyTorch wrapper."""
    clocks: list[str]
    baselines: list[str]


def export(run: Run, attempts: Sequence[Attempt], out: Path, only: str = "") -> Export:
    """Writes the fastest correct kernel of every task, or of those `only` names (an id, a name or a pattern)."""
    found = chosen(metrics.of_run(run, attempts), only)
    wrap = wrapper(run.config.plugin_name("backend"))
    kernels = []
    for tried in found:
        if tried.best and (outcome := tried.outcome):
            folder = out / tried.task.id.replace("/", "-")
            write(folder, {**contents(run, tried.task, tried.best, outcome, wrap)})
            kernels.append(Exported(tried.task.id, tried.best.id, folder, outcome.latency_us, outcome.speedup))
    clocks = sorted(metrics.clocks(tried.best for tried in found if tried.best))
    unsolved = [tried.task.id for tried in found if not tried.best]
    done = Export(out, kernels, unsolved, wrap is not None, clocks, sorted(metrics.baselines(found)))
    if not kernels:
        raise UserError(f"nothing to export: no kernel of {run.folder} passed all gates; give it more attempts with 'evokernel resume'")
    write(out, {"README.md": index(run, found, done), **({"pytest.ini": PYTEST} if wrap else {})})
    return done


def chosen(found: list[Tried], only: str) -> list[Tried]:
    """The tasks meant."""
    if not only:
        return found
    names = [tried.task.id for tried in found]
    wanted = [one for one in found if any(fnmatchcase(name, only) for name in (one.task.id, one.task.id.rpartition("/")[2]))]
    if not wanted:
        raise UserError(f"this run has no task '{only}'{did_you_mean(only, names)}; it has: {', '.join(names)}")
    return wanted


def wrapper(backend: str) -> Wrap | None:
    """The `files` function of a backend's `export` package; None when it brings none."""
    package = find_plugin("backend", backend).__module__.rpartition(".")[0]
    if not package or importlib.util.find_spec(f"{package}.export") is None:
        return None
    found: Wrap | None = getattr(importlib.import_module(f"{package}.export"), "files", None)
    return found


def contents(run: Run, task: Task, best: Attempt, found: Outcome, wrap: Wrap | None) -> dict[str, str]:
    """Every file of one kernel's folder."""
    files = {**best.candidate.files, "reference.py": task.source}
    if wrap:
        files |= wrap(task, best.candidate, run.config.plugin_settings("backend"))
        files["test_kernel.py"] = template("test_kernel.py.j2", task=task)
    return {**files, "provenance.json": json.dumps(provenance(run, task, best, found), indent=2) + "\n"}


def provenance(run: Run, task: Task, best: Attempt, found: Outcome) -> dict[str, Any]:
    """Where a kernel comes from and what was found about it, last when the run was over."""
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
        "start": best.start_point,
        "memories_shown": [ref.model_dump(mode="json") for ref in best.shown_items],
        "latency_us": found.latency_us,
        "noise": found.noise,
        "speedup": found.speedup,
        "outcome": best.outcome.model_dump(mode="json"),
        "judged_again": None if found is best.outcome else found.model_dump(mode="json"),
        "versions": dict(run.facts.get("versions", {})),
        "hardware": dict(run.facts.get("hardware", {})),
        "finished_at": best.finished_at or None,
    }


def index(run: Run, found: Sequence[Tried], done: Export) -> str:
    """The README of an export."""
    rows = [
        {
            "folder": tried.task.id.replace("/", "-"),
            "task": tried.task.id,
            "latency": formatting.latency(tried.outcome.latency_us),
            "baseline": formatting.latency(tried.baseline_us),
            "speedup": formatting.ratio(tried.speedup),
        }
        for tried in found
        if tried.outcome
    ]
    return template(
        "export.md.j2",
        config=run.config,
        rows=rows,
        unsolved=done.unsolved,
        wrapped=done.wrapped,
        clock=formatting.clock_label(done.clocks),
        baseline=formatting.baseline_label(done.baselines),
        facts=run.environment_summary(),
    )


def template(name: str, **values: Any) -> str:
    """A text file from its template; these are no pages, so nothing is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.get_template(name).render(**values)


def write(folder: Path, files: dict[str, str]) -> None:
    """Files into a folder, made when it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror}; give another place with --out") from error
    for name, text in files.items():
        atomic_write(folder / Path(name).name, text)
