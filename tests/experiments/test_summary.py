"""The comparison and the summary of arms say nothing about what the arms do not have in common."""

from types import SimpleNamespace

import pytest
import sample_run

from evokernel.experiments import spec, success_tables, summary
from evokernel.experiments.results import Results
from evokernel.reports.metrics import group_by_task

TASKS = [sample_run.make_task(f"operator{number}") for number in range(6)]


FAILED, CORRECT = sample_run.failed_outcome("check", "mismatch"), sample_run.estimated_outcome(5.0)


def make_results(folder, arms):
    """Arms, each with its budget and the outcome of all its attempts; the first two are compared."""
    specs = [spec.ArmSpec(name=name, settings={"budget": budget}) for name, (budget, _) in arms.items()]
    plan = spec.ExperimentSpec(
        name="x", title="X", description="x", groups={"A": "starter"}, seeds=1, arms=specs, compare=[tuple(arms)[:2]]
    )
    by_arm = {}
    for name, (budget, outcome) in arms.items():
        attempts = [sample_run.make_attempt(task, number, outcome) for task in TASKS for number in range(budget)]
        by_arm[name] = {0: group_by_task(TASKS, attempts)}
    return Results(plan, by_arm, {"A": [SimpleNamespace(id=task.id) for task in TASKS]}, folder)


@pytest.mark.parametrize(("budget", "is_compared"), [(2, True), (1, False)])
def test_attempts_are_compared_only_if_both_arms_make_equally_many(tmp_path, budget, is_compared):
    results = make_results(tmp_path, {"one": (budget, FAILED), "two": (2, FAILED)})
    (differences,) = success_tables.paired_differences(results, "A").values()
    assert ("attempts" in differences) is is_compared
    assert "needs fewer attempts" not in " ".join(summary.summarize_results(results))


def test_summary_has_a_sentence_on_speed_only_if_an_arm_that_it_names_was_timed(tmp_path):
    failing = dict.fromkeys(("one", "two", "three", "four"), (2, FAILED))
    assert len(failing) == summary.MAX_ARMS
    for arms, is_timed in (({**failing, "five": (2, CORRECT)}, False), ({**failing, "one": (2, CORRECT)}, True)):
        text = " ".join(summary.summarize_results(make_results(tmp_path, arms)))
        assert ("Best kernels" in text) is is_timed
