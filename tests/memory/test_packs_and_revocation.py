"""Banks outside runs: looking, moving memories to another bank, and taking back what should not have been learned."""

import json

import pytest
from engine_parts import attempt, task
from test_memory_bank import item

from evokernel.core.errors import UserError
from evokernel.core.plugins import make
from evokernel.core.protocols import Value
from evokernel.core.records import Candidate, GateResult, Outcome, Stage
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.packs import Moved, export, import_pack
from evokernel.memory.revoke import revoke

HASH = make("embedder", "hash")


def open_bank(path, run):
    return Bank.open(path, HASH, backend="cpp", run=run)


def learn(bank, name, n, shown, start=None, feasible=True):
    made = attempt(n, name, run=bank.run, feasible=feasible).model_copy(update={"start": start})
    bank.update(made.id, Stage.REFINE if start else Stage.DRAFT, dict.fromkeys(shown, made.reward), 0.5)
    bank.add(distill(task(name), made))
    return made


@pytest.fixture
def path(tmp_path):
    """relu: 0 (cheats), 1 refined from 0, 2 refined from 1, 3 a draft of its own; gelu learns beside it."""
    path = tmp_path / "bank.db"
    with open_bank(path, "a") as bank:
        bank.add([item("cpp/tip", "practice"), item("cpp/abi", "api")])
        learn(bank, "gelu", 0, ["cpp/tip"], feasible=False)
        learn(bank, "relu", 0, ["cpp/tip"])
        learn(bank, "relu", 1, ["cpp/tip", "a:t/relu/0"], start="t/relu/0")
        learn(bank, "relu", 2, ["a:t/relu/1"], start="t/relu/1", feasible=False)
        learn(bank, "relu", 3, ["a:t/gelu/0"])
        learn(bank, "gelu", 1, ["cpp/tip", "a:t/relu/0"])
    return path


def standings(path):
    with Bank.read(path) as archive:
        return {(s.item, s.stage): Value(s.q, s.visits) for s in archive.standings(scope=None)}


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


@pytest.mark.parametrize("target", ["a:t/relu/0", "a/t/relu/0", "t/relu/0"])
def test_a_revoked_kernel_takes_its_descendants_and_what_they_earned(path, target):
    taken = revoke(path, target)
    assert set(taken.items) == {f"a:t/relu/{n}{note}" for n in (0, 1, 2) for note in ("", "/note")}
    assert (taken.updates, taken.recomputed) == (4, 3)
    assert standings(path) == {
        ("cpp/tip", "draft"): Value(-0.5 + 0.5 * 1.5, 2),  # what gelu taught about it stays
        ("a:t/gelu/0", "draft"): Value(0.5, 1),
        ("a:t/relu/0", "draft"): Value(0.5, 1),
    }
    with Bank.read(path) as archive:
        assert [step.revoked for step in archive.history("cpp/tip")] == [False, True, True, False]
        assert [step.q_after for step in archive.history("cpp/tip") if not step.revoked] == [-0.5, 0.25]
        assert archive.stats().revoked == 6
        assert "a:t/relu/1" not in {entry.item.id for entry in archive.entries()}
        assert archive.get("a:t/relu/1").revoked
    with open_bank(path, "later") as bank:
        assert {hit.item.id for hit in bank.search("relu", 99, ("trace",))} == {"a:t/gelu/0", "a:t/relu/3", "a:t/gelu/1"}
        assert bank.values(["cpp/tip"], Stage.DRAFT)["cpp/tip"] == Value(0.25, 2)


def test_revoking_again_takes_what_came_since(path):
    revoke(path, "t/relu/0")
    assert revoke(path, "t/relu/0") == ((), 0, 0)
    with open_bank(path, "a") as bank:  # the run was under way, with the cheat among its start points
        learn(bank, "relu", 4, ["cpp/tip"], start="t/relu/2")
    assert set(revoke(path, "t/relu/0").items) == {"a:t/relu/4", "a:t/relu/4/note"}


def test_a_resumed_run_does_not_bring_it_back(path):
    revoke(path, "t/relu/0")
    with open_bank(path, "a") as bank:
        bank.add([item("cpp/tip", "practice"), item("cpp/abi", "api")])
        learn(bank, "gelu", 0, ["cpp/tip"], feasible=False)
        learn(bank, "relu", 0, ["cpp/tip"])
        assert bank.get(["a:t/relu/0", "a:t/relu/0/note"]) == []
        assert bank.values(["cpp/tip"], Stage.DRAFT)["cpp/tip"] == Value(-0.5, 1)


def test_a_pack_cannot_bring_it_back(path, tmp_path):
    export(path, tmp_path / "pack.jsonl")
    revoke(path, "t/relu/0")
    before = standings(path)
    assert import_pack(path, tmp_path / "pack.jsonl", HASH) == Moved(0, 0)
    assert standings(path) == before


def test_one_item_alone(path):
    before = standings(path)
    assert revoke(path, "a:t/relu/0/note").items == ("a:t/relu/0/note",)
    assert revoke(path, "cpp/tip") == (("cpp/tip",), 0, 0)
    assert standings(path) == before
    with open_bank(path, "later") as bank:
        bank.add([item("cpp/tip", "practice")])
        assert bank.get(["cpp/tip", "a:t/relu/0/note"]) == []
        assert bank.get(["a:t/relu/0"])


def test_an_attempt_without_code_can_be_revoked(path):
    with open_bank(path, "b") as bank:
        gates = (GateResult(gate="write", passed=False, reason="no_code", detail="no"),)
        made = attempt(7, "relu", run="b").model_copy(
            update={"candidate": Candidate(backend="cpp", files={}), "outcome": Outcome(gates=gates)}
        )
        bank.update(made.id, Stage.DRAFT, {"cpp/abi": -1.0}, 0.5)
        bank.add(distill(task("relu"), made))
    assert revoke(path, "b:t/relu/7") == (("b:t/relu/7/note",), 1, 1)


def test_what_cannot_be_revoked(path, tmp_path):
    with pytest.raises(UserError, match="knows no item or attempt"):
        revoke(path, "t/nothing/0")
    with pytest.raises(UserError, match="no memory bank"):
        revoke(tmp_path / "none.db", "t/relu/0")
    with open_bank(path, "b") as bank:
        learn(bank, "relu", 0, [])
    with pytest.raises(UserError, match="a:t/relu/0, b:t/relu/0"):
        revoke(path, "t/relu/0")
