"""Tree search: progressive widening, UCT, and the planted best path that hill climbing misses."""

from collections import Counter
from itertools import pairwise

import pytest
from engine_parts import make_engine, make_task
from landscapes import Landscape, UniqueKernels, search

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Outcome
from evokernel.core.state import State
from evokernel.policies.mcts import build_tree

PLANTED_US = 25.0
"""Latency of the slowest kernel at the end of the planted path is about this; all others are above 70 us."""
SEEDS = range(20)


def make_mcts(**settings):
    return make_plugin("policy", "mcts", memory="none", **settings)


def unique_latency(moves):
    """All kernels are equally fast."""
    return 10.0


def lineage(attempts, attempt):
    """The ids of an attempt's start points, the first draft first."""
    by_id = {a.id: a for a in attempts}
    ids = []
    while attempt.start_point:
        attempt = by_id[attempt.start_point]
        ids.insert(0, attempt.id)
    return ids


def list_descents(attempts):
    """For each attempt after the first correct kernel: the visits and child counts of the nodes that it passed, with "" as the root."""
    visits, children, descents = Counter(), Counter(), []
    has_kernel = set()
    for index, attempt in enumerate(attempts):
        path = ["", *lineage(attempts, attempt)]
        if any(a.outcome.feasible for a in attempts[:index]):
            descents.append([(node, visits[node], children[node], node in has_kernel) for node in path])
        visits.update([*path, attempt.id])
        children[path[-1]] += 1
        if attempt.outcome.feasible:
            has_kernel.add(path[-1])
    return descents


@pytest.mark.parametrize(("widening", "power"), [(1.0, 0.5), (2.0, 0.5), (1.0, 0.25)])
def test_node_gets_a_child_exactly_while_the_widening_rule_allows_it(widening, power):
    attempts = search(make_mcts(widening=widening, widening_power=power), UniqueKernels(), 40).attempts
    descents = list_descents(attempts)
    assert len(descents) >= 35
    for *passed_nodes, (_, visits, children, has_kernel) in descents:
        assert children < widening * visits**power or not has_kernel
        for _, visits, children, has_kernel in passed_nodes:
            assert has_kernel
            assert children >= widening * visits**power


@pytest.mark.parametrize(("budget", "drafts"), [(5, 2), (15, 3), (30, 4)])
def test_number_of_drafts_follows_from_the_budget(budget, drafts):
    attempts = search(make_mcts(), UniqueKernels(moves="abc"), budget).attempts
    assert sum(attempt.start_point is None for attempt in attempts) == drafts


def test_equally_good_children_are_visited_equally_often():
    attempts = search(make_mcts(), UniqueKernels(unique_latency), 40).attempts
    visits, siblings = Counter(), {}
    for attempt in attempts:
        path = ["", *lineage(attempts, attempt)]
        for node, child in pairwise(path):
            assert visits[child] == min(visits[other] for other in siblings[node]), "a child is visited again before all others are"
        visits.update([*path, attempt.id])
        siblings.setdefault(path[-1], []).append(attempt.id)
    assert max(len(children) for children in siblings.values()) >= 3


def test_visits_concentrate_on_the_better_branch():
    landscape = UniqueKernels(lambda moves: {"p": 10.0, "q": 20.0, "r": 30.0}[moves[0]])
    root = build_tree(search(make_mcts(), landscape, 60).attempts)
    counts = {name: [child.attempt_count for child in root.children if child.kernel.candidate.code[0] == name] for name in "pqr"}
    assert sum(counts["p"]) > 0.7 * 60
    assert max(counts["q"] + counts["r"]) < min(counts["p"][:1])
    assert min(counts["q"][0], counts["r"][0]) > 1, "no branch is given up"


def test_branch_of_failures_gets_fewer_attempts():
    landscape = UniqueKernels(lambda moves: None if moves[0] == "p" and len(moves) > 3 else 10.0)
    root = build_tree(search(make_mcts(), landscape, 40).attempts)
    visits = {name: [child.attempt_count for child in root.children if child.kernel.candidate.code[0] == name] for name in "pq"}
    assert max(visits["p"]) < min(visits["q"][:1])


def list_codes(node):
    return [code for child in node.children for code in (child.kernel.candidate.code, *list_codes(child))]


def test_repeated_kernel_is_a_visit_without_a_reward_and_never_a_start_point():
    attempts = search(make_mcts(), Landscape(moves="ab"), 40).attempts
    repeats = {a.id for i, a in enumerate(attempts) if a.candidate.id in {b.candidate.id for b in attempts[:i]}}
    assert repeats
    assert not repeats & {a.start_point for a in attempts}
    root = build_tree(attempts)
    assert sorted(list_codes(root)) == sorted({a.candidate.code for a in attempts}), "each kernel is one node"
    assert root.attempt_count == 40
    assert sum(reward == 0 for reward in root.rewards) >= len(repeats)


def test_refinements_of_a_revoked_kernel_stay_in_the_tree():
    attempts = list(search(make_mcts(), Landscape(), 20).attempts)
    first = next(a for a in attempts if any(b.start_point == a.id and b.outcome.feasible for b in attempts))
    failed = next(a for a in attempts if not a.outcome.feasible)
    attempts[attempts.index(first)] = first.model_copy(update={"outcome": failed.outcome})
    state = State(task=make_task("relu"), attempts=tuple(attempts), round=20)
    assert build_tree(attempts).attempt_count == 20
    assert make_mcts().choose_start_point(state, None) != first


def test_kernels_without_latency_are_searched_too():
    attempts = search(make_mcts(), UniqueKernels(unique_latency), 6).attempts
    untimed = [a.model_copy(update={"outcome": Outcome(gates=a.outcome.gates)}) for a in attempts]
    assert set(build_tree(untimed).rewards) == {1.0}
    assert set(build_tree([*untimed[:3], *attempts[3:]]).rewards) == {0.5, 1.0}


def count_planted(name, **settings):
    """Number of seeds for which a strategy finds the end of the planted path."""
    policy = make_plugin("policy", name, memory="none", **settings)
    return sum(search(policy, UniqueKernels(moves="abf", seed=seed), 30).best.outcome.latency_us < 2 * PLANTED_US for seed in SEEDS)


def test_mcts_finds_the_planted_path_that_hill_climbing_misses():
    assert count_planted("hill_climb") == 0
    assert count_planted("mcts") >= 0.8 * len(SEEDS)


def test_mcts_finds_the_planted_path_in_a_run(tmp_path):
    bests = {}
    for name in ("hill_climb", "mcts"):
        landscape = UniqueKernels(moves="abf")
        tasks = [make_task(f"operator{n}") for n in range(4)]
        parts = {"generator": landscape, "executor": landscape, "tasks": tasks}
        engine = make_engine(tmp_path / name, 30, policy=name, concurrency=1, memory="none", **parts)
        list(engine.make_attempts())
        bests[name] = [engine.make_state(task, 30).best.outcome.latency_us for task in tasks]
        engine.close()
    assert min(bests["hill_climb"]) > 2 * PLANTED_US
    assert sum(latency < 2 * PLANTED_US for latency in bests["mcts"]) >= 3


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("exploration", -1.0, "cannot be negative"),
        ("widening", 0.0, "must be above 0"),
        ("widening_power", 1.5, "between 0 and 1"),
        ("best_weight", -0.5, "between 0 and 1"),
        ("memory", "some", "must be one of none, similarity, value"),
    ],
)
def test_wrong_settings_are_refused(setting, value, message):
    with pytest.raises(UserError, match=message):
        make_plugin("policy", "mcts", **{setting: value})
