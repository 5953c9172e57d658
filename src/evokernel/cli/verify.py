"""`evokernel verify`: verifies one kernel for one task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import (
    TERMS_EPILOG,
    format_pairs,
    format_table,
    json_option,
    print_json,
    print_text,
    size_option,
    wrap_text,
)
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.core.config import RunConfig
    from evokernel.core.records import Candidate, Outcome, Task

DEFAULT_TRIALS = 24
"""Settings that `--tune` tries unless `--set tuning_trials=N` says otherwise."""
GATES = ("screen", "build", "check", "time")


@click.command(epilog=TERMS_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--task", "spec", required=True, metavar="SPEC", help="Task: suite/name or a .py file.")
@click.option("--backend", metavar="NAME", help="Kernel language. [detected from FILE]")
@size_option
@click.option("--baseline", "baselines", multiple=True, type=click.Choice(["compile"]), help="Also time torch.compile.")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a setting, such as backend.threads=2 or timeout_s=20; may be repeated.",
)
@click.option("--tune", is_flag=True, help="If the kernel is correct, try other values of its tunables (docs/tunables.md).")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="With --tune: write the kernel with its best values.")
@click.option("--require-sandbox", is_flag=True, help="Refuse to run if a layer of the sandbox is missing; 'evokernel doctor' lists them.")
@click.option("--profile", "shows_profile", is_flag=True, help="Print what the kernel would gain without each cause of its latency.")
@json_option
def command(
    file: Path,
    spec: str,
    backend: str | None,
    size: str | None,
    baselines: tuple[str, ...],
    sets: tuple[str, ...],
    tune: bool,
    out: Path | None,
    require_sandbox: bool,
    shows_profile: bool,
    as_json: bool,
) -> int:
    """Verify one kernel for one task through all gates. FILE may be a folder if the kernel has several files.

    \b
    Examples:
      evokernel verify kernel.py --task starter/softmax --set backend.chip=v6e
      evokernel verify kernel.cpp --task my_op.py --baseline compile --json
      evokernel verify kernel.cpp --task starter/matmul --set backend.threads=2
      evokernel verify kernel.asc --task starter/softmax --profile
      evokernel verify kernel.cpp --task starter/softmax --tune --out tuned.cpp

    Exit codes: 0 passed every gate, 1 failed a gate, 2 error to fix, 3 infrastructure failure.
    """
    from evokernel.app.factory import load_sized_tasks
    from evokernel.app.kernel_files import detect_backend, read_candidate
    from evokernel.app.verification import verify_candidate, verify_kernel
    from evokernel.core.config import resolve_config
    from evokernel.reports import formatting
    from evokernel.sandbox import layers

    if out and not tune:
        raise UserError("--out writes the kernel with its best values: add --tune")
    base = {"backend": {"name": backend or detect_backend(file)}}
    config = resolve_config(None, sets, base=base, workers=1, size=size, require_sandbox=require_sandbox or None)
    if config.require_sandbox:
        layers.require_all_layers()
    kernel = read_candidate(file, config.plugin_name("backend"))
    tasks = load_sized_tasks(config, spec)
    if len(tasks) != 1:
        raise UserError(f"'{spec}' names {len(tasks)} tasks. Name one, such as --task {tasks[0].id}.")
    if tune:
        config = with_tuning(config, kernel)
        kernel, outcome = verify_kernel(config, tasks[0], kernel, ("eager", *baselines))
    else:
        outcome = verify_candidate(config, tasks[0], kernel, ("eager", *baselines))
    if as_json:
        print_json(outcome_record(tasks[0], kernel, outcome))
    else:
        profile = f"\n\n{format_opportunities(kernel, outcome)}" if shows_profile else ""
        print_text(format_outcome(tasks[0], outcome) + profile)
    if out and outcome.feasible:
        print_text(f"wrote {write_kernel(kernel, file, out)}", err=True)
    if outcome.feasible and (missing_baselines := [name for name in baselines if name not in outcome.baseline_us]):
        print_text(
            f"note: no {formatting.baseline_label(missing_baselines)} baseline is available for "
            f"{formatting.clock_label([outcome.clock])} timings",
            err=True,
        )
    return 0 if outcome.feasible else 1


def with_tuning(config: RunConfig, kernel: Candidate) -> RunConfig:
    """The settings with trials; refuses a kernel without tunables."""
    from evokernel.core.errors import CandidateError
    from evokernel.core.tunables import read_tunables

    try:
        if not read_tunables(kernel.files).tunables:
            comment = "#" if all(name.endswith(".py") for name in kernel.files) else "//"
            raise UserError(f"the kernel declares no tunables. Add a comment such as '{comment} tune: TILE = 64 | 128' to a constant.")
    except CandidateError as error:
        raise UserError(error.detail) from error
    return config if config.tuning_trials else config.model_copy(update={"tuning_trials": DEFAULT_TRIALS})


def write_kernel(kernel: Candidate, source: Path, out: Path) -> Path:
    """Write the files of a kernel to a file, or to a folder if it was read from one."""
    from evokernel.core.paths import write_files

    try:
        if source.is_dir():
            out.mkdir(parents=True, exist_ok=True)
            write_files(out, kernel.files)
        else:
            out.write_text(next(iter(kernel.files.values())), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}. Choose another --out.") from error
    return out


def outcome_record(task: Task, kernel: Candidate, outcome: Outcome) -> dict[str, Any]:
    """The outcome and the figures derived from it, as JSON."""
    from evokernel.reports import metrics, opportunities

    best_baseline = metrics.fastest_baseline(outcome)
    return {
        "task": task.id,
        "candidate": kernel.id,
        "feasible": outcome.feasible,
        "reason": outcome.failure.reason if outcome.failure else None,
        "latency_us": outcome.latency_us,
        "noise": outcome.noise,
        "clock": outcome.clock or None,
        "speedup": outcome.speedup,
        "baseline_us": {name: outcome.baseline_latency_us(name) for name in outcome.baseline_us},
        "best_baseline": best_baseline._asdict() if best_baseline else None,
        "floor_us": metrics.roofline_us(outcome),
        "bottleneck": outcome.profile.bottleneck if outcome.profile else None,
        "opportunities": opportunities.opportunity_records(outcome),
        "outcome": outcome.model_dump(mode="json"),
    }


def format_outcome(task: Task, outcome: Outcome) -> str:
    """The outcome as text."""
    from evokernel.reports.formatting import explain_tags

    lines = [task.id, *(f"  note: {text}" for text in explain_tags(task.tags))]
    for gate in outcome.gates:
        mark = "✓" if gate.passed else "✗"
        lines.append(f"  {mark} {gate.gate.ljust(6)}  {gate.seconds:6.2f} s" + ("" if gate.passed else f"  {gate.reason}"))
        if gate.detail:
            lines += [f"      {line}".rstrip() for line in gate.detail.splitlines()]
    reached_gates = {gate.gate for gate in outcome.gates}
    lines += [f"  – {name.ljust(6)}  not reached" for name in GATES if name not in reached_gates]
    return "\n".join(
        [
            *lines,
            "",
            format_pairs([(f"  {label}", text) for label, text in measurement_rows(outcome)]),
            "",
            "passed every gate" if outcome.feasible else "failed",
        ]
    )


def format_opportunities(kernel: Candidate, outcome: Outcome) -> str:
    """What the kernel would gain without each cause of its latency: the figures, below them the next move, then the source lines."""
    from evokernel.reports import formatting, opportunities

    if outcome.profile is None:
        return "profile: none, because the kernel was not timed or the backend explains no latency"
    table = opportunities.opportunity_table(outcome)
    if table is None:
        return "profile: no opportunity was found"
    *figures, moves = zip(*table.format_rows())
    headings = [column.name for column in table.columns[:-1]]
    text = format_table(headings, list(zip(*figures)), [column.is_right_aligned for column in table.columns]).splitlines()
    head, rows = text[: -len(moves)], text[-len(moves) :]
    lines = [table.title.lower(), *(f"  {line}" for line in head)]
    for row, move in zip(rows, moves):
        lines += [f"  {row}", wrap_text(move, "      ")]
    lines += ["", f"  {table.note}"]
    for name, source in opportunities.annotate_source(kernel.files, outcome).items():
        lines += ["", f"  {name}"]
        lines += [
            f"  {formatting.format_latency(line.gain_us):>9}  {line.number:4}  {line.text.strip()}"
            for line in source
            if line.gain_us is not None
        ]
    return "\n".join(lines)


def measurement_rows(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Latency, baselines, profile and versions as labels and values."""
    from evokernel.reports import formatting, metrics

    if outcome.latency_us is not None:
        count = len(outcome.samples_us)
        samples = f", {count} samples" if count > 1 else ""
        latency = f"{formatting.format_latency(outcome.latency_us)}{formatting.format_noise(outcome.noise)}"
        yield "latency", f"{latency}, {formatting.clock_label([outcome.clock])}{samples}"
        for name in outcome.baseline_us:
            base = outcome.baseline_latency_us(name)
            speed = formatting.format_speed(base / outcome.latency_us if base else None)
            yield formatting.baseline_label([name]), f"{formatting.format_latency(base)}, kernel {speed}"
        if len(outcome.baseline_us) > 1 and (best := metrics.fastest_baseline(outcome)):
            name, speed = formatting.baseline_label([best.name]), formatting.format_speed(best.speedup)
            yield "fastest baseline", f"{name}, {formatting.format_latency(best.us)}, kernel {speed}"
    if outcome.profile:
        if floor_us := metrics.roofline_us(outcome):
            yield (
                "floor",
                f"{formatting.format_latency(floor_us)}, the time that the task's bytes and operations take at the limits of the device",
            )
        yield f"bound by {outcome.profile.bottleneck}", outcome.profile.summary
    if outcome.run_share is not None and outcome.compared_share is not None:
        yield (
            "timed size",
            f"too large to run whole: parts with {outcome.run_share:.2%} of the output ran, {outcome.compared_share:.3%} was compared",
        )
    yield from tuning_rows(outcome)
    yield from (("not checked", text) for text in outcome.skipped_checks)
    yield from outcome.versions.items()


def tuning_rows(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """The settings of tunables that were tried, one per row, and the chosen one."""
    from evokernel.core.labels import format_count, format_setting
    from evokernel.reports import formatting

    tuning = outcome.tuning
    if tuning is None:
        return
    for trial in tuning.trials:
        result = trial.reason if trial.latency_us is None else formatting.format_latency(trial.latency_us)
        speed = f", {trial.speedup:.3f}x the default's speed" if trial.speedup else ""
        yield (
            {"search": "tried", "confirm": "measured again", "verify": "verified"}[trial.stage],
            f"{format_setting(trial.setting)}: {result}{speed}",
        )
    count = sum(trial.stage == "search" for trial in tuning.trials)
    summary = (
        f"{format_setting(tuning.chosen)}, {tuning.gain:.3f}x the default's speed; {format_count(count, 'trial')} in {tuning.seconds:.0f} s"
    )
    yield "tuned", summary + (f" ({tuning.note})" if tuning.note else "")
