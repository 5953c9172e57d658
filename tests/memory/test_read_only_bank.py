"""A read-only bank hides added items from searches and changes no value."""

import pytest

from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import MemoryItem, Stage
from evokernel.memory.bank import Bank
from evokernel.memory.read_only import ReadOnlyBank


def item(id: str, text: str) -> MemoryItem:
    return MemoryItem(id=id, kind="trace", backend="cpp", title=text, text=text, key=text, task="s/t", feasible=True)


@pytest.fixture
def bank(banks):
    with Bank.open(banks(), make_plugin("embedder", "hash"), backend="cpp", run="before") as before:
        before.add([item("before:s/t/0", "relu of rows"), item("before:s/t/1", "sum of columns")])
        before.update("s/t/0", Stage.DRAFT, {"before:s/t/0": 1.0}, 0.5)
    with Bank.open(banks(), make_plugin("embedder", "hash"), backend="cpp", run="now") as bank:
        yield bank


def test_own_items_are_returned_by_id_but_not_by_search(bank):
    read_only = ReadOnlyBank(bank)
    read_only.add([item(f"now:s/t/{number}", "relu of rows") for number in range(5)])
    assert [hit.item.id for hit in read_only.search("relu of rows", 2)] == ["before:s/t/0", "before:s/t/1"]
    assert [item.id for item in read_only.get(["now:s/t/3"])] == ["now:s/t/3"]
    assert {hit.item.id for hit in bank.search("relu of rows", 3)} > {"before:s/t/0"}


def test_update_changes_no_value(bank):
    read_only = ReadOnlyBank(bank)
    before = read_only.values(["before:s/t/0"], Stage.DRAFT)
    assert before == {"before:s/t/0": ItemValue(0.5, 1)}
    read_only.update("s/t/1", Stage.DRAFT, {"before:s/t/0": -1.0}, 0.5)
    assert read_only.values(["before:s/t/0"], Stage.DRAFT) == before
