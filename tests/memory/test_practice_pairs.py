"""Practice items from pairs of kernels: their content, their provenance, and how revocation, contamination and packs treat them."""

import pytest
from bank_parts import HASH, open_bank
from engine_parts import make_attempt, make_task

from evokernel.core.opportunities import addressed_cause
from evokernel.core.records import Context, Opportunity, Profile, Stage
from evokernel.core.state import State
from evokernel.memory.bank import Bank
from evokernel.memory.bank_contamination import HeldOutOperator, check_contamination, load_memory
from evokernel.memory.distill import CHANGE_LINES, distill
from evokernel.memory.pack_file import PackFilters
from evokernel.memory.packs import export_pack, import_pack_file
from evokernel.memory.practice_pairs import make_practice_item
from evokernel.memory.revoke import revoke
from evokernel.policies import refinement, retrieval

TASK = make_task("relu", family="activation")
FAST_CODE = "\n".join([f"line {n};" for n in range(60)] + ["#pragma omp simd", "loop;"])
SLOW_CODE = FAST_CODE.replace("#pragma omp simd\n", "")


def make_kernel(n, latency_us, code, causes=(), notes="", clock="cpu", feasible=True):
    """Attempt n of a rewinding, with a profile that has these causes."""
    attempt = make_attempt(n, "relu", run="rw", latency=latency_us, feasible=feasible)
    opportunities = tuple(Opportunity(cause=cause, gain_us=gain) for cause, gain in causes)
    profile = Profile(bottleneck="latency", summary="Scalar code.", opportunities=opportunities)
    outcome = attempt.outcome.model_copy(update={"profile": profile, "clock": clock})
    candidate = attempt.candidate.model_copy(update={"files": {"kernel.cpp": code}, "notes": notes})
    return attempt.model_copy(update={"outcome": outcome, "candidate": candidate})


FAST = make_kernel(0, 10.0, FAST_CODE, [("memory_bandwidth", 5.0), ("scalar_work", 1.0)])
SLOW = make_kernel(1, 25.0, SLOW_CODE, [("memory_bandwidth", 6.0), ("scalar_work", 4.0)], "map simd=omp instead of simd=auto")


def test_item_says_what_changed_and_how_much_it_was_worth():
    item = make_practice_item(TASK, FAST, SLOW, "a:t/relu/3")
    assert (item.kind, item.task, item.family, item.feasible) == ("practice", "t/relu", "activation", None)
    assert (item.bottleneck, item.causes) == ("latency", ("scalar_work",))  # it fell by 3 us, the traffic only by 1 us
    assert (item.id, item.parent, item.candidate) == ("rw:t/relu/1", "a:t/relu/3", FAST.candidate.id)
    assert "worth 2.50x: 25.0 us without it, 10.0 us with it; measured (clock cpu)" in item.text
    assert "map simd=omp instead of simd=auto" in item.text
    assert "```diff\n+#pragma omp simd\n```" in item.text
    assert item.code == ""


def test_estimates_are_labelled():
    fast, slow = (one.model_copy(update={"outcome": one.outcome.model_copy(update={"clock": "schedule"})}) for one in (FAST, SLOW))
    assert "estimate" in make_practice_item(TASK, fast, slow).text


def test_cause_without_profile_of_the_fast_kernel_is_the_largest():
    assert addressed_cause(SLOW.outcome, FAST.outcome.model_copy(update={"profile": None})) == "memory_bandwidth"
    assert addressed_cause(SLOW.outcome.model_copy(update={"profile": None}), FAST.outcome) == ""


def test_long_changes_are_cut_off():
    slow = make_kernel(1, 25.0, "\n".join(f"other {n};" for n in range(100)), notes="everything")
    diff = make_practice_item(TASK, FAST, slow).text.partition("```diff\n")[2].partition("\n```")[0].splitlines()
    assert len(diff) == CHANGE_LINES + 1
    assert diff[-1].endswith("more lines)")


@pytest.mark.parametrize(
    "slow",
    [
        make_kernel(1, 10.2, SLOW_CODE),
        make_kernel(1, 8.0, SLOW_CODE),
        make_kernel(1, 25.0, SLOW_CODE, feasible=False),
        make_kernel(1, 25.0, FAST_CODE),
        make_kernel(1, 25.0, "x\n" * 500),
    ],
    ids=["as fast", "faster", "wrong", "unchanged", "too long"],
)
def test_pair_that_teaches_nothing_is_no_item(slow):
    assert make_practice_item(TASK, FAST, slow) is None


@pytest.fixture
def path(tmp_path):
    """A bank with the fast kernel's trace of run `a` and the pair that a rewinding made from it."""
    source = FAST.model_copy(update={"run": "a", "id": "t/relu/3"})
    with open_bank(tmp_path / "bank.db", "a") as bank:
        bank.add(distill(TASK, source))
    with open_bank(tmp_path / "bank.db", "rw") as bank:
        bank.add([make_practice_item(TASK, FAST, SLOW, "a:t/relu/3")])
    return tmp_path / "bank.db"


def list_ids(path, **filters):
    with Bank.open_reader(path) as reader:
        return [entry.item.id for entry in reader.find_items(**filters)]


@pytest.mark.parametrize("target", [{"targets": ["a:t/relu/3"]}, {"candidate": FAST.candidate.id}])
def test_revoking_the_kernel_revokes_the_pair(path, target):
    revoke(path, *target.get("targets", ()), candidate=target.get("candidate", ""))
    assert list_ids(path) == []
    with open_bank(path, "later") as bank:
        bank.add([make_practice_item(TASK, FAST, SLOW, "a:t/relu/3").model_copy(update={"id": "later:t/relu/1"})])
        assert bank.get(["later:t/relu/1"]) == []


def test_pair_of_a_held_out_operator_is_contamination(path):
    other_name = HeldOutOperator("mine/op", TASK.source)
    report = check_contamination(load_memory(path), [other_name])
    assert "rw:t/relu/1" in {match.item for match in report.matches}


def test_pair_survives_a_pack_with_its_provenance(path, tmp_path):
    header = export_pack(path, tmp_path / "pack.jsonl", PackFilters(kinds=("practice",)))
    assert {run.run: run.items for run in header.runs} == {"rw": 1}
    import_pack_file(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH)
    assert list_ids(tmp_path / "other.db", run="rw") == ["rw:t/relu/1"]
    with open_bank(tmp_path / "other.db", "b") as bank:
        assert bank.get(["rw:t/relu/1"])[0].causes == ("scalar_work",)
    export_pack(path, tmp_path / "without.jsonl", PackFilters(exclude=("t/relu",)))
    import_pack_file(tmp_path / "third.db", tmp_path / "without.jsonl", HASH)
    assert list_ids(tmp_path / "third.db") == []


def test_refinement_with_the_same_profile_is_shown_the_pair(path):
    task = make_task("gelu", family="activation")
    start = make_attempt(0, "gelu", run="b")
    start = start.model_copy(update={"outcome": start.outcome.model_copy(update={"profile": SLOW.outcome.profile})})
    with open_bank(path, "b") as bank:
        context: Context = refinement.refine_context(
            State(task=task, attempts=(start,)), bank, retrieval.Selector(lambda ids: {}, None), start, top_n=4, pool_size=16
        )
    assert context.stage is Stage.REFINE
    assert "rw:t/relu/1" in {entry.item.id for entry in context.items if entry.role in ("practice", "bottleneck")}
