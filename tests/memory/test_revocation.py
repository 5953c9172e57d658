"""Revocation of kernels, their copies and descendants, and every value that they changed."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from bank_parts import HASH, assert_error, learn, load_stage_values, open_bank, set_schema_version
from engine_parts import make_attempt, make_engine, make_task
from hypothesis import given, settings
from hypothesis import strategies as st
from test_memory_bank import item

from evokernel.core.errors import UserError
from evokernel.core.protocols import ItemValue
from evokernel.core.records import Candidate, GateResult, Outcome, Stage
from evokernel.core.run import Run
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.packs import ImportResult, export_pack, import_pack_file
from evokernel.memory.revoke import revoke
from evokernel.memory.tables import VERSION
from evokernel.reports import metrics

MEMORY = Path("/dev/shm")  # if it exists: two banks per example are many files to sync
ALL = {f"a:t/relu/{n}{note}" for n in (0, 1, 2) for note in ("", "/note")}


@pytest.mark.parametrize("target", ["a:t/relu/0", "a/t/relu/0", "t/relu/0"])
def test_revocation_includes_descendants_and_their_updates(path, target):
    revocation = revoke(path, target)
    assert set(revocation.items) == ALL
    assert revocation.attempts == ("a:t/relu/0", "a:t/relu/1", "a:t/relu/2")
    assert (revocation.updates, revocation.recomputed_values) == (5, 3)
    assert load_stage_values(path) == {
        ("cpp/tip", "draft"): ItemValue(-0.5 + 0.5 * 1.5, 2),  # the updates of gelu still count
        ("a:t/gelu/0", "draft"): ItemValue(0.5, 1),
    }
    with Bank.open_reader(path) as reader:
        assert [step.revoked for step in reader.value_history("cpp/tip")] == [False, True, True, False]
        assert [step.q_after for step in reader.value_history("cpp/tip") if not step.revoked] == [-0.5, 0.25]
        assert (reader.compute_stats().revoked, reader.compute_stats().quarantined) == (6, 3)
        assert "a:t/relu/1" not in {entry.item.id for entry in reader.find_items()}
        assert reader.get_item("a:t/relu/1").is_revoked
    with open_bank(path, "later") as bank:
        assert {hit.item.id for hit in bank.search("relu", 99, ("trace",))} == {"a:t/gelu/0", "a:t/relu/3", "a:t/gelu/1"}
        assert bank.values(["cpp/tip"], Stage.DRAFT)["cpp/tip"] == ItemValue(0.25, 2)


def test_exposed_attempts_are_listed_but_not_revoked(path):
    revocation = revoke(path, "t/relu/0")
    assert (revocation.shown_to, revocation.shown_and_correct) == (("a:t/gelu/1",), ("a:t/gelu/1",))
    with Bank.open_reader(path) as reader:
        assert not reader.get_item("a:t/gelu/1").is_revoked


def test_exposed_attempts_can_be_revoked_too(path):
    assert revoke(path, "t/relu/0", include_influenced=True).attempts == ("a:t/relu/0", "a:t/gelu/1", "a:t/relu/1", "a:t/relu/2")
    assert load_stage_values(path) == {("cpp/tip", "draft"): ItemValue(-0.5, 1), ("a:t/gelu/0", "draft"): ItemValue(0.5, 1)}


def test_dry_run_returns_the_same_result_and_changes_nothing(path):
    before = load_stage_values(path)
    planned = revoke(path, "t/relu/0", dry_run=True)
    assert load_stage_values(path) == before
    with Bank.open_reader(path) as reader:
        assert reader.compute_stats().revoked == 0
    assert planned == revoke(path, "t/relu/0")


def test_same_code_is_revoked_in_every_run(path, tmp_path):
    with open_bank(path, "b") as bank:
        copy = make_attempt(0, "relu", run="b")  # the same code as in run a
        bank.update(copy.id, Stage.DRAFT, {"cpp/tip": 1.0}, 0.5)
        bank.add(distill(make_task("relu"), copy))
        learn(bank, "relu", 1, [], start="t/relu/0")
    assert set(revoke(path, "a:t/relu/0").attempts) == {"a:t/relu/0", "b:t/relu/0", "a:t/relu/1", "b:t/relu/1", "a:t/relu/2"}
    with open_bank(path, "c") as bank:
        assert bank.revoked_candidates == {copy.candidate.id}
        learn(bank, "relu", 0, [])  # a run writes the same code again
        assert bank.get(["c:t/relu/0", "c:t/relu/0/note"]) == []


def test_revocation_by_candidate_id(path):
    hash = make_attempt(0, "relu").candidate.id
    assert revoke(path, candidate=hash, dry_run=True).attempts == ("a:t/relu/0", "a:t/relu/1", "a:t/relu/2")
    with pytest.raises(UserError, match="has no kernel"):
        revoke(path, candidate="0123456789ab")


def test_rewards_relative_to_a_revoked_best_are_revoked(tmp_path):
    path = tmp_path / "bank.db"
    with open_bank(path, "a") as bank:

        def add_refinement(n, latency, feasible=True):
            attempt = make_attempt(n, "relu", run="a", latency=latency, feasible=feasible, stage=Stage.REFINE)
            bank.update(attempt.id, Stage.REFINE, {"cpp/tip": -0.9 if feasible else -1.0}, 0.5)
            bank.add(distill(make_task("relu"), attempt))

        bank.add([item("cpp/tip", "practice"), *distill(make_task("relu"), make_attempt(0, "relu", run="a", latency=50.0))])
        add_refinement(1, 40.0)
        bank.add(distill(make_task("relu"), make_attempt(2, "relu", run="a", latency=1.0)))  # a cheat, now the best
        add_refinement(3, 20.0)  # twice as fast as any honest kernel, but slower than the cheat
        add_refinement(4, 0.0, feasible=False)  # failed, so its reward does not depend on the best
    assert revoke(path, "t/relu/2").updates == 1
    assert load_stage_values(path) == {("cpp/tip", "refine"): ItemValue(-0.45 + 0.5 * (-1.0 + 0.45), 2)}


def test_repeated_revocation_includes_later_descendants(path):
    revoke(path, "t/relu/0")
    repeated = revoke(path, "t/relu/0")
    assert (repeated.items, repeated.updates, repeated.recomputed_values) == ((), 0, 0)
    with open_bank(path, "a") as bank:  # the run was in progress, with the cheat among its start points
        learn(bank, "relu", 4, ["cpp/tip"], start="t/relu/2")
    assert set(revoke(path, "t/relu/0").items) == {"a:t/relu/4", "a:t/relu/4/note"}


def test_resumed_run_does_not_restore_revoked_items(path):
    revoke(path, "t/relu/0")
    with open_bank(path, "a") as bank:
        assert bank.revoked_attempts == {"t/relu/0", "t/relu/1", "t/relu/2"}
        bank.add([item("cpp/tip", "practice"), item("cpp/abi", "api")])
        learn(bank, "gelu", 0, ["cpp/tip"], feasible=False)
        learn(bank, "relu", 0, ["cpp/tip"])
        assert bank.get(["a:t/relu/0", "a:t/relu/0/note"]) == []
        assert bank.values(["cpp/tip"], Stage.DRAFT)["cpp/tip"] == ItemValue(-0.5, 1)


def test_import_does_not_restore_revoked_items(path, tmp_path):
    export_pack(path, tmp_path / "pack.jsonl")
    revoke(path, "t/relu/0")
    before = load_stage_values(path)
    assert import_pack_file(path, tmp_path / "pack.jsonl", HASH) == ImportResult(0, 0)
    assert load_stage_values(path) == before


def test_single_item_can_be_revoked(path):
    before = load_stage_values(path)
    assert revoke(path, "a:t/relu/0/note").items == ("a:t/relu/0/note",)
    revocation = revoke(path, "cpp/tip")
    assert (revocation.attempts, revocation.items, revocation.updates) == ((), ("cpp/tip",), 0)
    assert load_stage_values(path) == before
    with open_bank(path, "later") as bank:
        bank.add([item("cpp/tip", "practice")])
        assert bank.get(["cpp/tip", "a:t/relu/0/note"]) == []
        assert bank.get(["a:t/relu/0"])


def test_attempt_without_code_can_be_revoked(path):
    with open_bank(path, "b") as bank:
        gates = (GateResult(gate="write", passed=False, reason="no_code", detail="no"),)
        attempt = make_attempt(7, "relu", run="b").model_copy(
            update={"candidate": Candidate(backend="cpp", files={}), "outcome": Outcome(gates=gates)}
        )
        bank.update(attempt.id, Stage.DRAFT, {"cpp/abi": -1.0}, 0.5)
        bank.add(distill(make_task("relu"), attempt))
    revocation = revoke(path, "b:t/relu/7")
    assert (revocation.items, revocation.updates, revocation.recomputed_values) == (("b:t/relu/7/note",), 1, 1)


def test_invalid_targets_are_reported(path, tmp_path):
    with pytest.raises(UserError, match="has no item or attempt"):
        revoke(path, "t/nothing/0")
    with pytest.raises(UserError, match="no memory bank"):
        revoke(tmp_path / "none.db", "t/relu/0")
    with open_bank(path, "b") as bank:
        learn(bank, "relu", 0, [])
    with pytest.raises(UserError, match="a:t/relu/0, b:t/relu/0"):
        revoke(path, "t/relu/0")


@pytest.mark.parametrize("version", range(1, VERSION))
def test_bank_of_an_older_schema_cannot_be_revoked_from(path, version):
    set_schema_version(path, version)
    assert_error(UserError, lambda: revoke(path, "t/relu/0"), "older evokernel", f"schema {version}", "--memory OTHER")


@dataclass(frozen=True)
class Event:
    """One attempt of a generated history."""

    run: str
    task: str
    n: int
    start: int | None
    code: int
    latency: float | None
    """None if it failed."""
    reward: float
    shown: tuple[str, ...]

    @property
    def trace(self) -> str:
        return f"{self.run}:t/{self.task}/{self.n}"

    @property
    def stage(self) -> Stage:
        return Stage.DRAFT if self.start is None else Stage.REFINE

    def attempt(self):
        attempt = make_attempt(
            self.n, self.task, run=self.run, feasible=self.latency is not None, stage=self.stage, latency=self.latency or 1.0
        )
        candidate = Candidate(backend="cpp", files={"kernel.cpp": f"code {self.code}"})
        return attempt.model_copy(
            update={"start_point": f"t/{self.task}/{self.start}" if self.start is not None else None, "candidate": candidate}
        )


@st.composite
def histories(draw):
    """Two interleaved runs over two tasks, with random contexts and start points; some code occurs twice."""
    attempt: list[Event] = []
    for _ in range(draw(st.integers(1, 14))):
        run, name = draw(st.sampled_from("ab")), draw(st.sampled_from(["relu", "gelu"]))
        before = [e for e in attempt if (e.run, e.task) == (run, name)]
        starts = [e.n for e in before if e.latency is not None]
        earlier_ids = [e.trace + note for e in attempt for note in ("", "/note")]
        shown = draw(st.lists(st.sampled_from(["cpp/tip", "cpp/other", *earlier_ids]), max_size=3, unique=True))
        start = draw(st.sampled_from(starts)) if starts and draw(st.booleans()) else None
        if start is not None:
            shown = list(dict.fromkeys([*shown, f"{run}:t/{name}/{start}"]))
        latency = draw(st.one_of(st.none(), st.sampled_from([1.0, 2.5, 7.0, 30.0])))
        reward = draw(st.floats(-3, 3))
        attempt.append(Event(run, name, len(before), start, draw(st.integers(0, 30)), latency, reward, tuple(shown)))
    return attempt


@dataclass
class Expected:
    """The attempts that a revocation must include, computed independently."""

    history: list[Event]
    revoked: set[str] = field(default_factory=set)

    def add_descendants(self, victim: Event) -> set[str]:
        self.revoked = {e.trace for e in self.history if e.code == victim.code}
        while more := {e.trace for e in self.history if f"{e.run}:t/{e.task}/{e.start}" in self.revoked} - self.revoked:
            self.revoked |= more
        return self.revoked

    def has_revoked_baseline(self, event: Event) -> bool:
        """Whether it was rewarded relative to a revoked kernel."""
        before = [e for e in self.history if (e.run, e.task) == (event.run, event.task) and e.n < event.n and e.latency is not None]
        best = min(before, key=lambda e: (e.latency, e.n), default=None)
        return event.latency is not None and event.stage is Stage.REFINE and best is not None and best.trace in self.revoked


def replay_events(bank, events, expected=None):
    """Learn events as the loop does; with `expected`, as if the revoked attempts had never happened."""
    bank.add([item("cpp/tip", "practice"), item("cpp/other", "practice")])
    revoked_ids = {name for trace in expected.revoked for name in (trace, f"{trace}/note")} if expected else set()
    for event in events:
        if event.trace in revoked_ids:
            continue
        if not (expected and expected.has_revoked_baseline(event)):
            rewards = {name: event.reward for name in event.shown if name not in revoked_ids}
            for scope in ("", "activation"):
                bank.update(event.attempt().id, event.stage, rewards, 0.3, scope)
        bank.add(distill(make_task(event.task), event.attempt()))


def load_bank_contents(path):
    with Bank.open_reader(path) as reader:
        return reader.list_values(scope=None), [entry.item for entry in reader.find_items()]


@pytest.mark.slow(one_in=5)
@settings(max_examples=30, deadline=None)
@given(histories(), st.data())
def test_revoking_equals_never_having_learned(history, data):
    victim = data.draw(st.sampled_from(history))
    expected = Expected(history)
    expected.add_descendants(victim)
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        real, ideal = Path(folder) / "real.db", Path(folder) / "ideal.db"
        for path, expectation in ((real, None), (ideal, expected)):
            with open_bank(path, "a") as a, open_bank(path, "b") as b:
                banks = {"a": a, "b": b}
                for event in history:
                    replay_events(banks[event.run], [event], expectation)
        revocation = revoke(real, victim.trace)
        assert set(revocation.attempts) == expected.revoked
        assert load_bank_contents(real) == load_bank_contents(ideal)
        mine = [event for event in history if event.run == victim.run]
        with open_bank(real, victim.run) as resumed, open_bank(ideal, victim.run) as straight:
            replay_events(resumed, mine)
            replay_events(straight, mine, expected)
            names = [*("cpp/tip", "cpp/other"), *(event.trace for event in history)]
            for stage in Stage:
                assert resumed.values(names, stage) == straight.values(names, stage)
            assert resumed.search("relu", 99) == straight.search("relu", 99)
        assert load_bank_contents(real) == load_bank_contents(ideal)


def resume_run(folder, budget):
    """Run the loop on a folder whose bank stores its path."""
    engine = make_engine(folder, budget=budget, tasks=[make_task("relu"), make_task("gelu")])
    engine.run.revoke(engine.memory.revoked_attempts)
    attempt = list(engine.make_attempts())
    engine.close()
    return attempt


def test_resumed_run_neither_refines_nor_shows_revoked_attempts(tmp_path):
    folder = tmp_path / "run"
    before = resume_run(folder, 8)
    cheat = next(a for a in before if a.task == "t/relu" and a.outcome.feasible)
    revocation = revoke(folder / "memory.db", cheat.memory_id, folders=[folder])
    assert revocation.unmarked_runs == ()
    revoked_ids = {trace.partition(":")[2] for trace in revocation.attempts}
    journal = (folder / "attempts.jsonl").read_bytes()
    after = resume_run(folder, 16)
    assert (folder / "attempts.jsonl").read_bytes().startswith(journal)
    fresh = [a for a in after if a.id not in {b.id for b in before}]
    assert len(fresh) == 16
    assert not revoked_ids & {a.start_point for a in fresh}
    names = {f"run:{id}{note}" for id in revoked_ids for note in ("", "/note")}
    assert not names & {ref.id for a in fresh for ref in a.shown_items}
    for redacted in (a for a in after if a.id in revoked_ids):
        assert not redacted.outcome.feasible
        assert redacted.outcome.latency_us is None
        assert redacted.candidate.files == {}
    run = Run.open(folder)
    results = metrics.group_by_task(run.tasks, run.attempts())
    assert not revoked_ids & {result.best.id for result in results if result.best}
    assert (
        sum(result.failure_counts["revoked"] for result in results) == sum(a.id in revoked_ids and a.outcome.feasible for a in before) > 0
    )


def test_known_run_folders_are_marked(path, tmp_path):
    folder = tmp_path / "other"
    make_engine(folder, budget=1, tasks=[make_task("relu")]).close()  # the run id is `run`
    with Bank.open(path, HASH, backend="cpp", run="run", folder=folder) as bank:
        learn(bank, "relu", 0, [])
    revocation = revoke(path, "run:t/relu/0")
    assert revocation.unmarked_runs == ("a",)  # its copy belongs to a run without a known folder
    assert Run.open(folder).revoked_ids() == {"t/relu/0"}
    assert revoke(path, "run:t/relu/0").unmarked_runs == ("a",)
    assert len((folder / "revoked.jsonl").read_text().splitlines()) == 1
    assert json.loads((folder / "revoked.jsonl").read_text())["attempt"] == "t/relu/0"
