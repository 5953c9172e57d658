"""A task made of several parts finds what was learned about each of them; with the references that ship with the package."""

from importlib import resources
from pathlib import Path

import pytest
from engine_parts import attempt, task

from evokernel.core.plugins import make_plugin
from evokernel.core.records import MemoryItem, State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.policies.retrieval import nearest, redundancy, round_robin_families
from evokernel.tasks.family import families

SUITES = Path(str(resources.files("evokernel.tasks")))
FUSED = {
    "level2/matmul/linear_add_relu.py": {"matmul", "activation"},
    "level2/matmul/linear_gelu_softmax.py": {"matmul", "activation", "softmax"},
    "level2/convolution/conv2d_hardswish_relu.py": {"convolution", "activation"},
    "level2/convolution/conv2d_mish_batchnorm.py": {"convolution", "normalisation"},
}


def shipped(file):
    """A task by its text alone: nothing is run."""
    source = file.read_text()
    found = families(source)
    made = task(file.stem, found.main)
    return made.model_copy(update={"source": source, "families": found.parts})


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    """What a run on all of level 1 leaves: two attempts each, one of them correct."""
    path = tmp_path_factory.mktemp("parts") / "bank.db"
    with Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        for file in sorted((SUITES / "level1").rglob("[a-z]*.py")):
            made = shipped(file)
            for n in range(2):
                bank.add(distill(made, attempt(n, file.stem, feasible=n == 1)))
        yield bank


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize(
    "policy", [make_plugin("policy", "value"), make_plugin("policy", "similarity", variety=0.3)], ids=["value", "varied"]
)
def test_each_part_is_in_the_pool_and_has_a_correct_kernel_shown(bank, name, policy):
    state = State(task=shipped(SUITES / name))
    pool = nearest(state, bank, 16, ("experience", "trace"), 2, mixed=True)
    assert len(pool) == 16
    assert {item.family for item in pool if item.feasible} >= FUSED[name]
    shown = [entry.item for entry in policy.choose(state, bank).items if entry.role != "api"]
    assert {item.family for item in shown if item.feasible} >= FUSED[name]


def test_a_product_is_near_without_turns(bank):
    """The embedder's part in it: a bank may hold more than is looked at."""
    state = State(task=shipped(SUITES / "level2/matmul/linear_add_relu.py"))
    near = [hit.item.family for hit in bank.search(state.task.source, 64, ("trace",), feasible=True)]
    assert "matmul" in near[:8]
    assert "activation" in near[:8]


def test_families_that_are_parts_take_turns():
    names = ("a1", "a2", "a3", "m1", "x1", "m2", "a4")
    groups = [[MemoryItem(id=name, kind="trace", backend="cpp", title="", text="", task=name, family=name[0])] for name in names]

    def ordered(*parts):
        return " ".join(group[0].id for group in round_robin_families(groups, parts))

    assert ordered() == "a1 a2 a3 m1 x1 m2 a4"
    assert ordered("a", "m") == "a1 m1 a2 m2 a3 a4 x1"
    assert ordered("x") == "x1 a1 a2 a3 m1 m2 a4"


def test_only_what_is_of_one_kind_tells_the_same():
    def made(origin, family, feasible):
        return MemoryItem(id=origin, kind="trace", backend="cpp", title="", text="", task=origin, family=family, feasible=feasible)

    one = made("relu", "activation", True)
    assert redundancy(made("tanh", "activation", True), [one]) == 1
    assert redundancy(made("tanh", "activation", False), [one]) == 0
    assert redundancy(made("matmul", "matmul", True), [one]) == 0
    assert redundancy(made("relu", "activation", True), [one]) == 2
