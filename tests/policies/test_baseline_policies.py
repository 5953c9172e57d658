"""The strategies the method is compared with."""

import pytest
from engine_parts import attempt, task

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import ContextRef, MemoryItem, Stage, State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill


@pytest.fixture
def bank(tmp_path):
    """Cards, another task's kernels, and values that only the method may look at."""
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        bank.add([item("cpp/abi", "api", bundle=True), item("cpp/other", "api"), item("cpp/tip", "practice")])
        for name in ("gelu", "sum"):
            bank.add(distill(task(name), attempt(0, name)))
        bank.update("t/x/0", Stage.DRAFT, {"r:t/sum/0": 1.0, "r:t/gelu/0": -1.0}, 0.3)
        yield bank


def item(id, kind, **more):
    return MemoryItem(id=id, kind=kind, backend="cpp", title=id, text=id, **more)


def own(bank, n, **more):
    made = attempt(n, "relu", **more)
    bank.add(distill(task("relu"), made))
    return made


def state(*attempts):
    return State(task=task("relu"), attempts=attempts, round=len(attempts))


def roles(context):
    return [(shown.role, shown.item.id) for shown in context.items]


def test_similarity_ignores_values_and_starts_from_the_fastest(bank):
    policy = make_plugin("policy", "similarity", items=2, apis=1)
    near = [hit.item.id for hit in bank.search(task("relu").source, 2, ("trace", "experience"))]
    context = policy.choose(state(), bank)
    assert context.stage is Stage.DRAFT
    assert [id for role, id in roles(context) if role != "api"] == near
    assert all(shown.q is None for shown in context.items)
    made = [own(bank, n, latency=latency) for n, latency in enumerate((30.0, 10.0, 20.0))]
    bank.update("t/x/1", Stage.REFINE, {made[0].memory_id: 1.0}, 0.3)
    context = policy.choose(state(*made), bank)
    assert (context.stage, context.start) == (Stage.REFINE, made[1])
    assert {role for role, _ in roles(context)} >= {"start", "practice"}


def test_refine_sees_its_own_task_only(bank):
    policy = make_plugin("policy", "refine")
    assert policy.choose(state(), bank).items == ()
    broken = own(bank, 0, feasible=False)
    context = policy.choose(state(broken), bank)
    assert (context.stage, roles(context)) == (Stage.DRAFT, [("trace", broken.memory_id)])
    slow, fast = own(bank, 1, latency=30.0), own(bank, 2, latency=10.0)
    child = attempt(3, "relu", feasible=False, stage=Stage.REFINE).model_copy(update={"start": fast.id})
    bank.add(distill(task("relu"), child))
    context = policy.choose(state(broken, slow, fast, child), bank)
    assert (context.stage, context.start) == (Stage.REFINE, fast)
    assert roles(context) == [("start", fast.memory_id), ("child", child.memory_id)]


def test_refine_may_be_given_api_cards(bank):
    assert [id for _, id in roles(make_plugin("policy", "refine", apis=1).choose(state(), bank))] == ["cpp/abi", "cpp/other"]


def test_passk_always_drafts_the_same(bank):
    policy = make_plugin("policy", "passk")
    made = own(bank, 0)
    for here in (state(), state(made)):
        context = policy.choose(here, bank)
        assert (context.stage, context.start, context.items) == (Stage.DRAFT, None, ())


def test_passk_with_one_demonstration_and_the_bundle(bank):
    context = make_plugin("policy", "passk", demonstration="r:t/gelu/0", bundle=True).choose(state(own(bank, 0)), bank)
    assert roles(context) == [("api", "cpp/abi"), ("trace", "r:t/gelu/0")]
    with pytest.raises(UserError, match="evokernel memory list"):
        make_plugin("policy", "passk", demonstration="nothing").choose(state(), bank)


@pytest.mark.parametrize("name", ["similarity", "refine", "passk"])
def test_baselines_learn_nothing(bank, name):
    made = attempt(0, "relu").model_copy(update={"shown": (ContextRef(id="cpp/tip", role="practice"),)})
    make_plugin("policy", name).learn(state(), made, bank)
    assert bank.values(["cpp/tip"], Stage.DRAFT)["cpp/tip"] == ItemValue()
