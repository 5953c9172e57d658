"""Options of the value policy that the paper does not have: items of one task worth less together, hope, credit further back."""

from random import Random

import pytest
from engine_parts import attempt, task
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import ContextRef, MemoryItem, Stage, State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.policies.retrieval import Selector
from evokernel.policies.similarity import SimilarityPolicy
from evokernel.policies.value import DEPTH, ValuePolicy


@pytest.fixture
def bank(tmp_path):
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash", dim=256), backend="cpp", run="r") as bank:
        yield bank


def item(id, origin=None, feasible=None, shown=()):
    return MemoryItem(id=id, kind="trace", backend="cpp", title=id, text="", task=origin, feasible=feasible, shown_items=shown)


# --- one task's items together -----------------------------------------------------------------------------------------------


def test_what_another_item_of_its_task_tells_already_is_worth_less():
    pool = [item("a1", "a", True), item("a2", "a", True), item("b1", "b", True), item("b2", "b", False)]
    worth = {"a1": 0.5, "a2": 0.4, "b1": 0.1, "b2": -0.2}

    def picked(variety, nearness=0.0):
        return [m.id for m in Selector(q_values=lambda ids: worth, random=Random(0), variety=variety, nearness=nearness).pick(pool, 3)]

    assert picked(0.0) == ["a1", "a2", "b1"]
    assert picked(0.2) == ["a1", "a2", "b2"]  # of another task, and the only one that failed
    assert picked(0.4) == ["a1", "b2", "a2"]  # then a2 is like one in two ways, b1 like two in one
    assert picked(0.4, nearness=4.0) == ["a1", "a2", "b1"]


def test_a_correct_kernel_begins_above_what_failed():
    pool = [item("a1", "a", False), item("a2", "a", True), item("b1", "b", None), item("b2", "b", True)]

    def picked(proven, worth):
        return [m.id for m in Selector(q_values=lambda ids: worth, random=Random(0), variety=0.3, proven=proven).pick(pool, 2)]

    assert picked(0.0, {}) == ["a1", "b2"]
    assert picked(0.2, {}) == ["a2", "b1"]  # two correct ones of a family tell the same
    assert picked(0.2, {"a1": 0.1, "a2": -0.05}) == ["b2", "a1"]
    assert picked(0.2, {"a1": 0.3, "a2": -0.05}) == ["a1", "b2"]  # values have the last word


def test_drafts_alone_favour_what_was_proven(bank):
    for name in ("gelu", "tanh"):
        bank.add(distill(task(name), attempt(0, name, feasible=False)))
        bank.add(distill(task(name), attempt(1, name, feasible=True)))
    policy = ValuePolicy(epsilon=0, epsilon_end=0, nearness=0.0)
    failed = "r:t/gelu/0"
    for n in range(1, 4):  # a little better by chance than what was correct
        policy.learn(State(task=task("relu")), showing(failed, n=n, reward=1.0), bank)
    assert 0.0 < policy.worth([failed], Stage.DRAFT, "", bank)[failed] < 0.2

    def first(policy):
        return next(entry.item for entry in policy.choose(State(task=task("relu")), bank).items if entry.role != "api")

    assert first(policy).feasible
    policy.proven = 0.0
    assert first(policy).id == failed


def test_a_pool_for_variety_holds_failures_too(bank):
    for name in ("gelu", "tanh"):
        for n, feasible in enumerate((True, True, True, False)):
            bank.add(distill(task(name), attempt(n, name, feasible)))
    state = State(task=task("relu"))

    def endings(policy):
        return {entry.item.feasible for entry in policy.choose(state, bank).items if entry.role != "api"}

    assert endings(ValuePolicy(epsilon=0, epsilon_end=0)) == {True, False}
    assert endings(ValuePolicy(epsilon=0, epsilon_end=0, variety=0.0)) == {True}
    assert endings(SimilarityPolicy()) == {True}
    assert endings(SimilarityPolicy(variety=0.3)) == {True, False}


def test_settled_values_are_means_that_begin_at_the_prior(bank):
    policy, rewards = ValuePolicy(settle=4.0, q0_draft=0.5), [1.0, -1.0, 1.0, 1.0]
    for n, reward in enumerate(rewards, start=1):
        policy.learn(State(task=task("relu")), showing("a", n=n, reward=reward), bank)
        expected = (4.0 * 0.5 + sum(rewards[:n])) / (4.0 + n)
        assert policy.worth(["a"], Stage.DRAFT, "", bank)["a"] == pytest.approx(expected)
    assert policy.learning_rate(Stage.REFINE, 7) == policy.alpha


# --- hope --------------------------------------------------------------------------------------------------------------------


def test_an_optimist_tries_what_few_have_tried(bank):
    bank.add([item("often"), item("never")])
    for n in range(30):
        bank.update(f"t/x/{n}", Stage.DRAFT, {"often": 0.2}, 0.3)
    hope = ValuePolicy(select="optimistic", bonus=0.5)
    sway = hope.exploration_bonus(["often", "never"], Stage.DRAFT, bank, Random(0))
    assert sway == {"never": 0.5, "often": pytest.approx(0.5 / 31**0.5)}
    told = hope.worth(["often", "never"], Stage.DRAFT, "", bank)
    assert told["never"] + sway["never"] > told["often"] + sway["often"]
    assert told == {"often": pytest.approx(0.2, abs=1e-3), "never": 0.0}  # what is told stays the value
    assert ValuePolicy().exploration_bonus(["often"], Stage.DRAFT, bank, Random(0)) == {}


def test_thompson_draws_wider_where_less_is_known(bank):
    bank.add([item("often"), item("never")])
    for n in range(99):
        bank.update(f"t/x/{n}", Stage.DRAFT, {"often": 0.0}, 0.3)
    random, policy = Random(0), ValuePolicy(select="thompson", bonus=1.0)
    drawn = [policy.exploration_bonus(["often", "never"], Stage.DRAFT, bank, random) for _ in range(400)]
    often, never = (sum(d[id] ** 2 for d in drawn) / len(drawn) for id in ("often", "never"))
    assert often == pytest.approx(0.01, rel=0.3)
    assert never == pytest.approx(1.0, rel=0.3)


# --- credit ------------------------------------------------------------------------------------------------------------------


def showing(*ids, n=0, reward=1.0):
    refs = tuple(ContextRef(id=id, role="trace") for id in ids)
    return attempt(n, "relu").model_copy(update={"shown": refs, "reward": reward})


def test_credit_goes_back_along_what_was_shown_and_fades(bank):
    bank.add([item("old"), item("mid", shown=("old",)), item("new", shown=("mid", "gone")), item("else")])
    ValuePolicy(alpha=0.5, settle=0, credit=0.5).learn(State(task=task("relu")), showing("new"), bank)
    found = bank.values(["new", "mid", "old", "gone", "else"], Stage.DRAFT)
    assert [found[id].q for id in ("new", "mid", "old")] == [0.5, 0.25, 0.125]
    assert found["gone"] == found["else"] == ItemValue()


def test_nobody_is_credited_twice(bank):
    bank.add([item("a", shown=("b",)), item("b", shown=("a",))])
    ValuePolicy(alpha=0.5, settle=0, credit=0.9).learn(State(task=task("relu")), showing("a", "b"), bank)
    assert bank.values(["a", "b"], Stage.DRAFT) == {"a": ItemValue(0.5, 1), "b": ItemValue(0.5, 1)}


def test_credit_ends_somewhere(bank):
    bank.add([item(f"m{n}", shown=(f"m{n + 1}",)) for n in range(DEPTH + 3)])
    ValuePolicy(credit=0.9).learn(State(task=task("relu")), showing("m0"), bank)
    found = bank.values([f"m{n}" for n in range(DEPTH + 3)], Stage.DRAFT)
    assert sum(value.visits for value in found.values()) == 1 + DEPTH


def test_without_credit_only_what_was_shown_learns(bank):
    bank.add([item("old"), item("new", shown=("old",))])
    ValuePolicy().learn(State(task=task("relu")), showing("new"), bank)
    assert bank.values(["old"], Stage.DRAFT)["old"] == ItemValue()


def test_a_trace_knows_what_its_writer_was_shown():
    made = attempt(0, "relu").model_copy(
        update={"shown": (ContextRef(id="m", role="trace"), ContextRef(id="c", role="api"), ContextRef(id="p", role="start"))}
    )
    assert {kept.shown_items for kept in distill(task("relu"), made)} == {("m", "p")}


CREDIT = st.just(0.0) | st.floats(0.01, 0.99)


@settings(max_examples=12, deadline=None)
@given(rewards=st.lists(st.floats(-1, 1), max_size=30), credit=CREDIT, alpha=st.floats(0.01, 1), settle=st.sampled_from([0, 1, 20]))
def test_values_stay_bounded_and_learning_again_changes_nothing(tmp_path_factory, rewards, credit, alpha, settle):
    path = tmp_path_factory.mktemp("bank") / "bank.db"
    with Bank.open(path, make_plugin("embedder", "hash", dim=16), backend="cpp", run="r") as bank:
        bank.add([item("old"), item("mid", shown=("old",)), item("new", shown=("mid",))])
        seen = []
        for _ in range(2):
            policy = ValuePolicy(alpha=alpha, settle=settle, credit=credit)
            for n, reward in enumerate(rewards):
                policy.learn(State(task=task("relu")), showing("new", n=n, reward=reward), bank)
            seen.append(bank.values(["new", "mid", "old"], Stage.DRAFT))
        assert seen[0] == seen[1]
        assert all(-1 <= value.q <= 1 for value in seen[0].values())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"select": "best"}, "select"),
        ({"variety": -1}, "variety"),
        ({"settle": -1}, "settle"),
        ({"bonus": -0.1}, "bonus"),
        ({"credit": 1.0}, "credit"),
    ],
)
def test_wrong_settings_are_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        ValuePolicy(**wrong)
