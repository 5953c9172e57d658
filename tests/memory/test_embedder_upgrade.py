"""A bank with vectors of an earlier embedder version: they are computed again, and nothing else in the bank changes."""

import numpy as np
import pytest
from bank_parts import assert_error
from test_memory_bank import item

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Stage
from evokernel.memory import item_rows
from evokernel.memory.bank import Bank
from evokernel.memory.packs import export_pack, import_pack_file

HASH = make_plugin("embedder", "hash", dim=64)
QUERY = "torch.matmul(a, b)"


class EarlierEmbedder:
    """An earlier version of the embedder, which ranks items in another order."""

    id = "hash-64-v1"

    def embed(self, texts):
        return np.roll(HASH.embed(texts), 1, axis=0)


def make_items():
    return [item(f"k{n}", task=f"t/{n}", text=f"kernel of word{n}", key=key) for n, key in enumerate(KEYS)]


KEYS = ("torch.relu(x)", "nn.Linear(8, 8)", "x.sum(dim=1)", "a @ b", "torch.relu(x)", "F.softmax(x)")


def make_filled_bank(path, embedder):
    with Bank.open(path, embedder, backend="cpp", run="before") as bank:
        bank.add(make_items())
        bank.update("t/0/0", Stage.DRAFT, {"k0": 1.0, "k3": -1.0}, 0.3)
    return path


def search_hits(bank):
    return [(hit.item.id, hit.similarity) for hit in bank.search(QUERY, 6)]


@pytest.fixture
def expected_hits(tmp_path):
    with Bank.open(make_filled_bank(tmp_path / "now.db", HASH), HASH, backend="cpp", run="after") as bank:
        return search_hits(bank)


@pytest.mark.parametrize("batch_size", [2, 1024])
def test_run_embeds_the_items_again(banks, expected_hits, monkeypatch, batch_size, caplog):
    monkeypatch.setattr(item_rows, "EMBEDDING_BATCH", batch_size)
    path = make_filled_bank(banks(), EarlierEmbedder())
    for run in ("after", "before", "later"):
        with Bank.open(path, HASH, backend="cpp", run=run) as bank:
            bank.add(make_items() if bank.is_resumed else ())
            assert search_hits(bank) == expected_hits
            assert run == "before" or bank.values(["k3"], Stage.DRAFT)["k3"].q == pytest.approx(-0.3)
    assert [record.getMessage().count("embedded again by 'hash-64-v2'") for record in caplog.records if "again" in record.getMessage()] == [
        1
    ]
    assert_error(UserError, lambda: Bank.open(path, EarlierEmbedder(), backend="cpp", run="old"), "hash-64-v2", "hash-64-v1")


def test_import_embeds_the_items_again(banks, expected_hits, tmp_path):
    path = make_filled_bank(banks(), EarlierEmbedder())
    export_pack(path, tmp_path / "pack.jsonl")
    for location in (path, banks("new")):
        import_pack_file(location, tmp_path / "pack.jsonl", HASH)
        with Bank.open(location, HASH, backend="cpp", run="after") as bank:
            assert search_hits(bank) == expected_hits


def test_reader_does_not_change_the_bank(banks, expected_hits):
    path = make_filled_bank(banks(), EarlierEmbedder())
    with Bank.open_reader(path) as reader:
        assert [(hit.item.id, hit.similarity) for hit in reader.search(QUERY, HASH, 6)] == expected_hits
        assert reader.read_meta("embedder") == "hash-64-v1"
    Bank.open(path, EarlierEmbedder(), backend="cpp", run="old").close()
