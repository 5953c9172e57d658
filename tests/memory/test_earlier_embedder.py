"""A bank whose vectors an earlier form of its embedder made: it is brought forward, and nothing else in it changes."""

import numpy as np
import pytest
from bank_parts import refusal
from test_memory_bank import item

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Stage
from evokernel.memory import bank as bank_module
from evokernel.memory.bank import Bank
from evokernel.memory.packs import export, import_pack

HASH = make_plugin("embedder", "hash", dim=64)
QUERY = "torch.matmul(a, b)"


class Earlier:
    """Everything is found in another order than now."""

    id = "hash-64-v1"

    def embed(self, texts):
        return np.roll(HASH.embed(texts), 1, axis=0)


def kernels():
    return [item(f"k{n}", task=f"t/{n}", text=f"kernel of word{n}", key=key) for n, key in enumerate(KEYS)]


KEYS = ("torch.relu(x)", "nn.Linear(8, 8)", "x.sum(dim=1)", "a @ b", "torch.relu(x)", "F.softmax(x)")


def filled(path, embedder):
    with Bank.open(path, embedder, backend="cpp", run="before") as bank:
        bank.add(kernels())
        bank.update("t/0/0", Stage.DRAFT, {"k0": 1.0, "k3": -1.0}, 0.3)
    return path


def found(bank):
    return [(hit.item.id, hit.similarity) for hit in bank.search(QUERY, 6)]


@pytest.fixture
def expected(tmp_path):
    with Bank.open(filled(tmp_path / "now.db", HASH), HASH, backend="cpp", run="after") as bank:
        return found(bank)


@pytest.mark.parametrize("at_once", [2, 1024])
def test_a_run_brings_it_forward(banks, expected, monkeypatch, at_once, caplog):
    monkeypatch.setattr(bank_module, "TEXTS", at_once)
    path = filled(banks(), Earlier())
    for run in ("after", "before", "later"):
        with Bank.open(path, HASH, backend="cpp", run=run) as bank:
            bank.add(kernels() if bank.resumed else ())
            assert found(bank) == expected
            assert run == "before" or bank.values(["k3"], Stage.DRAFT)["k3"].q == pytest.approx(-0.3)
    assert [record.getMessage().count("embedded again by 'hash-64-v2'") for record in caplog.records if "again" in record.getMessage()] == [
        1
    ]
    refusal(UserError, lambda: Bank.open(path, Earlier(), backend="cpp", run="old"), "hash-64-v2", "hash-64-v1")


def test_so_does_an_import(banks, expected, tmp_path):
    path = filled(banks(), Earlier())
    export(path, tmp_path / "pack.jsonl")
    for place in (path, banks("new")):
        import_pack(place, tmp_path / "pack.jsonl", HASH)
        with Bank.open(place, HASH, backend="cpp", run="after") as bank:
            assert found(bank) == expected


def test_whoever_looks_at_it_changes_nothing(banks, expected):
    path = filled(banks(), Earlier())
    with Bank.read(path) as archive:
        assert [(hit.item.id, hit.similarity) for hit in archive.search(QUERY, HASH, 6)] == expected
        assert archive.meta("embedder") == "hash-64-v1"
    Bank.open(path, Earlier(), backend="cpp", run="old").close()
