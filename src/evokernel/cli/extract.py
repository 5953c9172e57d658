"""`evokernel extract`: makes tasks from a model's operators, and substitutes kernels into the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import TERMS_EPILOG, format_table, json_option, print_json, print_text, wrap_text
from evokernel.core.errors import UserError
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from evokernel.core.run import Run
    from evokernel.torch_models.kernel_substitution import SubstitutionReport, SubstitutionResult
    from evokernel.torch_models.profiles import ModelProfile, Operator
    from evokernel.torch_models.task_extraction import ExtractedTask

CLOCKS = {"cpu": "processor time of one thread", "wall": "wall time with a fixed number of threads"}


@click.command(epilog=TERMS_EPILOG)
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL.py")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Output folder for the task files. [operators/<name of MODEL>]"
)
@click.option(
    "--min-share",
    metavar="SHARE",
    type=click.FloatRange(0, 1),
    default=0.02,
    show_default=True,
    help="Minimum share of the model's time for an operator to become a task.",
)
@click.option("--top", "max_tasks", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="Maximum number of tasks.")
@click.option(
    "--kernels-from",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Substitute the best kernels of this run into the model and check it.",
)
@click.option(
    "--all", "use_all", is_flag=True, help="With --kernels-from: substitute kernels too that are not faster than their best baseline."
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Random seed for the model's weights and inputs.")
@json_option
def command(
    model: Path,
    out: Path | None,
    min_share: float,
    max_tasks: int,
    kernels_from: Path | None,
    use_all: bool,
    seed: int,
    as_json: bool,
) -> int:
    """Rank the operators of a model by time, and write a task file for each expensive one.

    MODEL.py defines Model, get_inputs and get_init_inputs, like a task file. With --kernels-from no task is written:
    the kernels of that run that are faster than their best baseline replace the operators, and the model's outputs are
    checked end to end.

    \b
    Examples:
      evokernel extract gpt_block.py
      evokernel run --tasks operators/gpt_block --backend cpp --out runs/gpt
      evokernel extract gpt_block.py --kernels-from runs/gpt

    Exit codes: 0 success; 1 the model with kernels is wrong, or nothing was extracted or replaced; 2 error to fix.
    """
    from evokernel.core.run import Run
    from evokernel.suites import cache

    opened_run = Run.open(kernels_from) if kernels_from else None
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError(cache.NEEDS_TORCH) from error
    if opened_run:
        return check_model_with_kernels(model, opened_run, seed, use_all, as_json)
    return extract_tasks(model, out or Path("operators") / model.stem, min_share, max_tasks, seed, as_json)


def print_progress(text: str) -> None:
    """Print progress on stderr."""
    print_text(f"{text} …", err=True)


def extract_tasks(model: Path, folder: Path, min_share: float, max_tasks: int, seed: int, as_json: bool) -> int:
    """Profile the model, write the task files and print the ranking."""
    from evokernel.torch_models import task_extraction
    from evokernel.torch_models.profiles import profile_model

    profile = profile_model(model, seed, report_progress=print_progress).profile
    operators = task_extraction.select_operators(profile, min_share, max_tasks)
    if not operators:
        slowest = profile.operators[0]
        raise UserError(
            f"no operator takes {min_share:.0%} of the time; {slowest.call.name} takes the most ({slowest.share:.1%}). Lower --min-share."
        )
    task_extraction.create_task_folder(folder)
    extracted = list(task_extraction.extract_tasks(operators, model.stem, folder, print_progress))
    written = [task for task in extracted if task.path]
    if as_json:
        print_json({**profile_record(model, profile), "folder": str(folder), "operators": [operator_record(task) for task in extracted]})
    else:
        print_text(format_operator_table(extracted))
        print_text(f"\n{profile_note(profile, operators)}")
        if written:
            print_text(f"{format_count(len(written), 'task')} in {folder}. Next: evokernel run --tasks {folder}")
        for task in extracted:
            if not task.path:
                print_text(wrap_text(f"No task for {task.operator.call.name}: {task.reason}"))
    return 0 if written else 1


def check_model_with_kernels(model: Path, run: Run, seed: int, use_all: bool, as_json: bool) -> int:
    """Substitute kernels into the model and print the result of the end-to-end check."""
    from evokernel.torch_models.kernel_substitution import substitute_kernels
    from evokernel.torch_models.profiles import profile_model

    threads = int(str(run.config.plugin_settings("backend").get("threads") or 1))
    source, reference, profile = profile_model(model, seed, threads, print_progress)
    result = substitute_kernels(reference, source, profile, run, seed, print_progress, use_all=use_all)
    if as_json:
        print_json({**profile_record(model, profile), **substitution_record(result)})
    else:
        print_text(format_substitution(profile, result))
    return 0 if result.is_correct and result.replaced_calls else 1


def profile_note(profile: ModelProfile, operators: list[Operator]) -> str:
    """Explains the times in the ranking, and what they leave out."""
    from evokernel.reports.formatting import format_latency

    others = sum(operator.share for operator in profile.operators) - sum(operator.share for operator in operators)
    return (
        f"The model takes {format_latency(profile.seconds * 1e6)} ({CLOCKS[profile.clock]}, median of "
        f"{format_count(profile.runs, 'run')}): other operators {others:.1%}, "
        f"views, copies and Python {profile.rest_s / profile.seconds:.1%}. "
        "Bound: the speed-up of the model if the operator took no time."
    )


def format_operator_table(extracted: list[ExtractedTask]) -> str:
    """The ranking of operators as a table."""
    from evokernel.reports.formatting import format_latency, format_ratio

    rows = [
        [
            task.operator.call.name.removeprefix("torch.").replace("nn.functional.", "F."),
            str(task.operator.calls),
            format_latency(task.operator.seconds * 1e6),
            f"{task.operator.share:.1%}",
            format_ratio(task.operator.max_model_speedup),
            task.path.name if task.path else "–",
            " ".join(task.operator.tensor_types),
        ]
        for task in extracted
    ]
    header = ["operator", "calls", "time", "share", "bound", "task", "tensors"]
    return format_table(header, rows, [False, True, True, True, True])


def format_substitution(profile: ModelProfile, result: SubstitutionReport) -> str:
    """The result for every task, and for the model."""
    from evokernel.reports.formatting import format_latency, format_speed

    rows = [[task.task, *substitution_cells(task)] for task in result.results]
    lines = [format_table(["task", "calls", "torch", "kernel", "worst error", "status"], rows, [False, True, True, True, True]), ""]
    for check in result.checks:
        status = "correct" if check.is_correct else check.detail
        lines.append(f"seed {check.seed}: {status}; the largest error is {check.max_error_share:.3g} of the tolerance")
    if result.estimated_s is not None:
        speed_text = format_speed(profile.seconds / result.estimated_s) if result.estimated_s > 0 else "too short to measure"
        with_kernels, without_kernels = format_latency(result.estimated_s * 1e6), format_latency(profile.seconds * 1e6)
        lines.append(f"Estimate from measured parts: {with_kernels} with kernels, {without_kernels} without ({speed_text})")
    else:
        lines.append(f"No estimate of the model's time: {result.no_estimate_reason}")
    if names := ", ".join(one.task for one in result.left_out):
        lines.append(f"Left out because not faster than the best baseline: {names}. Substitute them with --all.")
    return "\n".join([*lines, "", describe_conclusion(result)])


def describe_conclusion(result: SubstitutionReport) -> str:
    """The last line: whether the model is correct, or why no operator was replaced."""
    if result.replaced_calls or (result.checks and not result.is_correct):
        return "The model with kernels is correct." if result.is_correct else "The model with kernels is wrong."
    return "No operator was replaced: no kernel is faster than its best baseline." if result.left_out else "No operator was replaced."


def substitution_cells(task_result: SubstitutionResult) -> list[str]:
    """The cells of one task."""
    from evokernel.reports.formatting import UNKNOWN, format_attempt, format_latency

    operator = task_result.operator
    status = task_result.reason or f"replaced by {format_attempt(task_result.attempt)}" + (
        f"; torch still computes {format_count(task_result.torch_calls, 'call')}" if task_result.torch_calls else ""
    )
    if task_result.replaced_calls and task_result.speed_note:
        status += f"; {task_result.speed_note}"
    return [
        str(task_result.replaced_calls) if operator else UNKNOWN,
        format_latency(operator.seconds / operator.calls * 1e6) if operator else UNKNOWN,
        format_latency(task_result.kernel_s * 1e6) if task_result.kernel_s is not None else UNKNOWN,
        f"{task_result.max_error:.2g} rms" if task_result.max_error is not None else UNKNOWN,
        " ".join(status.split()),
    ]


def profile_record(model: Path, profile: ModelProfile) -> dict[str, Any]:
    """The figures of the model as JSON."""
    return {
        "model": str(model),
        "seconds": profile.seconds,
        "rest_seconds": profile.rest_s,
        "clock": profile.clock,
        "threads": profile.threads,
        "runs": profile.runs,
    }


def operator_record(extracted: ExtractedTask) -> dict[str, Any]:
    """One operator as JSON."""
    operator = extracted.operator
    return {
        "function": operator.call.name,
        "call": operator.call.key,
        "tensors": [{"tensor": shape, "role": role} for shape, role in zip(operator.tensor_types, operator.roles)],
        "calls": operator.calls,
        "seconds": operator.seconds,
        "share": operator.share,
        "bound": operator.max_model_speedup if operator.share < 1 else None,
        "task": str(extracted.path) if extracted.path else None,
        "reason": extracted.reason or None,
    }


def substitution_record(result: SubstitutionReport) -> dict[str, Any]:
    """The result of the substitution as JSON; infinite numbers become null."""
    return {
        "correct": result.is_correct,
        "replaced": result.replaced_calls,
        "estimated_seconds": result.estimated_s,
        "no_estimate_reason": result.no_estimate_reason or None,
        "seeds": [{**one._asdict(), "max_error_share": finite_or_none(one.max_error_share)} for one in result.checks],
        "tasks": [
            {**one._asdict(), "operator": one.operator.call.key if one.operator else None, "max_error": finite_or_none(one.max_error)}
            for one in result.results
        ],
    }


def finite_or_none(value: float | None) -> float | None:
    """The number if JSON can represent it."""
    return value if value is not None and value < float("inf") else None
