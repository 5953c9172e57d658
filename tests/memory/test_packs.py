"""Banks outside runs: looking, and moving memories to another bank."""

import json

import pytest
from bank_parts import HASH, open_bank, standings
from engine_parts import task
from test_memory_bank import item

from evokernel.core.errors import UserError
from evokernel.core.plugins import make
from evokernel.core.protocols import Value
from evokernel.memory.bank import Bank
from evokernel.memory.packs import Moved, export, import_pack


def test_listing_and_searching(path):
    with Bank.read(path) as archive:
        assert [entry.item.id for entry in archive.entries(kind="practice")] == ["cpp/tip"]
        assert {entry.item.id for entry in archive.entries(task="t/gelu")} == {
            "a:t/gelu/0",
            "a:t/gelu/0/note",
            "a:t/gelu/1",
            "a:t/gelu/1/note",
        }
        assert [entry.run for entry in archive.entries(text="GELU drafted mismatch", kind="trace")] == ["a"]
        assert list(archive.entries(text="no such words")) == []
        assert archive.get("cpp/tip").item.kind == "practice"
        with pytest.raises(UserError, match="did you mean cpp/tip"):
            archive.get("cpp/tips")
        assert archive.search(task("gelu").source, HASH, 1)[0].item.task == "t/gelu"
        with pytest.raises(UserError, match="hash-1024-v1"):
            archive.search("x", make("embedder", "hash", dim=64))
        stats = archive.stats()
    assert (stats.items, stats.revoked, stats.runs, stats.updates, stats.tasks, stats.feasible) == (14, 0, 1, 8, 2, 4)
    assert stats.kinds == {"api": 1, "experience": 6, "practice": 1, "trace": 6}
    assert stats.size_bytes > 4096


def test_reading_changes_nothing_and_works_beside_a_writer(path):
    with open_bank(path, "b") as bank, Bank.read(path) as archive:
        bank.add([item("new")])
        assert archive.get("new").item.id == "new"
        assert archive.get("new").run == ""


def test_the_history_of_a_value(path):
    with Bank.read(path) as archive:
        steps = archive.history("cpp/tip")
    assert [(s.attempt, s.stage, s.reward, s.q_before, s.q_after) for s in steps] == [
        ("t/gelu/0", "draft", -1.0, 0.0, -0.5),
        ("t/relu/0", "draft", 1.0, -0.5, 0.25),
        ("t/relu/1", "refine", 1.0, 0.0, 0.5),
        ("t/gelu/1", "draft", 1.0, 0.25, 0.625),
    ]


def test_a_pack_carries_items_and_values(path, tmp_path):
    moved = export(path, tmp_path / "pack.jsonl")
    assert moved == Moved(14, 8)
    assert import_pack(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH) == Moved(14, 8)
    assert standings(tmp_path / "other.db") == standings(path)
    with open_bank(tmp_path / "other.db", "b") as bank, open_bank(path, "b") as original:
        assert bank.search(task("relu").source, 99) == original.search(task("relu").source, 99)
    assert import_pack(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH) == Moved(0, 0)
    assert standings(tmp_path / "other.db") == standings(path)


def test_a_pack_without_a_task_holds_nothing_learned_on_it(path, tmp_path):
    assert export(path, tmp_path / "pack.jsonl", without_tasks={"t/relu"}) == Moved(6, 2)
    assert "relu" not in (tmp_path / "pack.jsonl").read_text()
    import_pack(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH)
    assert standings(tmp_path / "other.db") == {("cpp/tip", "draft"): Value(-0.5 + 0.5 * 1.5, 2)}


def test_a_part_of_a_bank(path, tmp_path):
    assert export(path, tmp_path / "pack.jsonl", kinds=("practice",)) == Moved(1, 4)
    assert export(path, tmp_path / "pack.jsonl", backend="cuda") == Moved(0, 0)


@pytest.mark.parametrize(
    ("line", "says"),
    [("{not json", "line 3"), ('{"item": {"id": 1}}', "line 3"), ('{"surprise": 1}', "line 3")],
)
def test_a_damaged_pack_changes_nothing(path, tmp_path, line, says):
    pack = tmp_path / "pack.jsonl"
    export(path, pack)
    lines = pack.read_text().splitlines()
    pack.write_text("\n".join([*lines[:2], line, *lines[3:]]) + "\n")
    with pytest.raises(UserError, match=says):
        import_pack(tmp_path / "other.db", pack, HASH)
    assert not (tmp_path / "other.db").exists()


def test_not_a_pack(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        import_pack(tmp_path / "bank.db", tmp_path / "none.jsonl", HASH)
    (tmp_path / "x.jsonl").write_text(json.dumps({"item": None}) + "\n")
    with pytest.raises(UserError, match="not a memory pack"):
        import_pack(tmp_path / "bank.db", tmp_path / "x.jsonl", HASH)


def test_export_to_nowhere(path, tmp_path):
    with pytest.raises(UserError, match="cannot write"):
        export(path, tmp_path / "no" / "such" / "folder.jsonl")
