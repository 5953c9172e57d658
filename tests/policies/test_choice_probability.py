"""The recorded probability of a choice is the frequency with which the policy makes it."""

from collections import Counter
from random import Random

import pytest
from engine_parts import make_attempt, make_task

from evokernel.core.plugins import make_plugin
from evokernel.core.records import MemoryItem
from evokernel.core.state import State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.policies.choice_probability import set_probability
from evokernel.policies.contextual import ContextualPolicy
from evokernel.policies.retrieval import Selector
from evokernel.policies.similarity import SimilarityPolicy
from evokernel.policies.value import ValuePolicy


@pytest.fixture
def bank(tmp_path):
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash", dim=256), backend="cpp", run="r") as bank:
        for name in ("relu", "gelu", "tanh", "sigmoid", "elu"):
            bank.add(distill(make_task(name), make_attempt(0, name, run="old"))[:1])
        yield bank


def shown_set(context):
    return frozenset(entry.item.id for entry in context.items)


def test_epsilon_greedy_probability_is_exact():
    pool = [MemoryItem(id=name, kind="trace", backend="cpp", title=name, text="", task=name[0]) for name in ("a1", "a2", "b1", "c1")]
    scores = {"a1": 0.5, "a2": 0.45, "b1": 0.3, "c1": 0.1}
    counts: Counter[frozenset[str]] = Counter()
    recorded = {}
    for seed in range(5_000):
        selector = Selector(q_values=lambda ids: scores, random=Random(seed), epsilon=0.6, diversity_penalty=0.3)
        picks = frozenset(item.id for item in selector.pick_items(pool, 2))
        counts[picks] += 1
        recorded[picks] = selector.propensity.probability
    assert len(counts) == 6
    assert sum(recorded.values()) == pytest.approx(1.0)
    for picks, probability in recorded.items():
        assert counts[picks] / 5_000 == pytest.approx(probability, abs=0.025), picks


def test_large_sets_count_their_order():
    ids = [str(n) for n in range(10)]
    assert set_probability(ids, lambda chosen, id: 1.0 if int(id) == len(chosen) else 0.0) == 1.0


def test_value_policy_records_exact_probabilities(bank):
    context = ValuePolicy(epsilon=0.5, seed=1).choose(State(task=make_task("silu")), bank)
    assert 0 < context.propensity.probability < 1
    assert context.propensity.draws == 0


def test_contextual_probability_is_close_to_the_frequency(bank):
    state = State(task=make_task("silu"))
    settings = {"top_n": 2, "exploration_scale": 0.5}
    draws = [shown_set(ContextualPolicy(seed=seed, propensity_draws=0, **settings).choose(state, bank)) for seed in range(400)]
    frequent, count = Counter(draws).most_common(1)[0]
    seed = draws.index(frequent)
    context = ContextualPolicy(seed=seed, propensity_draws=2000, **settings).choose(state, bank)
    assert shown_set(context) == frequent
    assert context.propensity.probability == pytest.approx(count / 400, abs=0.08)
    assert context.propensity.draws == 2000


@pytest.mark.parametrize(
    "policy",
    [
        SimilarityPolicy(),
        ValuePolicy(epsilon=0, epsilon_end=0),
        ContextualPolicy(exploration_scale=0),
        ContextualPolicy(propensity_draws=0),
    ],
)
def test_policies_that_do_not_draw_at_random_record_nothing(bank, policy):
    assert policy.choose(State(task=make_task("silu")), bank).propensity is None
