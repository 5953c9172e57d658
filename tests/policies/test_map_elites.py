"""MAP-Elites: an archive by behaviour keeps slower but different kernels, and the search goes on from all of them."""

from collections import Counter
from random import Random

import pytest
from population_parts import make_kernel, make_state, number

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Stage
from evokernel.memory.bank import Bank
from evokernel.policies.behaviour import describe_behaviour, traffic_octave
from evokernel.policies.map_elites import MapElites, build_archive

VECTOR_CODE = "acc = _mm256_fmadd_ps(a, b, acc) + c * d;"


def draws(strategy, state, count=300):
    """How often each start point is chosen; None stands for a draft."""
    return Counter(number(strategy.choose_start_point(state, Random(n))) for n in range(count))


def test_slower_but_different_kernel_stays_and_is_refined():
    fast, slow_vector, slower_memory = make_kernel(0), make_kernel(1, 30.0, "compute", VECTOR_CODE), make_kernel(2, 20.0)
    state = make_state(fast, slow_vector, slower_memory)
    assert list(build_archive(state.attempts).elites.values()) == [fast, slow_vector], "within a cell only the fastest kernel stays"
    counts = draws(MapElites(memory="none", draft_rate=0.0), state)
    assert set(counts) == {0, 1}
    assert min(counts.values()) > 100, "cells are drawn uniformly, whatever their speed"
    assert state.best == fast


def test_faster_kernel_of_the_same_cell_becomes_the_elite():
    archive = build_archive([make_kernel(0), make_kernel(1, 5.0, start=0), make_kernel(2, 4.99, start=1), make_kernel(3, None, start=1)])
    assert [number(elite) for elite in archive.elites.values()] == [1], "a difference within the noise replaces nothing"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"bottleneck": "memory"}, {"bottleneck": "latency"}),
        ({"figures": {"hbm_mb": 1.0}}, {"figures": {"hbm_mb": 3.0}}),
        ({"code": "y[i] = x[i];"}, {"code": VECTOR_CODE}),
        ({"code": "c = jnp.dot(a, b)"}, {"code": "c = jnp.sum(a * b)"}),
        ({"code": "y[i] = x[i] + x[j] + x[k];"}, {"code": "y[i] = a + b * c + d * e;"}),
        ({"code": "y[i] = x[i];"}, {"code": "y[i] = x[i] + b; " * 8}),
    ],
)
def test_each_dimension_of_behaviour_separates_cells(one, other):
    assert describe_behaviour(make_kernel(0, **one)) != describe_behaviour(make_kernel(0, **other))


def test_behaviour_ignores_comments_and_latency():
    assert describe_behaviour(make_kernel(0, 9.0)) == describe_behaviour(make_kernel(1, 90.0, code="y[i] = x[i];  // matmul"))


def test_traffic_adds_reads_and_writes_and_may_be_unknown():
    both = make_kernel(0, figures={"dram_read_bytes": 1024.0, "dram_written_bytes": 1024.0})
    assert traffic_octave(both.outcome.profile) == 11
    assert traffic_octave(make_kernel(0).outcome.profile) is None
    assert traffic_octave(None) is None


def test_curiosity_prefers_cells_whose_refinements_entered_the_archive():
    state = make_state(
        make_kernel(0),
        make_kernel(1, 30.0, "compute", VECTOR_CODE),
        make_kernel(2, 20.0, "compute", VECTOR_CODE, start=1),
        make_kernel(3, 15.0, "compute", VECTOR_CODE, start=2),
        make_kernel(4, None, start=0),
        make_kernel(5, 50.0, start=0),
    )
    counts = draws(MapElites(memory="none", selection="curiosity", draft_rate=0.0), state)
    assert counts[3] > 5 * counts[0] > 0, "a cell without success is drawn rarely, but never given up"


def test_drafts_while_few_cells_are_occupied_and_within_its_share_of_the_budget(tmp_path):
    strategy = MapElites(memory="none", draft_rate=0.5, min_cells=2, budget=4)
    assert 100 < draws(strategy, make_state(make_kernel(0)))[None] < 200
    assert None not in draws(strategy, make_state(make_kernel(0), make_kernel(1, bottleneck="compute"))), "two cells are enough"
    drafts = [make_kernel(0), make_kernel(1), make_kernel(2)]
    assert None not in draws(strategy, make_state(*drafts)), "two further drafts are half of the budget"
    assert None in draws(strategy, make_state(*[make_kernel(n, None) for n in range(3)], make_kernel(3))), "the first drafts are free"
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        context = MapElites(memory="none", draft_rate=1.0, min_cells=2).choose(make_state(make_kernel(0)), bank)
    assert (context.stage, context.include_history) == (Stage.DRAFT, False)


@pytest.mark.parametrize("settings", [{"selection": "best"}, {"draft_rate": 2.0}, {"min_cells": -1}, {"memory": "all"}])
def test_wrong_settings_are_refused(settings):
    with pytest.raises(UserError, match=f"{next(iter(settings))} = "):
        make_plugin("policy", "map_elites", **settings)
