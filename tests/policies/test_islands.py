"""Islands: populations that evolve apart, and kernels that spread by migration."""

from collections import Counter
from random import Random

import pytest
from population_parts import make_kernel, make_state, number

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.state import hidden_item_ids, visible_state
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.policies.islands import Islands, build_islands


def start_numbers(strategy, state, count=60):
    """The numbers of the start points that a strategy may choose; None stands for a draft."""
    return Counter(number(strategy.choose_start_point(state, Random(n))) for n in range(count))


def numbers(islands):
    return [[number(member) for member in members] for members in islands]


def evolve(attempts, latency=lambda n: 10.0, **settings):
    """A run of attempts whose start points the strategy chooses."""
    strategy = Islands(memory="none", **settings)
    history = [make_kernel(0, latency(0))]
    for n in range(1, attempts):
        start = strategy.choose_start_point(make_state(*history), Random(n))
        history.append(make_kernel(n, latency(n), start=number(start)))
    return history


def find_root(history, attempt):
    """The draft from which an attempt descends."""
    while attempt.start_point:
        attempt = history[int(attempt.start_point.rpartition("/")[2])]
    return number(attempt)


def test_each_island_starts_with_a_draft_of_its_own():
    history = evolve(6, islands=3)
    assert [attempt.stage.value for attempt in history] == ["draft"] * 3 + ["refine"] * 3


def test_islands_are_isolated_before_the_first_migration():
    history = evolve(12, latency=lambda n: 10.0 - 0.5 * n * (n % 3 == 0), islands=3, migration_interval=12)
    assert {find_root(history, attempt) for attempt in history} == {0, 1, 2}
    assert all(find_root(history, attempt) == n % 3 for n, attempt in enumerate(history)), "only descendants of its own draft"


def test_refinement_sees_no_attempts_of_other_islands(tmp_path):
    history = [make_kernel(0), make_kernel(1, 8.0), make_kernel(2, None, start=0), make_kernel(3, 7.0, start=0)]
    state = make_state(*history)
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        for attempt in history:
            bank.add(distill(state.task, attempt))
        context = Islands(memory="none", islands=2, migration_interval=99, recombination=0.0).choose(state, bank)
        assert (number(context.start_point), context.hidden_attempts) == (0, ("t/relu/1", "t/relu/3"))
        children = [entry.item.id for entry in context.items if entry.role == "child"]
        assert children == [history[2].memory_id], "the refinement by another island is hidden, too"
        assert [number(attempt) for attempt in visible_state(state, context).attempts] == [0, 2]
        assert hidden_item_ids(state, context) == {"r:t/relu/1", "r:t/relu/1/note", "r:t/relu/3", "r:t/relu/3/note"}
        after = Islands(memory="none", islands=2, migration_interval=2, recombination=0.0).choose(state, bank)
        assert after.hidden_attempts == (), "the best kernels of the second island have migrated"


def test_best_kernel_spreads_along_the_ring_one_island_per_migration():
    history = [make_kernel(n, latency) for n, latency in enumerate((5.0, 20.0, 30.0, 6.0, 21.0, 31.0))]
    assert numbers(build_islands(history[:2], 3, 3)) == [[0], [1], []], "no migration yet"
    assert numbers(build_islands(history[:3], 3, 3)) == [[0, 2], [1, 0], [2, 1]], "the last island's best moves to the first"
    assert numbers(build_islands(history, 3, 3)) == [[0, 2, 3, 1], [1, 0, 4], [2, 1, 5, 0]]
    strategy = Islands(memory="none", islands=3, migration_interval=3, tournament=9)
    assert start_numbers(strategy, make_state(*history[:4])) == {0: 60}, "the second island refines the migrant"
    assert start_numbers(strategy, make_state(*history[:5])) == {1: 60}, "the third one only has the second one's best"
    assert start_numbers(strategy, make_state(*history, make_kernel(6, 7.0), make_kernel(7, 22.0))) == {0: 60}


def test_tournament_lets_slower_members_win_sometimes():
    state = make_state(*[make_kernel(n, latency) for n, latency in enumerate((10.0, 20.0, 30.0))])
    settings = {"memory": "none", "islands": 1, "migration_interval": 99}
    assert start_numbers(Islands(tournament=3, **settings), state) == {0: 60}
    assert set(start_numbers(Islands(tournament=2, **settings), state)) == {0, 1}, "the slowest never wins against another"
    assert set(start_numbers(Islands(tournament=1, **settings), state)) == {0, 1, 2}


def test_island_without_a_correct_kernel_takes_over_its_neighbours_best():
    failed = [make_kernel(0), make_kernel(1, None), make_kernel(2, 8.0, start=0)]
    settings = {"memory": "none", "islands": 2, "migration_interval": 99}
    assert set(start_numbers(Islands(max_drafts=2, **settings), make_state(*failed))) == {None}
    assert set(start_numbers(Islands(max_drafts=1, **settings), make_state(*failed))) == {2}


def test_small_budgets_have_fewer_islands():
    assert [Islands(memory="none", islands=3, budget=budget).count for budget in (1, 5, 8, 30)] == [1, 1, 2, 3]


@pytest.mark.parametrize("name", ["islands", "migration_interval", "tournament", "min_attempts", "max_drafts"])
def test_wrong_settings_are_refused(name):
    with pytest.raises(UserError, match=f"{name} = 0 must be at least 1"):
        make_plugin("policy", "islands", **{name: 0})
