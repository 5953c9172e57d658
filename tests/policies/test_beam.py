"""Beam search: levels, the kernels of the beam, and its limits."""

from collections import Counter

import pytest
from engine_parts import make_task
from landscapes import DRAFTS, Landscape, UniqueKernels, search

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Context, Stage
from evokernel.core.state import State

BUDGET = 30


def make_beam(**settings):
    return make_plugin("policy", "beam", memory="none", **settings)


def rank(attempts, width):
    """The fastest different kernels of some attempts, computed without the strategy's own functions."""
    latencies = {}
    for attempt in attempts:
        if attempt.outcome.feasible:
            latencies.setdefault(attempt.candidate.code, (attempt.outcome.latency_us, attempts.index(attempt), attempt.id))
    return [id for *_, id in sorted(latencies.values())[:width]]


def split_levels(attempts, drafts, width, branching):
    """The attempts before each level, and those of the level."""
    begin = drafts
    while begin < len(attempts):
        size = branching * len(rank(attempts[:begin], width)) or 1
        yield attempts[:begin], attempts[begin : begin + size]
        begin += size


@pytest.mark.parametrize(("width", "branching"), [(3, 1), (2, 2), (4, 1)])
@pytest.mark.parametrize("seed", range(5))
def test_each_level_refines_exactly_the_kernels_of_the_beam(width, branching, seed):
    attempts = search(make_beam(width=width, branching=branching), Landscape(seed=seed), BUDGET).attempts
    assert [a.start_point for a in attempts[:width]] == [None] * width
    for before, level in split_levels(attempts, width, width, branching):
        expected = [kernel for kernel in rank(before, width) for _ in range(branching)]
        assert [a.start_point for a in level] == expected[: len(level)] or not expected


@pytest.mark.parametrize("seed", range(5))
def test_beam_never_becomes_slower(seed):
    attempts = search(make_beam(), UniqueKernels(seed=seed), BUDGET).attempts
    latencies = {a.id: a.outcome.latency_us for a in attempts}
    slowest = [latencies[rank(before, 3)[-1]] for before, _ in split_levels(attempts, 3, 3, 1) if len(rank(before, 3)) == 3]
    assert len(slowest) >= 5
    assert slowest == sorted(slowest, reverse=True)


def test_identical_kernels_take_one_place():
    attempts = search(make_beam(), Landscape(lambda moves: 100.0 / len(moves), moves="a"), BUDGET).attempts
    assert len({a.candidate.code for a in attempts}) < BUDGET, "some kernels repeat"
    codes = {a.id: a.candidate.code for a in attempts}
    for _, level in split_levels(attempts, 3, 3, 1):
        level_codes = [codes[a.start_point] for a in level]
        assert len(set(level_codes)) == len(level_codes)


def test_beam_of_one_is_hill_climbing():
    for seed in range(5):
        landscape = Landscape(seed=seed)
        assert search(make_beam(width=1), landscape, 20) == search(make_plugin("policy", "hill_climb", memory="none"), landscape, 20)


@pytest.mark.parametrize(("budget", "drafts"), [(1, 1), (5, 1), (8, 2), (12, 3), (30, 3)])
def test_small_budgets_have_fewer_drafts(budget, drafts):
    attempts = search(make_beam(budget=budget), UniqueKernels(moves="abc"), budget).attempts
    assert Counter(a.start_point is None for a in attempts) == Counter({True: drafts, False: budget - drafts})


def test_failed_drafts_are_not_repeated_once_a_kernel_is_correct():
    only_last_draft = Landscape(lambda moves: None if moves[0] != DRAFTS[-1] else 10.0 / len(moves))
    attempts = search(make_beam(), only_last_draft, BUDGET).attempts
    first = next(index for index, a in enumerate(attempts) if a.outcome.feasible)
    assert all(a.start_point for a in attempts[max(first + 1, 3) :])


@pytest.mark.parametrize("setting", ["width", "branching"])
def test_wrong_settings_are_refused(setting):
    with pytest.raises(UserError, match="must be at least 1"):
        make_beam(**{setting: 0})


def test_independent_drafts_choose_memory_items_independently():
    strategy, seen = make_beam(), []
    strategy.memory_policy.build_context = lambda state, memory, start: seen.append(state) or Context(stage=Stage.DRAFT)
    attempts = search(make_beam(), Landscape(), 3).attempts
    for count in (1, 2):
        strategy.draft_independently(State(task=make_task("relu"), attempts=tuple(attempts[:count])), None)
    assert [(one.attempts, one.next_id) for one in seen] == [((), attempts[1].id), ((), attempts[2].id)]
