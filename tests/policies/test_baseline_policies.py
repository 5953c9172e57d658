"""The baseline policies: similarity, refine and passk."""

import pytest
from engine_parts import make_attempt, make_task

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import ContextRef, MemoryItem, Stage
from evokernel.core.state import State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill


@pytest.fixture
def bank(tmp_path):
    """Cards, kernels of another task, and values that only the value policy may use."""
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        bank.add([item("cpp/abi", "api", always_include=True), item("cpp/other", "api"), item("cpp/tip", "practice")])
        for name in ("gelu", "sum"):
            bank.add(distill(make_task(name), make_attempt(0, name)))
        bank.update("t/x/0", Stage.DRAFT, {"r:t/sum/0": 1.0, "r:t/gelu/0": -1.0}, 0.3)
        yield bank


def item(id, kind, **fields):
    return MemoryItem(id=id, kind=kind, backend="cpp", title=id, text=id, **fields)


def add_own_attempt(bank, n, **fields):
    attempt = make_attempt(n, "relu", **fields)
    bank.add(distill(make_task("relu"), attempt))
    return attempt


def state(*attempts):
    return State(task=make_task("relu"), attempts=attempts, round=len(attempts))


def roles(context):
    return [(entry.role, entry.item.id) for entry in context.items]


def test_similarity_ignores_values_and_refines_the_fastest_kernel(bank):
    policy = make_plugin("policy", "similarity", top_n=2, api_cards=1)
    nearest = [hit.item.id for hit in bank.search(make_task("relu").source, 2, ("trace", "experience"))]
    context = policy.choose(state(), bank)
    assert context.stage is Stage.DRAFT
    assert [id for role, id in roles(context) if role != "api"] == nearest
    assert all(entry.q is None for entry in context.items)
    attempt = [add_own_attempt(bank, n, latency=latency) for n, latency in enumerate((30.0, 10.0, 20.0))]
    bank.update("t/x/1", Stage.REFINE, {attempt[0].memory_id: 1.0}, 0.3)
    context = policy.choose(state(*attempt), bank)
    assert (context.stage, context.start_point) == (Stage.REFINE, attempt[1])
    assert {role for role, _ in roles(context)} >= {"start", "practice"}


def test_refine_shows_its_own_task_only(bank):
    policy = make_plugin("policy", "refine")
    assert policy.choose(state(), bank).items == ()
    broken = add_own_attempt(bank, 0, feasible=False)
    context = policy.choose(state(broken), bank)
    assert (context.stage, roles(context)) == (Stage.DRAFT, [("trace", broken.memory_id)])
    slow, fast = add_own_attempt(bank, 1, latency=30.0), add_own_attempt(bank, 2, latency=10.0)
    child = make_attempt(3, "relu", feasible=False, stage=Stage.REFINE).model_copy(update={"start_point": fast.id})
    bank.add(distill(make_task("relu"), child))
    context = policy.choose(state(broken, slow, fast, child), bank)
    assert (context.stage, context.start_point) == (Stage.REFINE, fast)
    assert roles(context) == [("start", fast.memory_id), ("child", child.memory_id)]


def test_refine_shows_requested_api_cards(bank):
    assert [id for _, id in roles(make_plugin("policy", "refine", api_cards=1).choose(state(), bank))] == ["cpp/abi", "cpp/other"]


def test_passk_always_returns_the_same_draft_context(bank):
    policy = make_plugin("policy", "passk")
    attempt = add_own_attempt(bank, 0)
    for current_state in (state(), state(attempt)):
        context = policy.choose(current_state, bank)
        assert (context.stage, context.start_point, context.items) == (Stage.DRAFT, None, ())


def test_passk_shows_demonstration_and_static_cards(bank):
    context = make_plugin("policy", "passk", demonstration="r:t/gelu/0", static_cards=True).choose(state(add_own_attempt(bank, 0)), bank)
    assert roles(context) == [("api", "cpp/abi"), ("trace", "r:t/gelu/0")]
    with pytest.raises(UserError, match="evokernel memory list"):
        make_plugin("policy", "passk", demonstration="nothing").choose(state(), bank)


@pytest.mark.parametrize("name", ["similarity", "refine", "passk"])
def test_baselines_learn_nothing(bank, name):
    attempt = make_attempt(0, "relu").model_copy(update={"shown_items": (ContextRef(id="cpp/tip", role="practice"),)})
    make_plugin("policy", name).learn(state(), attempt, bank)
    assert bank.values(["cpp/tip"], Stage.DRAFT)["cpp/tip"] == ItemValue()
