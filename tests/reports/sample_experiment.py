"""A sample experiment: arms of different skill on the same operators, written without running anything."""

from pathlib import Path
from random import Random
from types import SimpleNamespace

import sample_run

from evokernel.core.final_results import FinalResult
from evokernel.core.records import Attempt, ContextRef, Stage, Task
from evokernel.experiments import spec
from evokernel.experiments.results import Results
from evokernel.reports.metrics import TaskResult, group_by_task

FAILURES = [("check", "mismatch"), ("build", "compile_error"), ("check", "crash"), ("screen", "a_reason_with_a_very_long_name")]
FAILURES += [("time", "timeout"), ("write", "no_code"), ("check", "nan"), ("check", "leak")]
LONG_NAMES = [
    "passk",
    "refine_from_feedback_with_a_long_name",
    "similarity.and-more-of-it-1234567890",
    "value",
    "value+thompson",
    "read_only",
]


def make_attempts(tasks: list[Task], budget: int, skill: float, seed: int, cost: float | None) -> list[Attempt]:
    """Rounds of all tasks; correct kernels are refined and get faster."""
    draw, solved_ids, attempts = Random(seed), set(), []
    for number in range(budget):
        for task in tasks:
            is_solved = task.id in solved_ids
            roles = ("api", "practice", "trace", "experience", *(("start", "child") if is_solved else ()))
            shown_items = tuple(
                ContextRef(id=f"cpp/card{draw.randrange(5)}", role=role, q=None if role == "api" else draw.random()) for role in roles
            )
            is_correct = draw.random() < skill * (1 + number / 4)
            outcome = (
                sample_run.passed_outcome(200 / (1 + 0.2 * number)) if is_correct else sample_run.failed_outcome(*draw.choice(FAILURES))
            )
            solved_ids |= {task.id} if is_correct else set()
            usage = {} if cost is None else {"usage": sample_run.make_usage(cost)}
            evaluated_outcome = outcome.model_copy(update={"protocol": "paper"})
            stage = Stage.REFINE if is_solved else Stage.DRAFT
            attempts.append(sample_run.make_attempt(task, number, evaluated_outcome, stage=stage, shown_items=shown_items, **usage))
    return attempts


def make_results(tasks: list[Task], attempts: list[Attempt]) -> list[TaskResult]:
    """Results with re-evaluated best kernels; the kernels of the first task fail the re-evaluation."""
    finals: dict[str, FinalResult] = {}
    for number, one in enumerate(group_by_task(tasks, attempts)):
        for attempt in [attempt for _, attempt in one.correct_attempts] if number == 0 else [one.best] if one.best else []:
            outcome = sample_run.failed_outcome("check", "mismatch") if number == 0 else attempt.outcome
            finals[attempt.id] = FinalResult(
                task=one.task.id, attempt=attempt.id, outcome=outcome.model_copy(update={"protocol": "strict"})
            )
    return group_by_task(tasks, attempts, finals)


def make_experiment(
    folder: Path, arms: list[str], budget: int = 10, seeds: int = 2, cost: float | None = None, kind: str = "rates"
) -> Results:
    """Return results in which later arms are better."""
    tasks = [sample_run.make_task(f"operator{n}", ("activation", "matmul")[n % 2], "level1") for n in range(4)]
    by_arm = {
        arm: {seed: make_results(tasks, make_attempts(tasks, budget, 0.05 + 0.1 * order, 31 * seed + order, cost)) for seed in range(seeds)}
        for order, arm in enumerate(arms)
    }
    for arm in arms:
        sample_run.write_run(folder / f"{arm}-0", tasks, [])
    experiment = spec.ExperimentSpec(
        name="sample",
        kind=kind,
        title="Sample: <b>many</b> arms",
        description="A description.",
        groups={"L1": "level1"},
        seeds=seeds,
        settings={"protocol": "paper"},
        final_eval={"protocol": "strict"},
        arms=[spec.ArmSpec(name=arm) for arm in arms],
        compare=[(arms[-1], arms[0])] if len(arms) > 1 else [],
        paper={"columns": ["arm", "Acc"], "rows": [["value", "83.0"]], "note": "One run."},
    )
    tasks_by_group = {"L1": [SimpleNamespace(id=task.id) for task in tasks]}
    skipped = {"arm agent": "generator.command is not set"}
    return Results(experiment, by_arm, tasks_by_group, folder, frozenset(["level1/operator1"]), skipped, "evokernel experiment sample")
