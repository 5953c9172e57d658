"""Templates cross the decisions of two kernels; kernels that templates did not write cannot be crossed."""

from random import Random

import pytest

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Attempt, Context, ContextItem, GateResult, MemoryItem, Outcome, Stage
from evokernel.core.state import State
from evokernel.generators.template_search import find_decision_line
from evokernel.generators.template_search.evidence import PartnerKernel, parse_decisions
from evokernel.generators.template_search.search import cross_choices
from evokernel.suites.loader import load_tasks

TASKS = {task.id.split("/")[1]: task for task in load_tasks("starter")}


def generator(seed=0):
    return make_plugin("generator", "template_search", backend="cpp", seed=seed, prior="uniform")


def draft(task, seed):
    """A kernel of the templates, as an attempt."""
    candidate = generator(seed).write(State(task=task), Context(stage=Stage.DRAFT)).candidate
    outcome = Outcome(gates=(GateResult(gate="build", passed=True),), samples_us=(10.0,))
    return Attempt(id=f"{task.id}/0", run="r", task=task.id, round=0, stage=Stage.DRAFT, candidate=candidate, outcome=outcome, reward=1.0)


def make_partner(task, code):
    return MemoryItem(id="other:t/0", kind="trace", backend="cpp", title="", text="", code=code, task=task.id, feasible=True)


def combine(task, start, partner, seed):
    items = (ContextItem(role="partner", item=partner),) if partner else ()
    context = Context(stage=Stage.REFINE, start_point=start, items=items)
    return generator(seed).write(State(task=task, attempts=(start,), round=1), context).candidate


def options(code):
    return {(family, name): option for family, choice in parse_decisions(find_decision_line(code)) for name, option in choice.items()}


@pytest.fixture(scope="module")
def parents():
    """Two kernels of softmax that differ in several decisions."""
    first, second = draft(TASKS["softmax"], 1), draft(TASKS["softmax"], 2)
    one, two = options(first.candidate.code), options(second.candidate.code)
    assert sum(one[key] != two[key] for key in one.keys() & two.keys()) >= 2
    return first, second.candidate.code


def test_every_decision_comes_from_one_of_both_kernels(parents):
    start, other = parents
    task, partner = TASKS["softmax"], make_partner(TASKS["softmax"], other)
    children = [combine(task, start, partner, seed) for seed in range(8)]
    one, two = options(start.candidate.code), options(other)
    inherited = [(key, option) for child in children for key, option in options(child.code).items() if key in one and key in two]
    assert all(option in (one[key], two[key]) for key, option in inherited)
    differing = [(key, option) for key, option in inherited if one[key] != two[key]]
    assert 0 < sum(option == one[key] for key, option in differing) < len(differing), "both kernels contribute"
    assert all("with a second kernel: " in child.notes for child in children)
    assert combine(task, start, partner, 3) == children[3], "equal seeds combine equally"


def test_other_kernels_are_ignored(parents):
    start, task = parents[0], TASKS["softmax"]
    alone = combine(task, start, None, 5)
    foreign = combine(task, start, make_partner(task, "void kernel() {}"), 5)
    assert "combined" not in foreign.notes
    assert foreign.files == alone.files


def test_equal_kernels_are_refined_instead(parents):
    start, task = parents[0], TASKS["softmax"]
    child = combine(task, start, make_partner(task, start.candidate.code), 5)
    assert find_decision_line(child.code) != find_decision_line(start.candidate.code), "crossing a kernel with itself would repeat it"


def test_kernel_of_another_task_gives_decisions_of_common_families_only():
    stages = parse_decisions("kernel fuse=all | matmul mr=4 nr=8 | map simd=vec")
    partner = parse_decisions("kernel fuse=none | matmul mr=6 nr=16 pack=yes | conv mr=2")
    crossings = [dict(cross_choices(stages, PartnerKernel(partner, False), Random(n))) for n in range(20)]
    assert {crossing["kernel"]["fuse"] for crossing in crossings} == {"all"}
    assert {crossing["map"]["simd"] for crossing in crossings} == {"vec"}
    assert {crossing["matmul"]["mr"] for crossing in crossings} == {"4", "6"}
    assert {crossing["matmul"]["pack"] for crossing in crossings} == {"yes"}
    same_task = [dict(cross_choices(stages, PartnerKernel(partner, True), Random(n))) for n in range(20)]
    assert {crossing["kernel"]["fuse"] for crossing in same_task} == {"all", "none"}


def test_stages_of_one_family_are_crossed_in_order():
    stages, partner = parse_decisions("map simd=vec | map simd=omp"), parse_decisions("map simd=a | map simd=b")
    for n in range(10):
        first, second = cross_choices(stages, PartnerKernel(partner, True), Random(n))
        assert first[1]["simd"] in ("vec", "a")
        assert second[1]["simd"] in ("omp", "b")
