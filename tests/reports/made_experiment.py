"""A hand-made experiment: arms of different skill on the same operators, without running anything."""

from pathlib import Path
from random import Random
from types import SimpleNamespace

import made_run

from evokernel.core.final_results import FinalResult
from evokernel.core.records import Attempt, ContextRef, Stage, Task
from evokernel.experiments import spec
from evokernel.experiments.results import Results
from evokernel.reports.metrics import Tried, by_task

FAILURES = [("check", "mismatch"), ("build", "compile_error"), ("check", "crash"), ("screen", "a_reason_with_a_very_long_name")]
FAILURES += [("time", "timeout"), ("write", "no_code"), ("check", "nan"), ("check", "leak")]
LONG = ["passk", "refine_from_feedback_with_a_long_name", "similarity.and-more-of-it-1234567890", "value", "value+thompson", "frozen"]


def attempts(tasks: list[Task], budget: int, skill: float, seed: int, cost: float | None) -> list[Attempt]:
    """Rounds of all tasks; what works is refined, and gets faster."""
    draw, solved, made = Random(seed), set(), []
    for number in range(budget):
        for task in tasks:
            is_solved = task.id in solved
            roles = ("api", "practice", "trace", "experience", *(("start", "child") if is_solved else ()))
            shown = tuple(
                ContextRef(id=f"cpp/card{draw.randrange(5)}", role=role, q=None if role == "api" else draw.random()) for role in roles
            )
            is_right = draw.random() < skill * (1 + number / 4)
            outcome = made_run.passed(200 / (1 + 0.2 * number)) if is_right else made_run.failed(*draw.choice(FAILURES))
            solved |= {task.id} if is_right else set()
            usage = {} if cost is None else {"usage": made_run.with_usage(cost)}
            judged = outcome.model_copy(update={"protocol": "paper"})
            stage = Stage.REFINE if is_solved else Stage.DRAFT
            made.append(made_run.attempt(task, number, judged, stage=stage, shown=shown, **usage))
    return made


def tried(tasks: list[Task], made: list[Attempt]) -> list[Tried]:
    """With bests that were judged again, of which the first one fell."""
    finals: dict[str, FinalResult] = {}
    for number, one in enumerate(by_task(tasks, made)):
        for attempt in [attempt for _, attempt in one.correct] if number == 0 else [one.best] if one.best else []:
            outcome = made_run.failed("check", "mismatch") if number == 0 else attempt.outcome
            finals[attempt.id] = FinalResult(
                task=one.task.id, attempt=attempt.id, outcome=outcome.model_copy(update={"protocol": "strict"})
            )
    return by_task(tasks, made, finals)


def results(folder: Path, arms: list[str], budget: int = 10, seeds: int = 2, cost: float | None = None, kind: str = "rates") -> Results:
    """Later arms are better."""
    tasks = [made_run.task(f"operator{n}", ("activation", "matmul")[n % 2], "level1") for n in range(4)]
    found = {
        arm: {seed: tried(tasks, attempts(tasks, budget, 0.05 + 0.1 * order, 31 * seed + order, cost)) for seed in range(seeds)}
        for order, arm in enumerate(arms)
    }
    for arm in arms:
        made_run.write_run(folder / f"{arm}-0", tasks, [])
    plan = spec.Plan(
        name="made",
        kind=kind,
        title="Made up: <b>many</b> arms",
        about="What would be said of them.",
        groups={"L1": "level1"},
        seeds=seeds,
        settings={"protocol": "paper"},
        again={"protocol": "strict"},
        arms=[spec.PlannedArm(name=arm) for arm in arms],
        against=[(arms[-1], arms[0])] if len(arms) > 1 else [],
        paper={"columns": ["arm", "Acc"], "rows": [["value", "83.0"]], "note": "One run."},
    )
    given = {"L1": [SimpleNamespace(id=task.id) for task in tasks]}
    left_out = {"arm agent": "generator.command is not set"}
    return Results(plan, found, given, folder, frozenset(["level1/operator1"]), left_out, "evokernel experiment made")
