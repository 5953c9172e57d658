"""`evokernel surrogate`: tables, JSON, drafts and refusals."""

import pytest
import sample_run
from planted_run import write_planted_run

from evokernel.core.errors import UserError
from evokernel.core.records import Draft
from evokernel.experiments.surrogate_eval import count_drafts, evaluate_runs


def test_command_prints_tables_and_json(tmp_path, call):
    run = write_planted_run(tmp_path / "a", rounds=10)
    result = call("surrogate", str(run.folder))
    assert result.code == 0, result.err
    for text in ("rank correlation", "Brier score", "other tasks", "in random order", "one kernel per attempt"):
        assert text in result.out, text
    data = call("surrogate", str(run.folder), "--json").json
    assert data["evaluations"][1]["rank_correlation"]["low"] > 0.3
    assert data["drafts"] == {"attempts": 0, "drafts": 0, "others_chosen": 0}


def test_drafts_that_were_never_verified_are_counted(tmp_path, call):
    run = write_planted_run(tmp_path / "a", rounds=1)
    drafts = (Draft(candidate="a"), Draft(candidate="b", is_chosen=True), Draft(candidate=""))
    attempts = [attempt.model_copy(update={"drafts": drafts}) for attempt in run.attempts()]
    copy = sample_run.write_run(tmp_path / "b", run.tasks, attempts, id="b", budget=1)
    assert count_drafts([copy]) == (8, 16, 8)
    assert "Drafts: 16 written, 8 verified, 8 never verified" in call("surrogate", str(copy.folder)).out


def test_unusable_runs_are_refused_in_one_line(tmp_path, call):
    first, second = write_planted_run(tmp_path / "a"), write_planted_run(tmp_path / "b", backend="pallas")
    with pytest.raises(UserError, match="Evaluate the runs of one backend at a time"):
        evaluate_runs([first, second])
    empty = sample_run.write_run(tmp_path / "c", first.tasks, [], id="c")
    for arguments, text in (([str(empty.folder)], "no verified kernel"), ([str(tmp_path / "none")], "not a run folder"), ([], "RUN")):
        result = call("surrogate", *arguments)
        assert result.code == 2
        assert text in result.err
        assert result.err.count("\n") == 1
