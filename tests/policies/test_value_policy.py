"""Value-driven retrieval: its choices, and the laws of its values."""

from collections import Counter
from random import Random

import pytest
from engine_parts import attempt, task
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import ContextRef, MemoryItem, Outcome, Profile, Stage, State
from evokernel.memory import ledger
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.policies.retrieval import Selector, nearest
from evokernel.policies.value import RewardNormalizer, ValuePolicy

HASH = make_plugin("embedder", "hash", dim=256)
REWARDS = st.lists(st.floats(-1, 1), max_size=60)


@pytest.fixture
def bank(tmp_path):
    with Bank.open(tmp_path / "bank.db", HASH, backend="cpp", run="r") as bank:
        yield bank


def card(id, kind="practice", text="tip", **more):
    return MemoryItem(id=id, kind=kind, backend="cpp", title=id, text=text, **more)


def remember(bank, name, n, family="activation", feasible=True, latency=10.0, start=None, run="r", code="", bottleneck=""):
    """An attempt, learned the way the loop learns it."""
    made = attempt(n, name, feasible, Stage.REFINE if start else Stage.DRAFT, run, latency)
    more = {"start": start}
    if code:
        more["candidate"] = made.candidate.model_copy(update={"files": {"kernel.cpp": code}})
    if feasible:
        profile = Profile(bottleneck=bottleneck, summary="") if bottleneck else None
        more["outcome"] = made.outcome.model_copy(update={"profile": profile, "baseline_us": {"eager": (20.0,) * 3}})
    made = made.model_copy(update=more)
    bank.add(distill(task(name, family), made))
    return made


def state(name, *attempts, round=None, family="activation"):
    return State(task=task(name, family), attempts=attempts, round=len(attempts) if round is None else round)


def shown(context, *roles):
    return [s.item.id for s in context.items if not roles or s.role in roles]


# --- drafting ---------------------------------------------------------------------------------------------------------------


def test_an_empty_memory_gives_an_empty_draft(bank):
    context = ValuePolicy().choose(state("relu"), bank)
    assert (context.stage, context.start_point, context.items) == (Stage.DRAFT, None, ())


def test_a_draft_shows_experiences_and_traces_but_no_practice_or_own_attempts(bank):
    bank.add([card("cpp/tip")])
    own = [remember(bank, "relu", n, feasible=False) for n in range(3)]
    remember(bank, "gelu", 0)
    context = ValuePolicy(epsilon=0, epsilon_end=0).choose(state("relu", *own), bank)
    assert sorted(shown(context)) == ["r:t/gelu/0", "r:t/gelu/0/note"]
    assert {s.item.id: s.role for s in context.items} == {"r:t/gelu/0": "trace", "r:t/gelu/0/note": "experience"}
    assert all(s.q == 0.0 for s in context.items)


def test_an_earlier_run_on_the_same_task_is_shown(bank):
    remember(bank, "relu", 0, run="before")
    assert "before:t/relu/0" in shown(ValuePolicy().choose(state("relu"), bank))


def test_value_decides_among_the_near_and_ties_go_to_similarity(bank):
    bank.add([card(f"e{n}", "experience", key=" ".join(["relu"] * (9 - n) + ["other", "words"] * n)) for n in range(8)])
    query = state("relu")
    nearest = [hit.item.id for hit in bank.search(query.task.source, 8)]
    policy = ValuePolicy(items=3, widen=2, epsilon=0, epsilon_end=0)
    assert shown(policy.choose(query, bank)) == nearest[:3]
    bank.update("t/x/0", Stage.DRAFT, {nearest[5]: 1.0, nearest[0]: -1.0, nearest[7]: 1.0}, 0.3)
    # the best valued of the K = 6 nearest first, the seventh is out of reach, the bad one comes last
    assert shown(policy.choose(query, bank)) == [nearest[5], nearest[1], nearest[2]]
    assert policy.choose(query, bank).items[0].q == pytest.approx(0.3)
    wider = ValuePolicy(items=3, widen=4, epsilon=0, epsilon_end=0)
    assert shown(wider.choose(query, bank)) == [nearest[5], nearest[7], nearest[1]]


def test_each_stage_has_its_own_values(bank):
    bank.add([card("a", "experience", key="relu relu"), card("b", "experience", key="other words")])
    bank.update("t/x/0", Stage.REFINE, {"b": 1.0}, 0.3)
    policy = ValuePolicy(items=1, epsilon=0, epsilon_end=0)
    assert shown(policy.choose(state("relu"), bank)) == ["a"]
    bank.update("t/x/0", Stage.DRAFT, {"b": 1.0}, 0.3)
    assert shown(policy.choose(state("relu"), bank)) == ["b"]


def test_one_busy_task_does_not_fill_the_pool(bank):
    for n in range(30):
        remember(bank, "gelu", n, feasible=n % 3 == 0, latency=100.0 - n)
    remember(bank, "sum", 0, family="reduction")
    context = ValuePolicy(items=6, widen=2, epsilon=0, epsilon_end=0).choose(state("relu"), bank)
    assert sum(id.startswith("r:t/gelu/") for id in shown(context)) <= 6
    policy = ValuePolicy(items=2, widen=2, epsilon=0, epsilon_end=0, variety=0)
    assert shown(policy.choose(state("relu"), bank)) == ["r:t/gelu/27", "r:t/gelu/27/note"]  # its fastest stand for it


def test_value_filters_what_retrieval_finds_and_does_not_find_for_itself(bank):
    """An old kernel that was once of use does not keep the faster ones made since out of the pool."""
    for n in range(5):
        remember(bank, "gelu", n, latency=100.0 - 10 * n)
    bank.update("t/x/0", Stage.DRAFT, {"r:t/gelu/0": 1.0, "r:t/gelu/3": 0.5}, 0.3)
    narrow, wide = (ValuePolicy(items=n, widen=1, epsilon=0, epsilon_end=0) for n in (4, 10))
    assert shown(narrow.choose(state("relu"), bank)) == ["r:t/gelu/3", "r:t/gelu/4", "r:t/gelu/4/note", "r:t/gelu/3/note"]
    assert shown(wide.choose(state("relu"), bank))[:3] == ["r:t/gelu/0", "r:t/gelu/3", "r:t/gelu/4"]


def test_api_cards_come_by_bundle_by_name_and_by_meaning(bank):
    cards = [
        card("cpp/abi", "api", "arguments", bundle=True),
        card("cpp/exp", "api", "cost of functions", apis=("std::exp", "expf")),
        card("cpp/simd", "api", "loops", apis=("#pragma omp simd",)),
        card("cpp/relu", "api", "relu relu relu x"),
        card("cpp/far", "api", "entirely different matters"),
    ]
    bank.add(cards)
    remember(bank, "gelu", 0, code="#pragma omp simd\nfor (;;) y = myexpf(x);")
    policy = ValuePolicy(apis=2, epsilon=0, epsilon_end=0)
    context = policy.choose(state("relu"), bank)
    assert shown(context, "api") == ["cpp/abi", "cpp/simd", "cpp/relu"]  # expf is part of another word there
    assert all(s.q is None for s in context.items if s.role == "api")
    broken = attempt(0, "relu", feasible=False).model_copy(update={"candidate": context_code("std::exp(x)")})
    assert "cpp/exp" in shown(ValuePolicy(apis=3).choose(state("relu", broken), bank), "api")
    assert shown(ValuePolicy(apis=0).choose(state("relu"), bank), "api") == ["cpp/abi"]
    assert shown(ValuePolicy(apis=1).choose(state("relu"), bank), "api") == ["cpp/abi", "cpp/simd"]


def test_cards_on_the_tasks_family_are_found_whatever_their_words(bank):
    near = [card(f"cpp/near{n}", text="relu relu x") for n in range(8)]
    bank.add([*near, card("cpp/far", text="entirely different", family="activation"), card("cpp/no", text="also far", family="loss")])
    bank.add([card("cpp/api-near", "api", "relu relu x"), card("cpp/api-far", "api", "different", family="activation")])
    policy = ValuePolicy(apis=1, epsilon=0, epsilon_end=0)
    assert shown(policy.choose(state("relu"), bank), "api") == ["cpp/api-far"]
    context = policy.choose(state("relu", remember(bank, "relu", 0)), bank)
    practices = shown(context, "practice")  # four of them: no other role has anything to show
    assert (practices[0], len(practices), "cpp/no" in practices) == ("cpp/far", 4, False)


def test_a_bank_of_many_runs_still_gives_the_newest_and_the_neighbours(bank):
    for name in ("relu", "gelu"):
        bank.add([item for n in range(700) for item in distill(task(name), attempt(n, name, True, Stage.DRAFT, "old", 2000.0 - n))])
    for widen, tasks in ((2, {"t/relu", "t/gelu"}), (60, {"t/relu", "t/gelu"})):
        pool = nearest(state("relu"), bank, 4 * widen, ("experience", "trace"), 4)
        assert pool[0].id == "old:t/relu/699"
        assert {item.task for item in pool} == tasks


def context_code(text):
    return attempt(0).candidate.model_copy(update={"files": {"kernel.cpp": text}})


# --- refining ---------------------------------------------------------------------------------------------------------------


def test_a_refining_context_has_every_role(bank):
    bank.add([card("cpp/tip"), card("cpp/memory", bottleneck="memory"), card("cpp/abi", "api")])
    first = remember(bank, "relu", 0, latency=30.0, bottleneck="memory")
    second = remember(bank, "relu", 1, latency=20.0, start=first.id)
    third = remember(bank, "relu", 2, feasible=False, start=second.id)
    remember(bank, "gelu", 0, latency=5.0)
    remember(bank, "gelu", 1, latency=1.0)
    bank.update("t/x/0", Stage.REFINE, {first.memory_id: 1.0}, 0.3)
    context = ValuePolicy(epsilon=0, epsilon_end=0, handicap=0).choose(state("relu", first, second, third), bank)
    assert context.stage is Stage.REFINE
    assert context.start_point == first
    assert shown(context, "start") == [first.memory_id]
    assert shown(context, "child") == [second.memory_id]
    assert shown(context, "practice") == ["cpp/tip"]
    assert shown(context, "bottleneck") == ["cpp/memory"]
    assert shown(context, "trace") == ["r:t/gelu/1"]
    assert shown(context, "variant") == ["r:t/gelu/0"]
    assert len(shown(context)) == len(set(shown(context)))
    assert context.items[0].q == pytest.approx(0.3)


def test_a_start_point_is_chosen_by_value_and_ties_go_to_the_fastest(bank):
    made = [remember(bank, "relu", n, latency=latency) for n, latency in enumerate((30.0, 10.0, 20.0))]
    policy = ValuePolicy(epsilon=0, epsilon_end=0)
    assert policy.choose(state("relu", *made), bank).start_point == made[1]
    bank.update("t/x/0", Stage.REFINE, {made[2].memory_id: 1.0, made[1].memory_id: -1.5}, 0.3)
    assert policy.choose(state("relu", *made), bank).start_point == made[2]


def test_a_slow_start_that_was_improved_upon_gives_way_to_what_came_of_it(bank):
    slow = remember(bank, "relu", 0, latency=1000.0)
    fast = remember(bank, "relu", 1, latency=100.0, start=slow.id)
    bank.update(fast.id, Stage.REFINE, {slow.memory_id: 0.99}, 0.3)  # earned against the best of its day: itself
    grown = state("relu", slow, fast)
    assert ValuePolicy(epsilon=0, epsilon_end=0).choose(grown, bank).start_point == fast
    assert ValuePolicy(epsilon=0, epsilon_end=0, handicap=0).choose(grown, bank).start_point == slow
    near = remember(bank, "relu", 2, latency=105.0, start=slow.id)  # not far behind, and worth something
    bank.update(near.id, Stage.REFINE, {near.memory_id: 0.99}, 0.3)
    assert ValuePolicy(epsilon=0, epsilon_end=0).choose(state("relu", slow, fast, near), bank).start_point == near


def test_an_untimed_start_comes_after_the_timed(bank):
    untimed = attempt(0, "relu").model_copy(update={"outcome": Outcome(gates=attempt(0).outcome.gates)})
    bank.add(distill(task("relu"), untimed))
    timed = remember(bank, "relu", 1, latency=100.0)
    bank.update("t/x/0", Stage.REFINE, {untimed.memory_id: 1.0}, 0.3)
    assert ValuePolicy(epsilon=0, epsilon_end=0).choose(state("relu", untimed, timed), bank).start_point == timed


def test_the_other_start_points_are_variants(bank):
    made = [remember(bank, "relu", n, latency=latency) for n, latency in enumerate((30.0, 10.0, 20.0))]
    context = ValuePolicy(epsilon=0, epsilon_end=0).choose(state("relu", *made), bank)
    assert shown(context, "variant") == [made[2].memory_id, made[0].memory_id]  # all there is: the other roles have nothing to show


def test_a_child_without_code_is_shown_by_its_note(bank):
    first = remember(bank, "relu", 0)
    empty = attempt(1, "relu", feasible=False, stage=Stage.REFINE).model_copy(
        update={"start": first.id, "candidate": first.candidate.model_copy(update={"files": {}})}
    )
    bank.add(distill(task("relu"), empty))
    assert shown(ValuePolicy().choose(state("relu", first, empty), bank), "child") == [f"{empty.memory_id}/note"]


def test_untimed_and_unprofiled_start_points_do_no_harm(bank):
    made = attempt(0, "relu").model_copy(update={"outcome": Outcome(gates=attempt(0).outcome.gates)})
    bank.add(distill(task("relu"), made))
    context = ValuePolicy().choose(state("relu", made), bank)
    assert (context.stage, context.start_point) == (Stage.REFINE, made)


# --- chance -----------------------------------------------------------------------------------------------------------------


def test_equal_seeds_choose_equally_and_others_differ(bank):
    bank.add([card(f"e{n}", "experience", text=f"relu {n}") for n in range(16)])
    once = [shown(ValuePolicy(seed=3, epsilon=1, epsilon_end=1).choose(state("relu"), bank)) for _ in range(2)]
    assert once[0] == once[1]
    other = {tuple(shown(ValuePolicy(seed=seed, epsilon=1, epsilon_end=1).choose(state("relu"), bank))) for seed in range(5)}
    assert len(other) > 1


def test_choosing_changes_nothing(bank):
    bank.add([card(f"e{n}", "experience", text=f"relu {n}") for n in range(16)])
    policy = ValuePolicy()
    first = policy.choose(state("relu"), bank)
    policy.choose(state("gelu"), bank)
    assert policy.choose(state("relu"), bank) == first


def test_epsilon_greedy_explores_as_often_as_it_should():
    pool = [card(f"e{n}") for n in range(5)]
    worth = {item.id: float(n) for n, item in enumerate(pool)}
    picked = Counter(Selector(lambda ids: worth, Random(f"0/{n}"), 0.3).pick(pool, 1)[0].id for n in range(4000))
    # 0.7 greedy and 0.3 uniform over five: the best 0.76, every other 0.06; bounds of five standard deviations
    assert abs(picked["e4"] / 4000 - 0.76) < 5 * (0.76 * 0.24 / 4000) ** 0.5
    for n in range(4):
        assert abs(picked[f"e{n}"] / 4000 - 0.06) < 5 * (0.06 * 0.94 / 4000) ** 0.5


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12), st.integers(0, 12), st.floats(0, 1), st.integers(0, 99))
def test_a_pick_is_a_part_of_the_pool_without_repeats(values, n, epsilon, seed):
    pool = [card(f"e{k}") for k in range(len(values))]
    worth = {item.id: q for item, q in zip(pool, values, strict=True)}
    picked = Selector(lambda ids: worth, Random(seed), epsilon).pick(pool, n)
    assert len(picked) == min(n, len(pool))
    assert len({item.id for item in picked}) == len(picked)
    greedy = Selector(lambda ids: worth, Random(seed)).pick(pool, n)
    assert greedy == sorted(pool, key=lambda item: -worth[item.id])[:n]  # a stable sort: ties stay in the pool's order


def test_exploration_falls_over_the_budget():
    policy = ValuePolicy(epsilon=0.2, epsilon_end=0.05, budget=31)
    assert [round(policy.current_epsilon(n), 4) for n in (0, 15, 30, 99)] == [0.2, 0.125, 0.05, 0.05]
    assert ValuePolicy(epsilon=0.2, budget=1).current_epsilon(0) == 0.2


def test_lambda_may_follow_a_schedule():
    policy = ValuePolicy(widen=[[20, 30], [0, 2]])
    assert [policy.current_pool_factor(round) for round in (0, 19, 20, 40)] == [2, 2, 30, 30]
    assert ValuePolicy(widen=[[5, 3]]).current_pool_factor(0) == 3
    assert ValuePolicy(widen=2.5).current_pool_factor(7) == 2.5


# --- learning ---------------------------------------------------------------------------------------------------------------


def made_with(shown, n=0, reward=1.0, start=None, name="relu"):
    return attempt(n, name, stage=Stage.REFINE if start else Stage.DRAFT).model_copy(
        update={"shown": tuple(ContextRef(id=id, role=role) for id, role in shown), "reward": reward, "start": start}
    )


def test_everything_shown_learns_but_api_cards(bank):
    policy = ValuePolicy(alpha=0.5, settle=0)
    policy.learn(state("relu"), made_with([("a", "trace"), ("b", "experience"), ("c", "api")]), bank)
    assert bank.values(["a", "b", "c"], Stage.DRAFT) == {"a": ItemValue(0.5, 1), "b": ItemValue(0.5, 1), "c": ItemValue()}
    first = attempt(0, "relu")
    policy.learn(state("relu", first), made_with([("r:t/relu/0", "start"), ("d", "child")], 1, 0.5, start=first.id), bank)
    assert bank.values(["r:t/relu/0", "d", "a"], Stage.REFINE) == {
        "r:t/relu/0": ItemValue(0.25, 1),
        "d": ItemValue(0.25, 1),
        "a": ItemValue(),
    }


def test_the_start_point_learns_even_when_its_trace_was_not_shown(bank):
    ValuePolicy(alpha=0.5).learn(state("relu", attempt(0, "relu")), made_with([], 1, 1.0, start="t/relu/0"), bank)
    assert bank.values(["r:t/relu/0"], Stage.REFINE)["r:t/relu/0"] == ItemValue(0.5, 1)


def test_a_prior_fades_as_if_values_had_started_there(bank):
    policy = ValuePolicy(alpha=0.3, settle=0, q0_draft=0.8)
    expected = 0.8
    for n, reward in enumerate((1.0, -1.0, 1.0)):
        assert policy.worth(["a"], Stage.DRAFT, "", bank)["a"] == pytest.approx(expected)
        policy.learn(state("relu"), made_with([("a", "trace")], n, reward), bank)
        expected += 0.3 * (reward - expected)
    assert policy.worth(["a"], Stage.DRAFT, "", bank)["a"] == pytest.approx(expected)


def test_with_an_optimistic_prior_only_failures_cost_an_item_its_place(bank):
    bank.add([card("a", "experience", key="relu relu"), card("b", "experience", key="other words")])
    bank.update("t/x/0", Stage.DRAFT, {"b": 1.0}, 0.3)
    hopeful, plain = (ValuePolicy(items=1, epsilon=0, epsilon_end=0, settle=0, q0_draft=q0) for q0 in (1.0, 0.0))
    assert (shown(hopeful.choose(state("relu"), bank)), shown(plain.choose(state("relu"), bank))) == (["a"], ["b"])
    bank.update("t/x/1", Stage.DRAFT, {"a": -1.0}, 0.3)
    assert shown(hopeful.choose(state("relu"), bank)) == ["b"]
    assert hopeful.worth(["a"], Stage.REFINE, "", bank) == {"a": 0.0}


def test_values_per_family_are_drawn_to_the_items_own(bank):
    policy = ValuePolicy(alpha=1.0, settle=0, state="family", shrink=2.0)
    policy.learn(state("relu", family="activation"), made_with([("a", "trace")], 0, 1.0), bank)
    policy.learn(state("sum", family="reduction"), made_with([("a", "trace")], 0, -1.0, name="sum"), bank)
    assert bank.values(["a"], Stage.DRAFT)["a"] == ItemValue(-1.0, 2)
    assert policy.worth(["a"], Stage.DRAFT, "activation", bank)["a"] == pytest.approx((1 * 1.0 + 2 * -1.0) / 3)
    assert policy.worth(["a"], Stage.DRAFT, "matmul", bank)["a"] == -1.0  # nothing learned there yet
    assert ValuePolicy().worth(["a"], Stage.DRAFT, "activation", bank)["a"] == -1.0


@settings(max_examples=12, deadline=None)
@given(
    rewards=REWARDS, stages=st.lists(st.sampled_from(list(Stage)), min_size=60, max_size=60), alpha=st.floats(0.01, 1), q0=st.floats(-1, 1)
)
def test_learning_a_journal_again_gives_the_same_values_and_they_stay_bounded(tmp_path_factory, rewards, stages, alpha, q0):
    journal = [
        made_with([(f"i{n % 4}", "trace"), ("all", "practice")], n, reward, start="t/relu/0" if stage is Stage.REFINE else None)
        for n, (reward, stage) in enumerate(zip(rewards, stages, strict=False))
    ]
    ids = ["i0", "i1", "i2", "i3", "all", "r:t/relu/0"]
    seen = []
    folder = tmp_path_factory.mktemp("replay")
    for name in ("once.db", "again.db", "once.db"):  # in another bank; and in the same one, as a resumed run does
        policy = ValuePolicy(alpha=alpha, q0_draft=q0, q0_refine=q0, state="family")
        with Bank.open(folder / name, HASH, backend="cpp", run="r") as bank:
            for made in journal:
                policy.learn(state("relu"), made, bank)
            seen.append([policy.worth(ids, stage, "activation", bank) for stage in Stage])
    assert seen[0] == seen[1] == seen[2]
    drafting, refining = seen[0]
    assert all(abs(q) <= 1 + 1e-9 for q in drafting.values())  # Lemma 1, R = 1
    assert all(abs(q) <= 3 + 1e-9 for q in refining.values())  # R = clip


@given(REWARDS, st.floats(0.001, 1), st.floats(-1, 1))
def test_bounded_rewards_keep_q_bounded(rewards, alpha, q0):
    value = ItemValue(q0)
    for reward in rewards:
        value = ledger.learned(value, reward, alpha)
        assert -1 - 1e-9 <= value.q <= 1 + 1e-9  # Lemma 1


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.floats(0.01, 1))
def test_a_constant_alpha_is_an_exponential_moving_average(rewards, alpha):
    value = ItemValue()
    for reward in rewards:
        value = ledger.learned(value, reward, alpha)
    weights = [alpha * (1 - alpha) ** k for k in range(len(rewards))]
    assert value.q == pytest.approx(sum(w * r for w, r in zip(weights, reversed(rewards), strict=True)), abs=1e-9)


@given(st.lists(st.floats(-1, 1), min_size=20, max_size=200))
def test_a_shrinking_alpha_converges_to_the_mean_reward(rewards):
    value = ItemValue()
    for n, reward in enumerate(rewards, start=1):  # the sum of 1/n diverges, that of its squares does not
        value = ledger.learned(value, reward, 1 / n)
    assert value.q == pytest.approx(sum(rewards) / len(rewards), abs=1e-9)


def test_infrastructure_trouble_teaches_nothing(bank):
    """No attempt, no `learn`: whatever was chosen, values and statistics are untouched."""
    policy = ValuePolicy(epsilon=1, epsilon_end=1)
    bank.add([card(f"e{n}", "experience", text=f"relu {n}") for n in range(8)])

    def lost_device():
        raise InfraError("device lost")

    for _ in range(5):
        context = policy.choose(state("relu"), bank)
        with pytest.raises(InfraError):
            lost_device()
        assert bank.values(shown(context), Stage.DRAFT) == {id: ItemValue() for id in shown(context)}
    assert policy.running == {}


# --- PopArt -----------------------------------------------------------------------------------------------------------------


def test_rewards_are_raw_while_warming_up():
    running = RewardNormalizer(warmup=3, sigma_floor=0.1, clip=3.0)
    assert [running.normalise(reward) for reward in (0.5, -1.0, 0.25)] == [0.5, -1.0, 0.25]
    assert running.normalise(0.9) != 0.9


def test_equal_rewards_do_not_blow_up():
    running = RewardNormalizer(warmup=2, sigma_floor=0.1, clip=3.0)
    out = [running.normalise(0.3) for _ in range(20)]
    assert out[2:] == pytest.approx([0.0] * 18, abs=1e-9)
    assert running.sigma == 0.1
    assert running.normalise(0.31) == pytest.approx(0.1, rel=0.1)  # a hair above the rest is no triumph


@given(st.lists(st.floats(-1, 1), max_size=100), st.integers(0, 10), st.floats(0.01, 1), st.floats(0.5, 5))
def test_normalised_rewards_are_finite_and_clipped(rewards, warmup, floor, clip):
    running = RewardNormalizer(warmup, floor, clip)
    assert all(abs(running.normalise(reward)) <= max(1.0, clip) for reward in rewards)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=100))
def test_running_statistics_are_the_statistics(rewards):
    running = RewardNormalizer(0, 1e-6, 3.0)
    for reward in rewards:
        running.normalise(reward)
    mean = sum(rewards) / len(rewards)
    assert running.mean == pytest.approx(mean, abs=1e-9)
    deviation = (sum((r - mean) ** 2 for r in rewards) / len(rewards)) ** 0.5
    assert running.sigma == pytest.approx(max(deviation, 1e-6), abs=1e-6)


def test_failures_enter_the_statistics_and_drafts_do_not(bank):
    policy = ValuePolicy(warmup=0)
    policy.learn(state("relu"), made_with([], 0, 1.0), bank)
    assert policy.running == {}
    for n, reward in enumerate((-1.0, 0.5)):
        policy.learn(state("relu", attempt(0, "relu")), made_with([], n + 1, reward, start="t/relu/0"), bank)
    assert policy.running["cpp"].mean == pytest.approx(-0.25)


# --- settings ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 0},
        {"alpha": 1.1},
        {"epsilon": -0.1},
        {"epsilon_end": 2},
        {"state": "task"},
        {"widen": 0.5},
        {"widen": []},
        {"widen": [[1]]},
        {"widen": "many"},
        {"items": -1},
        {"sigma_floor": 0},
        {"shrink": 0},
        {"handicap": -1},
    ],
)
def test_wrong_settings_are_refused_in_one_line(wrong):
    with pytest.raises(UserError) as caught:
        make_plugin("policy", "value", **wrong)
    assert next(iter(wrong)) in str(caught.value)
    assert "\n" not in str(caught.value)
