"""`evokernel memory rewind`: makes practice items from fast kernels by removing one optimisation at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import TERMS_EPILOG, format_table, json_option, print_json, print_text, size_option
from evokernel.core.errors import UserError
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from evokernel.app.rewind import FastKernel, Pair, RewindEngine
    from evokernel.core.config import RunConfig


@click.command("rewind", epilog=TERMS_EPILOG)
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")
@click.option("--kernel", type=click.Path(path_type=Path), metavar="FILE", help="Rewind this kernel for --task instead.")
@click.option("--task", "spec", metavar="SPEC", help="Task of --kernel: suite/name or a .py file.")
@click.option("--backend", metavar="NAME", help="Kernel language. [that of the run, or detected from FILE]")
@size_option
@click.option("--generator", default="template_search", metavar="NAME", help="Generator that removes optimisations. [template_search]")
@click.option(
    "--variants", type=click.IntRange(1), default=8, metavar="N", help="Maximum number of optimisations to remove per kernel. [8]"
)
@click.option("--memory", metavar="PATH|URL", help="Memory bank for the items. [that of the run, or evokernel-memory.db]")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder of the rewinding; an existing one is resumed. [runs/<id>]"
)
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a setting, such as generator.model=local; may be repeated."
)
@json_option
def rewind(
    runs: tuple[Path, ...],
    kernel: Path | None,
    spec: str | None,
    backend: str | None,
    size: str | None,
    generator: str,
    variants: int,
    memory: str | None,
    out: Path | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make slower kernels from fast ones by removing one optimisation at a time, and store each verified pair as a practice item.

    \b
    Examples:
      evokernel memory rewind runs/my-run
      evokernel memory rewind --backend cpp --memory team.db
      evokernel memory rewind --kernel fast.cpp --task starter/softmax --generator llm --set generator.model=local

    Without RUN and --kernel, it rewinds the fastest kernel of each task in the bank. template_search changes one decision of its own
    kernels; a model is asked to remove an optimisation. Slower kernels themselves are not stored in memory.
    """
    from evokernel.app.rewind import create_rewinding

    config, kernels = find_kernels(runs, kernel, spec, {"backend": backend, "size": size, "generator": generator, "memory": memory}, sets)
    engine = create_rewinding(config, kernels, out, variants)
    rows = []
    try:
        for pair in engine.make_pairs():
            rows.append(pair_row(pair))
            if not as_json:
                print_text(describe_pair(rows[-1]))
        summary = summarize_rewinding(engine, rows)
    finally:
        engine.close()
    print_json(summary) if as_json else print_text(format_summary(summary))


def find_kernels(
    runs: tuple[Path, ...], kernel: Path | None, spec: str | None, flags: dict[str, Any], sets: tuple[str, ...]
) -> tuple[RunConfig, list[FastKernel]]:
    """The kernels to rewind and the settings to verify them with: from a file, from runs, or from the bank."""
    from evokernel.app import factory
    from evokernel.app import rewind as rewinding
    from evokernel.app.kernel_files import detect_backend, read_candidate
    from evokernel.core.bank_uri import parse_location, resolve_path
    from evokernel.core.config import resolve_config

    if bool(kernel) != bool(spec) or (kernel and runs):
        raise UserError("--kernel and --task belong together, without RUN: --kernel fast.cpp --task starter/softmax.")
    if runs:
        run_config, kernels = rewinding.find_kernels_in_runs(runs)
        base = run_config.model_dump(mode="json", exclude={"id", "memory", "fresh"})
        config = resolve_config(None, sets, base=base, **{**flags, "memory": flags["memory"] or str(run_config.bank_location(runs[0]))})
        if config.backend != run_config.backend or config.size != run_config.size:
            raise UserError("a run's kernels are rewound with its own backend and size. Leave out --backend and --size.")
        return config.model_copy(update={"memory": resolve_path(config.memory)}), kernels
    config = resolve_config(None, sets, **{**flags, "backend": flags["backend"] or (detect_backend(kernel) if kernel else None)})
    config = config.model_copy(update={"memory": resolve_path(config.memory)})
    if kernel is None or spec is None:
        return config, rewinding.find_kernels_in_bank(parse_location(config.memory), config)
    tasks = factory.load_sized_tasks(config, spec)
    if len(tasks) != 1:
        raise UserError(f"'{spec}' names {len(tasks)} tasks. Name one, such as --task {tasks[0].id}.")
    candidate = read_candidate(kernel, config.plugin_name("backend"))
    return config, [rewinding.FastKernel(task=tasks[0], candidate=candidate)]


def pair_row(pair: Pair) -> dict[str, Any]:
    """A pair as JSON; `worth` is null if the slower kernel failed or is not slower."""
    failure = pair.slow.outcome.failure
    return {
        "task": pair.task.id,
        "removed": pair.slow.candidate.notes,
        "fast_us": pair.fast.outcome.latency_us,
        "slow_us": pair.slow.outcome.latency_us,
        "clock": pair.slow.outcome.clock or pair.fast.outcome.clock,
        "worth": pair.worth,
        "cause": next(iter(pair.item.causes), pair.item.bottleneck) if pair.item else None,
        "reason": failure.reason if failure else None,
        "item": pair.item.id if pair.item else None,
    }


def describe_pair(row: dict[str, Any]) -> str:
    """A pair on one line, printed when it is verified."""
    from evokernel.reports.formatting import first_line

    result = f"worth {row['worth']:.2f}x" if row["item"] else f"failed ({row['reason']})" if row["reason"] else "not slower"
    return f"{row['task']}: {first_line(row['removed'], 80)}: {result}"


def summarize_rewinding(engine: RewindEngine, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of the command as JSON."""
    config = engine.run.config
    failed = {attempt.task: attempt.outcome.failure.reason for attempt in engine.failed_kernels() if attempt.outcome.failure}
    return {
        "run": config.id,
        "folder": str(engine.run.folder),
        "memory": config.memory,
        "pairs": rows,
        "items": [row["item"] for row in rows if row["item"]],
        "failed_kernels": failed,
        "without_variants": engine.kernels_without_variants(),
        "stop_reason": engine.stop_reason or None,
    }


def format_summary(summary: dict[str, Any]) -> str:
    """The stored items as a table, and what could not be rewound."""
    from evokernel.reports.formatting import clock_label, first_line, format_latency, format_ratio

    rows = [row for row in summary["pairs"] if row["item"]]
    cells = [
        [row["task"], first_line(row["removed"], 50), format_latency(row["slow_us"]), format_latency(row["fast_us"]),
         format_ratio(row["worth"]), row["cause"] or "–"]
        for row in rows
    ]  # fmt: skip
    header = ["task", "optimisation", "without", "with", "worth", "cause"]
    table = format_table(header, cells, [False, False, True, True, True, False]) + f"\n{clock_label([rows[0]['clock']])}" if rows else ""
    lines = [table] if table else []
    lines += [f"{task}: the kernel is not correct here ({reason})" for task, reason in summary["failed_kernels"].items()]
    lines += [f"{task}: the generator found nothing to remove; a model may: --generator llm" for task in summary["without_variants"]]
    lines += [f"stopped early: {summary['stop_reason']}; the same --out resumes it"] if summary["stop_reason"] else []
    stored = format_count(len(rows), "practice item")
    lines.append(f"{stored} of {format_count(len(summary['pairs']), 'pair')} stored in {summary['memory']}; journal in {summary['folder']}")
    return "\n".join(lines)
