"""Builds the tables of an experiment and its JSON: every mean with its interval, and paired comparisons of arms."""

from __future__ import annotations

from typing import Any

from evokernel.experiments import axis_tables, cost_tables, speed_tables, success_tables
from evokernel.experiments.figures import PAPER_FIGURES
from evokernel.experiments.intervals import Interval
from evokernel.experiments.metrics import PairedDifference, ResultsBySeed
from evokernel.experiments.results import Results, baseline_names
from evokernel.experiments.success_tables import category_metrics, iterate_categories, paired_differences
from evokernel.reports import formatting, round_stats
from evokernel.reports.tables import Column, Table

MAX_MEMORY_ITEMS = 5
PROTOCOL_TEXTS = {"paper": "paper (atol = rtol = 1e-2, five draws)", "strict": "strict"}


def build_tables(results: Results) -> list[Table]:
    """Return all tables, the most important first."""
    groups = list(results.groups)
    tables = axis_tables.build_axis_tables(results) + [
        table
        for group in groups
        for table in (
            success_tables.success_table(results, group),
            success_tables.comparison_table(results, group),
            success_tables.success_by_attempts_table(results, group),
        )
        if table
    ]
    tables += [
        table
        for group in groups
        for table in (speed_tables.speed_table(results, group), speed_tables.fast_p_table(results, group))
        if table
    ]
    figure = PAPER_FIGURES.get(results.spec.kind)
    if results.spec.kind != "outcomes":  # that figure has its own table by category
        tables += [table for group in groups if (table := success_tables.category_table(results, group))]
    return [
        *tables,
        *(figure.build_tables(results.first_seed_results()) if figure else []),
        *memory_tables(results),
        cost_tables.cost_table(results),
        *skipped_tables(results),
        *plan_tables(results),
        *published_tables(results),
    ]


def plan_tables(results: Results) -> list[Table]:
    """Return the decisions that were fixed before the experiment ran."""
    plan = results.spec.plan
    if plan is None:
        return []
    rows = (
        ("tuned on", ", ".join(plan.tuned_on)),
        ("tested on", ", ".join(plan.tested_on)),
        ("measures, the first one decides", "; ".join(plan.measures)),
        ("smallest difference worth having", f"{100 * plan.smallest_difference:g} points"),
        ("operators needed", f"{plan.operators} with {results.spec.seeds} seeds, for a power of {100 * plan.power:g} %"),
        ("variance from", plan.variance_from or formatting.UNKNOWN),
    )
    return [Table("Fixed before the experiment ran", (Column("what"), Column("value")), rows)]


def published_tables(results: Results) -> list[Table]:
    """Return the published figures that the specification quotes."""
    paper = results.spec.paper
    if not paper.get("rows"):
        return [Table("As published", (Column("note"),), ((str(paper["note"]),),))] if "note" in paper else []
    columns = tuple(Column(str(name)) for name in paper["columns"])
    rows = tuple(tuple(map(str, row)) for row in paper["rows"])
    abbreviations = {"CR": "compile rate", "Acc": "accuracy, the share of correct operators"}
    notes = [f"{name}: {text}, in per cent." for name, text in abbreviations.items() if name in paper["columns"]]
    return [Table("As published", columns, rows, " ".join(filter(None, [str(paper.get("note", "")), *notes])))]


def memory_tables(results: Results) -> list[Table]:
    """Return the memory items that each arm showed most often, with their values."""
    rows = []
    for arm, task_results in results.first_seed_results().items():
        for one in round_stats.most_shown_items(task_results, MAX_MEMORY_ITEMS):
            rows.append((arm, one.id, one.role, one.times, one.operators, one.q1, one.q2))
    columns = (
        Column("arm"),
        Column("memory item"),
        Column("role", explanation="how the prompt presented the item, most often"),
        Column("shown", "count", explanation="number of prompts with the item"),
        Column("operators", "count", explanation="number of operators whose prompts contained it"),
        Column("Q1", "value", explanation="value for drafting, when a draft last showed the item"),
        Column("Q2", "value", explanation="value for refining, when a refinement last showed the item"),
    )
    return [Table("Memory items shown most", columns, tuple(rows), "First seed only.")] if rows else []


def skipped_tables(results: Results) -> list[Table]:
    """Return skipped arms and operators, missing re-evaluations, and warnings about tasks."""
    rows = [*results.skipped.items(), *missing_reevaluations(results).items(), *task_warnings(results).items()]
    return [Table("Skipped parts and warnings", (Column("part"), Column("reason")), tuple(rows))] if rows else []


def missing_reevaluations(results: Results) -> dict[str, str]:
    """Return solved operators whose best kernel has no re-evaluation."""
    notes = {}
    for arm, seeds in results.by_arm.items():
        for seed, task_results in seeds.items():
            names = [one.task.id for one in task_results if results.final_protocol and one.is_solved and not one.best_reevaluation]
            if names:
                notes[f"{arm}, seed {seed}: {', '.join(names)}"] = "the best kernel was not re-evaluated; incidents.jsonl has the reason"
    return notes


def task_warnings(results: Results) -> dict[str, str]:
    """Return operators whose figures are less meaningful, with the reason."""
    tasks = {result.task.id: result.task for task_results in results.reported_results().values() for result in task_results}
    ids_by_tag: dict[str, list[str]] = {}
    for id, task in tasks.items():
        for tag in {*task.tags, *(["vacuous"] if id in results.vacuous else [])}:
            ids_by_tag.setdefault(tag, []).append(id)
    explanations = formatting.TAG_EXPLANATIONS
    return {", ".join(sorted(ids)): f"counted, but {explanations[tag]}" for tag, ids in sorted(ids_by_tag.items()) if tag in explanations}


def environment_lines(results: Results) -> list[str]:
    """Return the toolchain and hardware of the runs; several lines if they differ."""
    lines = set()
    for run in results.runs:
        for environment in run.environments():
            lines.add(", ".join(f"{name} {value}" for part in environment.values() for name, value in sorted(part.items())))
    return sorted(lines)


def protocol_sentence(results: Results) -> str:
    """Return a sentence that names the protocols of the loop and of the re-evaluation."""
    loop = f"Protocol during the runs: {PROTOCOL_TEXTS[results.loop_protocol]}"
    if not results.final_protocol:
        return f"{loop}. The best kernels were not re-evaluated."
    final = "the same protocol" if results.final_protocol == results.loop_protocol else PROTOCOL_TEXTS[results.final_protocol]
    return f"{loop}. Protocol of the re-evaluation of the best kernels: {final}."


def results_to_json(results: Results) -> dict[str, Any]:
    """Return all results as a JSON object for other programs."""
    return {
        "spec": results.spec.model_dump(mode="json"),
        "command": results.command,
        "protocol": {"loop": results.loop_protocol, "final": results.final_protocol},
        "groups": {group: group_to_json(results, group) for group in results.groups},
        **({"axes": axis_tables.axes_to_json(results)} if results.spec.axes else {}),
        "costs": {cost.name: cost.to_json() for cost in cost_tables.list_costs(results)},
        "vacuous": sorted(results.vacuous),
        "skipped": {**results.skipped, **missing_reevaluations(results)},
        "environments": environment_lines(results),
    }


def group_to_json(results: Results, group: str) -> dict[str, Any]:
    """Return the results of one group."""
    arms = results.arm_results(group)
    speeds: dict[str, dict[str, Any]] = {arm: {} for arm in arms}
    for arm_speed in speed_tables.iterate_speeds(results, group):
        speeds[arm_speed.arm][arm_speed.baseline] = arm_speed.to_json()
    return {
        "operators": results.operator_count(group),
        "arms": {
            arm: {metric.name: interval_to_json(metric.mean_interval(seeds)) for metric in results.rate_metrics()}
            for arm, seeds in arms.items()
        },
        "by_attempts": {arm: success_tables.success_by_attempts(seeds) for arm, seeds in arms.items()},
        "speed": speeds,
        "fast_p": {
            arm: {formatting.baseline_label([name]): fast_p_to_json(name, arms[arm]) for name in baseline_names(results.attempts[arm])}
            for arm in arms
        },
        "categories": [
            {"category": name, "arm": arm, **{key: interval_to_json(value) for key, value in category_metrics(results, arm, seeds).items()}}
            for name, arm, seeds in iterate_categories(results, group)
        ],
        "pairs": {
            f"{one} - {other}": {name: difference_to_json(value) for name, (_, value) in differences.items()}
            for (one, other), differences in paired_differences(results, group).items()
        },
    }


def fast_p_to_json(baseline: str, seeds: ResultsBySeed) -> dict[str, Any]:
    """Return the fast_p shares of one arm over one baseline."""
    by_base = speed_tables.fast_p_shares(baseline, seeds)
    return {base: {p: interval_to_json(value) for p, value in shares.items()} for base, shares in by_base.items()}


def interval_to_json(value: Any) -> Any:
    """Return an interval as a JSON object; any other value is unchanged."""
    return value._asdict() if isinstance(value, Interval) else value


def difference_to_json(difference: PairedDifference | None) -> dict[str, Any]:
    """Return a paired difference as a JSON object."""
    return {
        "interval": interval_to_json(difference.interval) if difference else None,
        "p": difference.p if difference else None,
    }
