"""Consolidation merges copies and archives items of low value; no data is lost, and values stay the fold of the ledger."""

import json

import pytest
from bank_parts import HASH, load_stage_values, open_bank
from click.testing import CliRunner
from engine_parts import make_attempt, make_task
from test_memory_bank import item

from evokernel.cli.memory import command
from evokernel.core.errors import UserError
from evokernel.core.protocols import ItemValue
from evokernel.core.records import Candidate, Stage
from evokernel.memory import consolidate as consolidate_module
from evokernel.memory import ledger
from evokernel.memory.bank import Bank
from evokernel.memory.consolidate import Limits, consolidate, restore_items
from evokernel.memory.distill import distill
from evokernel.memory.packs import export_pack, import_pack_file
from evokernel.memory.revoke import revoke
from evokernel.memory.schema import connect_read_only

BODY = "for (int i = 0; i < n; ++i) {{ out[i] = x[i] > 0 ? x[i] : {0}; total += out[i] * scale + bias; }} return total / n;"
COPY = BODY.format(0) + " // the same, with a comment"
OTHER = "const auto rows = tile(x, 64); parallel(rows, [&](auto row) { vectorised_max(row, zero); store(row); });"


def add_attempt(bank, n, code, shown=(), latency=10.0, feasible=True, reward=1.0):
    attempt = make_attempt(n, "relu", run=bank.run, latency=latency, feasible=feasible)
    attempt = attempt.model_copy(update={"candidate": Candidate(backend="cpp", files={"kernel.cpp": code})})
    bank.update(attempt.id, Stage.DRAFT, dict.fromkeys(shown, reward), 0.3)
    bank.add(distill(make_task("relu"), attempt))


@pytest.fixture
def bank_with_copies(banks):
    """Kernel 0 and its faster copy 1, another kernel 2 of low value, and a failed copy 3; all have updates."""
    path = banks()
    with open_bank(path, "a") as bank:
        bank.add([item("cpp/tip", "practice")])
        add_attempt(bank, 0, BODY.format(0), latency=10.0)
        add_attempt(bank, 1, COPY, ["a:t/relu/0"], latency=8.0, reward=0.7)
        add_attempt(bank, 2, OTHER, ["a:t/relu/0", "a:t/relu/1"], latency=30.0, reward=-0.4)
        add_attempt(bank, 3, COPY, ["a:t/relu/1", "a:t/relu/0/note"], feasible=False, reward=0.9)
        for n in range(4, 10):
            bank.update(f"t/relu/{n}", Stage.DRAFT, {"a:t/relu/2": -1.0, "cpp/tip": 1 / n}, 0.3)
    return path


def load_folded_values(path):
    """The stored values, after checking that they are the fold of the ledger."""
    connection = connect_read_only(path)
    rows = connection.execute("SELECT item, stage, scope, q, visits FROM item_values").fetchall()
    values = {tuple(key): ItemValue(q, visits) for *key, q, visits in rows}
    assert values == ledger.fold_updates(connection.execute(f"{ledger.ACTIVE_ROWS} ORDER BY seq"), ledger.load_survivors(connection))
    connection.close()
    return values


def visible_ids(path, run="later"):
    with open_bank(path, run) as bank:
        return {hit.item.id for hit in bank.search("relu", 99)}


def test_copies_are_merged_and_values_are_the_fold_of_the_ledger(bank_with_copies):
    before = load_folded_values(bank_with_copies)
    result = consolidate(bank_with_copies)
    assert [(merge.item, merge.survivor) for merge in result.merged] == [("a:t/relu/0", "a:t/relu/1")], "the faster copy survives"
    assert [one.item for one in result.archived] == ["a:t/relu/2"]
    assert "after 6 visits" in result.archived[0].reason
    assert (result.items_before, result.items_after) == (9, 6)
    after = load_folded_values(bank_with_copies)
    assert ("a:t/relu/0", "draft", "") not in after
    assert after["a:t/relu/1", "draft", ""].visits == 4
    assert after["cpp/tip", "draft", ""] == before["cpp/tip", "draft", ""]
    assert visible_ids(bank_with_copies) == {"cpp/tip", "a:t/relu/1", "a:t/relu/1/note", "a:t/relu/2/note", "a:t/relu/3", "a:t/relu/3/note"}
    with Bank.open_reader(bank_with_copies) as reader:
        assert [step.attempt for step in reader.value_history("a:t/relu/1")] == ["t/relu/1", "t/relu/2", "t/relu/2", "t/relu/3"]
        assert {entry.item.id for entry in reader.find_items(archived=True)} == {"a:t/relu/0", "a:t/relu/0/note", "a:t/relu/2"}
        assert reader.get_item("a:t/relu/0").item.code == BODY.format(0)
        assert reader.compute_stats().archived == 3
    repeated = consolidate(bank_with_copies)
    assert (repeated.merged, repeated.archived) == ((), ())


def test_dry_run_returns_the_same_result_and_changes_nothing(bank_with_copies):
    before = load_folded_values(bank_with_copies)
    planned = consolidate(bank_with_copies, dry_run=True)
    assert load_folded_values(bank_with_copies) == before
    assert planned == consolidate(bank_with_copies)


def test_archived_items_can_be_restored(bank_with_copies):
    before = load_folded_values(bank_with_copies)
    all_ids = visible_ids(bank_with_copies, "first")
    consolidate(bank_with_copies)
    restore_items(bank_with_copies, "a:t/relu/0", "a:t/relu/0/note", "a:t/relu/2")
    assert load_folded_values(bank_with_copies) == before
    assert visible_ids(bank_with_copies, "second") == all_ids
    with pytest.raises(UserError, match="list --archived"):
        restore_items(bank_with_copies, "a:t/relu/2")


def test_running_run_keeps_its_snapshot_and_updates_the_survivor(bank_with_copies):
    with open_bank(bank_with_copies, "b") as straight:
        names = [f"a:t/relu/{n}" for n in range(4)]
        view = straight.search("relu", 99), straight.values(names, Stage.DRAFT)
        consolidate(bank_with_copies)
        straight.update("t/relu/0", Stage.DRAFT, {"a:t/relu/0": 0.25}, 0.3)  # the item has been merged into another one
        with open_bank(bank_with_copies, "b") as resumed:
            assert (resumed.search("relu", 99), resumed.values(names, Stage.DRAFT)) == view
            resumed.update("t/relu/0", Stage.DRAFT, {"a:t/relu/0": 0.25}, 0.3)
            assert resumed.values(names, Stage.DRAFT) == straight.values(names, Stage.DRAFT)
    assert load_folded_values(bank_with_copies)["a:t/relu/1", "draft", ""].visits == 5


def test_merged_values_survive_export_and_import(bank_with_copies, tmp_path):
    consolidate(bank_with_copies)
    first = export_pack(bank_with_copies, tmp_path / "pack.jsonl")
    assert first.evokernel_memory == 4
    other = tmp_path / "other.db"
    import_pack_file(other, tmp_path / "pack.jsonl", HASH)
    archived_ids = {"a:t/relu/2"}
    assert load_folded_values(other) == {
        key: value for key, value in load_folded_values(bank_with_copies).items() if key[0] not in archived_ids
    }
    assert export_pack(other, tmp_path / "again.jsonl").sha256 == first.sha256


def test_items_of_an_older_pack_that_were_merged_since_are_archived(bank_with_copies, banks, tmp_path):
    export_pack(bank_with_copies, tmp_path / "older.jsonl")
    consolidate(bank_with_copies)
    export_pack(bank_with_copies, tmp_path / "newer.jsonl")
    other = banks("other")
    import_pack_file(other, tmp_path / "newer.jsonl", HASH)
    before = load_folded_values(other)
    with open_bank(other, "b") as bank:
        view = bank.search("relu", 99), bank.values(["a:t/relu/1"], Stage.DRAFT)
    result = import_pack_file(other, tmp_path / "older.jsonl", HASH)
    assert (result.items, result.archived) == (3, 2), "0 and its note, and 2, which was archived for another reason"
    assert {key: value for key, value in load_folded_values(other).items() if key[0] != "a:t/relu/2"} == before
    assert "a:t/relu/0" not in visible_ids(other)
    with open_bank(other, "b") as bank:
        assert (bank.search("relu", 99), bank.values(["a:t/relu/1"], Stage.DRAFT)) == view
    assert import_pack_file(other, tmp_path / "older.jsonl", HASH) == (0, 0, 0)
    assert [one.item for one in consolidate(other).archived] == ["a:t/relu/2"]
    restore_items(other, "a:t/relu/0")
    assert load_folded_values(other)["a:t/relu/0", "draft", ""].visits == 2
    assert consolidate(other).merged
    load_folded_values(other)


def test_item_added_again_after_its_merge_can_become_the_survivor(bank_with_copies, banks, tmp_path):
    """The run is resumed with a bank that imported the consolidated items of its attempts."""
    consolidate(bank_with_copies)
    export_pack(bank_with_copies, tmp_path / "pack.jsonl")
    other = banks("other")
    import_pack_file(other, tmp_path / "pack.jsonl", HASH)
    with open_bank(other, "a") as bank:
        add_attempt(bank, 0, BODY.format(0), latency=1.0)
    assert [merge[:2] for merge in consolidate(other).merged] == [("a:t/relu/1", "a:t/relu/0")], "the item added again is faster"
    assert load_folded_values(other)["a:t/relu/0", "draft", ""].visits == 4


def test_import_does_not_restore_merges_into_a_revoked_survivor(bank_with_copies, banks, tmp_path):
    consolidate(bank_with_copies)
    export_pack(bank_with_copies, tmp_path / "pack.jsonl")
    other = banks("other")
    import_pack_file(other, tmp_path / "pack.jsonl", HASH)
    revoke(other, "a:t/relu/1")
    import_pack_file(other, tmp_path / "pack.jsonl", HASH)
    load_folded_values(other)


def test_revoking_a_survivor_makes_its_copy_active_again(bank_with_copies):
    consolidate(bank_with_copies)
    revoke(bank_with_copies, "a:t/relu/1")
    values = load_folded_values(bank_with_copies)
    assert values["a:t/relu/0", "draft", ""].visits == 1, "the update of attempt 1 is revoked with it, the update of attempt 2 still counts"
    assert "a:t/relu/0" in visible_ids(bank_with_copies)


def test_kernels_beyond_the_limit_per_task_are_archived(banks):
    path = banks()
    with open_bank(path, "a") as bank:
        for n in range(6):
            add_attempt(bank, n, f"kernel_{n}({n}); " * 3 + f"return {'abcdef'[n]};", latency=10.0 + n)
    result = consolidate(path, Limits(min_similarity=1.0, max_per_task=2))
    assert [one.item for one in result.archived] == [f"a:t/relu/{n}{kind}" for n in (2, 3, 4, 5) for kind in ("", "/note")]
    assert visible_ids(path) == {"a:t/relu/0", "a:t/relu/0/note", "a:t/relu/1", "a:t/relu/1/note"}
    assert consolidate(path, Limits(min_similarity=1.0, max_per_task=2)).archived == ()


def test_notes_without_a_kernel_count_for_the_limit_per_task(banks):
    """Attempts without code have only a note."""
    path = banks()
    with open_bank(path, "a") as bank:
        bank.add([item("cpp/tip", "practice")])
        add_attempt(bank, 0, "first()", latency=10.0)
        add_attempt(bank, 1, "second(1) + other", latency=20.0)
        bank.add([item(f"a:t/relu/{n}/note", "experience", task="t/relu", feasible=False) for n in range(2, 8)])
        bank.add([item(f"a:t/gelu/{n}/note", "experience", task="t/gelu", feasible=False) for n in range(3)])
        bank.update("t/relu/8", Stage.DRAFT, {"a:t/relu/5/note": 1.0, "a:t/relu/0/note": -1.0}, 0.3)
        for n in range(9, 15):
            bank.update(f"t/relu/{n}", Stage.DRAFT, {"a:t/relu/6/note": -1.0}, 0.5)
    result = consolidate(path, Limits(max_per_task=2))
    reasons = {one.item: one.reason for one in result.archived}
    assert "after 6 visits" in reasons.pop("a:t/relu/6/note")
    others = {"a:t/relu/1", *(f"a:t/relu/{n}/note" for n in (1, 2, 3, 4, 7))}
    assert reasons == {
        **dict.fromkeys(others, "beyond the limit of 2 attempts for t/relu"),
        "a:t/gelu/2/note": "beyond the limit of 2 attempts for t/gelu",
    }
    kept_ids = {"a:t/relu/0", "a:t/relu/0/note", "a:t/relu/5/note", "a:t/gelu/0/note", "a:t/gelu/1/note", "cpp/tip"}
    assert visible_ids(path) == kept_ids, "the best kernel with its note, whatever its value, and the note of highest value"
    assert consolidate(path, Limits(max_per_task=2)).archived == ()


def test_kernel_with_a_valuable_note_is_kept(banks):
    path = banks()
    with open_bank(path, "a") as bank:
        for n in range(3):
            add_attempt(bank, n, f"kernel_{n}({'abc'[n]}); return;", latency=10.0 + n)
        bank.update("t/relu/9", Stage.DRAFT, {"a:t/relu/2/note": 1.0}, 0.3)
    assert {one.item for one in consolidate(path, Limits(max_per_task=2)).archived} == {"a:t/relu/1", "a:t/relu/1/note"}


def test_consolidate_list_show_and_restore_commands(bank_with_copies):
    def run_command(*arguments):
        result = CliRunner().invoke(command, [*arguments, "--memory", str(bank_with_copies)], catch_exceptions=False)
        assert result.exit_code == 0
        return result.output

    assert run_command("consolidate", "--dry-run").startswith("Would merge 1 kernel, would archive 1 item; 9 items before, 6 after\n")
    result = json.loads(run_command("consolidate", "--json"))
    assert result["merged"][0]["survivor"] == "a:t/relu/1"
    assert {one["id"] for one in json.loads(run_command("list", "--archived", "--json"))} == {"a:t/relu/0", "a:t/relu/0/note", "a:t/relu/2"}
    assert "merged items: a:t/relu/0" in run_command("show", "a:t/relu/1")
    assert run_command("show", "a:t/relu/0").count("archived") == 1
    assert "3 archived" in run_command("stats")
    assert run_command("restore", "a:t/relu/2") == "Restored 1 item\n"
    assert load_stage_values(bank_with_copies)["a:t/relu/2", "draft"].visits == 6


def test_item_revoked_during_planning_is_not_merged(bank_with_copies, monkeypatch):
    """Planning takes minutes for a large bank, while other processes write."""
    plan_changes = consolidate_module.plan_changes

    def plan_and_revoke(*arguments):
        changes = plan_changes(*arguments)
        revoke(bank_with_copies, "a:t/relu/1")
        return changes

    monkeypatch.setattr(consolidate_module, "plan_changes", plan_and_revoke)
    result = consolidate(bank_with_copies)
    assert result.merged == (), "its survivor is revoked"
    assert "a:t/relu/0" in visible_ids(bank_with_copies)
    load_folded_values(bank_with_copies)
