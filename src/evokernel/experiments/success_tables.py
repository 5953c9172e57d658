"""Tables of an experiment that say how many operators are solved: by arm, arm against arm, by category."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp
from typing import Any

from evokernel.experiments.intervals import Interval
from evokernel.experiments.metrics import Apart, Figure, Measure, Seeds, attempts_spent, compiled, feasible, gain, over, ratio, share
from evokernel.experiments.results import PROTOCOLS, Results, baselines, every
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import Tried
from evokernel.reports.tables import Column, Table

SURE = "In square brackets: 95 % confidence, by a bootstrap over operators and seeds, each drawn on its own."
ALIKE = " Where all are alike: by the number of operators alone (Clopper and Pearson)."
PAIRED = "Operator by operator and seed by seed. p: how likely chance gives as much, by the same draws and by changing signs; the larger."
MANY = " For each pair and figure on its own: of many, one in twenty lies below 0.05 by chance."
PAIR = "(round 1) final"
SOONER = (1, 2, 3, 4, 6, 8, 10, 15, 20, 30)
"""Attempts after which it is told."""
VACUOUS = "without operators that something passes for which computes nothing"
JUDGED = {
    "strict": "the same runs, their bests judged again by the strict protocol",
    "paper": "the same runs, bests and what the strict protocol refused judged again with atol = rtol = 1e-2",
}


def solved(results: Results, group: str) -> Table:
    """CR and Acc; the two protocols side by side."""
    known = {measure.name: measure for measure in results.rates()}
    other = next((name for name in known if name.startswith("Acc, ") and name not in ("Acc, round 1", "Acc, not vacuous")), None)
    by_other = Column(
        other or "", means=JUDGED.get(results.again or "", "") if results.again != results.loop else "bests judged a second time"
    )
    by_loop = Column(f"Acc, {PROTOCOLS[results.loop]}", means=f"operators with a feasible candidate, {PAIR}")
    rows = []
    for arm, seeds in results.arms(group).items():
        cells = {name: measure.of(seeds) for name, measure in known.items()}
        own, others = paired(cells["Acc, round 1"], cells["Acc"]), [share(cells[other])] if other else []
        accs = [*others, own] if results.loop == "strict" and other else [own, *others]
        rows.append((arm, paired(cells["CR, round 1"], cells["CR"]), *accs, share(cells["Acc, not vacuous"])))
    accuracies = [by_loop] if not other else [by_loop, by_other] if results.loop == "paper" else [by_other, by_loop]
    columns = (Column("arm"), Column("CR", means=f"operators with a candidate that compiles, {PAIR}"), *accuracies)
    without = Column("Acc, not vacuous", means=f"{VACUOUS}, {len(results.vacuous & results.groups[group])} here")
    return Table(f"{group}: compiled and correct", (*columns, without), tuple(rows), f"{counts(results, group)}. {SURE}{ALIKE}")


def paired(first: Interval | None, last: Interval | None) -> str:
    """`(4 %) 83 % [77 to 89]`."""
    return formatting.UNKNOWN if first is None else f"({formatting.percent(first.mean)}) {share(last)}"


def counts(results: Results, group: str) -> str:
    """`20 operators, 3 seeds`."""
    count, seeds = results.operators(group), results.plan.seeds
    return f"{count} operator{'s' * (count != 1)}, {seeds} seed{'s' * (seeds != 1)}"


def compared(results: Results, one: str, other: str) -> list[Measure]:
    """What arms are compared by; speed, where they were timed beside the same."""
    known = {measure.name: measure for measure in results.rates()}
    shares = [measure for name, measure in known.items() if name.startswith("Acc") and name != "Acc, not vacuous"]
    shared = [name for name in baselines(results.attempts[one]) if name in baselines(results.attempts[other])]
    speed = [Measure("speed of bests", over(shared[0]), "ratio")] if shared else []
    return [*shares, Measure("attempts", attempts_spent, "number"), *speed]


def pairs(results: Results, group: str) -> dict[tuple[str, str], dict[str, tuple[Measure, Apart | None]]]:
    """Arms against each other."""
    arms = results.arms(group)
    found = {}
    for one, other in results.plan.against:
        if one in arms and other in arms:
            found[one, other] = {m.name: (m, m.apart(arms[one], arms[other])) for m in compared(results, one, other)}
    return found


def against(results: Results, group: str) -> Table | None:
    """The same as a table."""
    known = pairs(results, group)
    names = list(dict.fromkeys(name for found in known.values() for name in found))
    rows = []
    for (one, other), found in known.items():
        cells = [found[name][0].show_apart(found[name][1]) if name in found else formatting.UNKNOWN for name in names]
        rows.append((f"{one} less {other}", *cells))
    means = {
        "attempts": "to the first feasible kernel as the loop judged, or all",
        "speed of bests": "the one's over the other's, where both are correct",
        "Acc": f"by the loop's protocol, {results.loop}",
    }
    columns = (Column("arms"), *(Column(name, means=means.get(name, "")) for name in names))
    return Table(f"{group}: arms against each other", columns, tuple(rows), PAIRED + MANY) if rows else None


def by_attempts(seeds: Seeds) -> dict[str, list[float]]:
    """Shares of operators that compile and that are correct after one attempt, two, and so on, as the loop judged."""
    longest = max((len(tried.attempts) for tried in every(seeds)), default=0)
    measures = {"CR": compiled, "Acc": feasible}
    return {name: [mean(every(seeds), figure(at)) for at in range(1, longest + 1)] for name, figure in measures.items()}


def mean(tries: Sequence[Tried], figure: Figure) -> float:
    return sum(figure(tried) or 0.0 for tried in tries) / len(tries)


def sooner(results: Results, group: str) -> Table | None:
    """Acc after so many attempts."""
    known = {arm: by_attempts(seeds)["Acc"] for arm, seeds in results.arms(group).items()}
    longest = max(map(len, known.values()), default=0)
    at = [number for number in SOONER if number < longest] + [longest]
    rows = [(arm, *(formatting.percent(shares[min(number, len(shares)) - 1]) for number in at)) for arm, shares in known.items() if shares]
    columns = (Column("arm"), *(Column(str(number)) for number in at))
    return Table(f"{group}: correct after so many attempts", columns, tuple(rows)) if rows and longest > 1 else None


def by_category(results: Results, group: str) -> Iterator[tuple[str, str, Seeds]]:
    """Category, arm, and what the arm tried of it; nothing where all are of one."""
    arms = results.arms(group)
    names = sorted({metrics.category(tried.task) for seeds in arms.values() for tried in every(seeds)})
    for name in names if len(names) > 1 else []:
        for arm, seeds in arms.items():
            yield name, arm, {seed: [t for t in tries if metrics.category(t.task) == name] for seed, tries in seeds.items()}


def categories(results: Results, group: str) -> Table | None:
    """Acc and speed by category."""
    rows = []
    for name, arm, seeds in by_category(results, group):
        figures = category(results, arm, seeds)
        gained = metrics.spread([exp(value) for tried in every(seeds) if (value := gain(tried)) is not None])
        first_to_best = formatting.ratio(gained.median) if gained else formatting.UNKNOWN
        rows.append((name, arm, figures["operators"], share(figures["Acc"]), ratio(figures["speed"]), first_to_best))
    columns = (
        Column("category"),
        Column("arm"),
        Column("operators", "count"),
        Column(f"Acc, {PROTOCOLS[results.loop]}"),
        Column("speed-up", means=f"geometric mean over {formatting.baseline_label(first_baselines(results))}"),
        Column("first→best", means="median, of operators with a further correct kernel"),
    )
    return Table(f"{group}: by category", columns, tuple(rows)) if rows else None


def category(results: Results, arm: str, seeds: Seeds) -> dict[str, Any]:
    """One arm's figures on one category."""
    names = baselines(results.attempts[arm])[:1]
    speed = Measure("", over(names[0]), "ratio").of(seeds) if names else None
    return {"operators": max(map(len, seeds.values()), default=0), "Acc": Measure("", feasible(), "share").of(seeds), "speed": speed}


def first_baselines(results: Results) -> set[str]:
    """What speed by category is over, arm by arm."""
    return {name for attempts in results.attempts.values() for name in baselines(attempts)[:1]}
