"""Tasks with several operator families retrieve items of each family; uses the references of this package."""

from importlib import resources
from pathlib import Path

import pytest
from engine_parts import make_attempt, make_task

from evokernel.core.plugins import make_plugin
from evokernel.core.records import MemoryItem
from evokernel.core.state import State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.policies.retrieval import redundancy, retrieve_nearest, round_robin_families
from evokernel.suites.family import classify_operator

SUITES = Path(str(resources.files("evokernel.suites")))
FUSED = {
    "level2/matmul/linear_add_relu.py": {"matmul", "activation"},
    "level2/matmul/linear_gelu_softmax.py": {"matmul", "activation", "softmax"},
    "level2/convolution/conv2d_hardswish_relu.py": {"convolution", "activation"},
    "level2/convolution/conv2d_mish_batchnorm.py": {"convolution", "normalisation"},
}


def task_from_file(file):
    """Return a task from its source, without running it."""
    source = file.read_text()
    families = classify_operator(source)
    task = make_task(file.stem, families.main)
    return task.model_copy(update={"source": source, "families": families.parts})


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    """A bank after a run on all of level 1: two attempts per task, one of them correct."""
    path = tmp_path_factory.mktemp("parts") / "bank.db"
    with Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        for file in sorted((SUITES / "level1").rglob("[a-z]*.py")):
            task = task_from_file(file)
            for n in range(2):
                bank.add(distill(task, make_attempt(n, file.stem, feasible=n == 1)))
        yield bank


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize(
    "policy", [make_plugin("policy", "value"), make_plugin("policy", "similarity", diversity_penalty=0.3)], ids=["value", "varied"]
)
def test_pool_and_context_contain_a_correct_kernel_of_each_family(bank, name, policy):
    state = State(task=task_from_file(SUITES / name))
    pool = retrieve_nearest(state, bank, 16, ("experience", "trace"), 2, mix_outcomes=True)
    assert len(pool) == 16
    assert {item.family for item in pool if item.feasible} >= FUSED[name]
    items = [entry.item for entry in policy.choose(state, bank).items if entry.role != "api"]
    assert {item.family for item in items if item.feasible} >= FUSED[name]


def test_search_finds_each_family_without_round_robin(bank):
    """The embedder alone must find both families, because a bank may contain more items than the pool."""
    state = State(task=task_from_file(SUITES / "level2/matmul/linear_add_relu.py"))
    nearest_families = [hit.item.family for hit in bank.search(state.task.source, 64, ("trace",), feasible=True)]
    assert "matmul" in nearest_families[:8]
    assert "activation" in nearest_families[:8]


def test_families_of_the_task_take_turns():
    names = ("a1", "a2", "a3", "m1", "x1", "m2", "a4")
    groups = [[MemoryItem(id=name, kind="trace", backend="cpp", title="", text="", task=name, family=name[0])] for name in names]

    def order_ids(*parts):
        return " ".join(group[0].id for group in round_robin_families(groups, parts))

    assert order_ids() == "a1 a2 a3 m1 x1 m2 a4"
    assert order_ids("a", "m") == "a1 m1 a2 m2 a3 a4 x1"
    assert order_ids("x") == "x1 a1 a2 a3 m1 m2 a4"


def test_redundancy_requires_same_task_or_same_family_and_outcome():
    def task(origin, family, feasible):
        return MemoryItem(id=origin, kind="trace", backend="cpp", title="", text="", task=origin, family=family, feasible=feasible)

    one = task("relu", "activation", True)
    assert redundancy(task("tanh", "activation", True), [one]) == 1
    assert redundancy(task("tanh", "activation", False), [one]) == 0
    assert redundancy(task("matmul", "matmul", True), [one]) == 0
    assert redundancy(task("relu", "activation", True), [one]) == 2
