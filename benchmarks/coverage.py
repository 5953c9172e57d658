"""Measures coverage: for how many operators of the shipped suites `template_search` finds a feasible kernel, and why not for the others.

    python benchmarks/coverage.py --backend cpp --tasks level1,level2 [--budget 30] [--seed 0] [--once] [--refine] [--out FOLDER]

A task gets no further attempt after its first feasible kernel. The verifier re-evaluates that kernel at the end (not with `--once`), and
it counts only if it passes. `--refine` spends the complete budget on every task instead and adds the table of speeds. On `cpp` it also
works in the folder of an earlier run without it; on `pallas`, only `--refine` compares kernels with XLA. On `triton` without a GPU,
Triton's interpreter checks the kernels, which takes minutes for some operators, and nothing is timed. An existing run in the folder is
resumed. Writes coverage.md and coverage.json to the folder of the run.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import speed
from study import make_parser, run_main, write_tables

from evokernel.cli.experiment import ProgressPrinter
from evokernel.core import final_results
from evokernel.experiments.arm_runs import ArmRun, complete_run, make_arm_run
from evokernel.experiments.spec import ArmSpec, ExperimentSpec
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import Cell, Column, Table

ROUNDS = (1, 3, 10, 30)
FINAL_TIMING_S = 1.0
"""Seconds for timing the best kernels whose speed is reported."""
FINAL_BASELINES = {"cpp": ["eager", "compile"], "pallas": ["eager"], "triton": ["eager", "compile"]}
"""Baselines of the re-evaluation; `pallas` always uses XLA's estimate."""


def make_run(args: argparse.Namespace) -> ArmRun:
    """Return the run of an experiment with one arm and one seed."""
    has_no_baseline = args.backend == "pallas" and not args.refine
    settings = {
        "backend": {"name": args.backend, **({"baseline": False} if has_no_baseline else {})},  # XLA may take minutes for one operator
        "generator": {"name": "template_search", "prior": "expert"},  # as users run it
        "policy": args.policy,
        "budget": args.budget,
        "workers": args.workers,
        "timing_s": args.timing_s,
        "stop_when": "budget" if args.refine else "feasible",
    }
    final_eval = {"timing_s": FINAL_TIMING_S, "baselines": FINAL_BASELINES[args.backend]} if args.refine else None if args.once else {}
    arm = ArmSpec(name=f"{args.backend}-{args.policy}" + ("-alone" if has_no_baseline else ""))
    spec = ExperimentSpec(
        name="coverage",
        title="Coverage",
        description="The operators of the suites for which the generator finds a feasible kernel",
        groups={"all": args.tasks},
        settings=settings,
        final_eval=final_eval,
        arms=(arm,),
    )
    return make_arm_run(spec, arm, (args.tasks,), args.out, args.seed)


def failure_reason(result: TaskResult) -> str:
    """Return why the generator wrote nothing, else the most frequent reason of failure with the first line of the last such failure."""
    failures = [attempt.outcome.failure for attempt in result.attempts if attempt.outcome.failure]
    if write_failures := [failure.detail for failure in failures if failure.gate == "write"]:
        return formatting.first_line(write_failures[-1], 160)
    if result.failed_reevaluations:
        return f"{result.failed_reevaluations[-1].id} passed and failed re-evaluation"
    if not failures:
        return "no attempts"
    (reason, count), *_ = Counter(failure.reason or failure.gate for failure in failures).most_common(1)
    last = next(failure for failure in reversed(failures) if (failure.reason or failure.gate) == reason)
    return f"{reason} at {last.gate} in {count} of {len(failures)}: {formatting.first_line(last.detail, 160)}"


def group_results(results: Sequence[TaskResult]) -> dict[tuple[str, str], list[TaskResult]]:
    """Group results by suite and category, then by suite."""
    suites = dict.fromkeys(result.task.id.partition("/")[0] for result in results)
    groups_by_suite: dict[tuple[str, str], list[TaskResult]] = {}
    for suite in suites:
        members = [result for result in results if result.task.id.partition("/")[0] == suite]
        groups = metrics.group_by_category(members)
        if len(groups) == 1:  # a suite of fused operators: group by the first kind in each
            kinds = sorted({first_kind(result) for result in members})
            groups = {f"{kind}, fused": [result for result in members if first_kind(result) == kind] for kind in kinds}
        groups_by_suite |= {(suite, name): group for name, group in groups.items()}
        groups_by_suite[suite, "all"] = members
    return groups_by_suite


def first_kind(result: TaskResult) -> str:
    """Return the first kind of operator in a task."""
    return (*result.task.families, result.task.family)[0]


def coverage_table(results: Sequence[TaskResult]) -> Table:
    """Return the table of feasible operators by round."""
    round_names = [f"by round {rounds}" for rounds in ROUNDS]
    columns = (Column("suite"), Column("category"), Column("feasible", "count"), Column("of", "count"), Column("share", "share"))
    rows: list[tuple[Cell, ...]] = []
    for (suite, name), members in group_results(results).items():
        solved_count = metrics.count_correct(members)
        rows.append(
            (
                suite,
                name,
                solved_count,
                len(members),
                solved_count / len(members),
                *(metrics.count_correct(members, rounds) for rounds in ROUNDS),
            )
        )
    return Table(
        "Coverage",
        (*columns, *(Column(name, "count") for name in round_names)),
        tuple(rows),
        "The columns *by round* count the operators that are feasible by then.",
    )


def unsolved_table(results: Sequence[TaskResult]) -> Table:
    """Return the table of unsolved operators with reasons."""
    rows = tuple((result.task.id, len(result.attempts), failure_reason(result)) for result in results if not result.is_solved)
    return Table("Not solved", (Column("task"), Column("attempts", "count"), Column("reason")), rows)


def coverage_figures(results: Sequence[TaskResult]) -> dict[str, Any]:
    """Return the same figures for programs."""
    groups = {
        f"{suite}/{name}": {
            "feasible": metrics.count_correct(members),
            "tasks": len(members),
            "within": {str(rounds): metrics.count_correct(members, rounds) for rounds in ROUNDS},
        }
        for (suite, name), members in group_results(results).items()
    }
    return {
        "groups": groups,
        "first_feasible": {result.task.id: result.first_correct_round for result in results},
        "not_solved": {result.task.id: failure_reason(result) for result in results if not result.is_solved},
    }


def drop_incomplete_finals(folder: Path, baselines: Sequence[str]) -> None:
    """Delete re-evaluations that lack one of these baselines, so that they are repeated."""
    finals = final_results.read_final_results(folder).values()
    baseline_names = {name for final in finals for name in final.outcome.baseline_us}
    if finals and "compile" in baselines and "compile" not in baseline_names:
        (folder / "finals.jsonl").unlink()


def main() -> None:
    parser = make_parser(__doc__, "runs/coverage")
    parser.add_argument("--tasks", default="level1,level2", help="suites or tasks, as for --tasks of a run [level1,level2]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", default="value")
    parser.add_argument("--once", action="store_true", help="do not re-evaluate kernels")
    parser.add_argument("--refine", action="store_true", help="spend the complete budget on every task and add the table of speeds")
    args = parser.parse_args()
    arm_run = make_run(args)
    if args.refine:
        drop_incomplete_finals(arm_run.folder, FINAL_BASELINES[args.backend])
    results = complete_run(arm_run, ProgressPrinter(), may_change=("stop_when", "timing_s"))
    tables = [coverage_table(results), unsolved_table(results)] + ([speed.speed_table(results)] if args.refine else [])
    write_tables(
        arm_run.folder, "coverage", tables, {**coverage_figures(results), **({"speed": speed.speed_rows(results)} if args.refine else {})}
    )


if __name__ == "__main__":
    raise SystemExit(run_main(main))
