"""Prompt variants in reports: one row per variant and stage, with its value; no table for runs without variants."""

from sample_run import failed_outcome, make_attempt, make_task, passed_outcome, write_run

from evokernel.core.records import Stage
from evokernel.reports.metrics import collect_results
from evokernel.reports.page import other_tables
from evokernel.reports.variant_table import variants_table


def test_values_of_variants_are_mean_rewards_by_stage(tmp_path):
    task, correct, wrong = make_task("relu"), passed_outcome(10.0), failed_outcome("check", "mismatch")
    attempts = [
        make_attempt(task, 0, wrong, prompt_variants={"rules": "full"}),
        make_attempt(task, 1, correct, prompt_variants={"rules": "brief", "history": "latest"}),
        make_attempt(task, 2, correct, prompt_variants={"rules": "full", "history": "latest"}),
        make_attempt(task, 3, correct, stage=Stage.REFINE, reward=0.25, prompt_variants={"rules": "full"}),
        make_attempt(task, 4, failed_outcome("check", "killed"), prompt_variants={"rules": "other"}),
    ]
    run = write_run(tmp_path / "run", [task], attempts, budget=5)
    table = variants_table(collect_results(run, run.attempts()))
    assert table.rows == (
        ("history", "latest", "draft", 2, 2, 1.0),
        ("rules", "brief", "draft", 1, 1, 1.0),
        ("rules", "full", "draft", 2, 1, 0.0),
        ("rules", "full", "refine", 1, 1, 0.25),
        ("rules", "other", "draft", 1, 0, None),
    )
    assert table.title in [other.title for other in other_tables(collect_results(run, run.attempts()))]


def test_run_without_variants_has_no_table(tmp_path):
    task = make_task("relu")
    run = write_run(tmp_path / "run", [task], [make_attempt(task, 0, passed_outcome(10.0))])
    assert variants_table(collect_results(run, run.attempts())).rows == ()
