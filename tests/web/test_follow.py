"""Reading a run while it is written: every attempt once, half lines never, damage told."""

import made_run
import pytest

from evokernel.core.errors import UserError
from evokernel.core.final_results import FinalResult
from evokernel.core.final_results import append_final_result as judge_again
from evokernel.reports import metrics
from evokernel.web.run_index import Shelf
from evokernel.web.run_tail import Followed, inside


@pytest.fixture
def made(tmp_path):
    tasks, attempts = made_run.made()
    return made_run.write_run(tmp_path / "runs" / "one", tasks, attempts[:4]), attempts


def test_it_reads_what_is_new_and_only_that(made, monkeypatch):
    run, attempts = made
    followed = Followed("one", run.folder)
    assert followed.refresh()
    assert not followed.refresh()
    before = {tried.task.id: tried for tried in followed.found}
    run.journal.append(attempts[4])
    assert followed.refresh()
    assert [one.id for one in followed.attempts] == [one.id for one in attempts[:5]]
    after = {tried.task.id: tried for tried in followed.found}
    assert [id for id in after if after[id] is not before[id]] == [attempts[4].task]
    assert list(after.values()) == metrics.of_run(run, run.attempts())


def test_a_line_being_written_is_left_for_later(made):
    run, attempts = made
    line = attempts[4].model_dump_json() + "\n"
    followed = Followed("one", run.folder)
    followed.refresh()
    with run.journal.path.open("a") as file:
        file.write(line[:100])
    assert not followed.refresh()
    run.journal.repair()
    run.journal.append(attempts[4])
    assert followed.refresh()
    assert followed.count == 5
    assert followed.notes == []


def test_damage_is_told_and_the_rest_read(made):
    run, attempts = made
    with run.journal.path.open("ab") as file:
        file.write(b"\xff\xfe not json\n")
    run.journal.append(attempts[4])
    followed = Followed("one", run.folder)
    followed.refresh()
    assert followed.count == 5
    assert followed.notes == ["attempts.jsonl is damaged: line 5 cannot be read and is left out"]


def test_another_file_is_read_from_its_beginning(made):
    run, attempts = made
    followed = Followed("one", run.folder)
    followed.refresh()
    run.journal.path.unlink()
    for one in attempts[:2]:
        run.journal.append(one)
    followed.refresh()
    assert followed.count == 2


def test_revocations_and_second_judgements_count(made):
    run, _ = made
    followed = Followed("one", run.folder)
    followed.refresh()
    assert followed.tried("made/relu").solved
    judge_again(run.folder, FinalResult(task="made/relu", attempt="made/relu/1", outcome=made_run.failed("check", "mismatch")))
    followed.refresh()
    assert [one.id for one in followed.tried("made/relu").fallen] == ["made/relu/1"]
    run.revoke(["made/relu/0"])
    followed.refresh()
    assert not followed.tried("made/relu").solved


def test_what_is_dropped_is_read_again(made):
    run, _ = made
    followed = Followed("one", run.folder)
    followed.refresh()
    followed.drop()
    assert followed.count == 0
    followed.refresh()
    assert followed.count == 4


def test_nothing_outside_the_folder_is_read(made, tmp_path):
    run, _ = made
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    place = run.folder / "artifacts" / "made" / "relu" / "0"
    place.mkdir(parents=True)
    (place / "reply.md").symlink_to(secret)
    (place / "reply.prompt.md").write_text("what was asked")
    followed = Followed("one", run.folder)
    assert followed.text("made/relu/0", "reply.prompt.md") == "what was asked"
    assert followed.text("made/relu/0", "reply.md") is None
    assert followed.text("../../..", "secret.md") is None
    assert followed.text("/etc", "passwd") is None
    assert followed.text("made/relu/0\0", "reply.prompt.md") is None
    assert inside(run.folder, "../../secret.md") is None


def test_a_journal_that_is_a_link_is_not_followed(made, tmp_path):
    run, _ = made
    run.journal.path.rename(tmp_path / "elsewhere.jsonl")
    run.journal.path.symlink_to(tmp_path / "elsewhere.jsonl")
    followed = Followed("one", run.folder)
    followed.refresh()
    assert followed.count == 0
    (run.folder / "run.toml").rename(tmp_path / "run.toml")
    (run.folder / "run.toml").symlink_to(tmp_path / "run.toml")
    followed.refresh()
    assert followed.run is None
    assert "lead out" in followed.notes[0]


def test_a_shelf_finds_runs_at_some_depth_and_names_them(made, tmp_path):
    tasks, attempts = made_run.made()
    made_run.write_run(tmp_path / "runs" / "study" / "arm-a" / "seed-0", tasks, attempts)
    (tmp_path / "outside").mkdir()
    made_run.write_run(tmp_path / "outside" / "hidden", tasks, attempts)
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "outside")
    shelf = Shelf([tmp_path / "runs", tmp_path / "runs" / "one"], [])
    assert sorted(shelf.runs) == ["one", "study~arm-a~seed-0"]
    with pytest.raises(UserError, match="no run"):
        shelf.get("../outside/hidden")


def test_a_shelf_lets_go_of_what_nobody_looks_at(made, tmp_path, monkeypatch):
    tasks, attempts = made_run.made()
    made_run.write_run(tmp_path / "runs" / "two", tasks, attempts)
    monkeypatch.setattr("evokernel.web.run_index.KEPT_BYTES", 1)
    shelf = Shelf([tmp_path / "runs"], [])
    rows = [shelf.row("one"), shelf.row("two")]
    assert [shelf.runs[key].count for key in ("one", "two")] == [0, 9]
    assert [shelf.row("one"), shelf.row("two")] == rows
    assert shelf.runs["one"].count == 0
    assert shelf.get("one").count == 4


def test_figures_that_are_none_are_damage(made):
    run, attempts = made
    line = attempts[3].model_dump_json()
    bad = [line.replace('"reward":1.0', '"reward":NaN'), line.replace("25.0", "-25.0"), line.replace("25.0", "Infinity")]
    with run.journal.path.open("a") as file:
        file.writelines(one + "\n" for one in bad)
    followed = Followed("one", run.folder)
    followed.refresh()
    assert followed.count == 4
    assert "lines 5, 6, 7" in followed.notes[0]


def test_it_says_who_was_shown_an_item(made):
    run, _ = made
    followed = Followed("one", run.folder)
    followed.refresh()
    count, latest = followed.shown("cpp/tiling", 5)
    assert (count, [one.id for one in latest]) == (1, ["made/relu/1"])
