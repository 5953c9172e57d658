"""Banks outside runs: looking."""

import pytest
from bank_parts import HASH, open_bank
from engine_parts import task
from test_memory_bank import item

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.memory.bank import Bank


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
        with pytest.raises(UserError, match="hash-1024-v2"):
            archive.search("x", make_plugin("embedder", "hash", dim=64))
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
