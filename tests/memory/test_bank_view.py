"""A frozen view of a bank: what readers on other threads see while the run goes on learning."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evokernel.core.bank_uri import parse_location
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import MemoryItem, Stage
from evokernel.memory import postgres as postgres_module
from evokernel.memory.bank import Bank
from evokernel.memory.read_only import ReadOnlyBank


def make_item(number: int, run: str = "run") -> MemoryItem:
    fields = {"kind": "trace", "backend": "cpp", "text": "", "task": "t/relu", "key": f"relu of vector {number}", "feasible": True}
    return MemoryItem(id=f"{run}:t/relu/{number}", title=f"kernel {number}", code=f"code {number}", **fields)


@pytest.fixture
def bank(tmp_path: Path):
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="run") as bank:
        bank.add([make_item(0)])
        yield bank


def test_a_view_does_not_change_with_its_bank(bank: Bank) -> None:
    view = bank.freeze()
    bank.add([make_item(1)])
    bank.update("t/relu/2", Stage.DRAFT, {"run:t/relu/0": 1.0}, 0.5)
    assert [hit.item.id for hit in view.search("relu of vector", 9)] == ["run:t/relu/0"]
    assert view.get(["run:t/relu/1"]) == []
    assert view.values(["run:t/relu/0"], Stage.DRAFT) == {"run:t/relu/0": ItemValue()}
    later = bank.freeze()
    assert {hit.item.id for hit in later.search("relu of vector", 9)} == {"run:t/relu/0", "run:t/relu/1"}
    assert later.values(["run:t/relu/0"], Stage.DRAFT) == {"run:t/relu/0": ItemValue(0.5, 1)}


def test_attempts_that_begin_in_the_same_state_share_a_view(bank: Bank) -> None:
    view = bank.freeze()
    bank.add([make_item(0)])
    assert bank.freeze() is view, "an item that the bank has changes nothing"
    bank.add([make_item(3)])
    assert bank.freeze() is not view


def test_other_threads_search_while_the_bank_grows(bank: Bank) -> None:
    view = bank.freeze()
    with ThreadPoolExecutor(4) as pool:
        searches = [pool.submit(view.search, f"query {number}", 3) for number in range(200)]
        for number in range(1, 100):
            bank.add([make_item(number)])
        assert {tuple(hit.item.id for hit in search.result()) for search in searches} == {("run:t/relu/0",)}


def test_the_view_of_a_read_only_bank_hides_the_items_of_the_run(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="earlier") as bank:
        bank.add([make_item(0, "earlier")])
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="run") as bank:
        memory = ReadOnlyBank(bank)
        memory.add([make_item(number) for number in range(5)])
        view = memory.freeze()
        assert [hit.item.id for hit in view.search("relu of vector", 3)] == ["earlier:t/relu/0"]
        assert [item.id for item in view.get(["run:t/relu/1"])] == ["run:t/relu/1"]


def test_the_view_of_a_large_bank_on_a_server_has_its_own_connection(postgres, monkeypatch) -> None:
    """The items stay on the server; a thread searches them while the run writes."""
    monkeypatch.setattr(postgres_module, "MAX_ITEMS_IN_MEMORY", 0)
    location, embedder = parse_location(postgres.url("viewed")), make_plugin("embedder", "hash")
    with Bank.open(location, embedder, backend="cpp", run="earlier") as bank:
        bank.add([make_item(number, "earlier") for number in range(3)])
    with Bank.open(location, embedder, backend="cpp", run="run") as bank, ThreadPoolExecutor(2) as pool:
        view = bank.freeze()
        searches = [pool.submit(view.search, "relu of vector 1", 9) for _ in range(20)]
        for number in range(20):
            bank.add([make_item(number)])
            bank.update(f"t/relu/{number}", Stage.DRAFT, {"earlier:t/relu/0": 1.0}, 0.5)
        ids = {f"earlier:t/relu/{number}" for number in range(3)}
        assert all({hit.item.id for hit in search.result()} == ids for search in searches)
        assert pool.submit(view.values, ["earlier:t/relu/0"], Stage.DRAFT).result() == {"earlier:t/relu/0": ItemValue()}
        assert [item.id for item in view.get(["earlier:t/relu/2", "run:t/relu/0"])] == ["earlier:t/relu/2"]
        assert len(bank.freeze().search("relu of vector", 30)) == 23
