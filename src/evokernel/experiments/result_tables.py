"""What an experiment found, as tables and as figures for programs: every mean with its interval, arms against each other in pairs."""

from __future__ import annotations

from typing import Any

from evokernel.experiments import cost_tables, speed_tables, success_tables
from evokernel.experiments.figures import LAYOUTS
from evokernel.experiments.intervals import Interval
from evokernel.experiments.metrics import Apart
from evokernel.experiments.results import Results, baselines
from evokernel.experiments.success_tables import by_category, category, pairs
from evokernel.reports import formatting, round_stats
from evokernel.reports.tables import Column, Table

MOST_SHOWN = 5
SAID = {"paper": "as published (paper: atol = rtol = 1e-2, five draws)", "strict": "strict"}


def tables(results: Results) -> list[Table]:
    """The most asked first."""
    groups = list(results.groups)
    found = [
        table
        for group in groups
        for table in (success_tables.solved(results, group), success_tables.against(results, group), success_tables.sooner(results, group))
        if table
    ]
    found += [table for group in groups for table in (speed_tables.table(results, group), speed_tables.fast_table(results, group)) if table]
    special = LAYOUTS[results.plan.kind].tables(results.first()) if results.plan.kind in LAYOUTS else []
    if results.plan.kind != "outcomes":  # which has a table of its own
        found += [table for group in groups if (table := success_tables.categories(results, group))]
    return [*found, *special, *memories(results), cost_tables.table(results), *not_tried(results), *published(results)]


def published(results: Results) -> list[Table]:
    """Beside it, what was published."""
    paper = results.plan.paper
    if not paper.get("rows"):
        return [Table("As published", (Column("what"),), ((str(paper["note"]),),))] if "note" in paper else []
    columns = tuple(Column(str(name)) for name in paper["columns"])
    return [Table("As published", columns, tuple(tuple(map(str, row)) for row in paper["rows"]), str(paper.get("note", "")))]


def memories(results: Results) -> list[Table]:
    """What was shown most, and what it was worth."""
    rows = []
    for arm, tries in results.first().items():
        for one in round_stats.shown_most(tries, MOST_SHOWN):
            rows.append((arm, one.id, one.role, one.times, one.operators, one.q1, one.q2))
    columns = (
        Column("arm"),
        Column("memory"),
        Column("as"),
        Column("shown", "count"),
        Column("to operators", "count"),
        Column("Q1", "value", means="when it was last shown to a draft"),
        Column("Q2", "value", means="when it was last shown to a refinement"),
    )
    return [Table("Memories shown most", columns, tuple(rows), "First seed.")] if rows else []


def not_tried(results: Results) -> list[Table]:
    """Arms and operators that were left out, and verdicts that somebody else's trouble kept from being reached."""
    rows = [*results.left_out.items(), *trouble(results).items(), *odd(results).items()]
    return [Table("Left out, and to be known", (Column("what"), Column("why")), tuple(rows))] if rows else []


def trouble(results: Results) -> dict[str, str]:
    """Bests without a second judgement."""
    found = {}
    for arm, seeds in results.found.items():
        for seed, tries in seeds.items():
            names = [tried.task.id for tried in tries if results.again and tried.solved and not tried.final]
            if names:
                found[f"{arm}, seed {seed}: {', '.join(names)}"] = "the best kernel could not be judged again; incidents.jsonl says why"
    return found


def odd(results: Results) -> dict[str, str]:
    """Operators whose figures say less than others'."""
    tasks = {tried.task.id: tried.task for tries in results.told().values() for tried in tries}
    found: dict[str, list[str]] = {}
    for id, task in tasks.items():
        for tag in {*task.tags, *(["vacuous"] if id in results.vacuous else [])}:
            found.setdefault(tag, []).append(id)
    known = {", ".join(sorted(ids)): formatting.TAGS[tag] for tag, ids in sorted(found.items()) if tag in formatting.TAGS}
    return {names: f"counted, but {why}" for names, why in known.items()}


def versions(results: Results) -> list[str]:
    """What the runs were made with and on; several lines where they differ."""
    found = set()
    for run in results.runs:
        for making in run.environments():
            found.add(", ".join(f"{name} {value}" for part in making.values() for name, value in sorted(part.items())))
    return sorted(found)


def protocol(results: Results) -> str:
    """By what kernels were judged."""
    loop = f"Runs went by the protocol {SAID[results.loop]}"
    if not results.again:
        return f"{loop}; bests were not judged again."
    return f"{loop}; bests were judged again by {'the same' if results.again == results.loop else SAID[results.again]}."


def figures(results: Results) -> dict[str, Any]:
    """For programs."""
    return {
        "plan": results.plan.model_dump(mode="json"),
        "command": results.command,
        "protocol": {"loop": results.loop, "again": results.again},
        "groups": {group: of_group(results, group) for group in results.groups},
        "spent": {cost.name: cost.plain() for cost in cost_tables.costs(results)},
        "vacuous": sorted(results.vacuous),
        "skipped": {**results.left_out, **trouble(results)},
        "versions": versions(results),
    }


def of_group(results: Results, group: str) -> dict[str, Any]:
    arms = results.arms(group)
    speed: dict[str, dict[str, Any]] = {arm: {} for arm in arms}
    for found in speed_tables.speeds(results, group):
        speed[found.arm][found.over] = found.plain()
    return {
        "operators": results.operators(group),
        "arms": {arm: {measure.name: plain(measure.of(seeds)) for measure in results.rates()} for arm, seeds in arms.items()},
        "by_attempts": {arm: success_tables.by_attempts(seeds) for arm, seeds in arms.items()},
        "speed": speed,
        "fast_p": {
            arm: {formatting.baseline_label([name]): fast(results, arm, name, arms[arm]) for name in of_arm(results, arm)} for arm in arms
        },
        "categories": [
            {"category": name, "arm": arm, **{key: plain(value) for key, value in category(results, arm, seeds).items()}}
            for name, arm, seeds in by_category(results, group)
        ],
        "pairs": {
            f"{one} - {other}": {name: apart(value) for name, (_, value) in found.items()}
            for (one, other), found in pairs(results, group).items()
        },
    }


def of_arm(results: Results, arm: str) -> list[str]:
    return baselines(results.attempts[arm])


def fast(results: Results, arm: str, name: str, seeds: Any) -> dict[str, Any]:
    found = speed_tables.fast(results, arm, name, seeds)
    return {of: {p: plain(value) for p, value in shares.items()} for of, shares in found.items()}


def plain(found: Any) -> Any:
    return found._asdict() if isinstance(found, Interval) else found


def apart(found: Apart | None) -> dict[str, Any]:
    return {"interval": plain(found.by) if found else None, "p": found.p if found else None}
