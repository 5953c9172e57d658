"""Hill climbing: keep or revert, and restarts."""

import pytest
from landscapes import DRAFTS, Landscape, UniqueKernels, search

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin

BUDGET = 30


def make_climber(**settings):
    return make_plugin("policy", "hill_climb", memory="none", **settings)


@pytest.mark.parametrize("seed", range(5))
def test_faster_refinements_are_kept_and_others_reverted(seed):
    attempts = search(make_climber(), Landscape(seed=seed), BUDGET).attempts
    current, kept, reverted = None, 0, 0
    for attempt in attempts:
        assert attempt.start_point == (current and current.id)
        latency = attempt.outcome.latency_us
        if latency and (current is None or latency < current.outcome.latency_us):
            current, kept = attempt, kept + 1
        else:
            reverted += 1
    assert min(kept, reverted) >= 2


def test_without_patience_there_is_no_restart():
    attempts = search(make_climber(), Landscape(moves="cf"), BUDGET).attempts
    assert sum(a.start_point is None and a.outcome.feasible for a in attempts) == 1


@pytest.mark.parametrize("patience", [1, 3, 5])
def test_restart_after_refinements_without_a_gain(patience):
    attempts = search(make_climber(patience=patience), UniqueKernels(moves="c"), BUDGET).attempts
    drafts = [index for index, a in enumerate(attempts) if a.start_point is None]
    assert drafts == list(range(0, BUDGET, patience + 1))


def test_each_climb_keeps_and_reverts_by_its_own_kernels():
    """The first climb reaches 10 us at once. Later climbs begin at 90 us, and still refine their own kernels."""
    landscape = UniqueKernels(lambda moves: 10.0 if moves[1:2] == "0" else 90.0 - len(moves), moves="a")
    state = search(make_climber(patience=2), landscape, 12)
    attempts = state.attempts
    by_id = {a.id: a for a in attempts}
    restart = next(index for index, a in enumerate(attempts) if index and a.start_point is None)
    assert restart == 3
    assert [by_id[a.start_point].outcome.latency_us > 10 for a in attempts[restart + 1 :]] == [True] * (11 - restart)
    assert state.best == attempts[0]


def test_restart_finds_a_faster_draft():
    """Drafts differ by a factor of ten and refinements change nothing: only a restart can find the fastest draft."""
    landscape = UniqueKernels(lambda moves: 10.0 ** DRAFTS.index(moves[0]), moves="a")
    assert search(make_climber(patience=2), landscape, BUDGET).best.outcome.latency_us == 1.0


def test_negative_patience_is_refused():
    with pytest.raises(UserError, match="patience = -1 cannot be negative"):
        make_climber(patience=-1)
