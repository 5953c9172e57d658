"""Builds the tables of solved operators: by arm, compared between arms, by number of attempts, and by category."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp
from typing import Any

from evokernel.experiments.intervals import Interval
from evokernel.experiments.metrics import (
    Metric,
    PairedDifference,
    ResultsBySeed,
    TaskMetric,
    attempts_to_first_correct,
    compiled_within,
    correct_within,
    format_ratio,
    format_share,
    log_gain,
    log_speedup_over,
)
from evokernel.experiments.results import PROTOCOLS, Results, baseline_names, flatten_seeds
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import Column, Table

INTERVAL_NOTE = "Square brackets: 95 % confidence interval from a bootstrap that resamples operators and seeds independently."
EXACT_INTERVAL_NOTE = " If all values are equal, the interval depends on the number of operators only (Clopper and Pearson)."
PAIRED_NOTE = (
    "Mean differences, paired by operator and seed. "
    "p: probability of such a difference by chance; the larger of a bootstrap and a sign-flip test."
)
MULTIPLE_TESTS_NOTE = " p values are not corrected for multiple comparisons: one in twenty is below 0.05 by chance."
ROUND_NOTE = "in brackets after round 1 (the first attempt), then at the end"
ATTEMPT_COUNTS = (1, 2, 3, 4, 6, 8, 10, 15, 20, 30)
"""Attempt numbers that are columns of the table by attempts."""
VACUOUS_NOTE = "Acc without vacuous operators, which a kernel that computes nothing passes"
FINAL_PROTOCOL_NOTES = {
    "strict": "Acc of the same runs, their best kernels re-evaluated with the strict protocol",
    "paper": "Acc of the same runs, their best kernels and those that the strict protocol rejected re-evaluated with atol = rtol = 1e-2",
}


def success_table(results: Results, group: str) -> Table:
    """Return CR and Acc of each arm, with both protocols side by side."""
    rates = {metric.name: metric for metric in results.rate_metrics()}
    other = next((name for name in rates if name.startswith("Acc, ") and name not in ("Acc, round 1", "Acc, not vacuous")), None)
    is_other_protocol = results.final_protocol != results.loop_protocol
    other_note = FINAL_PROTOCOL_NOTES.get(results.final_protocol or "", "") if is_other_protocol else "Acc of re-evaluated best kernels"
    by_other = Column(other or "", explanation=other_note)
    by_loop = Column(
        f"Acc, {PROTOCOLS[results.loop_protocol]}", explanation=f"accuracy, the share of operators with a correct candidate, {ROUND_NOTE}"
    )
    rows = []
    for arm, seeds in results.arm_results(group).items():
        cells = {name: metric.mean_interval(seeds) for name, metric in rates.items()}
        own, others = format_first_and_final(cells["Acc, round 1"], cells["Acc"]), [format_share(cells[other])] if other else []
        accs = [*others, own] if results.loop_protocol == "strict" and other else [own, *others]
        rows.append((arm, format_first_and_final(cells["CR, round 1"], cells["CR"]), *accs, format_share(cells["Acc, not vacuous"])))
    accuracies = [by_loop] if not other else [by_loop, by_other] if results.loop_protocol == "paper" else [by_other, by_loop]
    columns = (
        Column("arm"),
        Column("CR", explanation=f"compile rate, the share of operators with a candidate that compiles, {ROUND_NOTE}"),
        *accuracies,
    )
    vacuous_count = formatting.format_count(len(results.vacuous & results.groups[group]), "operator")
    not_vacuous = Column("Acc, not vacuous", explanation=f"{VACUOUS_NOTE} ({vacuous_count} here)")
    return Table(
        f"{group}: compiled and correct",
        (*columns, not_vacuous),
        tuple(rows),
        f"{count_phrase(results, group)}. {INTERVAL_NOTE}{EXACT_INTERVAL_NOTE}",
    )


def format_first_and_final(first: Interval | None, final: Interval | None) -> str:
    """`(4 %) 83 % [77 to 89]`."""
    return formatting.UNKNOWN if first is None else f"({formatting.format_percent(first.mean)}) {format_share(final)}"


def count_phrase(results: Results, group: str) -> str:
    """`20 operators, 3 seeds`."""
    operators, seeds = results.operator_count(group), results.spec.seeds
    return f"{formatting.format_count(operators, 'operator')}, {formatting.format_count(seeds, 'seed')}"


def comparison_metrics(results: Results, one: str, other: str) -> list[Metric]:
    """Return the metrics that two arms are compared by; speed if both were timed with the same baseline."""
    shares = [one for one in results.rate_metrics() if one.name.startswith("Acc") and one.name != "Acc, not vacuous"]
    common = [name for name in baseline_names(results.attempts[one]) if name in baseline_names(results.attempts[other])]
    speed = [Metric("speed of best kernels", log_speedup_over(common[0]), "ratio")] if common else []
    attempts = [Metric("attempts", attempts_to_first_correct, "number")] if have_equal_budgets(results, one, other) else []
    return [*shares, *attempts, *speed]


def have_equal_budgets(results: Results, one: str, other: str) -> bool:
    """Whether two arms make equally many attempts; otherwise the number of those before the first correct kernel differs by itself."""
    budgets = {results.spec.run_config(arm.settings).budget for arm in results.spec.arms if arm.name in (one, other)}
    return len(budgets) == 1


def paired_differences(results: Results, group: str) -> dict[tuple[str, str], dict[str, tuple[Metric, PairedDifference | None]]]:
    """Return the paired differences between the arms that the specification compares, by metric."""
    arms = results.arm_results(group)
    differences = {}
    for one, other in results.spec.compare:
        if one in arms and other in arms:
            compared_by = comparison_metrics(results, one, other)
            differences[one, other] = {metric.name: (metric, metric.paired_difference(arms[one], arms[other])) for metric in compared_by}
    return differences


def comparison_table(results: Results, group: str) -> Table | None:
    """Return the paired differences as a table."""
    differences = paired_differences(results, group)
    names = list(dict.fromkeys(name for by_metric in differences.values() for name in by_metric))
    rows = []
    for (one, other), by_metric in differences.items():
        cells = [by_metric[name][0].format_difference(by_metric[name][1]) if name in by_metric else formatting.UNKNOWN for name in names]
        rows.append((f"{one} minus {other}", *cells))
    explanations = {
        "attempts": "number of the first correct attempt, or of all attempts if none is correct (fewer is better)",
        "speed of best kernels": "ratio instead of a difference, where both are correct (above 1×: the first arm's kernels are faster)",
        "Acc": f"accuracy under the protocol of the loop ({results.loop_protocol}), in percentage points",
    }
    columns = (Column("arms"), *(Column(name, explanation=explanations.get(name, "")) for name in names))
    return Table(f"{group}: comparison of arms", columns, tuple(rows), PAIRED_NOTE + MULTIPLE_TESTS_NOTE) if rows else None


def success_by_attempts(seeds: ResultsBySeed) -> dict[str, list[float]]:
    """Return the shares of operators that compile and that are correct after 1, 2, ... attempts, under the protocol of the loop."""
    longest = max((len(result.attempts) for result in flatten_seeds(seeds)), default=0)
    rates = {"CR": compiled_within, "Acc": correct_within}
    return {name: [mean_value(flatten_seeds(seeds), rate(at)) for at in range(1, longest + 1)] for name, rate in rates.items()}


def mean_value(task_results: Sequence[TaskResult], metric: TaskMetric) -> float:
    """Return the mean of a metric; a missing value counts as 0."""
    return sum(metric(result) or 0.0 for result in task_results) / len(task_results)


def success_by_attempts_table(results: Results, group: str) -> Table | None:
    """Return the share of correct operators after N attempts."""
    shares_by_arm = {arm: success_by_attempts(seeds)["Acc"] for arm, seeds in results.arm_results(group).items()}
    longest = max(map(len, shares_by_arm.values()), default=0)
    at = [number for number in ATTEMPT_COUNTS if number < longest] + [longest]
    rows = [
        (arm, *(formatting.format_percent(shares[min(number, len(shares)) - 1]) for number in at))
        for arm, shares in shares_by_arm.items()
        if shares
    ]
    columns = (Column("arm"), *(Column(str(number)) for number in at))
    note = (
        f"Acc (share of correct operators), {PROTOCOLS[results.loop_protocol]}. A column's heading is the number of attempts per operator."
    )
    return Table(f"{group}: correct after N attempts", columns, tuple(rows), note) if rows and longest > 1 else None


def iterate_categories(results: Results, group: str) -> Iterator[tuple[str, str, ResultsBySeed]]:
    """Yield each category and arm with the arm's results on it; nothing if there is one category only."""
    arms = results.arm_results(group)
    names = sorted({metrics.task_category(result.task) for seeds in arms.values() for result in flatten_seeds(seeds)})
    for name in names if len(names) > 1 else []:
        for arm, seeds in arms.items():
            by_seed = {
                seed: [one for one in task_results if metrics.task_category(one.task) == name] for seed, task_results in seeds.items()
            }
            yield name, arm, by_seed


def category_table(results: Results, group: str) -> Table | None:
    """Return Acc and speed-up by category."""
    rows = []
    for name, arm, seeds in iterate_categories(results, group):
        figures = category_metrics(results, arm, seeds)
        gains = metrics.quartiles([exp(value) for result in flatten_seeds(seeds) if (value := log_gain(result)) is not None])
        first_to_best = formatting.format_ratio(gains.median) if gains else formatting.UNKNOWN
        rows.append((name, arm, figures["operators"], format_share(figures["Acc"]), format_ratio(figures["speed"]), first_to_best))
    baselines = formatting.baseline_label(first_baseline_names(results))
    columns = (
        Column("category"),
        Column("arm"),
        Column("operators", "count"),
        Column(f"Acc, {PROTOCOLS[results.loop_protocol]}", explanation="share of correct operators"),
        Column("speed-up", explanation=f"geometric mean over {baselines} (above 1×: the kernels are faster)"),
        Column("first→best", explanation="latency of first correct / best kernel, median over operators with several correct kernels"),
    )
    return Table(f"{group}: by category", columns, tuple(rows)) if rows else None


def category_metrics(results: Results, arm: str, seeds: ResultsBySeed) -> dict[str, Any]:
    """Return one arm's metrics on one category."""
    names = baseline_names(results.attempts[arm])[:1]
    speed = Metric("", log_speedup_over(names[0]), "ratio").mean_interval(seeds) if names else None
    return {
        "operators": max(map(len, seeds.values()), default=0),
        "Acc": Metric("", correct_within(), "share").mean_interval(seeds),
        "speed": speed,
    }


def first_baseline_names(results: Results) -> set[str]:
    """Return the baselines of the speed-up by category, over all arms."""
    return {name for attempts in results.attempts.values() for name in baseline_names(attempts)[:1]}
