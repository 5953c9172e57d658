"""A frozen memory: shown as it was, found by nobody else what is added, no value learned."""

import pytest

from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import MemoryItem, Stage
from evokernel.memory.bank import Bank
from evokernel.memory.read_only import Frozen


def item(id: str, text: str) -> MemoryItem:
    return MemoryItem(id=id, kind="trace", backend="cpp", title=text, text=text, key=text, task="s/t", feasible=True)


@pytest.fixture
def bank(banks):
    with Bank.open(banks(), make_plugin("embedder", "hash"), backend="cpp", run="before") as before:
        before.add([item("before:s/t/0", "relu of rows"), item("before:s/t/1", "sum of columns")])
        before.update("s/t/0", Stage.DRAFT, {"before:s/t/0": 1.0}, 0.5)
    with Bank.open(banks(), make_plugin("embedder", "hash"), backend="cpp", run="now") as found:
        yield found


def test_what_is_added_is_found_by_its_id_only(bank):
    frozen = Frozen(bank)
    frozen.add([item(f"now:s/t/{number}", "relu of rows") for number in range(5)])
    assert [hit.item.id for hit in frozen.search("relu of rows", 2)] == ["before:s/t/0", "before:s/t/1"]
    assert [found.id for found in frozen.get(["now:s/t/3"])] == ["now:s/t/3"]
    assert {hit.item.id for hit in bank.search("relu of rows", 3)} > {"before:s/t/0"}


def test_no_value_changes(bank):
    frozen = Frozen(bank)
    before = frozen.values(["before:s/t/0"], Stage.DRAFT)
    assert before == {"before:s/t/0": ItemValue(0.5, 1)}
    frozen.update("s/t/1", Stage.DRAFT, {"before:s/t/0": -1.0}, 0.5)
    assert frozen.values(["before:s/t/0"], Stage.DRAFT) == before
