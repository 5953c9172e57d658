"""`evokernel compare`, and `report` with several runs."""

import pytest
import sample_run
from sample_run import make_attempt, make_task, passed_outcome


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tasks = [make_task(name) for name in ("relu", "gelu", "tanh")]
    for name, factor in (("slow", 2.0), ("fast", 1.0)):
        attempts = [make_attempt(task, 0, passed_outcome(factor * us)) for task, us in zip(tasks, (10.0, 30.0, 50.0), strict=True)]
        sample_run.write_run(tmp_path / "runs" / name, tasks, attempts, budget=1)
    return ["runs/slow", "runs/fast"]


def test_compare_prints_paired_tables(runs, call):
    result = call("compare", *runs)
    assert result.code == 0
    for text in ("Compared with runs/slow, paired by task", "2.00× faster (3 tasks)", "95 % confidence interval", "made/relu"):
        assert text in result.out, text
    (pair,) = call("compare", *runs, "--json").json["compared_with_first"]
    assert pair["latency_ratio"]["mean"] == pytest.approx(2.0)


def test_report_of_several_runs_points_to_compare(runs, call):
    result = call("report", *runs)
    assert result.code == 2
    assert "evokernel compare runs/slow runs/fast" in result.err


def test_compare_needs_two_runs(runs, call):
    for arguments, text in (([], "RUN"), (runs[:1], "2 to 8 runs"), ([runs[0], "runs/none"], "not a run folder")):
        result = call("compare", *arguments)
        assert result.code == 2
        assert text in result.err
        assert result.err.count("\n") == 1
