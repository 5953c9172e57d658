"""Tidying a bank: copies are merged, what is worth little is put aside, nothing is lost, and the ledger still explains every value."""

import json

import pytest
from bank_parts import HASH, open_bank, standings
from click.testing import CliRunner
from engine_parts import attempt, task
from test_memory_bank import item

from evokernel.cli.memory import command
from evokernel.core.errors import UserError
from evokernel.core.protocols import ItemValue
from evokernel.core.records import Candidate, Stage
from evokernel.memory import consolidate as tidying
from evokernel.memory import ledger
from evokernel.memory.bank import Bank
from evokernel.memory.consolidate import Limits, consolidate, restore
from evokernel.memory.distill import distill
from evokernel.memory.packs import export, import_pack
from evokernel.memory.revoke import revoke
from evokernel.memory.schema import connect_to_read

BODY = "for (int i = 0; i < n; ++i) {{ out[i] = x[i] > 0 ? x[i] : {0}; total += out[i] * scale + bias; }} return total / n;"
COPY = BODY.format(0) + " // the same, with a comment"
OTHER = "const auto rows = tile(x, 64); parallel(rows, [&](auto row) { vectorised_max(row, zero); store(row); });"


def wrote(bank, n, code, shown=(), latency=10.0, feasible=True, reward=1.0):
    made = attempt(n, "relu", run=bank.run, latency=latency, feasible=feasible)
    made = made.model_copy(update={"candidate": Candidate(backend="cpp", files={"kernel.cpp": code})})
    bank.update(made.id, Stage.DRAFT, dict.fromkeys(shown, reward), 0.3)
    bank.add(distill(task("relu"), made))


@pytest.fixture
def copied(banks):
    """0 and its faster copy 1, another kernel 2, a failed copy 3; all were shown, 2 never helped."""
    path = banks()
    with open_bank(path, "a") as bank:
        bank.add([item("cpp/tip", "practice")])
        wrote(bank, 0, BODY.format(0), latency=10.0)
        wrote(bank, 1, COPY, ["a:t/relu/0"], latency=8.0, reward=0.7)
        wrote(bank, 2, OTHER, ["a:t/relu/0", "a:t/relu/1"], latency=30.0, reward=-0.4)
        wrote(bank, 3, COPY, ["a:t/relu/1", "a:t/relu/0/note"], feasible=False, reward=0.9)
        for n in range(4, 10):
            bank.update(f"t/relu/{n}", Stage.DRAFT, {"a:t/relu/2": -1.0, "cpp/tip": 1 / n}, 0.3)
    return path


def folded(path):
    """The table of values, which must be the fold of the ledger."""
    connection = connect_to_read(path)
    rows = connection.execute("SELECT item, stage, scope, q, visits FROM q").fetchall()
    values = {tuple(key): ItemValue(q, visits) for *key, q, visits in rows}
    assert values == ledger.fold(connection.execute(f"{ledger.LIVE} ORDER BY seq"), ledger.survivors(connection))
    connection.close()
    return values


def visible(path, run="later"):
    with open_bank(path, run) as bank:
        return {hit.item.id for hit in bank.search("relu", 99)}


def test_copies_are_merged_and_the_ledger_explains_their_value(copied):
    before = folded(copied)
    done = consolidate(copied)
    assert [(merge.item, merge.survivor) for merge in done.merged] == [("a:t/relu/0", "a:t/relu/1")], "the faster one stays"
    assert [one.item for one in done.archived] == ["a:t/relu/2"]
    assert "after 6 visits" in done.archived[0].why
    assert (done.items_before, done.items_after) == (9, 6)
    after = folded(copied)
    assert ("a:t/relu/0", "draft", "") not in after
    assert after["a:t/relu/1", "draft", ""].visits == 4
    assert after["cpp/tip", "draft", ""] == before["cpp/tip", "draft", ""]
    assert visible(copied) == {"cpp/tip", "a:t/relu/1", "a:t/relu/1/note", "a:t/relu/2/note", "a:t/relu/3", "a:t/relu/3/note"}
    with Bank.read(copied) as archive:
        assert [step.attempt for step in archive.history("a:t/relu/1")] == ["t/relu/1", "t/relu/2", "t/relu/2", "t/relu/3"]
        assert {entry.item.id for entry in archive.entries(archived=True)} == {"a:t/relu/0", "a:t/relu/0/note", "a:t/relu/2"}
        assert archive.get("a:t/relu/0").item.code == BODY.format(0)
        assert archive.stats().archived == 3
    again = consolidate(copied)
    assert (again.merged, again.archived) == ((), ())


def test_a_dry_run_says_the_same_and_does_nothing(copied):
    before = folded(copied)
    planned = consolidate(copied, dry_run=True)
    assert folded(copied) == before
    assert planned == consolidate(copied)


def test_what_was_put_aside_comes_back(copied):
    before = folded(copied)
    all_of_it = visible(copied, "first")
    consolidate(copied)
    restore(copied, "a:t/relu/0", "a:t/relu/0/note", "a:t/relu/2")
    assert folded(copied) == before
    assert visible(copied, "second") == all_of_it
    with pytest.raises(UserError, match="list --archived"):
        restore(copied, "a:t/relu/2")


def test_a_run_under_way_sees_nothing_of_it_and_learns_for_the_survivor(copied):
    with open_bank(copied, "b") as straight:
        names = [f"a:t/relu/{n}" for n in range(4)]
        seen = straight.search("relu", 99), straight.values(names, Stage.DRAFT)
        consolidate(copied)
        straight.update("t/relu/0", Stage.DRAFT, {"a:t/relu/0": 0.25}, 0.3)  # what it was shown is another's copy by now
        with open_bank(copied, "b") as resumed:
            assert (resumed.search("relu", 99), resumed.values(names, Stage.DRAFT)) == seen
            resumed.update("t/relu/0", Stage.DRAFT, {"a:t/relu/0": 0.25}, 0.3)
            assert resumed.values(names, Stage.DRAFT) == straight.values(names, Stage.DRAFT)
    assert folded(copied)["a:t/relu/1", "draft", ""].visits == 5


def test_values_are_the_same_in_another_bank(copied, tmp_path):
    consolidate(copied)
    first = export(copied, tmp_path / "pack.jsonl")
    assert first.evokernel_memory == 3
    other = tmp_path / "other.db"
    import_pack(other, tmp_path / "pack.jsonl", HASH)
    gone = {"a:t/relu/2"}
    assert folded(other) == {key: value for key, value in folded(copied).items() if key[0] not in gone}
    assert export(other, tmp_path / "again.jsonl").sha256 == first.sha256


def test_an_older_pack_brings_what_was_merged_since(copied, banks, tmp_path):
    export(copied, tmp_path / "older.jsonl")
    consolidate(copied)
    export(copied, tmp_path / "newer.jsonl")
    other = banks("other")
    import_pack(other, tmp_path / "newer.jsonl", HASH)
    before = folded(other)
    with open_bank(other, "b") as bank:
        seen = bank.search("relu", 99), bank.values(["a:t/relu/1"], Stage.DRAFT)
    done = import_pack(other, tmp_path / "older.jsonl", HASH)
    assert (done.items, done.aside) == (3, 2), "0 and its note, and 2, which was put aside for another reason"
    assert {key: value for key, value in folded(other).items() if key[0] != "a:t/relu/2"} == before
    assert "a:t/relu/0" not in visible(other)
    with open_bank(other, "b") as bank:
        assert (bank.search("relu", 99), bank.values(["a:t/relu/1"], Stage.DRAFT)) == seen
    assert import_pack(other, tmp_path / "older.jsonl", HASH) == (0, 0, 0)
    assert [one.item for one in consolidate(other).archived] == ["a:t/relu/2"]
    restore(other, "a:t/relu/0")
    assert folded(other)["a:t/relu/0", "draft", ""].visits == 2
    assert consolidate(other).merged
    folded(other)


def test_a_run_that_adds_again_what_was_merged(copied, banks, tmp_path):
    """It is resumed with a bank that took in what others made of its attempts."""
    consolidate(copied)
    export(copied, tmp_path / "pack.jsonl")
    other = banks("other")
    import_pack(other, tmp_path / "pack.jsonl", HASH)
    with open_bank(other, "a") as bank:
        wrote(bank, 0, BODY.format(0), latency=1.0)
    assert [merge[:2] for merge in consolidate(other).merged] == [("a:t/relu/1", "a:t/relu/0")], "it is the faster one here"
    assert folded(other)["a:t/relu/0", "draft", ""].visits == 4


def test_a_revoked_survivor_does_not_stand_for_anything_again(copied, banks, tmp_path):
    consolidate(copied)
    export(copied, tmp_path / "pack.jsonl")
    other = banks("other")
    import_pack(other, tmp_path / "pack.jsonl", HASH)
    revoke(other, "a:t/relu/1")
    import_pack(other, tmp_path / "pack.jsonl", HASH)
    folded(other)


def test_a_revoked_survivor_no_longer_stands_for_its_copy(copied):
    consolidate(copied)
    revoke(copied, "a:t/relu/1")
    values = folded(copied)
    assert values["a:t/relu/0", "draft", ""].visits == 1, "what attempt 1 taught is gone with it, what attempt 2 taught stays"
    assert "a:t/relu/0" in visible(copied)


def test_of_too_many_kernels_the_best_stay(banks):
    path = banks()
    with open_bank(path, "a") as bank:
        for n in range(6):
            wrote(bank, n, f"kernel_{n}({n}); " * 3 + f"return {'abcdef'[n]};", latency=10.0 + n)
    done = consolidate(path, Limits(alike=1.0, most=2))
    assert [one.item for one in done.archived] == [f"a:t/relu/{n}{kind}" for n in (2, 3, 4, 5) for kind in ("", "/note")]
    assert visible(path) == {"a:t/relu/0", "a:t/relu/0/note", "a:t/relu/1", "a:t/relu/1/note"}
    assert consolidate(path, Limits(alike=1.0, most=2)).archived == ()


def test_notes_without_a_kernel_are_bounded_too(banks):
    """Attempts that gave no code leave only these."""
    path = banks()
    with open_bank(path, "a") as bank:
        bank.add([item("cpp/tip", "practice")])
        wrote(bank, 0, "first()", latency=10.0)
        wrote(bank, 1, "second(1) + other", latency=20.0)
        bank.add([item(f"a:t/relu/{n}/note", "experience", task="t/relu", feasible=False) for n in range(2, 8)])
        bank.add([item(f"a:t/gelu/{n}/note", "experience", task="t/gelu", feasible=False) for n in range(3)])
        bank.update("t/relu/8", Stage.DRAFT, {"a:t/relu/5/note": 1.0, "a:t/relu/0/note": -1.0}, 0.3)
        for n in range(9, 15):
            bank.update(f"t/relu/{n}", Stage.DRAFT, {"a:t/relu/6/note": -1.0}, 0.5)
    done = consolidate(path, Limits(most=2))
    why = {one.item: one.why for one in done.archived}
    assert "after 6 visits" in why.pop("a:t/relu/6/note")
    others = {"a:t/relu/1", *(f"a:t/relu/{n}/note" for n in (1, 2, 3, 4, 7))}
    assert why == {
        **dict.fromkeys(others, "beyond the 2 attempts kept of t/relu"),
        "a:t/gelu/2/note": "beyond the 2 attempts kept of t/gelu",
    }
    kept = {"a:t/relu/0", "a:t/relu/0/note", "a:t/relu/5/note", "a:t/gelu/0/note", "a:t/gelu/1/note", "cpp/tip"}
    assert visible(path) == kept, "the best kernel with its note, whatever that is worth, and the most valuable note"
    assert consolidate(path, Limits(most=2)).archived == ()


def test_a_valuable_note_keeps_its_kernel(banks):
    path = banks()
    with open_bank(path, "a") as bank:
        for n in range(3):
            wrote(bank, n, f"kernel_{n}({'abc'[n]}); return;", latency=10.0 + n)
        bank.update("t/relu/9", Stage.DRAFT, {"a:t/relu/2/note": 1.0}, 0.3)
    assert {one.item for one in consolidate(path, Limits(most=2)).archived} == {"a:t/relu/1", "a:t/relu/1/note"}


def test_the_command(copied):
    def said(*arguments):
        done = CliRunner().invoke(command, [*arguments, "--memory", str(copied)], catch_exceptions=False)
        assert done.exit_code == 0
        return done.output

    assert said("consolidate", "--dry-run").startswith("would merge 1 kernels, would put aside 1 items; 9 items before, 6 after\n")
    done = json.loads(said("consolidate", "--json"))
    assert done["merged"][0]["survivor"] == "a:t/relu/1"
    assert {one["id"] for one in json.loads(said("list", "--archived", "--json"))} == {"a:t/relu/0", "a:t/relu/0/note", "a:t/relu/2"}
    assert "stands for a:t/relu/0" in said("show", "a:t/relu/1")
    assert said("show", "a:t/relu/0").count("archived") == 1
    assert "3 put aside" in said("stats")
    assert said("restore", "a:t/relu/2") == "restored 1 item\n"
    assert standings(copied)["a:t/relu/2", "draft"].visits == 6


def test_what_is_revoked_while_it_looks_is_left_alone(copied, monkeypatch):
    """Looking at a large bank takes minutes, in which others go on."""
    look = tidying.looked_at

    def and_then(*given):
        found = look(*given)
        revoke(copied, "a:t/relu/1")
        return found

    monkeypatch.setattr(tidying, "looked_at", and_then)
    done = consolidate(copied)
    assert done.merged == (), "its survivor is gone"
    assert "a:t/relu/0" in visible(copied)
    folded(copied)
