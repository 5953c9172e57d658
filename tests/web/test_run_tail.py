"""Reading a run while it is written: every attempt once, no incomplete lines, damage reported."""

import pytest
import sample_run

from evokernel.core.errors import UserError
from evokernel.core.final_results import FinalResult, append_final_result
from evokernel.reports import metrics
from evokernel.web.run_index import RunIndex
from evokernel.web.run_tail import RunTail, resolve_inside


@pytest.fixture
def sample(tmp_path):
    tasks, attempts = sample_run.make_sample()
    return sample_run.write_run(tmp_path / "runs" / "one", tasks, attempts[:4]), attempts


def test_refresh_reads_only_new_attempts(sample, monkeypatch):
    run, attempts = sample
    run_tail = RunTail("one", run.folder)
    assert run_tail.refresh()
    assert not run_tail.refresh()
    before = {result.task.id: result for result in run_tail.results}
    run.journal.append(attempts[4])
    assert run_tail.refresh()
    assert [one.id for one in run_tail.attempts] == [one.id for one in attempts[:5]]
    after = {result.task.id: result for result in run_tail.results}
    assert [id for id in after if after[id] is not before[id]] == [attempts[4].task]
    assert list(after.values()) == metrics.collect_results(run, run.attempts())


def test_incomplete_line_is_read_later(sample):
    run, attempts = sample
    line = attempts[4].model_dump_json() + "\n"
    run_tail = RunTail("one", run.folder)
    run_tail.refresh()
    with run.journal.path.open("a") as file:
        file.write(line[:100])
    assert not run_tail.refresh()
    run.journal.repair()
    run.journal.append(attempts[4])
    assert run_tail.refresh()
    assert run_tail.attempt_count == 5
    assert run_tail.problems == []


def test_damaged_line_is_reported_and_skipped(sample):
    run, attempts = sample
    with run.journal.path.open("ab") as file:
        file.write(b"\xff\xfe not json\n")
    run.journal.append(attempts[4])
    run_tail = RunTail("one", run.folder)
    run_tail.refresh()
    assert run_tail.attempt_count == 5
    assert run_tail.problems == ["attempts.jsonl is damaged: line 5 cannot be read and is skipped"]


def test_replaced_file_is_read_from_the_start(sample):
    run, attempts = sample
    run_tail = RunTail("one", run.folder)
    run_tail.refresh()
    run.journal.path.unlink()
    for one in attempts[:2]:
        run.journal.append(one)
    run_tail.refresh()
    assert run_tail.attempt_count == 2


def test_revocations_and_reevaluations_count(sample):
    run, _ = sample
    run_tail = RunTail("one", run.folder)
    run_tail.refresh()
    assert run_tail.task_result("made/relu").is_solved
    append_final_result(
        run.folder, FinalResult(task="made/relu", attempt="made/relu/1", outcome=sample_run.failed_outcome("check", "mismatch"))
    )
    run_tail.refresh()
    assert [one.id for one in run_tail.task_result("made/relu").failed_reevaluations] == ["made/relu/1"]
    run.revoke(["made/relu/0"])
    run_tail.refresh()
    assert not run_tail.task_result("made/relu").is_solved


def test_released_run_is_read_again(sample):
    run, _ = sample
    run_tail = RunTail("one", run.folder)
    run_tail.refresh()
    run_tail.release_memory()
    assert run_tail.attempt_count == 0
    run_tail.refresh()
    assert run_tail.attempt_count == 4


def test_files_outside_the_folder_are_not_read(sample, tmp_path):
    run, _ = sample
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    folder = run.folder / "artifacts" / "made" / "relu" / "0"
    folder.mkdir(parents=True)
    (folder / "reply.md").symlink_to(secret)
    (folder / "reply.prompt.md").write_text("the prompt")
    run_tail = RunTail("one", run.folder)
    assert run_tail.read_artifact("made/relu/0", "reply.prompt.md") == "the prompt"
    assert run_tail.read_artifact("made/relu/0", "reply.md") is None
    assert run_tail.read_artifact("../../..", "secret.md") is None
    assert run_tail.read_artifact("/etc", "passwd") is None
    assert run_tail.read_artifact("made/relu/0\0", "reply.prompt.md") is None
    assert resolve_inside(run.folder, "../../secret.md") is None


def test_symbolic_links_out_of_the_folder_are_not_followed(sample, tmp_path):
    run, _ = sample
    run.journal.path.rename(tmp_path / "elsewhere.jsonl")
    run.journal.path.symlink_to(tmp_path / "elsewhere.jsonl")
    run_tail = RunTail("one", run.folder)
    run_tail.refresh()
    assert run_tail.attempt_count == 0
    (run.folder / "run.toml").rename(tmp_path / "run.toml")
    (run.folder / "run.toml").symlink_to(tmp_path / "run.toml")
    run_tail.refresh()
    assert run_tail.run is None
    assert "lead out" in run_tail.problems[0]


def test_index_finds_nested_runs(sample, tmp_path):
    tasks, attempts = sample_run.make_sample()
    sample_run.write_run(tmp_path / "runs" / "study" / "arm-a" / "seed-0", tasks, attempts)
    (tmp_path / "outside").mkdir()
    sample_run.write_run(tmp_path / "outside" / "hidden", tasks, attempts)
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "outside")
    run_index = RunIndex([tmp_path / "runs", tmp_path / "runs" / "one"], [])
    assert sorted(run_index.runs) == ["one", "study~arm-a~seed-0"]
    with pytest.raises(UserError, match="no run"):
        run_index.get("../outside/hidden")


def test_index_releases_runs_not_used_recently(sample, tmp_path, monkeypatch):
    tasks, attempts = sample_run.make_sample()
    sample_run.write_run(tmp_path / "runs" / "two", tasks, attempts)
    monkeypatch.setattr("evokernel.web.run_index.MAX_CACHED_BYTES", 1)
    run_index = RunIndex([tmp_path / "runs"], [])
    rows = [run_index.summary_row("one"), run_index.summary_row("two")]
    assert [run_index.runs[key].attempt_count for key in ("one", "two")] == [0, 9]
    assert [run_index.summary_row("one"), run_index.summary_row("two")] == rows
    assert run_index.runs["one"].attempt_count == 0
    assert run_index.get("one").attempt_count == 4


def test_invalid_numbers_count_as_damage(sample):
    run, attempts = sample
    line = attempts[3].model_dump_json()
    bad = [line.replace('"reward":1.0', '"reward":NaN'), line.replace("25.0", "-25.0"), line.replace("25.0", "Infinity")]
    with run.journal.path.open("a") as file:
        file.writelines(one + "\n" for one in bad)
    run_tail = RunTail("one", run.folder)
    run_tail.refresh()
    assert run_tail.attempt_count == 4
    assert "lines 5, 6, 7" in run_tail.problems[0]


def test_attempts_showing_an_item(sample):
    run, _ = sample
    run_tail = RunTail("one", run.folder)
    run_tail.refresh()
    count, newest = run_tail.attempts_showing("cpp/tiling", 5)
    assert (count, [one.id for one in newest]) == (1, ["made/relu/1"])
