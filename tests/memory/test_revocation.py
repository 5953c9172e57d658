"""Taking back what should not have been learned: kernels, their copies and descendants, and every value they had a part in."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from bank_parts import HASH, as_before, learn, open_bank, standings
from engine_parts import attempt, engine, task
from hypothesis import given, settings
from hypothesis import strategies as st
from test_memory_bank import item

from evokernel.core.errors import UserError
from evokernel.core.protocols import ItemValue
from evokernel.core.records import Candidate, GateResult, Outcome, Stage
from evokernel.core.run import Run
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.packs import Moved, export, import_pack
from evokernel.memory.revoke import revoke
from evokernel.reports import metrics

MEMORY = Path("/dev/shm")  # where there is one: two banks per example are many files to sync
ALL = {f"a:t/relu/{n}{note}" for n in (0, 1, 2) for note in ("", "/note")}


@pytest.mark.parametrize("target", ["a:t/relu/0", "a/t/relu/0", "t/relu/0"])
def test_a_revoked_kernel_takes_its_descendants_and_what_they_earned(path, target):
    taken = revoke(path, target)
    assert set(taken.items) == ALL
    assert taken.attempts == ("a:t/relu/0", "a:t/relu/1", "a:t/relu/2")
    assert (taken.updates, taken.recomputed) == (5, 3)
    assert standings(path) == {
        ("cpp/tip", "draft"): ItemValue(-0.5 + 0.5 * 1.5, 2),  # what gelu taught about it stays
        ("a:t/gelu/0", "draft"): ItemValue(0.5, 1),
    }
    with Bank.read(path) as archive:
        assert [step.revoked for step in archive.history("cpp/tip")] == [False, True, True, False]
        assert [step.q_after for step in archive.history("cpp/tip") if not step.revoked] == [-0.5, 0.25]
        assert (archive.stats().revoked, archive.stats().quarantined) == (6, 3)
        assert "a:t/relu/1" not in {entry.item.id for entry in archive.entries()}
        assert archive.get("a:t/relu/1").revoked
    with open_bank(path, "later") as bank:
        assert {hit.item.id for hit in bank.search("relu", 99, ("trace",))} == {"a:t/gelu/0", "a:t/relu/3", "a:t/gelu/1"}
        assert bank.values(["cpp/tip"], Stage.DRAFT)["cpp/tip"] == ItemValue(0.25, 2)


def test_who_was_shown_it_is_told_and_left_alone(path):
    taken = revoke(path, "t/relu/0")
    assert (taken.shown_to, taken.shown_and_correct) == (("a:t/gelu/1",), ("a:t/gelu/1",))
    with Bank.read(path) as archive:
        assert not archive.get("a:t/gelu/1").revoked


def test_who_was_shown_it_can_go_with_it(path):
    assert revoke(path, "t/relu/0", also_shown=True).attempts == ("a:t/relu/0", "a:t/gelu/1", "a:t/relu/1", "a:t/relu/2")
    assert standings(path) == {("cpp/tip", "draft"): ItemValue(-0.5, 1), ("a:t/gelu/0", "draft"): ItemValue(0.5, 1)}


def test_a_dry_run_says_the_same_and_does_nothing(path):
    before = standings(path)
    planned = revoke(path, "t/relu/0", dry_run=True)
    assert standings(path) == before
    with Bank.read(path) as archive:
        assert archive.stats().revoked == 0
    assert planned == revoke(path, "t/relu/0")


def test_the_same_code_goes_in_every_run(path, tmp_path):
    with open_bank(path, "b") as bank:
        copy = attempt(0, "relu", run="b")  # written word for word as in run a
        bank.update(copy.id, Stage.DRAFT, {"cpp/tip": 1.0}, 0.5)
        bank.add(distill(task("relu"), copy))
        learn(bank, "relu", 1, [], start="t/relu/0")
    assert set(revoke(path, "a:t/relu/0").attempts) == {"a:t/relu/0", "b:t/relu/0", "a:t/relu/1", "b:t/relu/1", "a:t/relu/2"}
    with open_bank(path, "c") as bank:
        assert bank.refused == {copy.candidate.id}
        learn(bank, "relu", 0, [])  # again, by whoever has not heard of it
        assert bank.get(["c:t/relu/0", "c:t/relu/0/note"]) == []


def test_by_the_id_of_the_code(path):
    hash = attempt(0, "relu").candidate.id
    assert revoke(path, candidate=hash, dry_run=True).attempts == ("a:t/relu/0", "a:t/relu/1", "a:t/relu/2")
    with pytest.raises(UserError, match="knows no kernel"):
        revoke(path, candidate="0123456789ab")


def test_rewards_against_a_false_best_go_too(tmp_path):
    path = tmp_path / "bank.db"
    with open_bank(path, "a") as bank:

        def refined(n, latency, feasible=True):
            made = attempt(n, "relu", run="a", latency=latency, feasible=feasible, stage=Stage.REFINE)
            bank.update(made.id, Stage.REFINE, {"cpp/tip": -0.9 if feasible else -1.0}, 0.5)
            bank.add(distill(task("relu"), made))

        bank.add([item("cpp/tip", "practice"), *distill(task("relu"), attempt(0, "relu", run="a", latency=50.0))])
        refined(1, 40.0)
        bank.add(distill(task("relu"), attempt(2, "relu", run="a", latency=1.0)))  # a cheat, and now the best
        refined(3, 20.0)  # twice as fast as any honest kernel, punished for not being as fast as the cheat
        refined(4, 0.0, feasible=False)  # failed, whatever the best was
    assert revoke(path, "t/relu/2").updates == 1
    assert standings(path) == {("cpp/tip", "refine"): ItemValue(-0.45 + 0.5 * (-1.0 + 0.45), 2)}


def test_revoking_again_takes_what_came_since(path):
    revoke(path, "t/relu/0")
    again = revoke(path, "t/relu/0")
    assert (again.items, again.updates, again.recomputed) == ((), 0, 0)
    with open_bank(path, "a") as bank:  # the run was under way, with the cheat among its start points
        learn(bank, "relu", 4, ["cpp/tip"], start="t/relu/2")
    assert set(revoke(path, "t/relu/0").items) == {"a:t/relu/4", "a:t/relu/4/note"}


def test_a_resumed_run_does_not_bring_it_back(path):
    revoke(path, "t/relu/0")
    with open_bank(path, "a") as bank:
        assert bank.revoked == {"t/relu/0", "t/relu/1", "t/relu/2"}
        bank.add([item("cpp/tip", "practice"), item("cpp/abi", "api")])
        learn(bank, "gelu", 0, ["cpp/tip"], feasible=False)
        learn(bank, "relu", 0, ["cpp/tip"])
        assert bank.get(["a:t/relu/0", "a:t/relu/0/note"]) == []
        assert bank.values(["cpp/tip"], Stage.DRAFT)["cpp/tip"] == ItemValue(-0.5, 1)


def test_a_pack_cannot_bring_it_back(path, tmp_path):
    export(path, tmp_path / "pack.jsonl")
    revoke(path, "t/relu/0")
    before = standings(path)
    assert import_pack(path, tmp_path / "pack.jsonl", HASH) == Moved(0, 0)
    assert standings(path) == before


def test_one_item_alone(path):
    before = standings(path)
    assert revoke(path, "a:t/relu/0/note").items == ("a:t/relu/0/note",)
    alone = revoke(path, "cpp/tip")
    assert (alone.attempts, alone.items, alone.updates) == ((), ("cpp/tip",), 0)
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
    taken = revoke(path, "b:t/relu/7")
    assert (taken.items, taken.updates, taken.recomputed) == (("b:t/relu/7/note",), 1, 1)


def test_what_cannot_be_revoked(path, tmp_path):
    with pytest.raises(UserError, match="knows no item or attempt"):
        revoke(path, "t/nothing/0")
    with pytest.raises(UserError, match="no memory bank"):
        revoke(tmp_path / "none.db", "t/relu/0")
    with open_bank(path, "b") as bank:
        learn(bank, "relu", 0, [])
    with pytest.raises(UserError, match="a:t/relu/0, b:t/relu/0"):
        revoke(path, "t/relu/0")


def test_a_bank_of_an_earlier_version_is_brought_up(file):
    as_before(file, 1)
    with Bank.read(file) as archive:
        assert archive.stats().runs == 1
        assert archive.stats().feasible == 4
    assert set(revoke(file, "t/relu/0").items) == ALL


@dataclass(frozen=True)
class Event:
    """One attempt of a made-up history."""

    run: str
    task: str
    n: int
    start: int | None
    code: int
    latency: float | None
    """None when it failed."""
    reward: float
    shown: tuple[str, ...]

    @property
    def trace(self) -> str:
        return f"{self.run}:t/{self.task}/{self.n}"

    @property
    def stage(self) -> Stage:
        return Stage.DRAFT if self.start is None else Stage.REFINE

    def attempt(self):
        made = attempt(self.n, self.task, run=self.run, feasible=self.latency is not None, stage=self.stage, latency=self.latency or 1.0)
        candidate = Candidate(backend="cpp", files={"kernel.cpp": f"code {self.code}"})
        return made.model_copy(update={"start": f"t/{self.task}/{self.start}" if self.start is not None else None, "candidate": candidate})


@st.composite
def histories(draw):
    """Two runs over two tasks, taking turns; what is shown and refined is whatever was there; some code is written twice."""
    made: list[Event] = []
    for _ in range(draw(st.integers(1, 14))):
        run, name = draw(st.sampled_from("ab")), draw(st.sampled_from(["relu", "gelu"]))
        before = [e for e in made if (e.run, e.task) == (run, name)]
        starts = [e.n for e in before if e.latency is not None]
        seen = [e.trace + note for e in made for note in ("", "/note")]
        shown = draw(st.lists(st.sampled_from(["cpp/tip", "cpp/other", *seen]), max_size=3, unique=True))
        start = draw(st.sampled_from(starts)) if starts and draw(st.booleans()) else None
        if start is not None:
            shown = list(dict.fromkeys([*shown, f"{run}:t/{name}/{start}"]))
        latency = draw(st.one_of(st.none(), st.sampled_from([1.0, 2.5, 7.0, 30.0])))
        reward = draw(st.floats(-3, 3))
        made.append(Event(run, name, len(before), start, draw(st.integers(0, 30)), latency, reward, tuple(shown)))
    return made


@dataclass
class Expected:
    """What must go with a victim, worked out by hand."""

    history: list[Event]
    gone: set[str] = field(default_factory=set)

    def close(self, victim: Event) -> set[str]:
        self.gone = {e.trace for e in self.history if e.code == victim.code}
        while more := {e.trace for e in self.history if f"{e.run}:t/{e.task}/{e.start}" in self.gone} - self.gone:
            self.gone |= more
        return self.gone

    def is_false(self, event: Event) -> bool:
        """Whether it was rewarded against a kernel that is gone."""
        before = [e for e in self.history if (e.run, e.task) == (event.run, event.task) and e.n < event.n and e.latency is not None]
        best = min(before, key=lambda e: (e.latency, e.n), default=None)
        return event.latency is not None and event.stage is Stage.REFINE and best is not None and best.trace in self.gone


def play(bank, events, expected=None):
    """Learns a run's events, as the loop does; with `expected`, as if what is gone had never been."""
    bank.add([item("cpp/tip", "practice"), item("cpp/other", "practice")])
    gone = {name for trace in expected.gone for name in (trace, f"{trace}/note")} if expected else set()
    for event in events:
        if event.trace in gone:
            continue
        if not (expected and expected.is_false(event)):
            rewards = {name: event.reward for name in event.shown if name not in gone}
            for scope in ("", "activation"):
                bank.update(event.attempt().id, event.stage, rewards, 0.3, scope)
        bank.add(distill(task(event.task), event.attempt()))


def everything(path):
    with Bank.read(path) as archive:
        return archive.standings(scope=None), [entry.item for entry in archive.entries()]


@settings(max_examples=30, deadline=None)
@given(histories(), st.data())
def test_after_a_revocation_the_bank_is_as_if_it_had_never_happened(history, data):
    victim = data.draw(st.sampled_from(history))
    expected = Expected(history)
    expected.close(victim)
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        real, ideal = Path(folder) / "real.db", Path(folder) / "ideal.db"
        for path, without in ((real, None), (ideal, expected)):
            with open_bank(path, "a") as a, open_bank(path, "b") as b:
                banks = {"a": a, "b": b}
                for event in history:
                    play(banks[event.run], [event], without)
        taken = revoke(real, victim.trace)
        assert set(taken.attempts) == expected.gone
        assert everything(real) == everything(ideal)
        mine = [event for event in history if event.run == victim.run]
        with open_bank(real, victim.run) as resumed, open_bank(ideal, victim.run) as straight:
            play(resumed, mine)
            play(straight, mine, expected)
            names = [*("cpp/tip", "cpp/other"), *(event.trace for event in history)]
            for stage in Stage:
                assert resumed.values(names, stage) == straight.values(names, stage)
            assert resumed.search("relu", 99) == straight.search("relu", 99)
        assert everything(real) == everything(ideal)


def run_again(folder, budget):
    """The loop over a folder, with the bank told where it is."""
    built = engine(folder, budget=budget, tasks=[task("relu"), task("gelu")])
    built.run.revoke(built.memory.revoked)
    made = list(built.attempts())
    built.close()
    return made


def test_a_resumed_run_neither_refines_nor_shows_what_was_revoked(tmp_path):
    folder = tmp_path / "run"
    before = run_again(folder, 8)
    cheat = next(a for a in before if a.task == "t/relu" and a.outcome.feasible)
    taken = revoke(folder / "memory.db", cheat.memory_id, folders=[folder])
    assert taken.unmarked == ()
    gone = {trace.partition(":")[2] for trace in taken.attempts}
    journal = (folder / "attempts.jsonl").read_bytes()
    after = run_again(folder, 16)
    assert (folder / "attempts.jsonl").read_bytes().startswith(journal)
    fresh = [a for a in after if a.id not in {b.id for b in before}]
    assert len(fresh) == 16
    assert not gone & {a.start_point for a in fresh}
    names = {f"run:{id}{note}" for id in gone for note in ("", "/note")}
    assert not names & {ref.id for a in fresh for ref in a.shown_items}
    for struck in (a for a in after if a.id in gone):
        assert not struck.outcome.feasible
        assert struck.outcome.latency_us is None
        assert struck.candidate.files == {}
    run = Run.open(folder)
    tried = metrics.by_task(run.tasks, run.attempts())
    assert not gone & {one.best.id for one in tried if one.best}
    assert sum(one.failures["revoked"] for one in tried) == sum(a.id in gone and a.outcome.feasible for a in before) > 0


def test_folders_are_marked_where_the_bank_knows_them(path, tmp_path):
    folder = tmp_path / "elsewhere"
    engine(folder, budget=1, tasks=[task("relu")]).close()  # a run called `run`
    with Bank.open(path, HASH, backend="cpp", run="run", folder=folder) as bank:
        learn(bank, "relu", 0, [])
    taken = revoke(path, "run:t/relu/0")
    assert taken.unmarked == ("a",)  # its copy is of a run whose folder nobody knows
    assert Run.open(folder).revoked_ids() == {"t/relu/0"}
    assert revoke(path, "run:t/relu/0").unmarked == ("a",)
    assert len((folder / "revoked.jsonl").read_text().splitlines()) == 1
    assert json.loads((folder / "revoked.jsonl").read_text())["attempt"] == "t/relu/0"
