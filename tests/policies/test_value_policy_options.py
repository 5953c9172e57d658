"""Options of the value policy that the paper does not have: diversity, priors, exploration rules and credit decay."""

from random import Random

import pytest
from engine_parts import make_attempt, make_task
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import ContextRef, MemoryItem, Stage
from evokernel.core.state import State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.policies.retrieval import Selector
from evokernel.policies.similarity import SimilarityPolicy
from evokernel.policies.value import CREDIT_DEPTH, ValuePolicy


@pytest.fixture
def bank(tmp_path):
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash", dim=256), backend="cpp", run="r") as bank:
        yield bank


def item(id, origin=None, feasible=None, shown=()):
    return MemoryItem(id=id, kind="trace", backend="cpp", title=id, text="", task=origin, feasible=feasible, shown_items=shown)


# --- diversity -----------------------------------------------------------------------------------------------


def test_diversity_penalty_prefers_other_tasks_and_outcomes():
    pool = [item("a1", "a", True), item("a2", "a", True), item("b1", "b", True), item("b2", "b", False)]
    q = {"a1": 0.5, "a2": 0.4, "b1": 0.1, "b2": -0.2}

    def pick_ids(diversity_penalty, similarity_weight=0.0):
        selector = Selector(lambda ids: q, Random(0), diversity_penalty=diversity_penalty, similarity_weight=similarity_weight)
        return [m.id for m in selector.pick_items(pool, 3)]

    assert pick_ids(0.0) == ["a1", "a2", "b1"]
    assert pick_ids(0.2) == ["a1", "a2", "b2"]  # of another task, and the only failure
    assert pick_ids(0.4) == ["a1", "b2", "a2"]  # a2 then matches one item in two ways, b1 matches two items in one way
    assert pick_ids(0.4, similarity_weight=4.0) == ["a1", "a2", "b1"]


def test_success_bonus_prefers_correct_kernels_unless_values_differ():
    pool = [item("a1", "a", False), item("a2", "a", True), item("b1", "b", None), item("b2", "b", True)]

    def pick_ids(success_bonus, q):
        selector = Selector(lambda ids: q, Random(0), diversity_penalty=0.3, success_bonus=success_bonus)
        return [m.id for m in selector.pick_items(pool, 2)]

    assert pick_ids(0.0, {}) == ["a1", "b2"]
    assert pick_ids(0.2, {}) == ["a2", "b1"]  # two correct kernels of one family are redundant
    assert pick_ids(0.2, {"a1": 0.1, "a2": -0.05}) == ["b2", "a1"]
    assert pick_ids(0.2, {"a1": 0.3, "a2": -0.05}) == ["a1", "b2"]  # values decide in the end


def test_draft_prefers_correct_kernel_over_slightly_better_failure(bank):
    for name in ("gelu", "tanh"):
        bank.add(distill(make_task(name), make_attempt(0, name, feasible=False)))
        bank.add(distill(make_task(name), make_attempt(1, name, feasible=True)))
    policy = ValuePolicy(epsilon=0, epsilon_end=0, similarity_weight=0.0)
    failed_id = "r:t/gelu/0"
    for n in range(1, 4):  # by chance slightly better than the correct kernels
        policy.learn(State(task=make_task("relu")), attempt_showing(failed_id, n=n, reward=1.0), bank)
    assert 0.0 < policy.q_values([failed_id], Stage.DRAFT, "", bank)[failed_id] < 0.2

    def first_item(policy):
        return next(entry.item for entry in policy.choose(State(task=make_task("relu")), bank).items if entry.role != "api")

    assert first_item(policy).feasible
    policy.success_bonus = 0.0
    assert first_item(policy).id == failed_id


def test_diverse_pool_contains_failures(bank):
    for name in ("gelu", "tanh"):
        for n, feasible in enumerate((True, True, True, False)):
            bank.add(distill(make_task(name), make_attempt(n, name, feasible)))
    state = State(task=make_task("relu"))

    def shown_outcomes(policy):
        return {entry.item.feasible for entry in policy.choose(state, bank).items if entry.role != "api"}

    assert shown_outcomes(ValuePolicy(epsilon=0, epsilon_end=0)) == {True, False}
    assert shown_outcomes(ValuePolicy(epsilon=0, epsilon_end=0, diversity_penalty=0.0)) == {True}
    assert shown_outcomes(SimilarityPolicy()) == {True}
    assert shown_outcomes(SimilarityPolicy(diversity_penalty=0.3)) == {True, False}


def test_draft_values_are_means_with_prior_visits(bank):
    policy, rewards = ValuePolicy(prior_visits=4.0, q0_draft=0.5), [1.0, -1.0, 1.0, 1.0]
    for n, reward in enumerate(rewards, start=1):
        policy.learn(State(task=make_task("relu")), attempt_showing("a", n=n, reward=reward), bank)
        expected = (4.0 * 0.5 + sum(rewards[:n])) / (4.0 + n)
        assert policy.q_values(["a"], Stage.DRAFT, "", bank)["a"] == pytest.approx(expected)
    assert policy.learning_rate(Stage.REFINE, 7) == policy.alpha


# --- exploration --------------------------------------------------------------------------------------------------------------------


def test_optimistic_exploration_prefers_rarely_visited_items(bank):
    bank.add([item("often"), item("never")])
    for n in range(30):
        bank.update(f"t/x/{n}", Stage.DRAFT, {"often": 0.2}, 0.3)
    policy = ValuePolicy(exploration="optimistic", exploration_scale=0.5)
    bonus = policy.exploration_bonus(["often", "never"], Stage.DRAFT, bank, Random(0))
    assert bonus == {"never": 0.5, "often": pytest.approx(0.5 / 31**0.5)}
    values = policy.q_values(["often", "never"], Stage.DRAFT, "", bank)
    assert values["never"] + bonus["never"] > values["often"] + bonus["often"]
    assert values == {"often": pytest.approx(0.2, abs=1e-3), "never": 0.0}  # the reported value excludes the bonus
    assert ValuePolicy().exploration_bonus(["often"], Stage.DRAFT, bank, Random(0)) == {}


def test_thompson_exploration_is_wider_for_rarely_visited_items(bank):
    bank.add([item("often"), item("never")])
    for n in range(99):
        bank.update(f"t/x/{n}", Stage.DRAFT, {"often": 0.0}, 0.3)
    random, policy = Random(0), ValuePolicy(exploration="thompson", exploration_scale=1.0)
    draws = [policy.exploration_bonus(["often", "never"], Stage.DRAFT, bank, random) for _ in range(400)]
    often, never = (sum(d[id] ** 2 for d in draws) / len(draws) for id in ("often", "never"))
    assert often == pytest.approx(0.01, rel=0.3)
    assert never == pytest.approx(1.0, rel=0.3)


# --- credit ------------------------------------------------------------------------------------------------------------------


def attempt_showing(*ids, n=0, reward=1.0):
    refs = tuple(ContextRef(id=id, role="trace") for id in ids)
    return make_attempt(n, "relu").model_copy(update={"shown_items": refs, "reward": reward})


def test_credit_reaches_ancestor_items_and_decays(bank):
    bank.add([item("old"), item("mid", shown=("old",)), item("new", shown=("mid", "gone")), item("else")])
    ValuePolicy(alpha=0.5, prior_visits=0, credit_decay=0.5).learn(State(task=make_task("relu")), attempt_showing("new"), bank)
    values = bank.values(["new", "mid", "old", "gone", "else"], Stage.DRAFT)
    assert [values[id].q for id in ("new", "mid", "old")] == [0.5, 0.25, 0.125]
    assert values["gone"] == values["else"] == ItemValue()


def test_no_item_is_credited_twice(bank):
    bank.add([item("a", shown=("b",)), item("b", shown=("a",))])
    ValuePolicy(alpha=0.5, prior_visits=0, credit_decay=0.9).learn(State(task=make_task("relu")), attempt_showing("a", "b"), bank)
    assert bank.values(["a", "b"], Stage.DRAFT) == {"a": ItemValue(0.5, 1), "b": ItemValue(0.5, 1)}


def test_credit_stops_after_credit_depth(bank):
    bank.add([item(f"m{n}", shown=(f"m{n + 1}",)) for n in range(CREDIT_DEPTH + 3)])
    ValuePolicy(credit_decay=0.9).learn(State(task=make_task("relu")), attempt_showing("m0"), bank)
    values = bank.values([f"m{n}" for n in range(CREDIT_DEPTH + 3)], Stage.DRAFT)
    assert sum(value.visits for value in values.values()) == 1 + CREDIT_DEPTH


def test_without_credit_decay_only_shown_items_learn(bank):
    bank.add([item("old"), item("new", shown=("old",))])
    ValuePolicy().learn(State(task=make_task("relu")), attempt_showing("new"), bank)
    assert bank.values(["old"], Stage.DRAFT)["old"] == ItemValue()


def test_trace_records_the_items_shown_to_its_generator():
    attempt = make_attempt(0, "relu").model_copy(
        update={"shown_items": (ContextRef(id="m", role="trace"), ContextRef(id="c", role="api"), ContextRef(id="p", role="start"))}
    )
    assert {item.shown_items for item in distill(make_task("relu"), attempt)} == {("m", "p")}


CREDIT = st.just(0.0) | st.floats(0.01, 0.99)


@settings(max_examples=12, deadline=None)
@given(rewards=st.lists(st.floats(-1, 1), max_size=30), credit=CREDIT, alpha=st.floats(0.01, 1), prior_visits=st.sampled_from([0, 1, 20]))
def test_values_stay_bounded_and_relearning_changes_nothing(tmp_path_factory, rewards, credit, alpha, prior_visits):
    path = tmp_path_factory.mktemp("bank") / "bank.db"
    with Bank.open(path, make_plugin("embedder", "hash", dim=16), backend="cpp", run="r") as bank:
        bank.add([item("old"), item("mid", shown=("old",)), item("new", shown=("mid",))])
        results = []
        for _ in range(2):
            policy = ValuePolicy(alpha=alpha, prior_visits=prior_visits, credit_decay=credit)
            for n, reward in enumerate(rewards):
                policy.learn(State(task=make_task("relu")), attempt_showing("new", n=n, reward=reward), bank)
            results.append(bank.values(["new", "mid", "old"], Stage.DRAFT))
        assert results[0] == results[1]
        assert all(-1 <= value.q <= 1 for value in results[0].values())


@pytest.mark.parametrize(
    ("settings_table", "message"),
    [
        ({"exploration": "best"}, "exploration"),
        ({"diversity_penalty": -1}, "diversity_penalty"),
        ({"prior_visits": -1}, "prior_visits"),
        ({"exploration_scale": -0.1}, "exploration_scale"),
        ({"credit_decay": 1.0}, "credit_decay"),
    ],
)
def test_invalid_settings_are_refused(settings_table, message):
    with pytest.raises(ValueError, match=message):
        ValuePolicy(**settings_table)
