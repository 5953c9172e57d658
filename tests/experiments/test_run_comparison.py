"""Runs compared side by side: paired by task, with intervals, and without figures that cannot be compared."""

import json
from math import log

import pytest
import sample_run
from sample_run import failed_outcome, make_attempt, make_task, make_usage, passed_outcome

from evokernel.core.errors import UserError
from evokernel.experiments.run_comparison import compare_runs, comparison_json, open_run, pairs_table, runs_table, tasks_table

NAMES = ("relu", "gelu", "tanh", "sum")


def write_run(folder, latencies, costs=None, clock="cpu", names=NAMES):
    """A run with one failed attempt per task, then a correct one with this latency; None: never correct."""
    tasks, attempts = [make_task(name) for name in names], []
    for task, latency_us in zip(tasks, latencies, strict=True):
        attempts.append(make_attempt(task, 0, failed_outcome("check", "mismatch"), usage=make_usage(costs)))
        if latency_us:
            attempts.append(make_attempt(task, 1, passed_outcome(latency_us, clock=clock), usage=make_usage(costs)))
    return sample_run.write_run(folder, tasks, attempts, id=folder.name, budget=2)


def compare(*runs):
    return compare_runs([open_run(run.folder.name, run) for run in runs])


def test_latencies_are_paired_by_task(tmp_path):
    first = write_run(tmp_path / "a", [100.0, 40.0, 10.0, None], costs=0.5)
    second = write_run(tmp_path / "b", [50.0, 20.0, 5.0, 7.0], costs=0.25)
    (pair,) = compare(first, second).pairs
    assert pair.task_count == 4
    assert pair.speed.interval[:3] == pytest.approx((log(2), log(2), log(2)))
    assert pair.speed.interval.value_count == 3
    assert pair.solved.interval.mean == 0.25
    assert pair.solved.interval.low < 0.25 < pair.solved.interval.high
    assert pair.cost_usd == pytest.approx(8 * 0.25 - 7 * 0.5)
    (row,) = pairs_table(compare(first, second)).format_rows()
    assert row[3].startswith("2.00× faster (3 tasks), p = ")
    assert row[2].startswith("+25 points, p = ")


def test_six_tasks_are_enough_for_an_interval(tmp_path):
    names = [f"op{number}" for number in range(6)]
    latencies = [100.0, 40.0, 10.0, 30.0, 20.0, 50.0]
    first = write_run(tmp_path / "a", latencies, names=names)
    second = write_run(tmp_path / "b", [us / 2 for us in latencies], names=names)
    third = write_run(tmp_path / "c", [us / 2 for us in latencies[:5]], names=names[:5])
    comparison = compare(first, second, third)
    six, five = pairs_table(comparison).format_rows()
    assert six[3] == "2.00× faster [2.00 to 2.00], p = 0.031"
    assert five[3] == "2.00× faster (5 tasks), p = 0.062"
    ratios = [pair["latency_ratio"] for pair in comparison_json(comparison)["compared_with_first"]]
    assert ["low" in ratio for ratio in ratios] == [True, False]


def test_swapped_runs_give_the_opposite_result(tmp_path):
    first, second = write_run(tmp_path / "a", [100.0, 40.0, 10.0, 8.0]), write_run(tmp_path / "b", [50.0, 60.0, 5.0, 7.0])
    (forth,), (back,) = compare(first, second).pairs, compare(second, first).pairs
    assert forth.speed.interval.mean == pytest.approx(-back.speed.interval.mean)
    assert forth.speed.p == pytest.approx(back.speed.p)


def test_latencies_of_different_clocks_are_not_compared(tmp_path):
    first = write_run(tmp_path / "a", [100.0] * 4)
    second = write_run(tmp_path / "b", [50.0] * 4, clock="wall")
    comparison = compare(first, second)
    assert comparison.pairs[0].speed is None
    assert {row[-1] for row in tasks_table(comparison).format_rows()} == {"–"}


def test_tasks_of_one_run_only_are_listed_but_not_paired(tmp_path):
    first, second = write_run(tmp_path / "a", [100.0], names=["relu"]), write_run(tmp_path / "b", [50.0, 7.0], names=["relu", "gelu"])
    comparison = compare(first, second)
    assert comparison.pairs[0].task_count == 1
    assert tasks_table(comparison).format_rows() == [
        ["made/relu", "100 µs", "2", "50.0 µs", "2", "2.00× faster"],
        ["made/gelu", "–", "–", "7.00 µs", "2", "–"],
    ]
    assert "2.00× faster (one task)" in pairs_table(comparison).format_rows()[0][3]


def test_unreported_cost_is_not_zero(tmp_path):
    first, second = write_run(tmp_path / "a", [100.0] * 4, costs=None), write_run(tmp_path / "b", [50.0] * 4, costs=0.25)
    comparison = compare(first, second)
    assert comparison.pairs[0].cost_usd is None
    assert [row[8] for row in runs_table(comparison).format_rows()] == [
        "price not known, 80 input and 160 output tokens",
        "$2.0000",
    ]
    assert pairs_table(comparison).format_rows()[0][-1] == "not reported"
    table = json.loads(json.dumps(comparison_json(comparison), allow_nan=False))
    assert [run["cost_usd"] for run in table["runs"]] == [None, 2.0]
    assert table["compared_with_first"][0]["latency_ratio"]["mean"] == pytest.approx(2.0)
    assert table["tasks"][0]["runs"]["b"] == {"solved": True, "best_us": 50.0, "attempts": 2, "latency_ratio": 2.0}


def test_runs_that_cannot_be_compared_are_refused(tmp_path):
    first, second = write_run(tmp_path / "a", [100.0], names=["relu"]), write_run(tmp_path / "b", [50.0], names=["gelu"])
    for runs, message in (((first,), "2 to 8 runs"), ((first, first), "named twice"), ((first, second), "no task in common")):
        with pytest.raises(UserError, match=message):
            compare(*runs)


def test_run_without_attempts_has_no_share(tmp_path):
    first, second = write_run(tmp_path / "a", [100.0] * 4), sample_run.write_run(tmp_path / "b", [make_task(name) for name in NAMES], [])
    comparison = compare(first, second)
    assert comparison.pairs[0].solved is None
    assert runs_table(comparison).format_rows()[1][5] == "–"
    assert {row[3] for row in tasks_table(comparison).format_rows()} == {"not tried"}
