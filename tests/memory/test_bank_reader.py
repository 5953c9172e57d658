"""Banks are read outside runs."""

import pytest
from bank_parts import HASH, open_bank
from engine_parts import make_task
from test_memory_bank import item

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.memory.bank import Bank


def test_reader_lists_filters_and_searches_items(path):
    with Bank.open_reader(path) as reader:
        assert [entry.item.id for entry in reader.find_items(kind="practice")] == ["cpp/tip"]
        assert {entry.item.id for entry in reader.find_items(task="t/gelu")} == {
            "a:t/gelu/0",
            "a:t/gelu/0/note",
            "a:t/gelu/1",
            "a:t/gelu/1/note",
        }
        assert [entry.run for entry in reader.find_items(text="GELU drafted mismatch", kind="trace")] == ["a"]
        assert list(reader.find_items(text="no such words")) == []
        assert reader.get_item("cpp/tip").item.kind == "practice"
        with pytest.raises(UserError, match="did you mean cpp/tip"):
            reader.get_item("cpp/tips")
        assert reader.search(make_task("gelu").source, HASH, 1)[0].item.task == "t/gelu"
        with pytest.raises(UserError, match="hash-1024-v2"):
            reader.search("x", make_plugin("embedder", "hash", dim=64))
        stats = reader.compute_stats()
    assert (stats.items, stats.revoked, stats.runs, stats.updates, stats.tasks, stats.feasible) == (14, 0, 1, 8, 2, 4)
    assert stats.kinds == {"api": 1, "experience": 6, "practice": 1, "trace": 6}
    assert stats.size_bytes > 4096


def test_reader_sees_items_that_a_writer_adds(path):
    with open_bank(path, "b") as bank, Bank.open_reader(path) as reader:
        bank.add([item("new")])
        assert reader.get_item("new").item.id == "new"
        assert reader.get_item("new").run == ""


def test_value_history_lists_every_update(path):
    with Bank.open_reader(path) as reader:
        steps = reader.value_history("cpp/tip")
    assert [(s.attempt, s.stage, s.reward, s.q_before, s.q_after) for s in steps] == [
        ("t/gelu/0", "draft", -1.0, 0.0, -0.5),
        ("t/relu/0", "draft", 1.0, -0.5, 0.25),
        ("t/relu/1", "refine", 1.0, 0.0, 0.5),
        ("t/gelu/1", "draft", 1.0, 0.25, 0.625),
    ]
