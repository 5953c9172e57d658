"""Exports the best kernels of a run as an installable Python package: PyTorch operators with their tests and provenance."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core import paths
from evokernel.core.commands import program_name
from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean, find_plugin, make_plugin
from evokernel.core.records import Attempt, Candidate, Outcome, Settings, Task
from evokernel.core.run import Run
from evokernel.reports import formatting, metrics
from evokernel.reports.delivery import Speed, SpeedComparison, compare_speed
from evokernel.reports.earlier_export import EarlierKernel, keep_other_kernels
from evokernel.reports.metrics import TaskResult
from evokernel.reports.operator_spec import make_operator_spec

TEMPLATES = Path(__file__).parent / "templates"
RUNTIME = Path(__file__).parent / "torch_operator.py"
"""The file that every exported package contains."""
MIN_TORCH = "torch>=2.6"
NAME_SUFFIXES = {Speed.FASTER: "", Speed.SLOWER: "_slower", Speed.NOT_FASTER: "_not_faster", Speed.UNKNOWN: "_not_compared"}
Wrap = Callable[[Task, Candidate, Settings], dict[str, str]]
"""Function of a backend's `export` package that returns the files which call a kernel, among them `kernel_call.py`."""


class ExportedKernel(NamedTuple):
    """One exported kernel and its folder."""

    task: str
    attempt: str
    folder: Path
    operator: str
    """`torch.ops.NAMESPACE.NAME`; empty if the backend cannot be called from PyTorch."""
    latency_us: float | None
    comparison: SpeedComparison


class OmittedKernel(NamedTuple):
    """A correct kernel that was not exported, and its speed."""

    task: str
    comparison: SpeedComparison


class ExportResult(NamedTuple):
    """The kernels that an export wrote, those that it left out, and the tasks without a correct kernel."""

    folder: Path
    package: str
    kernels: list[ExportedKernel]
    omitted: list[OmittedKernel]
    unsolved: list[str]
    has_wrapper: bool
    """Whether kernels of this backend can be called from PyTorch."""
    clocks: list[str]
    kept: list[EarlierKernel]
    """Kernels of other tasks that an earlier export wrote into the same package, and that stay in it."""

    def describe_omitted(self) -> str:
        """One line that names the kernels which were left out and why; empty if none was."""
        reasons = list_reasons(self.omitted)
        return (
            f"Left out, not faster than the best baseline: {reasons}. Export them with --all (in Python: all_kernels=True)."
            if reasons
            else ""
        )


class KernelExport(NamedTuple):
    """One kernel that is about to be written."""

    result: TaskResult
    best: Attempt
    outcome: Outcome
    comparison: SpeedComparison
    name: str
    """Name of its folder and operator."""

    @property
    def warning(self) -> str:
        """What a user of a kernel must know that is not faster than its baseline; empty for one that is."""
        return "" if self.comparison.is_faster else f"Not faster than the best baseline: {self.comparison.describe()}."


def export_kernels(
    run: Run, attempts: Sequence[Attempt], out: Path, only: str = "", *, export_all: bool = False, package: str = ""
) -> ExportResult:
    """Write the best kernel of each task that is faster than its best baseline, or of all solved tasks with `export_all`.

    `only` selects tasks by id, name or pattern. `package` is the name of the Python package and of the operators' namespace. Kernels that
    an earlier export wrote into the same package are replaced if their tasks are exported again; those of other tasks stay.
    """
    results = select_tasks(metrics.collect_results(run, attempts), only)
    backend = run.config.plugin_name("backend")
    package = check_package_name(package or f"evokernel_{backend}")
    wrap = find_wrapper(backend)
    exports = [prepare_export(result) for result in results if result.best]
    selected = [one for one in exports if export_all or one.comparison.is_faster]
    omitted = [OmittedKernel(one.result.task.id, one.comparison) for one in exports if one not in selected]
    unsolved = [result.task.id for result in results if not result.best]
    clocks = sorted(metrics.clock_names(one.best for one in exports))
    if not selected:
        raise UserError(explain_empty_export(run, omitted))
    parent = out / package if wrap else out
    replaced = {result.task.id for result in results} | {one.name for one in selected}
    kept = keep_other_kernels(parent, lambda earlier: bool({earlier.task, earlier.name} & replaced))
    kernels = []
    for one in selected:
        write_files(parent / one.name, kernel_files(run, one, package, wrap))
        operator = f"torch.ops.{package}.{one.name}" if wrap else ""
        kernels.append(ExportedKernel(one.result.task.id, one.best.id, parent / one.name, operator, one.outcome.latency_us, one.comparison))
    export = ExportResult(out, package, kernels, omitted, unsolved, wrap is not None, clocks, kept)
    if wrap:
        write_package(run, export, selected)
    write_files(out, {"README.md": render_readme(run, export, selected)})
    return export


def check_package_name(name: str) -> str:
    """Return the name of a package; raise UserError if Python cannot import it."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UserError(f"'{name}' is not a name for a Python package. Use lower-case letters, digits and underscores, such as my_kernels.")
    return name


def prepare_export(result: TaskResult) -> KernelExport:
    """Compare the best kernel of a task with its baselines and choose its name, which marks one that is not faster."""
    assert result.best
    assert result.best_outcome
    comparison = compare_speed(result.best_outcome)
    name = re.sub(r"\W", "_", result.task.id) + NAME_SUFFIXES[comparison.speed]
    return KernelExport(result, result.best, result.best_outcome, comparison, name)


def explain_empty_export(run: Run, omitted: Sequence[OmittedKernel]) -> str:
    """Say why nothing can be exported and what to do."""
    more_attempts = f"{program_name()} resume {run.folder} --budget N"
    if not omitted:
        return f"nothing to export: no kernel of {run.folder} passed all gates. Give it more attempts: {more_attempts}"
    return (
        f"nothing to export: no correct kernel is faster than its best baseline: {list_reasons(omitted)}. "
        f"Export them with --all (in Python: all_kernels=True), or give the run more attempts: {more_attempts}"
    )


def list_reasons(omitted: Sequence[OmittedKernel]) -> str:
    """`starter/softmax (1.73× slower), starter/gelu (within the noise)`."""
    return ", ".join(f"{one.task} ({one.comparison.describe_briefly()})" for one in omitted)


def select_tasks(results: list[TaskResult], only: str) -> list[TaskResult]:
    """Return the results of the tasks that match the pattern `only`; all of them if it is empty."""
    if not only:
        return results
    ids = [result.task.id for result in results]
    names = [one.rpartition("/")[2] for one in ids]
    matches = [one for one, *labels in zip(results, ids, names) if any(fnmatchcase(label, only) for label in labels)]
    if not matches:
        raise UserError(f"this run has no task '{only}'{did_you_mean(only, [*ids, *names])}. It has: {', '.join(ids)}.")
    return matches


def find_wrapper(backend: str) -> Wrap | None:
    """Return the `files` function of the backend's `export` package; None if the backend has no such package."""
    package = find_plugin("backend", backend).__module__.rpartition(".")[0]
    if not package or importlib.util.find_spec(f"{package}.export") is None:
        return None
    wrap: Wrap | None = getattr(importlib.import_module(f"{package}.export"), "files", None)
    return wrap


def find_dependencies(backend: str) -> list[str]:
    """Return the packages that an export of this backend needs."""
    package = find_plugin("backend", backend).__module__.rpartition(".")[0]
    return [MIN_TORCH, *getattr(importlib.import_module(f"{package}.export"), "DEPENDENCIES", ())]


def kernel_files(run: Run, export: KernelExport, package: str, wrap: Wrap | None) -> dict[str, str]:
    """Return the texts of all files in one kernel's folder, by file name."""
    task, candidate, settings = export.result.task, export.best.candidate, run.config.plugin_settings("backend")
    files = {**candidate.files, "reference.py": task.source}
    provenance = build_provenance(run, export)
    if wrap:
        backend = make_plugin("backend", candidate.backend, **settings)
        is_single_size = tuple(backend.sizes_for(candidate)) == ("bench",)
        spec = make_operator_spec(task, export.name, candidate.backend, export.outcome.protocol, is_single_size)
        values = {"task": task, "package": package, "name": export.name, "warning": export.warning, "verified": spec.record["verified"]}
        files |= wrap(task, candidate, settings) | spec.references
        files["operator.json"] = json.dumps(spec.record, indent=2) + "\n"
        for name in ("model_new.py", "test_kernel.py"):
            files[name] = render_template(f"export_{name}.j2", **values)
        files["__init__.py"] = render_template("export_kernel_init.py.j2", **values)
        provenance["verified"] |= {"arguments": spec.record["verified"], "shapes": spec.record["verified_shapes"]}
    return {**files, "provenance.json": json.dumps(provenance, indent=2) + "\n"}


def write_package(run: Run, export: ExportResult, selected: Sequence[KernelExport]) -> None:
    """Write the files that make the kernels one installable package."""
    backend, names = run.config.plugin_name("backend"), sorted([*(one.name for one in selected), *(one.name for one in export.kept)])
    values = {"runs": list_runs(run, export), "package": export.package, "names": names}
    backends = dict.fromkeys([backend, *(one.backend for one in export.kept)])
    write_files(
        export.folder / export.package,
        {"__init__.py": render_template("export_package_init.py.j2", **values), RUNTIME.name: RUNTIME.read_text(encoding="utf-8")},
    )
    pyproject = render_template(
        "export_pyproject.toml.j2",
        package=export.package,
        description=f"Kernels of backend {', '.join(backends)} as PyTorch operators, exported by EvoKernel",
        dependencies=list(dict.fromkeys(one for name in backends for one in find_dependencies(name))),
        packages=[export.package, *(f"{export.package}.{name}" for name in names)],
    )
    write_files(export.folder, {"pyproject.toml": pyproject})


def build_provenance(run: Run, export: KernelExport) -> dict[str, Any]:
    """Return the origin of a kernel, and what was verified; the figures are those of its re-evaluation where it has one."""
    task, best, outcome, comparison = export.result.task, export.best, export.outcome, export.comparison
    prompt = run.artifact_folder(best.id) / "reply.prompt.md"
    text = prompt.read_bytes() if prompt.is_file() else b""
    return {
        "run": run.config.id,
        "attempt": best.id,
        "task": task.id,
        "candidate": best.candidate.id,
        "files": list(best.candidate.files),
        "backend": run.config.backend,
        "generator": run.config.generator,
        "policy": run.config.policy,
        "model": best.usage.model or None,
        "prompt_sha256": hashlib.sha256(text).hexdigest() if text else None,
        "stage": best.stage.value,
        "start_point": best.start_point,
        "shown_items": [ref.model_dump(mode="json") for ref in best.shown_items],
        "verified": {
            "at": datetime.fromtimestamp(best.finished_at, UTC).isoformat(timespec="seconds") if best.finished_at else None,
            "protocol": outcome.protocol or None,
            "tolerance": {"atol": task.atol, "rtol": task.rtol},
            "skipped_checks": list(outcome.skipped_checks),
            "run_share": outcome.run_share,
            "compared_share": outcome.compared_share,
            "random_parts": outcome.random_parts,
        },
        "timing": {
            "clock": formatting.clock_label([outcome.clock]),
            "latency_us": outcome.latency_us,
            "noise": outcome.noise,
            "baselines_us": {name: outcome.baseline_latency_us(name) for name in outcome.baseline_us},
            "best_baseline": comparison.baseline or None,
            "speedup": comparison.speedup,
            "speedup_interval": comparison.interval,
            "speed": comparison.speed.value,
        },
        "outcome": best.outcome.model_dump(mode="json"),
        "reevaluation": None if outcome is best.outcome else outcome.model_dump(mode="json"),
        "versions": dict(run.environment.get("versions", {})),
        "hardware": dict(run.environment.get("hardware", {})),
    }


def render_readme(run: Run, export: ExportResult, selected: Sequence[KernelExport]) -> str:
    """Return the README of an export: a table of its kernels and how to use them."""
    rows = [readme_row(export, one.name, one.result.task.id, one.outcome.latency_us, one.comparison) for one in selected]
    rows += [readme_row(export, one.name, one.task, one.latency_us, one.comparison) for one in export.kept]
    return render_template(
        "export.md.j2",
        runs=list_runs(run, export),
        config=run.config,
        kept=[one.name for one in export.kept],
        backend=run.config.plugin_name("backend"),
        package=export.package,
        rows=rows,
        omitted=export.describe_omitted(),
        unsolved=export.unsolved,
        has_wrapper=export.has_wrapper,
        clock=formatting.clock_label(export.clocks),
        environment=run.environment_summary(),
    )


def readme_row(export: ExportResult, name: str, task: str, latency_us: float | None, comparison: SpeedComparison) -> dict[str, Any]:
    """Return one kernel's row in the table of the README."""
    return {
        "folder": f"{export.package}/{name}" if export.has_wrapper else name,
        "name": name,
        "task": task,
        "latency": formatting.format_latency(latency_us),
        "baseline": formatting.format_latency(comparison.baseline_us),
        "speed": comparison.describe(),
        "is_faster": comparison.is_faster,
    }


def list_runs(run: Run, export: ExportResult) -> str:
    """`run a`, or `runs a, b` if kernels of another run stay in the package."""
    ids = list(dict.fromkeys([run.config.id, *(one.run for one in export.kept)]))
    return f"run{'s' * (len(ids) > 1)} {', '.join(ids)}"


def render_template(file: str, **values: Any) -> str:
    """Render a plain-text template; its values are not escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.get_template(file).render(**values)


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write files into a folder and create the folder if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {folder}: {error.strerror}. Choose another folder.") from error
    paths.write_files(folder, files)
