"""The view that a run has of a bank, which is the same when the run is resumed."""

import numpy as np
import pytest
from engine_parts import make_attempt, make_task

from evokernel.core.bank_uri import ServerUrl
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import MemoryItem, Stage
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill


def item(id, kind="trace", text="", **more):
    return MemoryItem(id=id, kind=kind, backend=more.pop("backend", "cpp"), title=id, text=text or id, **more)


@pytest.fixture(params=["in_memory", "embeddings_in_memory", "remote"])
def open_bank(request, banks, monkeypatch):
    """Opens banks that are in memory, that have only their embeddings in memory, or that the server searches."""
    open_banks = []
    if request.param != "in_memory":
        if not isinstance(banks(), ServerUrl):
            pytest.skip("a file is always loaded into memory")
        monkeypatch.setattr("evokernel.memory.postgres.MAX_ITEMS_IN_MEMORY", 0)
        if request.param == "remote":
            monkeypatch.setattr("evokernel.memory.postgres.MAX_EMBEDDINGS_IN_MEMORY", 0)

    def open(run="r", name="bank", backend="cpp", embedder=None):
        open_banks.append(Bank.open(banks(name), embedder or make_plugin("embedder", "hash"), backend=backend, run=run))
        return open_banks[-1]

    yield open
    for bank in open_banks:
        bank.close()


def ids(hits):
    return [hit.item.id for hit in hits]


def test_search_orders_by_similarity_then_age(open_bank):
    bank = open_bank()
    bank.add([item("b", key="softmax over rows"), item("a", key="softmax over rows"), item("c", key="matrix multiplication tiles")])
    hits = bank.search("row softmax", 3)
    assert ids(hits) == ["b", "a", "c"]
    assert hits[0].similarity == hits[1].similarity > hits[2].similarity
    assert ids(bank.search("row softmax", 1)) == ["b"]
    assert bank.search("row softmax", 0) == []


def test_equal_texts_have_similarity_one(open_bank):
    bank = open_bank()
    bank.add([item("a", key=make_task("relu").source)])
    assert bank.search(make_task("relu").source, 1)[0].similarity == pytest.approx(1.0, abs=1e-12)


def test_search_applies_every_filter(open_bank):
    bank = open_bank()
    bank.add(
        [
            item("api", "api"),
            item("tip", "practice", bottleneck="memory"),
            item("good", task="t/x", feasible=True, bottleneck="memory"),
            item("bad", task="t/x", feasible=False),
            item("note", "experience", task="t/y", feasible=True),
            item("other-backend", backend="cuda"),
        ]
    )
    assert set(ids(bank.search("q", 9))) == {"api", "tip", "good", "bad", "note"}
    assert set(ids(bank.search("q", 9, ("trace", "experience")))) == {"good", "bad", "note"}
    assert set(ids(bank.search("q", 9, task="t/x"))) == {"good", "bad"}
    assert set(ids(bank.search("q", 9, bottleneck="memory"))) == {"tip", "good"}
    assert ids(bank.search("q", 9, ("trace",), feasible=True)) == ["good"]
    assert ids(bank.search("q", 9, feasible=False)) == ["bad"]
    assert bank.search("q", 9, task="t/unknown") == []
    assert [item.id for item in bank.get(["note", "nothing", "api", "other-backend"])] == ["note", "api"]


def test_items_are_found_by_key_or_by_text_and_code(open_bank):
    bank = open_bank()
    bank.add([item("keyed", key="convolution", text="softmax"), item("plain", text="softmax", code="exp")])
    assert ids(bank.search("convolution", 1)) == ["keyed"]
    assert ids(bank.search("softmax", 1)) == ["plain"]
    assert ids(bank.search("exp", 1)) == ["plain"]


def test_update_follows_equation_four(open_bank):
    bank = open_bank()
    assert bank.values(["a"], Stage.DRAFT) == {"a": ItemValue(0.0, 0)}
    bank.update("t/x/0", Stage.DRAFT, {"a": 1.0, "b": -1.0}, 0.3)
    bank.update("t/x/1", Stage.DRAFT, {"a": 1.0}, 0.5)
    assert bank.values(["a", "b"], Stage.DRAFT) == {"a": ItemValue(0.3 + 0.5 * 0.7, 2), "b": ItemValue(-0.3, 1)}
    assert bank.values(["a"], Stage.REFINE) == {"a": ItemValue()}
    bank.update("t/x/1", Stage.DRAFT, {"a": -1.0}, 0.5, scope="activation")
    assert bank.values(["a"], Stage.DRAFT, scope="activation") == {"a": ItemValue(-0.5, 1)}
    assert bank.values(["a"], Stage.DRAFT)["a"].visits == 2


def test_repeated_update_of_an_attempt_is_ignored(open_bank):
    bank = open_bank()
    for _ in range(3):
        bank.update("t/x/0", Stage.DRAFT, {"a": 1.0}, 0.3)
    assert bank.values(["a"], Stage.DRAFT)["a"] == ItemValue(0.3, 1)
    with Bank.open_reader(bank.path) as reader:
        assert [step.q_after for step in reader.value_history("a")] == [0.3]


@pytest.mark.parametrize(("alpha", "reward"), [(0.0, 1.0), (1.5, 1.0), (0.3, float("nan")), (0.3, float("inf"))])
def test_update_that_would_unbound_a_value_is_rejected(open_bank, alpha, reward):
    bank = open_bank()
    with pytest.raises(ValueError, match="bounded"):
        bank.update("t/x/0", Stage.DRAFT, {"a": reward}, alpha)
    assert bank.values(["a"], Stage.DRAFT)["a"] == ItemValue()


def test_stored_values_equal_the_run_view(open_bank):
    bank = open_bank()
    for n in range(50):
        bank.update(f"t/x/{n}", Stage.REFINE, {"a": (n % 7) / 3 - 1, "b": (n % 5) / 7}, 0.1 + (n % 3) / 10)
    with Bank.open_reader(bank.path) as reader:
        stored_values = {value.item: ItemValue(value.q, value.visits) for value in reader.list_values()}
    assert stored_values == bank.values(["a", "b"], Stage.REFINE)


def learn(bank, run, n):
    """Do what the loop does with one attempt."""
    attempt = make_attempt(n, "relu", run=run, feasible=n % 2 == 1, latency=10.0 + n)
    bank.update(attempt.id, Stage.DRAFT, {f"seed{n % 3}": attempt.reward, f"{run}:t/relu/{n - 1}": attempt.reward}, 0.3)
    bank.add(distill(make_task("relu"), attempt))


def snapshot_view(bank):
    item_ids = [f"seed{n}" for n in range(3)] + [f"{run}:t/relu/{n}" for run in "ros" for n in range(9)]
    return bank.search(make_task("relu").source, 99), [bank.values(item_ids, stage) for stage in Stage], bank.get(item_ids)


@pytest.mark.parametrize("stopped_after", [0, 1, 3, 6])
def test_resumed_run_equals_straight_run(open_bank, stopped_after):
    seeds = [item(f"seed{n}", "practice", text=f"tip {n} about relu") for n in range(3)]

    def prepare_bank(name):
        with open_bank("o", name) as other:
            other.add(seeds[:2])
            for n in range(4):
                learn(other, "o", n)

    prepare_bank("straight")
    straight = open_bank("r", "straight")
    straight.add(seeds)
    for n in range(6):
        learn(straight, "r", n)

    prepare_bank("resumed")
    first = open_bank("r", "resumed")
    first.add(seeds)
    for n in range(stopped_after):
        learn(first, "r", n)
    first.close()
    stranger = open_bank("s", "resumed")  # writes to the bank while our run is stopped, and after it is resumed
    assert not stranger.is_resumed
    for n in range(3):
        learn(stranger, "s", n)
    resumed = open_bank("r", "resumed")
    assert resumed.is_resumed
    resumed.add(seeds)
    for n in range(6):
        learn(resumed, "r", n)
        learn(stranger, "s", 3 + n)
    assert snapshot_view(resumed) == snapshot_view(straight)
    assert any("o:" in hit.item.id for hit in straight.search("relu", 99))


def test_later_run_sees_all_items_and_values(open_bank):
    for run in "ab":
        with open_bank(run) as bank:
            learn(bank, run, 1)
    later = open_bank("c")
    assert {"a:t/relu/1", "b:t/relu/1", "b:t/relu/1/note"} <= set(ids(later.search("relu", 99)))
    assert later.values(["seed1"], Stage.DRAFT)["seed1"] == ItemValue(0.3 + 0.3 * (1 - 0.3), 2)


def test_edited_card_replaces_the_old_one(open_bank):
    with open_bank("a") as bank:
        bank.add([item("cpp/tip", "practice", text="old words about softmax")])
        bank.update("t/x/0", Stage.REFINE, {"cpp/tip": 1.0}, 0.3)
    with open_bank("b") as bank:
        bank.add([item("cpp/tip", "practice", text="new words about convolution")])
        assert [hit.item.text for hit in bank.search("convolution", 9)] == ["new words about convolution"]
    later = open_bank("c")
    assert later.search("convolution", 1)[0].item.text == "new words about convolution"
    assert later.values(["cpp/tip"], Stage.REFINE)["cpp/tip"] == ItemValue(0.3, 1)


def test_index_growth_keeps_every_row(open_bank):
    bank = open_bank(embedder=make_plugin("embedder", "hash", dim=64))
    for n in range(0, 300, 7):
        bank.add([item(f"i{m}", key=f"word{m} other{m * 31}") for m in range(n, n + 7)])
    for n in (0, 63, 64, 128, 299):
        assert bank.search(f"word{n} other{n * 31}", 1)[0].item.id == f"i{n}"
    assert len(bank.search("anything", 1000)) == 301


def test_similarity_does_not_depend_on_insertion_batches(open_bank):
    """Later vectors are multiplied in other batches; this must not change ties or the order."""
    random = np.random.default_rng(0)
    words = [f"w{n}" for n in range(40)]
    items = [item(f"i{n}", key=" ".join(random.choice(words, 12))) for n in range(160)]
    in_one_batch, in_many_batches = open_bank(name="a"), open_bank(name="b")
    in_one_batch.add(items)
    for first in range(0, 160, 3):
        in_many_batches.add(items[first : first + 3])
        in_many_batches.search("w1 w2 w3", 5)
    assert in_one_batch.search("w1 w2 w3", 160) == in_many_batches.search("w1 w2 w3", 160)
