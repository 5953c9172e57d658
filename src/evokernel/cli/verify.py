"""`evokernel verify`: one kernel against one task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.kernel_files import candidate, refuse_what_is_no_kernel, written_in
from evokernel.cli.output import emit, json_option, pairs, tell
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.core.config import RunConfig
    from evokernel.core.records import Candidate, Outcome, Task

GATES = ("screen", "build", "check", "time")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--task", "spec", required=True, metavar="SPEC", help="The task: suite/name or a .py file.")
@click.option("--backend", metavar="NAME", help="What the kernel is written in. [by the name of FILE]")
@click.option("--baseline", "baselines", multiple=True, type=click.Choice(["compile"]), help="Time torch.compile, too.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="A setting, such as backend.threads=2 or timeout_s=20.")
@click.option("--require-sandbox", is_flag=True, help="Refuse where a layer of the sandbox is missing; doctor lists them.")
@json_option
def command(
    file: Path, spec: str, backend: str | None, baselines: tuple[str, ...], sets: tuple[str, ...], require_sandbox: bool, as_json: bool
) -> int:
    """Judge one kernel against one task, through all gates. FILE may be a folder when the kernel has several files.

    \b
    Examples:
      evokernel verify kernel.py --task starter/softmax --set backend.chip=v6e
      evokernel verify kernel.cpp --task my_op.py --baseline compile --json
      evokernel verify kernel.cpp --task starter/matmul --set backend.threads=2
      evokernel verify kernel.asc --task starter/softmax

    Exit codes: 0 passed every gate, 1 did not, 2 something to fix, 3 nobody could judge it.
    """
    from evokernel.core.config import resolve_config
    from evokernel.reports import formatting
    from evokernel.sandbox import layers
    from evokernel.tasks.loader import load

    base = {"backend": {"name": backend or written_in(file)}}
    config = resolve_config(None, sets, base=base, workers=1, require_sandbox=require_sandbox or None)
    if config.require_sandbox:
        layers.require()
    kernel = candidate(file, config.plugin_name("backend"))
    tasks = load(spec)
    if len(tasks) != 1:
        raise UserError(f"'{spec}' names {len(tasks)} tasks; name one, such as --task {tasks[0].id}")
    outcome = judge(config, tasks[0], kernel, ("eager", *baselines))
    emit(found(tasks[0], kernel, outcome)) if as_json else tell(page(tasks[0], outcome))
    if outcome.feasible and (left_out := [name for name in baselines if name not in outcome.baseline_us]):
        tell(
            f"note: there is no time of {formatting.baseline_label(left_out)} to go with times that are {formatting.clock_label([outcome.clock])}",
            err=True,
        )
    return 0 if outcome.feasible else 1


def judge(config: RunConfig, task: Task, kernel: Candidate, baselines: tuple[str, ...]) -> Outcome:
    """Judged where and how a run would do it."""
    from evokernel.app.factory import check_llm_review, make_part
    from evokernel.core.protocols import RemoteExecutor
    from evokernel.core.records import Job

    check_llm_review(config)
    executor = make_part(config, "executor")
    if not isinstance(executor, RemoteExecutor) and (missing := make_part(config, "backend").missing()):
        raise UserError(f"backend '{config.plugin_name('backend')}' cannot work here: {missing}")
    refuse_what_is_no_kernel(kernel, make_part(config, "backend"))
    job = Job(
        backend=config.plugin_name("backend"),
        settings=config.plugin_settings("backend"),
        task=task,
        candidate=kernel,
        seed=config.seed,
        timeout_s=config.timeout_s,
        timing_s=config.timing_s,
        clock=config.clock,
        baselines=baselines,
        protocol=config.protocol,
        require_sandbox=config.require_sandbox,
        llm_review=config.llm_review,
    )
    try:
        outcome: Outcome = executor.submit(job).result()
        return outcome
    finally:
        executor.close()


def found(task: Task, kernel: Candidate, outcome: Outcome) -> dict[str, Any]:
    """The outcome with what follows from it."""
    from evokernel.reports import metrics

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
        "best_baseline": best_baseline(outcome),
        "floor_us": metrics.floor_us(outcome),
        "bottleneck": outcome.profile.bottleneck if outcome.profile else None,
        "outcome": outcome.model_dump(mode="json"),
    }


def best_baseline(outcome: Outcome) -> dict[str, Any] | None:
    """The fastest of the baselines, and what the kernel is over it."""
    found = {name: base for name in outcome.baseline_us if (base := outcome.baseline_latency_us(name))}
    if not found or not outcome.latency_us:
        return None
    name = min(found, key=lambda one: found[one])
    return {"name": name, "us": found[name], "speedup": found[name] / outcome.latency_us}


def page(task: Task, outcome: Outcome) -> str:
    """The same for people."""
    from evokernel.reports.formatting import tags

    lines = [task.id, *(f"  note: {text}" for text in tags(task.tags))]
    for gate in outcome.gates:
        mark = "✓" if gate.passed else "✗"
        lines.append(f"  {mark} {gate.gate.ljust(6)}  {gate.seconds:6.2f} s" + ("" if gate.passed else f"  {gate.reason}"))
        if gate.detail:
            lines += [f"      {line}".rstrip() for line in gate.detail.splitlines()]
    reached = {gate.gate for gate in outcome.gates}
    lines += [f"  – {name.ljust(6)}  not reached" for name in GATES if name not in reached]
    return "\n".join(
        [*lines, "", pairs([(f"  {label}", text) for label, text in figures(outcome)]), "", "passed" if outcome.feasible else "not passed"]
    )


def figures(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What was measured, label and words."""
    from evokernel.reports import formatting, metrics

    if outcome.latency_us is not None:
        count = len(outcome.samples_us)
        samples = f", {count} samples" if count > 1 else ""
        yield (
            "latency",
            f"{formatting.latency(outcome.latency_us)}{formatting.noise(outcome.noise)}, {formatting.clock_label([outcome.clock])}{samples}",
        )
        for name in outcome.baseline_us:
            base = outcome.baseline_latency_us(name)
            yield (
                formatting.baseline_label([name]),
                f"{formatting.latency(base)}, speed-up {formatting.ratio(base / outcome.latency_us if base else None)}",
            )
        if len(outcome.baseline_us) > 1 and (best := best_baseline(outcome)):
            said = f"{formatting.baseline_label([best['name']])}, {formatting.latency(best['us'])}, speed-up {formatting.ratio(best['speedup'])}"
            yield "best of these", said
    if outcome.profile:
        if floor_us := metrics.floor_us(outcome):
            yield "floor", f"{formatting.latency(floor_us)}, the task's bytes and operations at the device's ceilings"
        yield f"bound by {outcome.profile.bottleneck}", outcome.profile.summary
    yield from (("without", text) for text in outcome.skipped_checks)
    yield from outcome.versions.items()
