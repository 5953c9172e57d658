"""Coverage: for how many operators of the shipped suites `sweep` finds a feasible kernel, and why not for the rest.

    python benchmarks/coverage.py --backend cpp --tasks level1,level2 [--budget 30] [--seed 0] [--once] [--refine] [--out FOLDER]

A task gets no further attempt after its first feasible kernel, which is judged once more at the end (not with `--once`), and counts only if
it holds up. `--refine` spends the whole budget on every task instead, on `cpp` also in a folder that was covered before, and adds the table
of speeds; on `pallas`, only then is anything held against XLA. Where the folder holds a run already, it is gone on with. Writes coverage.md
and coverage.json beside the run.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import speed
from study import ended, options, write

from evokernel.cli.experiment import Telling
from evokernel.core import final_results
from evokernel.experiments.arm_runs import Arm, Study, cells, complete
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import Tried
from evokernel.reports.tables import Cell, Column, Table

ROUNDS = (1, 3, 10, 30)
WELL_S = 1.0
"""For timing bests whose speed is told."""
HELD_AGAINST = {"cpp": ["eager", "compile"], "pallas": ["eager"]}
"""Baselines of the second judgement; `pallas` has XLA's estimate, whatever is asked for."""


def study(given: argparse.Namespace) -> Study:
    """One arm, one seed."""
    is_alone = given.backend == "pallas" and not given.refine
    settings = {
        "backend": {"name": given.backend, **({"baseline": False} if is_alone else {})},  # XLA may take minutes for one operator
        "generator": "template_search",
        "policy": given.policy,
        "budget": given.budget,
        "workers": given.workers,
        "timing_s": given.timing_s,
        "until": "budget" if given.refine else "feasible",
    }
    again = {"timing_s": WELL_S, "baselines": HELD_AGAINST[given.backend]} if given.refine else None if given.once else {}
    arm = Arm(name=f"{given.backend}-{given.policy}" + ("-alone" if is_alone else ""))
    return Study(name="coverage", tasks=(given.tasks,), arms=(arm,), seeds=(given.seed,), settings=settings, again=again)


def why_not(tried: Tried) -> str:
    """What the generator says it cannot write, else what most attempts failed by, with the first line of the last such failure."""
    failed = [attempt.outcome.failure for attempt in tried.attempts if attempt.outcome.failure]
    if gaps := [failure.detail for failure in failed if failure.gate == "write"]:
        return formatting.first_line(gaps[-1], 160)
    if tried.fallen:
        return f"{tried.fallen[-1].id} passed, and did not hold up when it was judged again"
    if not failed:
        return "not tried"
    (reason, count), *_ = Counter(failure.reason or failure.gate for failure in failed).most_common(1)
    last = next(failure for failure in reversed(failed) if (failure.reason or failure.gate) == reason)
    return f"{reason} at {last.gate} in {count} of {len(failed)}: {formatting.first_line(last.detail, 160)}"


def parts(found: Sequence[Tried]) -> dict[tuple[str, str], list[Tried]]:
    """By suite and category, then each suite as a whole."""
    suites = dict.fromkeys(tried.task.id.partition("/")[0] for tried in found)
    made: dict[tuple[str, str], list[Tried]] = {}
    for suite in suites:
        mine = [tried for tried in found if tried.task.id.partition("/")[0] == suite]
        groups = metrics.categories(mine)
        if len(groups) == 1:  # a suite of fused operators: by the first kind in them
            kinds = sorted({first_kind(tried) for tried in mine})
            groups = {f"{kind}, fused": [tried for tried in mine if first_kind(tried) == kind] for kind in kinds}
        made |= {(suite, name): group for name, group in groups.items()}
        made[suite, "all"] = mine
    return made


def first_kind(tried: Tried) -> str:
    """The first kind of operator in a task."""
    return (*tried.task.families, tried.task.family)[0]


def table(found: Sequence[Tried]) -> Table:
    """Feasible within so many rounds, of how many."""
    within = [f"round {rounds}" for rounds in ROUNDS]
    columns = (Column("suite"), Column("category"), Column("feasible", "count"), Column("of", "count"), Column("share", "share"))
    rows: list[tuple[Cell, ...]] = []
    for (suite, name), mine in parts(found).items():
        solved = metrics.feasible(mine)
        rows.append((suite, name, solved, len(mine), solved / len(mine), *(metrics.feasible(mine, rounds) for rounds in ROUNDS)))
    return Table("Coverage", (*columns, *(Column(name, "count") for name in within)), tuple(rows), "Under the rounds: feasible by then.")


def rest(found: Sequence[Tried]) -> Table:
    """What was not solved, and why."""
    rows = tuple((tried.task.id, len(tried.attempts), why_not(tried)) for tried in found if not tried.solved)
    return Table("Not solved", (Column("task"), Column("attempts", "count"), Column("reason")), rows)


def figures(found: Sequence[Tried]) -> dict[str, Any]:
    """The same for programs."""
    groups = {
        f"{suite}/{name}": {
            "feasible": metrics.feasible(mine),
            "tasks": len(mine),
            "within": {str(rounds): metrics.feasible(mine, rounds) for rounds in ROUNDS},
        }
        for (suite, name), mine in parts(found).items()
    }
    return {
        "groups": groups,
        "first_feasible": {tried.task.id: tried.first_round for tried in found},
        "not_solved": {tried.task.id: why_not(tried) for tried in found if not tried.solved},
    }


def forget(folder: Path, baselines: Sequence[str]) -> None:
    """Second judgements that were made without these baselines are made again."""
    known = final_results.read_final_results(folder).values()
    held = {name for final in known for name in final.outcome.baseline_us}
    if known and "compile" in baselines and "compile" not in held:
        (folder / "finals.jsonl").unlink()


def main() -> None:
    given = options(__doc__, "runs/coverage")
    given.add_argument("--tasks", default="level1,level2", help="suites, or what else --tasks of a run takes [level1,level2]")
    given.add_argument("--seed", type=int, default=0)
    given.add_argument("--policy", default="value")
    given.add_argument("--once", action="store_true", help="judge no kernel a second time")
    given.add_argument("--refine", action="store_true", help="spend the whole budget on every task, and add the table of speeds")
    asked = given.parse_args()
    made = study(asked)
    (cell,) = cells(made, asked.out)
    if asked.refine:
        forget(cell.folder, HELD_AGAINST[asked.backend])
    found = complete(made, cell, Telling(), may_change=("until", "timing_s"))
    tables = [table(found), rest(found)] + ([speed.table(found)] if asked.refine else [])
    write(cell.folder, "coverage", tables, {**figures(found), **({"speed": speed.speeds(found)} if asked.refine else {})})


if __name__ == "__main__":
    raise SystemExit(ended(main))
